//! ffi-tests/c: a C program or two per family of src/ffi, each as one rank and as several.

use penny_ffi_tests::{compiler, ranks, root};
use std::process::{Command, Stdio};

#[track_caller]
fn holds(name: &str, on: &[usize]) {
    holds_with(name, on, &[]);
}

#[track_caller]
fn holds_with(name: &str, on: &[usize], env: &[(&str, &str)]) {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join(name);
    compiler::program(&root().join("ffi-tests/c").join(name).with_extension("c"), &program);
    for &on in on {
        let said = ranks::run(&program, dir.path(), on, env);
        let cases = said[0].lines().count();
        assert!(
            cases > 0 && said.iter().all(|text| text == &said[0]),
            "every rank runs every case: {said:?}"
        );
    }
}

#[test]
fn the_library_tells_version_results_and_errors() {
    holds("library", &[1]);
}

#[test]
fn files_of_a_program_that_closes_the_librarys_descriptors_stay_as_they_are() {
    holds("descriptors", &[1, 2]);
    // The record of calls is a file of its own.
    let record = tempfile::tempdir().unwrap();
    holds_with("descriptors", &[1], &[("PENNY_RECORD", record.path().to_str().unwrap())]);
}

#[test]
fn a_signal_handler_aborts_the_communicator_whose_call_it_has_interrupted() {
    holds("handler", &[2]);
}

#[test]
fn a_thread_with_a_small_stack_makes_all_calls() {
    holds("small_stack", &[1, 2]);
}

#[test]
fn a_process_ends_with_the_last_thread_of_its_program() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("last_thread");
    compiler::program(&root().join("ffi-tests/c/last_thread.c"), &program);
    for on in [1, 2] {
        for said in ranks::run(&program, dir.path(), on, &[]) {
            let cases: Vec<&str> = said.lines().collect();
            assert_eq!(
                cases[1..],
                ["a_thread_outlives_the_main_thread", "what_is_registered_for_the_end_is_called"]
            );
        }
    }
}

#[test]
fn a_thread_that_waits_calls_its_progress_hook() {
    holds("progress", &[2, 3]);
}

#[test]
fn large_calls_are_divided_over_the_threads_of_a_rank() {
    holds("threads", &[1, 2, 3]);
}

