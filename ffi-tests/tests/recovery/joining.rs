//! A rank dies or gives up between its call and the communicator: all others are told at once, by name.

use crate::ranks::{PLAIN, Rank, Said, Setting, acts, now_ns, random, start, start_one, times, trials, turn};
use std::time::Duration;

const SYSTEM: i32 = 2;
const REMOTE: i32 = 6;
const TIMEOUT: i32 = 8;
/// Well under the ranks' deadline of 40 s: what takes longer waited for it.
const AT_ONCE_NS: u64 = 20_000_000_000;

/// One life of a communicator whose ranks make others without end; one is killed after a while.
fn kill_one(what: &str, victim: u32, endings: &[&str]) {
    let setting = Setting { env: &[("PENNY_TIMEOUT", if what == "init" { "8" } else { "40" })], ..PLAIN };
    let (call, go_on) = (format!("call {what} 16"), format!("loop {what} 16"));
    let mut ranks =
        start(4, &setting, |rank| acts(&["join", &call, &go_on, endings[rank as usize % endings.len()]]));
    for rank in &mut ranks {
        rank.did("join");
        rank.did(&call);
    }
    std::thread::sleep(Duration::from_micros(random(8_000)));
    let pid = ranks[victim as usize].pid();
    let killed = now_ns();
    ranks[victim as usize].kill();
    // Who was told of the death, and whom the others missed at a meeting to which the told never came.
    let (mut told, mut missed) = (vec![victim], Vec::new());
    for (r, rank) in ranks.iter_mut().enumerate().filter(|&(r, _)| r as u32 != victim) {
        let said = rank.failed();
        // Nothing tells the meeting of strangers that a process which has not come yet was one of them.
        let absent =
            if what == "init" && said.code == TIMEOUT { absentees(&said.sentence) } else { Vec::new() };
        if absent.contains(&victim) {
            println!("killed_before_it_came {victim} - PASS");
            missed.extend(absent);
            continue;
        }
        told.push(r as u32);
        let named =
            said.sentence.contains(&format!("pid {pid}")) || said.sentence.contains(&format!("PID {pid}"));
        // A rank that connects after the death of the id's maker is told that the maker has ended.
        let made = format!("PID {pid}, which made it, has ended");
        let dead = ["died", "dead", &made].iter().any(|word| said.sentence.contains(word));
        assert!(
            said.code == REMOTE && named && dead,
            "{what}: rank {r} says {} `{}` and not that pid {pid} died",
            said.code,
            said.sentence
        );
        let took = said.returned.saturating_sub(killed);
        assert!(took < AT_ONCE_NS, "{what}: rank {r} waited {took} ns");
    }
    assert!(
        missed.iter().all(|rank| told.contains(rank)),
        "{what}: of {missed:?} only {told:?} had a reason"
    );
}

/// The ranks of four that a sentence names as missing: `rank 2 of 4 has not come`, `ranks 1-3 of 4 have not come`.
fn absentees(sentence: &str) -> Vec<u32> {
    let Some((list, _)) = sentence.split_once(" of 4 ha").filter(|(_, rest)| rest.contains("not come"))
    else {
        return Vec::new();
    };
    let list = list.rsplit_once("rank").map_or("", |(_, list)| list.trim_start_matches('s'));
    let parts = list.split([',', ' ']).filter(|part| !part.is_empty());
    let ranges = parts.filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().collect()
}

fn kill_many(what: &str, endings: &[&str]) {
    let _turn = turn();
    trials(times(24, 200), |trial| {
        let mut endings = endings.to_vec();
        let turn = trial as usize % endings.len();
        endings.rotate_left(turn);
        kill_one(what, trial % 4, &endings);
    });
}

#[test]
fn survivors_of_a_group_that_is_made_name_the_dead() {
    kill_many("children", &["exit", "crash", "destroy", "abort"]);
}

#[test]
fn survivors_of_a_split_name_the_dead() {
    // A rank that has heard of a death in its part and ends at once is a second death to the other part.
    kill_many("split", &["hold", "destroy", "abort"]);
}

#[test]
fn survivors_of_an_init_name_the_dead() {
    // The process that serves the meeting has to stay until all have heard of the death.
    kill_many("init", &["hold"]);
}

