//! Random programs over the whole C surface (src/bin/fuzz), and the faults that they must find.
//!
//! `FUZZ_SECONDS` is how long programs are drawn, 20 s unless set; `FUZZ_SEED` is the first one's seed, drawn and printed
//! unless set.

use std::process::Command;

use penny_ffi_tests::{hosts, library};

/// Runs the fuzzer with some arguments: whether it found nothing, and what it said.
fn fuzz(arguments: &[&str]) -> (bool, String) {
    run(Command::new(env!("CARGO_BIN_EXE_fuzz")).args(arguments))
}

fn run(fuzzer: &mut Command) -> (bool, String) {
    let library = library::dir().join("libpenny.so");
    let output = fuzzer.arg("--library").arg(library).output().expect("the fuzzer starts");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said)
}

#[test]
fn random_programs_do_what_the_oracle_says() {
    let seconds = std::env::var("FUZZ_SECONDS").unwrap_or_else(|_| "20".to_owned());
    let seed = std::env::var("FUZZ_SEED").ok();
    let mut arguments = vec!["--seconds", &seconds];
    if let Some(seed) = &seed {
        arguments.extend(["--seed", seed]);
    }
    let (good, said) = fuzz(&arguments);
    println!("{said}");
    assert!(good, "{said}");
}

/// As long as the fuzzer draws the same programs: rank 0 waited for a call whose end lay between that of a call admitted in the past
/// and what its machine had handled, and was told of a deadlock.
#[test]
fn a_call_that_ends_before_what_was_handled_is_told() {
    let (good, said) = fuzz(&["--seed", "106878471", "--programs", "1", "--keep", "12,13,14,19,20,21,22"]);
    assert!(good, "{said}");
}

/// `FUZZ_HOSTS_SECONDS` is how long, 10 s unless set.
#[test]
fn random_programs_over_two_and_three_hosts_do_what_the_oracle_says() {
    let seconds = std::env::var("FUZZ_HOSTS_SECONDS").unwrap_or_else(|_| "10".to_owned());
    let [tcp, others @ ..] = &hosts::carriers()[..] else { panic!("TCP is everywhere") };
    for (hosts, carrier) in
        [("2", tcp), ("3", tcp)].into_iter().chain(others.iter().map(|other| ("2", other)))
    {
        let arguments = ["--seconds", &seconds, "--hosts", hosts, "--ranks", "2,3,4"];
        let mut fuzzer = Command::new(env!("CARGO_BIN_EXE_fuzz"));
        let (good, said) = run(fuzzer.envs(carrier.iter().cloned()).args(arguments));
        println!("{said}");
        assert!(good, "{said}");
    }
}

/// A fault between the library and the check must be found, and told with the rank, the call and a smaller program.
fn is_found(plant: &str, told: &str) {
    is_found_within("40", plant, told);
}

/// The same with `programs` programs.
fn is_found_within(programs: &str, plant: &str, told: &str) {
    let (good, said) = fuzz(&["--seed", "1", "--ranks", "2,3", "--plant", plant, "--programs", programs]);
    assert!(!good, "{plant} was not found: {said}");
    for word in [told, "rank ", "call penny", "made smaller: ", "again: ", "--keep "] {
        assert!(said.contains(word), "{plant}: no `{word}` in {said}");
    }
}

#[test]
fn a_flipped_bit_is_found() {
    is_found("bit", "1 elements are wrong");
}

#[test]
fn a_write_before_the_buffer_is_found() {
    is_found("before", "byte 1 before the buffer was written");
}

#[test]
fn a_lost_receive_is_found() {
    is_found("lost", "element 0 is [ee");
}

#[test]
fn an_element_between_two_blocks_that_was_written_is_found() {
    is_found("gap", "1 elements are wrong");
}

#[test]
fn a_scaled_sum_that_reads_its_number_at_the_wrong_time_is_found() {
    is_found("factor", "the result: element 0 is");
}

#[test]
fn a_communicator_that_is_said_to_be_made_too_early_is_found() {
    // Where the processor is given to the joining thread first, a communicator is made before the program looks.
    is_found_within("400", "joined", "(its blocking is 0); call pennyCommGetAsyncError");
}

#[test]
fn a_progress_hook_that_is_called_outside_of_a_call_is_found() {
    is_found("hook", "the progress hook was called outside of a call");
}

#[test]
fn a_function_on_a_stream_that_is_not_called_is_found() {
    is_found("host", "functions were called in their order");
}

#[test]
fn a_call_that_was_refused_is_not_written_to_afterwards() {
    // An all-to-all of eight ranks of which one passes another count: peers stored where a rank that had left let its output lie.
    for (seed, step) in [("31729", "17"), ("21396", "58")].repeat(5) {
        let program = ["--seed", seed, "--programs", "1", "--keep", step, "--no-minimise", "--ranks", "8"];
        let drawing = ["--without", "in-place-registered,threads-on-machines,padded"];
        let (good, said) = fuzz(&[&program[..], &drawing].concat());
        assert!(good, "{said}");
    }
}