#[test]
fn an_openmp_runtime_of_the_program_runs_the_pieces() {
    if !compiler::has_openmp() {
        return eprintln!("skipped: the C compiler has no OpenMP");
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("openmp");
    let source = root().join("ffi-tests/c/openmp.c");
    compiler::program_by(compiler::cc().args(["-std=c11", "-fopenmp"]), &source, &program);
    for on in [1, 2] {
        let said = ranks::run(&program, dir.path(), on, &[("PENNY_DEBUG", "info")]);
        assert!(said.iter().all(|text| text.lines().count() == 2), "{said:?}");
    }
}

#[test]
fn an_exception_that_leaves_parallel_for_ends_its_rank_with_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("exception");
    let source = root().join("ffi-tests/c/exception.cpp");
    compiler::program_by(compiler::cxx().arg("-std=c++11"), &source, &program);
    let job = format!("{:032x}", std::process::id());
    let start = |rank: &str| {
        Command::new(&program)
            .envs([
                ("PENNY_RANK", rank),
                ("PENNY_WORLD_SIZE", "2"),
                ("PENNY_JOB_ID", &job),
                ("PENNY_LOCAL_RANK", rank),
            ])
            .env("PENNY_TIMEOUT", "60")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let (left, thrown) = (start("0"), start("1"));
    let [left, thrown] = [left, thrown].map(|rank| rank.wait_with_output().unwrap());
    let [left_said, thrown_said] = [&left, &thrown].map(|rank| String::from_utf8_lossy(&rank.stderr));
    assert!(left.status.success(), "{left_said}");
    assert!(left_said.contains("rank 1 (pid") && left_said.contains("died"), "{left_said}");
    assert!(!thrown.status.success());
    assert!(thrown_said.contains("penny: rank 1: an exception left parallelFor"), "{thrown_said}");
}

/// Compiles a program of the C++ interface in a standard, and runs it on several ranks, each of which runs every case.
#[track_caller]
fn holds_in_cpp(name: &str, options: &[&str], on: &[usize]) {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join(name);
    let source = root().join("ffi-tests/c").join(name).with_extension("cpp");
    compiler::program_by(compiler::cxx().args(options), &source, &program);
    for &on in on {
        let said = ranks::run(&program, dir.path(), on, &[]);
        assert!(!said[0].is_empty() && said.iter().all(|text| text == &said[0]), "{said:?}");
    }
}

#[test]
fn objects_of_cpp_do_what_the_functions_do() {
    holds_in_cpp("cpp", &["-std=c++17"], &[1, 2, 3, 4]);
    holds_in_cpp("cpp", &["-std=c++20"], &[2]);
    holds_in_cpp("cpp_objects", &["-std=c++17"], &[1, 2, 3, 4]);
    holds_in_cpp("cpp_objects", &["-std=c++20"], &[2]);
}

#[test]
fn cpp_works_without_exceptions() {
    holds_in_cpp("cpp_nothrow", &["-std=c++17", "-fno-exceptions"], &[1, 2, 3]);
    holds_in_cpp("cpp_nothrow", &["-std=c++20"], &[2]);
}

#[test]
fn ranks_join_while_their_programs_poll() {
    holds("joining", &[1, 2, 3]);
}

#[test]
fn ranks_meet_and_part() {
    holds("communicator", &[1, 2, 4]);
}

#[test]
fn communicators_are_made_from_others() {
    holds("children", &[1, 2, 4]);
}

#[test]
fn a_handle_of_one_kind_is_refused_as_any_other() {
    holds("handles", &[1, 2]);
}

#[test]
fn memory_is_shared_and_given_back() {
    holds("memory", &[1, 2, 3, 5]);
}

#[test]
fn collectives_do_what_they_say() {
    holds("collectives", &[1, 2, 3, 4]);
}

#[test]
fn collectives_refuse_wrong_arguments() {
    holds("collective_arguments", &[1, 2, 3, 4]);
}

#[test]
fn every_type_is_reduced_by_its_operations() {
    holds("reductions", &[1, 2, 3, 4]);
}

#[test]
fn blocks_of_any_size_are_moved_and_reduced() {
    holds("vector", &[1, 2, 3, 5]);
    holds_with("vector", &[2], &[("PENNY_FABRIC", "dgx-h100")]);
}

#[test]
fn inputs_are_scaled_before_they_are_added() {
    holds("scaled", &[1, 2, 3]);
    holds_with("scaled", &[2], &[("PENNY_FABRIC", "dgx-h100")]);
}

#[test]
fn averages_have_the_same_bits_by_every_algorithm_and_on_every_way() {
    let names: Vec<_> = penny::internals::algorithms::ALL.iter().map(|algorithm| algorithm.name).collect();
    let names = names.join(" ");
    holds_with("averages", &[1, 2, 3, 4, 7], &[("TEST_ALGORITHMS", &names)]);
    holds_with("averages", &[3], &[("TEST_ALGORITHMS", "one_shot"), ("PENNY_REPRODUCIBLE", "1")]);
}

#[test]
fn transfers_do_what_they_say() {
    holds("point_to_point", &[1, 2, 3]);
}

#[test]
fn groups_do_what_they_say() {
    holds("group", &[1, 2, 3, 4]);
}

#[test]
fn recordings_do_what_they_say() {
    holds("recording", &[1, 2, 3]);
    holds_with("recording", &[2], &[("PENNY_FABRIC", "dgx-h100")]);
}

#[test]
fn communicators_give_memory_back() {
    holds("suspend", &[1, 2, 3]);
    holds_with("suspend", &[2], &[("PENNY_SHM", "memfd"), ("PENNY_STAGING", "65536")]);
}

#[test]
fn streams_do_what_they_say() {
    holds("stream", &[1, 2, 3]);
    holds_with("stream", &[2], &[("PENNY_FABRIC", "dgx-h100")]);
}

#[test]
fn the_declared_machine_does_what_it_says() {
    holds("fabric", &[1, 2, 4]);
}

#[test]
fn channels_of_a_data_mover_do_what_they_say() {
    holds("channel", &[2, 4]);
}

#[test]
fn threads_of_a_rank_on_a_declared_machine_do_what_they_say() {
    let line = tempfile::tempdir().unwrap();
    let line = line.path().join("line.toml");
    let text =
        "name = \"line\"\n[class.w]\nbw = \"1GB/s\"\nlat = \"50ns\"\n[line]\nshape = \"4\"\nlink = \"w\"\n";
    std::fs::write(&line, text).unwrap();
    for (fabric, on) in [("dgx-h100", &[1, 2, 4][..]), (line.to_str().unwrap(), &[3]), ("poets", &[2])] {
        // How fast this host is must not matter: no thread ever counts as away.
        let env = [("TEST_FABRIC", fabric), ("TEST_ROUNDS", "8"), ("PENNY_FABRIC_GRACE", "0")];
        holds_with("machine_threads", on, &env);
        holds_with("machine_mailboxes", on, &env);
    }
}

#[test]
fn programs_that_fix_the_order_of_their_calls_take_the_time_of_that_order() {
    let rounds = if std::env::var_os("PENNY_LONG").is_some() { "1000" } else { "10" };
    let env = [("TEST_FABRIC", "dgx-h100"), ("TEST_ROUNDS", rounds), ("PENNY_FABRIC_GRACE", "0")];
    holds_with("machine_order", &[1, 2, 3], &env);
}

#[test]
fn groups_take_the_same_time_however_ranks_are_spread_over_processes() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("machine_groups");
    compiler::program(&root().join("ffi-tests/c/machine_groups.c"), &program);
    // No rank is ever taken for one that is away.
    let machine = [("PENNY_FABRIC", "dgx-h100:nodes=2,places=4"), ("PENNY_FABRIC_GRACE", "0")];
    let seeds = if std::env::var_os("PENNY_LONG").is_some() { 1..=200 } else { 1..=3 };
    let drawn = seeds.map(|seed: u32| ("SEED", seed.to_string()));
    let fixed = [("GROUPED", "1".to_owned()), ("SINGLY", "1".to_owned())];
    for (calls, value) in fixed.into_iter().chain(drawn) {
        let times = |processes, more: &[(&str, &str)]| {
            let variables = [&machine[..], &[(calls, &value)], more].concat();
            ranks::run(&program, dir.path(), processes, &variables)[0].clone()
        };
        let in_pairs = times(4, &[]);
        assert_eq!(in_pairs.lines().count(), 8, "{in_pairs}");
        for (processes, threads) in [(1, "1"), (1, "2"), (1, "4"), (2, "1"), (2, "2"), (8, "1")] {
            let threads = ("THREADS", threads);
            for way in [&[threads][..], &[threads, ("POLL", "1")]] {
                assert_eq!(
                    times(processes, way),
                    in_pairs,
                    "{processes} processes, {way:?}, {calls}={value}"
                );
            }
        }
    }
}

