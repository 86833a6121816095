//! c/*.c: each as one process that has several ranks, or as several.

use super::{dir, holds, program, run};
use penny_ffi_tests::compiler;
use std::process::Command;

/// Declares what NCCL 2.30 has.
const NEWEST: &str = "-DPENNY_NCCL_MINOR=30";

#[test]
fn collectives_of_one_process_do_what_they_say() {
    holds("collectives", &[1], &[NEWEST], &[("TEST_LOCAL", "4")]);
}

#[test]
fn collectives_of_several_processes_do_what_they_say() {
    holds("collectives", &[2, 3], &[NEWEST], &[("TEST_LOCAL", "1")]);
    holds("collectives", &[2], &[NEWEST], &[("TEST_LOCAL", "2")]);
}

#[test]
fn nccls_choice_of_algorithms_changes_no_result() {
    for algo in ["Ring", "Tree", "allreduce:ring;reduce:^tree"] {
        holds("collectives", &[2], &[NEWEST], &[("TEST_LOCAL", "1"), ("NCCL_ALGO", algo)]);
    }
}

#[test]
fn each_thread_has_a_communicator() {
    holds("threads", &[1, 2], &[], &[]);
}

#[test]
fn communicators_are_made_and_end() {
    holds("communicator", &[1, 2, 3], &[], &[]);
}

#[test]
fn ranks_leave_and_come() {
    holds("members", &[2, 3], &[NEWEST], &[]);
    // An existing rank has its settings from the communicator, a new one from the variable.
    holds("members", &[2], &[NEWEST], &[("NCCL_ALGO", "Ring")]);
}

#[test]
fn settings_are_read_by_their_size_and_version() {
    for minor in ["27", "28", "29", "30"] {
        holds("config", &[2], &[&format!("-DPENNY_NCCL_MINOR={minor}")], &[]);
    }
}

#[test]
fn windows_and_signals_do_what_they_say() {
    holds("window", &[1], &[NEWEST], &[("TEST_LOCAL", "3")]);
    holds("window", &[3], &[NEWEST], &[("TEST_LOCAL", "1")]);
}

#[test]
fn communicators_give_memory_back() {
    holds("suspend", &[1], &[NEWEST], &[("TEST_LOCAL", "4")]);
    holds("suspend", &[2], &[NEWEST], &[("TEST_LOCAL", "1")]);
}

#[test]
fn failures_are_told_in_nccls_words() {
    holds("errors", &[2], &[], &[]);
}

#[test]
fn a_deadline_that_passes_has_the_versions_result() {
    let late = [("PENNY_TIMEOUT", "1")];
    holds("late", &[1], &["-DEXPECTED=ncclRemoteError"], &late);
    let newest = [late[0], ("PENNY_NCCL_VERSION", "2.30.7")];
    holds("late", &[1], &[NEWEST, "-DEXPECTED=ncclTimeout"], &newest);
}

#[test]
fn parameters_are_the_variables_that_have_an_effect() {
    holds("parameters", &[1], &[NEWEST], &[]);
}

#[test]
fn what_is_absent_says_so() {
    holds("absent", &[1], &[NEWEST], &[]);
}

#[test]
fn streams_of_pennys_cuda_runtime_are_translated() {
    holds("streams", &[1], &[NEWEST], &[]);
}

/// Where the headers of Penny's CUDA runtime lie.
fn cuda_headers() -> String {
    format!("-I{}", super::package().join("../cudart/include").display())
}

/// Runs a program that is built against the headers of Penny's CUDA runtime, with the ranks of each process.
#[track_caller]
fn holds_with_cuda(name: &str, on: usize, local: &str) {
    let env = [("TEST_LOCAL", local), ("PENNY_DEVICES", "4"), ("PENNY_TIMEOUT", "60")];
    holds(name, &[on], &[NEWEST, &cuda_headers(), "-lcudart"], &env);
}

#[test]
fn default_streams_are_those_of_the_communicators_device() {
    holds_with_cuda("devices", 1, "4");
}

/// Returns the names of Penny in a text that programs of NCCL and CUDA cannot use.
fn names_of_penny(text: &str) -> Vec<&str> {
    let readme = std::fs::read_to_string(penny_ffi_tests::root().join("README.md")).unwrap();
    let variable = |word: &str| {
        word == "PENNY_DEVICES" || word == "PENNY_NCCL_VERSION" || readme.contains(&format!("`{word}`"))
    };
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| {
            let is_name = word.strip_prefix("penny").is_some_and(|rest| rest.starts_with(char::is_uppercase));
            is_name || *word == "timeoutMs" || word.starts_with("PENNY_") && !variable(word)
        })
        .collect()
}

