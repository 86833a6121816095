//! Ranks in PID namespaces of their own, as in containers: their PIDs mean nothing to the others.

use crate::ranks::{PLAIN, Rank, Setting, acts, start_one, times, turn};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::time::Duration;

const REMOTE: i32 = 6;
/// There the rank gets a PID that no process has here.
const APART: &str = "exec unshare -Urpf --kill-child --mount-proc sh -c \
    'echo 32300 > /proc/sys/kernel/ns_last_pid; \"$0\" \"$@\" & wait' \"$0\" \"$@\"";

fn may() -> bool {
    let tried = std::process::Command::new("unshare").args(["-Urpf", "--mount-proc", "true"]).status();
    let may = tried.is_ok_and(|status| status.success());
    if !may {
        println!("SKIPPED: this machine lets nobody make PID namespaces");
    }
    may
}

/// Two ranks here, and rank 1 in a namespace of its own.
fn start(list: &[&str]) -> Vec<Rank> {
    let id = penny::internals::comm::unique_id().unwrap();
    let setting = |rank| Setting { env: &[], shell: if rank == 1 { APART } else { PLAIN.shell } };
    (0..3).map(|rank| start_one(rank, 3, &id, &setting(rank), &acts(list))).collect()
}

/// The process that runs behind unshare and a shell, by its PID here.
fn inner(rank: &Rank) -> Option<Pid> {
    let child = |pid: i32| -> Option<i32> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    let inner = child(child(rank.pid() as i32)?)?;
    let name = std::fs::read_to_string(format!("/proc/{inner}/comm")).ok()?;
    (name.trim() == "victim").then(|| Pid::from_raw(inner))
}

fn awaited(rank: &Rank) -> Pid {
    // BOUND: the process starts, or the test's runner loses its patience.
    loop {
        if let Some(pid) = inner(rank) {
            return pid;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn a_slow_rank_in_another_pid_namespace_is_not_taken_for_dead() {
    if !may() {
        return;
    }
    let _turn = turn();
    for _ in 0..times(3, 20) {
        let list = ["join", "call all_reduce 100", "call children 10", "destroy"];
        let mut ranks = start(&list);
        let slow = awaited(&ranks[1]);
        // It joins in slices of a moment each.
        for _ in 0..250 {
            let _ = kill(slow, Signal::SIGSTOP);
            std::thread::sleep(Duration::from_millis(4));
            let _ = kill(slow, Signal::SIGCONT);
            std::thread::sleep(Duration::from_micros(300));
        }
        for rank in &mut ranks {
            list.iter().for_each(|act| rank.did(act));
        }
    }
}

#[test]
fn a_rank_that_dies_in_another_pid_namespace_is_named_at_once() {
    if !may() {
        return;
    }
    let _turn = turn();
    for trial in 0..times(6, 40) {
        let (call, go_on) = match trial % 2 {
            0 => ("call all_reduce 100", "loop all_reduce 100"),
            _ => ("call children 10", "loop children 10"),
        };
        let mut ranks = start(&["join", call, go_on, "exit"]);
        for rank in &mut ranks {
            rank.did("join");
            rank.did(call);
        }
        kill(awaited(&ranks[1]), Signal::SIGKILL).unwrap();
        for rank in [0, 2] {
            let said = ranks[rank].failed();
            let named = said.sentence.contains("rank 1 (pid ") && said.sentence.contains("died");
            assert!(said.code == REMOTE && named, "rank {rank}: {} {}", said.code, said.sentence);
        }
    }
}

#[test]
fn a_rank_that_dies_while_it_joins_from_another_pid_namespace_is_named_at_once() {
    if !may() {
        return;
    }
    let _turn = turn();
    for trial in 0..times(10, 100) {
        let mut ranks = start(&["join", "call all_reduce 100", "loop all_reduce 100"]);
        let victim = awaited(&ranks[1]);
        std::thread::sleep(Duration::from_micros(u64::from(trial % 10) * 700));
        kill(victim, Signal::SIGKILL).unwrap();
        // Killed before it has come, it is only missing: nothing tells that it was a rank.
        let met = ranks[1].try_next().is_some();
        for rank in [0, 2].into_iter().filter(|_| met) {
            // BOUND: the loop fails.
            let said = loop {
                match ranks[rank].next() {
                    crate::ranks::Said::Ok(_) => {}
                    crate::ranks::Said::Failed(said) => break said,
                }
            };
            let named = said.sentence.contains("rank 1 (pid ") || said.sentence.contains("rank 1 (PID ");
            let died = said.sentence.contains("died");
            assert!(said.code == REMOTE && named && died, "rank {rank}: {} {}", said.code, said.sentence);
        }
    }
}
