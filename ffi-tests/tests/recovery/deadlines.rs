//! Who never comes, stops, dawdles, aborts, destroys or forks: a sentence for each, and never a hang.

use crate::ranks::{PLAIN, Said, Setting, acts, start, start_one, turn};
use nix::sys::signal::Signal;

const USAGE: i32 = 5;
const REMOTE: i32 = 6;
const TIMEOUT: i32 = 8;

fn with_timeout<'a>(seconds: &'a [(&'a str, &'a str)]) -> Setting<'a> {
    Setting { env: seconds, ..PLAIN }
}

/// Prints what was measured; no test depends on it.
fn report(name: &str, ms: u64, target: u64) {
    println!("{name}_ms {ms} {target} {}", if ms <= target { "PASS" } else { "FAIL" });
}

#[test]
fn a_rank_that_never_joins_is_named_at_the_deadline() {
    let id = penny::internals::comm::unique_id().unwrap();
    let env = [("PENNY_TIMEOUT", "1")];
    let mut ranks: Vec<_> =
        [0, 1, 3].map(|rank| start_one(rank, 4, &id, &with_timeout(&env), &acts(&["join", "exit"]))).into();
    for rank in &mut ranks {
        let said = rank.failed();
        assert_eq!(said.code, TIMEOUT, "{}", said.sentence);
        assert!(said.sentence.contains('2') && said.sentence.contains("rank"), "{}", said.sentence);
    }
}

#[test]
fn a_rank_that_never_calls_is_named_at_the_deadline() {
    let env = [("PENNY_TIMEOUT", "1")];
    let mut ranks = start(3, &with_timeout(&env), |rank| match rank {
        1 => acts(&["join", "call all_reduce 9", "hold"]),
        _ => acts(&["join", "call all_reduce 9", "call all_gather 70000", "call all_gather 1"]),
    });
    let named = format!(
        "not arrived: rank 1 (pid {}, sleeping, last seen in call #1 all_reduce(count 9",
        ranks[1].pid()
    );
    for rank in ranks.iter_mut().step_by(2) {
        rank.did("join");
        rank.did("call all_reduce 9");
        let said = rank.failed();
        // The rank that notices second may be told that the first one gave up.
        let told = said.code == TIMEOUT && said.sentence.contains(&named);
        let others = said.code == REMOTE && said.sentence.contains("gave up after an error in its call #2");
        assert!(told || others, "{} {}", said.code, said.sentence);
        assert!(matches!(rank.failed().code, TIMEOUT | REMOTE), "a broken communicator works again");
    }
}

#[test]
fn a_stopped_rank_is_named_with_its_pid_and_state() {
    let _turn = turn();
    let env = [("PENNY_TIMEOUT", "2")];
    for what in ["all_reduce 16", "all_reduce 100000", "barrier 0", "transfer 100000"] {
        let (call, on) = (format!("call {what}"), format!("loop {what}"));
        let mut ranks = start(2, &with_timeout(&env), |_| acts(&["join", &call, &on, "exit"]));
        for rank in &mut ranks {
            rank.did("join");
            rank.did(&call);
        }
        ranks[1].signal(Signal::SIGSTOP);
        let said = ranks[0].failed();
        assert_eq!(said.code, TIMEOUT, "{what}: {}", said.sentence);
        let named = format!("rank 1 (pid {}, stopped by a signal", ranks[1].pid());
        assert!(
            said.sentence.contains(&named) && said.sentence.contains("within 2 s"),
            "{what}: {}",
            said.sentence
        );
        report("stopped_to_return", (said.returned - said.entered) / 1_000_000, 2_200);
        // It wakes up to a communicator that is no more.
        ranks[1].signal(Signal::SIGCONT);
        let said = ranks[1].failed();
        assert_eq!(said.code, REMOTE, "{what}: {}", said.sentence);
    }
}

#[test]
fn a_straggler_is_no_false_alarm() {
    let env = [("PENNY_TIMEOUT", "4")];
    let mut ranks = start(3, &with_timeout(&env), |rank| {
        let late =
            ["join", "sleep 3200", "call all_reduce 7", "sleep 3200", "call all_gather 50000", "destroy"];
        let mut list = acts(&late);
        list.retain(|act| rank == 1 || !act.starts_with("sleep"));
        list
    });
    for (r, rank) in ranks.iter_mut().enumerate() {
        while let Some(said) = rank.try_next() {
            assert!(matches!(said, Said::Ok(_)), "rank {r}: {said:?}");
        }
        assert_eq!(rank.end(), None);
    }
}

#[test]
fn an_abort_from_another_thread_ends_a_blocked_call_on_every_rank() {
    for what in ["all_reduce 4", "all_reduce 300000", "transfer 100000", "all_gather 50000"] {
        let call = format!("call {what}");
        // Rank 2 never comes; rank 0's second thread gives up.
        let mut ranks = start(3, &PLAIN, |rank| match rank {
            0 => acts(&["join", "call barrier 0", "abort-after 100", &call, "exit"]),
            1 => acts(&["join", "call barrier 0", &call, "call all_reduce 1", "exit"]),
            _ => acts(&["join", "call barrier 0", "hold", &call, "exit"]),
        });
        for rank in &mut ranks {
            rank.did("join");
            rank.did("call barrier 0");
        }
        ranks[0].did("abort-after 100");
        for r in [0, 1] {
            let said = ranks[r].failed();
            assert!(
                said.code == REMOTE && said.sentence.contains("rank 0"),
                "{what}: rank {r}: {}",
                said.sentence
            );
        }
        assert_eq!(ranks[1].failed().code, REMOTE);
        ranks[2].release();
        ranks[2].did("hold");
        assert_eq!(ranks[2].failed().code, REMOTE, "{what}: an aborted communicator works");
    }
}

#[test]
fn a_rank_that_has_left_is_named_to_whoever_still_calls() {
    let mut ranks = start(3, &PLAIN, |rank| match rank {
        2 => acts(&["join", "call all_reduce 10", "destroy", "hold"]),
        _ => acts(&["join", "call all_reduce 10", "call all_reduce 20000", "exit"]),
    });
    let named = format!("rank 2 (pid {}) has destroyed the communicator", ranks[2].pid());
    for rank in &mut ranks[..2] {
        rank.did("join");
        rank.did("call all_reduce 10");
        let said = rank.failed();
        assert_eq!(said.code, REMOTE);
        assert!(said.sentence.contains(&named), "{}", said.sentence);
    }
}

#[test]
fn a_forked_child_is_refused_and_the_parent_goes_on() {
    let list = ["join", "call all_reduce 5", "fork", "call all_reduce 5", "call all_gather 40000", "destroy"];
    let mut ranks = start(2, &PLAIN, |rank| {
        let mut list = acts(&list);
        list.retain(|act| rank == 0 || act != "fork");
        list
    });
    for (r, rank) in ranks.iter_mut().enumerate() {
        for act in list.iter().filter(|&&act| r == 0 || act != "fork") {
            if *act == "fork" {
                for what in ["a call", "destroying", "aborting"] {
                    let said = rank.failed();
                    assert_eq!(said.code, USAGE, "{what} in a forked child: {}", said.sentence);
                    assert!(said.sentence.contains("forked"), "{}", said.sentence);
                }
            }
            rank.did(act);
        }
    }
}
