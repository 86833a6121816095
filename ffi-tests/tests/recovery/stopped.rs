//! A rank is stopped: at the deadline every survivor names it, whichever survivor gives up first and whatever it does then.

use crate::ranks::{Rank, Setting, acts, random, start, times, turn};
use nix::sys::signal::Signal;
use std::time::Duration;

const REMOTE: i32 = 6;
const TIMEOUT: i32 = 8;
const RANKS: u32 = 4;
/// Communicators at a time: most of the time passes in waits.
const SIDE_BY_SIDE: u32 = 5;

const CALLS: [&str; 8] = [
    "all_reduce 16",
    "all_reduce 100000",
    "transfer 100000",
    "broadcast 4000",
    "mailbox 1",
    "barrier 0",
    "signals 16",
    "alltoall 5000",
];

fn stop_one(trial: u32, ranks: &mut [Rank]) {
    std::thread::sleep(Duration::from_micros(random(2_000)));
    ranks[(trial % RANKS) as usize].signal(Signal::SIGSTOP);
}

fn all_blame(trial: u32, what: &str, ranks: &mut [Rank]) {
    let stopped = (trial % RANKS) as usize;
    let named = format!("rank {stopped} (pid {}, stopped by a signal", ranks[stopped].pid());
    for (r, rank) in ranks.iter_mut().enumerate().filter(|&(r, _)| r != stopped) {
        let said = rank.failed();
        let right = matches!(said.code, REMOTE | TIMEOUT) && said.sentence.contains(&named);
        assert!(right, "{what}, rank {r}: {} `{}` instead of `{named}`", said.code, said.sentence);
    }
}

#[test]
fn whoever_gives_up_first_all_survivors_blame_the_stopped_rank() {
    let _turn = turn();
    let setting = Setting { env: &[("PENNY_TIMEOUT", "6")], shell: "true" };
    for batch in 0..times(2, 8) {
        let mut lives: Vec<(u32, &str, Vec<Rank>)> = Vec::new();
        for trial in batch * SIDE_BY_SIDE..(batch + 1) * SIDE_BY_SIDE {
            let what = CALLS[trial as usize % CALLS.len()];
            let (call, go_on) = (format!("call {what}"), format!("loop {what}"));
            let mut ranks = start(RANKS, &setting, |rank| {
                let ending = ["abort", "exit", "crash", "destroy"][(rank + trial / 3) as usize % 4];
                acts(&["join", &call, &go_on, ending])
            });
            for rank in &mut ranks {
                rank.did("join");
                rank.did(&call);
            }
            stop_one(trial, &mut ranks);
            lives.push((trial, what, ranks));
        }
        for (trial, what, ranks) in &mut lives {
            all_blame(*trial, what, ranks);
        }
    }
}
