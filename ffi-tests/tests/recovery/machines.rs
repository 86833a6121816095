//! Ranks on a declared machine, whose clock is everybody's: one is killed, and the clock must not die with it.

use crate::deaths::still_there;
use crate::ranks::{Rank, Setting, acts, leftovers, random, start, times, trials, turn};
use nix::sys::signal::Signal;
use penny::internals::fabric::live::clock_segment::ClockSegment;
use std::fs::File;
use std::sync::atomic::{AtomicU32, Ordering};
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
    let _turn = turn();
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
fn board(pid: u32) -> ClockSegment {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives").flatten();
    let open = |path| File::options().read(true).write(true).open(path).ok();
    files.filter_map(|entry| ClockSegment::observe(open(entry.path())?)).next().expect("a board")
}

#[test]
fn the_death_of_whoever_runs_the_engine_is_told_to_all() {
    let _turn = turn();
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

/// Ranks that call on and on until they fail; a thread of rank `aborts` ends that by an abort.
fn going(what: &str, count: usize, seconds: &'static str, aborts: Option<u32>) -> Vec<Rank> {
    let (call, go_on) = (format!("call {what} {count}"), format!("loop {what} {count}"));
    let env: &'static [(&str, &str)] = match seconds {
        "2" => &[("PENNY_FABRIC", "dgx-h100"), ("PENNY_TIMEOUT", "2")],
        _ => &[("PENNY_FABRIC", "dgx-h100"), ("PENNY_TIMEOUT", "40")],
    };
    let mut ranks = start(RANKS, &Setting { env, shell: "true" }, |rank| match aborts {
        Some(by) if by == rank => acts(&["join", &call, "abort-after 700", &go_on, "exit"]),
        _ => acts(&["join", &call, &go_on, "exit"]),
    });
    for (r, rank) in ranks.iter_mut().enumerate() {
        rank.did("join");
        rank.did(&call);
        if aborts == Some(r as u32) {
            rank.did("abort-after 700");
        }
    }
    ranks
}

/// Stop a rank, if possible while it runs the engine. Tells whether it does.
fn stop(ranks: &[Rank], victim: u32) -> bool {
    let board = board(ranks[0].pid());
    let runs_engine = || board.header().runner.load(Ordering::Acquire) == victim + 1;
    // BOUND: 200 000 looks.
    for _ in 0..200_000 {
        if runs_engine() {
            break;
        }
        std::hint::spin_loop();
    }
    ranks[victim as usize].signal(Signal::SIGSTOP);
    // BOUND: the kernel stops it.
    while penny::internals::sys::process::state(ranks[victim as usize].pid()) != Some("stopped by a signal") {
        std::thread::sleep(Duration::from_millis(1));
    }
    runs_engine()
}

#[test]
fn whichever_rank_is_stopped_the_others_come_to_their_deadline_and_name_it() {
    let _turn = turn();
    let hits = AtomicU32::new(0);
    trials(times(12, 100), |trial| {
        let victim = trial % RANKS;
        let what = ["all_reduce", "transfer", "barrier"][trial as usize / 4 % 3];
        let mut ranks = going(what, 64, "2", None);
        hits.fetch_add(stop(&ranks, victim).into(), Ordering::Relaxed);
        let named = format!("rank {victim} (pid {}, stopped by a signal", ranks[victim as usize].pid());
        for (r, rank) in ranks.iter_mut().enumerate().filter(|&(r, _)| r as u32 != victim) {
            let said = rank.failed();
            assert!(said.sentence.contains(&named), "rank {r}: `{}` does not say `{named}`", said.sentence);
            let took = Duration::from_nanos(said.returned - said.entered);
            // Not a measurement: without a deadline it would never have returned.
            assert!(took < Duration::from_secs(15), "rank {r} returned after {took:?}");
            let _ = rank.try_next();
            assert_eq!(rank.end(), None, "rank {r}");
        }
    });
    println!("stopped_while_it_ran_the_engine {} - PASS", hits.into_inner());
}

#[test]
fn an_abort_ends_calls_while_the_rank_that_runs_the_engine_is_stopped() {
    let _turn = turn();
    let hits = AtomicU32::new(0);
    trials(times(8, 60), |trial| {
        let victim = trial % RANKS;
        let by = (victim + 1) % RANKS;
        let mut ranks = going(["all_reduce", "transfer"][trial as usize / 4 % 2], 64, "40", Some(by));
        hits.fetch_add(stop(&ranks, victim).into(), Ordering::Relaxed);
        for (r, rank) in ranks.iter_mut().enumerate().filter(|&(r, _)| r as u32 != victim) {
            let said = rank.failed();
            assert_eq!(said.code, REMOTE, "rank {r}: {}", said.sentence);
            assert!(said.sentence.contains(&format!("rank {by}")), "rank {r}: {}", said.sentence);
            assert!(said.sentence.contains("abort"), "rank {r}: {}", said.sentence);
            let _ = rank.try_next();
            assert_eq!(rank.end(), None, "rank {r}");
        }
    });
    println!("aborted_while_the_engine_was_stopped {} - PASS", hits.into_inner());
}
