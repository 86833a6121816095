//! C programs of ffi-tests/c whose ranks run on several hosts: this machine under several names.

use penny_ffi_tests::hosts::Carrier;
use penny_ffi_tests::{compiler, hosts, ranks, root};
use std::path::PathBuf;

/// Runs a program with ranks on these hosts.
#[track_caller]
fn holds(name: &str, on: &[&[&str]]) {
    holds_with(name, on, &[]);
}

/// The same with further variables.
#[track_caller]
fn holds_with(name: &str, on: &[&[&str]], more: &[(&str, &str)]) {
    let program = Program::new(name);
    let [tcp, others @ ..] = &hosts::carriers()[..] else { panic!("TCP is everywhere") };
    let by_tcp = on.iter().map(|on| (on, tcp));
    for (on, carrier) in by_tcp.chain(others.iter().map(|carrier| (&on[0], carrier))) {
        let said = program.run_by(carrier, on, more);
        let cases = said[0].lines().count();
        assert!(
            cases > 0 && said.iter().all(|text| text == &said[0]),
            "every rank runs every case: {said:?}"
        );
    }
}

/// A compiled program of ffi-tests/c.
struct Program {
    folder: tempfile::TempDir,
    file: PathBuf,
}

impl Program {
    /// Compiles it.
    fn new(name: &str) -> Program {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(name);
        compiler::program(&root().join("ffi-tests/c").join(name).with_extension("c"), &file);
        Program { folder, file }
    }

    /// Runs it with ranks on these hosts and further variables. Returns what each rank printed.
    #[track_caller]
    fn run(&self, on: &[&str], more: &[(&str, &str)]) -> Vec<String> {
        self.run_by(&Carrier::new(), on, more)
    }

    #[track_caller]
    fn run_by(&self, carrier: &Carrier, on: &[&str], more: &[(&str, &str)]) -> Vec<String> {
        let port = hosts::port();
        let more = || more.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let of = |host: &&str| hosts::variables(host, port, carrier).into_iter().chain(more()).collect();
        let env: Vec<_> = on.iter().map(of).collect();
        ranks::run_each(&self.file, self.folder.path(), &env)
    }

    /// Checks that all of its clocks are those of ranks on one host, on all of these hosts.
    #[track_caller]
    fn has_the_times_of_one_host(&self, on: &[&[&str]], more: &[(&str, &str)]) {
        for on in on {
            let expected = self.run(&vec!["a"; on.len()], more);
            let found = self.run(on, more);
            for (rank, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let differs = found.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
                assert_eq!(differs, None, "rank {rank} on {on:?} with {more:?}");
                assert_eq!(found.len(), expected.len(), "rank {rank} on {on:?} with {more:?}");
            }
        }
    }
}

#[test]
fn ranks_of_several_hosts_meet_and_part() {
    holds("communicator", &[&["a", "b"], &["a", "b", "a", "c"]]);
}

#[test]
fn collectives_of_several_hosts_do_what_they_say() {
    holds("collectives", &[&["a", "b"], &["a", "a", "b"], &["a", "b", "c", "a"]]);
}

#[test]
fn collectives_of_several_hosts_refuse_wrong_arguments() {
    holds("collective_arguments", &[&["a", "b"], &["a", "b", "b"]]);
}

#[test]
fn every_type_is_reduced_over_several_hosts() {
    holds("reductions", &[&["a", "b", "b"]]);
}

#[test]
fn blocks_of_any_size_and_scaled_sums_pass_between_hosts() {
    holds("vector", &[&["a", "b"], &["a", "b", "b"]]);
    holds("scaled", &[&["a", "b", "a"]]);
}

#[test]
fn messages_pass_between_hosts() {
    holds("point_to_point", &[&["a", "b"], &["a", "b", "a"]]);
}

#[test]
fn groups_and_streams_work_over_several_hosts() {
    holds("group", &[&["a", "b"]]);
    holds("stream", &[&["a", "b", "a"]]);
    holds("recording", &[&["a", "b"]]);
}

#[test]
fn communicators_of_several_hosts_are_made_from_others() {
    holds("children", &[&["a", "b", "a"], &["a", "b", "a", "b"]]);
}

#[test]
fn some_ranks_of_several_hosts_go_on_without_the_others() {
    holds("shrink", &[&["a", "b"], &["a", "b", "a"], &["a", "b", "c", "b"]]);
}

#[test]
fn symmetric_memory_is_accessed_over_hosts() {
    holds("shmem", &[&["a", "b"], &["a", "b", "a"], &["a", "b", "c"]]);
    holds("shmem_words", &[&["a", "b"], &["a", "b", "a"], &["a", "b", "c"]]);
}

#[test]
fn windows_and_signals_work_over_hosts() {
    holds("window", &[&["a", "b"], &["a", "b", "a"], &["a", "b", "c"]]);
}

#[test]
fn semaphores_and_remote_copies_work_over_hosts() {
    holds("semaphore", &[&["a", "b"], &["a", "b", "a", "c"]]);
}

#[test]
fn mailboxes_work_over_hosts() {
    holds("mailbox", &[&["a", "b"], &["a", "b", "a", "c"]]);
}

#[test]
fn the_clock_of_several_hosts_goes_on_when_the_first_rank_of_a_host_leaves() {
    let on: &[&[&str]] = &[&["a", "b", "b"], &["a", "b", "b", "c", "c"], &["a", "b", "a", "b"]];
    holds_with("machine_leavers", on, &[("PENNY_FABRIC", "dgx-h100")]);
}

#[test]
fn stores_to_memory_of_other_hosts_take_the_time_that_they_take_on_one() {
    let program = Program::new("machine_stores");
    let on: &[&[&str]] = &[&["a", "b"], &["a", "b", "b", "a"], &["a", "b", "c", "b"], &["a", "b", "c"]];
    for fabric in ["dgx-h100:nodes=2", "t3000"] {
        program.has_the_times_of_one_host(on, &[("TEST_FABRIC", fabric), ("PENNY_FABRIC_GRACE", "0")]);
    }
    let paced = [("TEST_FABRIC", "dgx-h100"), ("PENNY_FABRIC_GRACE", "0"), ("PENNY_FABRIC_CLOCK", "paced:1")];
    program.has_the_times_of_one_host(&on[2..3], &paced);
}

#[test]
fn a_hundred_mismatches_are_told_to_every_rank_of_several_hosts() {
    holds("mismatches", &[&["a", "b"], &["a", "b", "c"], &["a", "b", "b", "c"]]);
}

#[test]
fn ranks_of_several_hosts_go_on_after_each_of_two_deaths() {
    holds("two_deaths", &[&["a", "b", "c"], &["a", "b", "c", "b"], &["a", "b", "a", "c", "b", "c"]]);
}

#[test]
fn the_check_of_races_says_that_it_is_for_one_host() {
    holds_with("race_refused", &[&["a", "b"], &["a", "b", "a", "c"]], &[("PENNY_CHECK", "race")]);
}