#[test]
fn a_thread_that_waits_for_threads_of_its_process_does_not_hold_the_clock_of_its_other_ranks() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("machine_groups");
    compiler::program(&root().join("ffi-tests/c/machine_groups.c"), &program);
    let fixed =
        [("PENNY_FABRIC", "dgx-h100:nodes=2,places=4"), ("PENNY_FABRIC_GRACE", "0"), ("BLOCKING", "1")];
    for seed in ["2", "4", "6"] {
        for processes in [1, 2, 4] {
            let variables = [&fixed[..], &[("SEED", seed)]].concat();
            let times = ranks::run(&program, dir.path(), processes, &variables)[0].clone();
            assert_eq!(times.lines().count(), 8, "{processes} processes, seed {seed}: {times}");
        }
    }
}

#[test]
fn ranks_that_remain_make_communicators() {
    holds("shrink", &[1, 2, 3, 4]);
    holds_with("machine_survivors", &[3, 4], &[("PENNY_FABRIC", "dgx-h100"), ("PENNY_FABRIC_GRACE", "0")]);
}

#[test]
fn mailboxes_do_what_they_say() {
    holds("mailbox", &[1, 2, 4]);
}

#[test]
fn the_symmetric_heap_does_what_it_says() {
    holds("shmem", &[1, 2, 3]);
}

#[test]
fn words_of_the_symmetric_heap_do_what_they_say() {
    holds("shmem_words", &[1, 2, 3]);
}

#[test]
fn collectives_by_turns_have_their_own_arguments() {
    holds("by_turns", &[1, 2, 3]);
    holds_with("by_turns", &[2], &[("PENNY_FABRIC", "dgx-h100")]);
}

#[test]
fn windows_and_signals_do_what_they_say() {
    holds("window", &[1, 2, 3]);
    holds_with("window", &[1, 3], &[("PENNY_FABRIC", "dgx-h100")]);
}

#[test]
fn semaphores_and_remote_copies_do_what_they_say() {
    holds("semaphore", &[1, 2, 4]);
}

#[test]
fn a_slot_that_is_written_while_it_is_read_is_told_each_time() {
    let trials = if std::env::var_os("PENNY_LONG").is_some() { "200" } else { "20" };
    holds_with("overwritten_slot", &[3, 4], &[("PENNY_CHECK", "race"), ("TEST_TRIALS", trials)]);
}

#[test]
fn programs_without_a_race_are_told_of_none() {
    // But for the one that is planted.
    holds_with("semaphore", &[1, 4], &[("PENNY_CHECK", "race")]);
    holds_with("shmem", &[3], &[("PENNY_CHECK", "race")]);
    holds_with("shmem_words", &[3], &[("PENNY_CHECK", "race")]);
}