#[test]
fn sentences_have_no_names_that_only_penny_has() {
    assert_eq!(
        names_of_penny(
            "pennySend: PENNY_TIMEOUT or timeoutMs, PENNY_WIN_DEFAULT, PENNY_DEVICES, libpenny.so"
        ),
        ["pennySend", "timeoutMs", "PENNY_WIN_DEFAULT"]
    );
    let env =
        [("TEST_LOCAL", "2"), ("PENNY_DEVICES", "4"), ("PENNY_TIMEOUT", "1"), ("PENNY_HEAP_SIZE", "64M")];
    let to = tempfile::tempdir().unwrap();
    let program = program("sentences", to.path(), &[NEWEST, &cuda_headers(), "-lcudart"]);
    let output = Command::new(&program).envs(env).env("LD_LIBRARY_PATH", dir()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.lines().count() > 50, "{said}");
    for line in said.lines() {
        assert_eq!(names_of_penny(line), [""; 0], "{line}");
        assert!(line.starts_with("nccl") || line.starts_with("cuda"), "{line}");
    }
}

#[test]
fn destructors_call_as_others_do() {
    let to = tempfile::tempdir().unwrap();
    let program = program("destructors", to.path(), &[NEWEST, &cuda_headers(), "-lcudart"]);
    let env = [("LD_LIBRARY_PATH", dir().to_str().unwrap()), ("PENNY_DEVICES", "4")];
    let output = Command::new(&program).envs(env).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((&*out, &*err, output.status.code()), ("thread\nprogram\n", "", Some(0)));
}

#[test]
fn graphs_of_captured_calls_are_launched() {
    for (on, local) in [(1, "1"), (1, "2"), (1, "4"), (2, "1"), (2, "2")] {
        holds_with_cuda("graphs", on, local);
    }
}

#[test]
fn memory_of_a_gpu_is_refused() {
    holds("gpu_memory", &[1], &[], &[]);
}

/// A library that comes with a program stands for NVIDIA's runtime: all memory lies on its GPU 3.
#[test]
fn a_runtime_of_another_in_the_process_is_found() {
    let to = tempfile::tempdir().unwrap();
    let (source, other) = (to.path().join("other.c"), to.path().join("libother.so"));
    let says = "int cudaPointerGetAttributes(int *all, const void *at) { return all[0] = 2, all[1] = 3, at == 0; }\n";
    std::fs::write(&source, says).unwrap();
    compiler::run(compiler::cc().args(["-shared", "-fPIC"]).arg(&source).arg("-o").arg(&other));
    let program = program("told", to.path(), &[]);
    let mut command = Command::new(&program);
    command.env("LD_LIBRARY_PATH", dir()).env("LD_PRELOAD", &other);
    let said = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(said.contains("ncclAllReduce: sendbuff is memory of GPU 3"), "{said}");
}

#[test]
fn a_program_may_load_the_library() {
    let names = std::fs::read_to_string(super::package().join("symbols.txt")).unwrap();
    let names: String =
        names.lines().map(|line| format!("{0} p{0} ", line.split(' ').next().unwrap())).collect();
    let said = run("loaded", 1, &[], &[("TEST_NAMES", names.trim())]);
    assert_eq!(said[0].lines().count(), names.split_whitespace().count(), "{said:?}");
}

#[test]
fn a_library_that_interposes_calls_the_second_name() {
    holds("interposed", &[1], &[], &[]);
}

#[test]
fn the_version_is_the_headers_or_the_variables() {
    assert_eq!(run("version", 1, &[], &[])[0], "0 22707\n");
    assert_eq!(run("version", 1, &[], &[("PENNY_NCCL_VERSION", "2.30.7")])[0], "0 23007\n");
    for wrong in ["2.26.0", "2.31.0", "3.0.0", "2.30", "2.30.x", "", "2.30.100"] {
        let said = run("version", 1, &[], &[("PENNY_NCCL_VERSION", wrong)]).remove(0);
        assert!(said.contains("5 ncclGetVersion: PENNY_NCCL_VERSION is `"), "{wrong}: {said}");
        assert!(said.contains("such as 2.30.7"), "{wrong}: {said}");
    }
}
