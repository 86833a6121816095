//! Ranks on a declared machine, whose clock is everybody's: one is killed, and the clock must not die with it.

use crate::deaths::still_there;
use crate::ranks::{Rank, Setting, acts, alone, leftovers, random, start, times};
use penny::internals::memory::board::Board;
use std::fs::File;
use std::sync::atomic::Ordering;
use std::time::Duration;

const REMOTE: i32 = 6;
const RANKS: u32 = 4;

fn on(machine: &'static str) -> Setting<'static> {
    match machine {
        "dgx-h100" => Setting { env: &[("PENNY_FABRIC", "dgx-h100")], shell: "true" },
        _ => Setting { env: &[("PENNY_FABRIC", "t3000"), ("PENNY_FABRIC_CLOCK", "paced:10")], shell: "true" },
    }
}

/// Ranks that call on and on until they fail, and then try once more and end.
fn busy(machine: &'static str, what: &str, count: usize) -> Vec<Rank> {
    let (call, go_on) = (format!("call {what} {count}"), format!("loop {what} {count}"));
    let mut ranks = start(RANKS, &on(machine), |rank| {
        let ending = ["destroy", "exit", "abort"][rank as usize % 3];
        acts(&["join", &call, &go_on, &call, ending])
    });
    for rank in &mut ranks {
        rank.did("join");
        rank.did(&call);
    }
    ranks
}

/// Everybody but the victim is told who died, twice, and ends.
fn survive(mut ranks: Vec<Rank>, victim: u32) {
    let named = format!("rank {victim} (pid {}) died", ranks[victim as usize].pid());
    for (r, rank) in ranks.iter_mut().enumerate().filter(|&(r, _)| r as u32 != victim) {
        for _ in 0..2 {
            let said = rank.failed();
            let right = said.code == REMOTE && said.sentence.contains(&named);
            assert!(right, "rank {r} says {} `{}` instead of `{named}`", said.code, said.sentence);
        }
        let _ = rank.try_next();
        assert_eq!(rank.end(), None, "rank {r}");
    }
}

#[test]
fn survivors_on_a_machine_name_the_dead_and_nothing_is_left() {
    let _alone = alone();
    let before = leftovers();
    for trial in 0..times(12, 100) {
        let machine = ["dgx-h100", "t3000"][trial as usize % 2];
        let what = ["all_reduce", "transfer", "broadcast", "children"][trial as usize / 2 % 4];
        let mut ranks = busy(machine, what, [16, 4096][trial as usize % 2]);
        std::thread::sleep(Duration::from_micros(random(5_000)));
        let victim = random(RANKS as u64) as u32;
        ranks[victim as usize].kill();
        survive(ranks, victim);
    }
    let left = still_there(&before);
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// The board that a rank has mapped.
fn board(pid: u32) -> Board {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives").flatten();
    let open = |path| File::options().read(true).write(true).open(path).ok();
    files.filter_map(|entry| Board::observe(open(entry.path())?)).next().expect("a board")
}

#[test]
fn the_death_of_whoever_runs_the_engine_is_told_to_all() {
    let _alone = alone();
    let mut hits = 0;
    for _ in 0..times(12, 100) {
        let mut ranks = busy("dgx-h100", "transfer", 64);
        let board = board(ranks[0].pid());
        let header = board.header();
        let victim = random(RANKS as u64) as u32;
        // BOUND: each rank is now and then the last to post.
        while header.runner.load(Ordering::Acquire) != victim + 1 {
            std::hint::spin_loop();
        }
        ranks[victim as usize].kill();
        let _ = ranks[victim as usize].end();
        hits += u32::from(header.runner.load(Ordering::Acquire) == victim + 1);
        survive(ranks, victim);
    }
    println!("killed_while_it_ran_the_engine {hits} - PASS");
}