/// Rank `poor` cannot join for a reason that contains `why`; the others learn at once who it is and why.
fn one_is_poor(mut ranks: Vec<Rank>, begun: u64, poor: usize, why: &str) {
    for (r, rank) in ranks.iter_mut().enumerate() {
        let said = rank.failed();
        assert!(said.sentence.contains(why), "rank {r}: {}", said.sentence);
        assert_eq!(said.code, if r == poor { SYSTEM } else { REMOTE }, "rank {r}: {}", said.sentence);
        assert!(
            r == poor || said.sentence.contains(&format!("rank {poor} (PID")),
            "rank {r}: {}",
            said.sentence
        );
        assert!(said.returned - begun < AT_ONCE_NS, "rank {r} waited for the deadline");
    }
}

#[test]
fn a_rank_that_may_start_no_thread_is_named_to_all_at_once() {
    let user = "setpriv --reuid 54321 --regid 54321 --clear-groups";
    let may = std::process::Command::new("sh")
        .args(["-c", &format!("{user} test -x \"$0\""), env!("CARGO_BIN_EXE_victim")])
        .status();
    if !may.is_ok_and(|status| status.success()) {
        return println!("SKIPPED: only root can become a user that may start no thread");
    }
    let id = penny::internals::comm::unique_id().unwrap();
    for poor in [1, 0, 2] {
        let begun = now_ns();
        let ranks = (0..3).map(|rank: u32| {
            let number = rank.to_string();
            let limit = if rank == poor { "prlimit --nproc=1" } else { "" };
            let shell = format!("exec {user} {limit} \"$0\" \"$@\"");
            let job = format!("{:032x}", begun + u64::from(poor));
            let env = [("PENNY_JOB_ID", job.as_str()), ("PENNY_RANK", &number), ("PENNY_WORLD_SIZE", "3")];
            start_one(rank, 3, &id, &Setting { env: &env, shell: &shell }, &acts(&["join-env"]))
        });
        one_is_poor(ranks.collect(), begun, poor as usize, "ulimit -u");
    }
}

#[test]
fn a_rank_without_descriptors_is_named_to_all_at_once() {
    for limit in 4..12 {
        let id = penny::internals::comm::unique_id().unwrap();
        let begun = now_ns();
        // Other tests start processes at the same time, whose ends of pipes may have come along.
        let shell = format!("exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- && ulimit -n {limit}");
        let mut ranks: Vec<Rank> = (0..3)
            .map(|rank| {
                let setting = Setting { env: &[], shell: if rank == 1 { &shell } else { "true" } };
                start_one(rank, 3, &id, &setting, &acts(&["join"]))
            })
            .collect();
        let Said::Failed(said) = ranks[1].next() else {
            // Enough for a rank: then it is enough for all.
            assert!(limit > 5, "{limit} descriptors are enough");
            ranks[0].did("join");
            ranks[2].did("join");
            continue;
        };
        assert!(
            said.code == SYSTEM && said.sentence.contains("descriptor"),
            "{} {}",
            said.code,
            said.sentence
        );
        for rank in [0, 2] {
            let said = ranks[rank].failed();
            let named = said.sentence.contains("rank 1 (PID") && said.sentence.contains("descriptor");
            assert!(said.code == REMOTE && named, "{limit}, rank {rank}: {} {}", said.code, said.sentence);
            assert!(
                said.returned.max(said.entered) - begun < AT_ONCE_NS,
                "rank {rank} waited for the deadline"
            );
        }
    }
}

#[test]
fn a_rank_that_never_comes_is_told_as_missing_by_all() {
    trials(times(12, 60), |trial| {
        let begun = now_ns();
        let job = format!("{begun:032x}");
        let id = penny::internals::comm::unique_id().unwrap();
        // By an id that another process made, and where rank 0 serves and ends with the first who knows.
        let act = ["join", "join-env"][trial as usize % 2];
        let mut ranks: Vec<Rank> = [0, 1, 3]
            .map(|rank: u32| {
                let number = rank.to_string();
                let env = [
                    ("PENNY_TIMEOUT", "2"),
                    ("PENNY_JOB_ID", job.as_str()),
                    ("PENNY_RANK", &number),
                    ("PENNY_WORLD_SIZE", "4"),
                ];
                start_one(rank, 4, &id, &Setting { env: &env, ..PLAIN }, &acts(&[act, "exit"]))
            })
            .into();
        for rank in &mut ranks {
            let said = rank.failed();
            let told = said.sentence.contains("rank 2 of 4 has not come");
            assert!(told, "{act}: {} {}", said.code, said.sentence);
        }
    });
}
