//! A rank is killed at any instant: every survivor is told who, at once, and nothing is left.

use crate::ranks::{PLAIN, Rank, Said, acts, leftovers, now_ns, random, start, times, turn};
use std::time::Duration;

const REMOTE: i32 = 6;
/// What survivors do once they know, each of which the others must not take for the cause.
const ENDINGS: [&str; 4] = ["exit", "crash", "destroy", "abort"];

/// Times from the kill, or from entering the call if that came later, to the return of each survivor, in nanoseconds.
#[derive(Default)]
struct Delays(Vec<u64>);

impl Delays {
    fn report(mut self, name: &str) {
        self.0.sort_unstable();
        let ms = |ns: u64| ns as f64 / 1e6;
        let verdict = |value: f64, target: f64| if value <= target { "PASS" } else { "FAIL" };
        let (p99, max) = (ms(self.0[self.0.len() * 99 / 100]), ms(self.0[self.0.len() - 1]));
        println!("{name}_kill_to_return_median_ms {:.2} - PASS", ms(self.0[self.0.len() / 2]));
        println!("{name}_kill_to_return_p99_ms {p99:.2} 50 {}", verdict(p99, 50.0));
        println!("{name}_kill_to_return_max_ms {max:.2} 250 {}", verdict(max, 250.0));
    }
}

/// One life of a communicator: `n` ranks call on and on, one is killed after a while.
fn kill_one(n: u32, what: &str, count: usize, heap: bool, victim: u32, trial: u32, delays: &mut Delays) {
    let call = |verb: &str| format!("{verb} {what} {count}");
    let _turn = turn();
    let mut ranks = start(n, &PLAIN, |rank| {
        let ending = ENDINGS[(rank + trial) as usize % ENDINGS.len()];
        let mut list = acts(&["join", &call("call"), &call("loop"), &call("call"), ending]);
        if heap {
            list.insert(0, "heap".into());
        }
        list
    });
    for rank in &mut ranks {
        if heap {
            rank.did("heap");
        }
        rank.did("join");
        rank.did(&call("call"));
    }
    std::thread::sleep(Duration::from_micros(random(5_000)));
    let named = format!("rank {victim} (pid {}) died", ranks[victim as usize].pid());
    let killed = now_ns();
    ranks[victim as usize].kill();
    for (r, rank) in ranks.iter_mut().enumerate().filter(|&(r, _)| r as u32 != victim) {
        // The call that fails, and the next.
        for time in 0..2 {
            let said = rank.failed();
            let right = said.code == REMOTE && said.sentence.contains(&named);
            assert!(
                right,
                "{what} {count}, rank {r} says {} `{}` instead of `{named}`",
                said.code, said.sentence
            );
            if time == 0 {
                delays.0.push(said.returned.saturating_sub(said.entered.max(killed)));
            }
        }
    }
    for (r, rank) in ranks.iter_mut().enumerate().filter(|&(r, _)| r as u32 != victim) {
        ended_as_told(rank, r as u32, ENDINGS[(r as u32 + trial) as usize % ENDINGS.len()]);
    }
}

#[test]
fn whoever_waits_for_a_survivor_in_a_smaller_communicator_learns_of_the_death_beside_it() {
    for (ending, told) in [("part-destroy", "has destroyed the communicator"), ("crash", "died")] {
        let _turn = turn();
        let mut ranks = start(4, &PLAIN, |rank| match rank {
            0 => acts(&["join", "divide", "call barrier 0", ending, "hold"]),
            1 => acts(&["join", "divide", "part barrier 0"]),
            _ => acts(&["join", "divide", "hold"]),
        });
        for rank in &mut ranks {
            rank.did("join");
            rank.did("divide");
        }
        let (first, dead) = (format!("rank 0 (pid {}) {told}", ranks[0].pid()), ranks[3].pid());
        ranks[3].kill();
        let said = ranks[0].failed();
        assert!(said.sentence.contains(&format!("rank 3 (pid {dead}) died")), "{}", said.sentence);
        let said = ranks[1].failed();
        let beside = format!("; rank 3 (pid {dead}) of the communicator that this one was made from died");
        let right = said.code == REMOTE && said.sentence.contains(&first) && said.sentence.ends_with(&beside);
        assert!(right, "{}", said.sentence);
        ranks[2].kill();
    }
}

#[test]
fn of_two_deaths_a_second_communicator_names_the_one_that_the_first_has_noticed() {
    let _turn = turn();
    let mut ranks = start(3, &PLAIN, |rank| match rank {
        0 => acts(&["join", "duplicate", "call barrier 0", "crash"]),
        _ => acts(&["join", "duplicate", "hold", "part barrier 0"]),
    });
    for rank in &mut ranks {
        ["join", "duplicate"].iter().for_each(|act| rank.did(act));
    }
    let first = format!("rank 2 (pid {}) died", ranks[2].pid());
    ranks[2].kill();
    assert!(ranks[0].failed().sentence.contains(&first));
    assert_eq!(ranks[0].end(), Some(6));
    ranks[1].release();
    ranks[1].did("hold");
    let said = ranks[1].failed();
    assert!(said.code == REMOTE && said.sentence.contains(&first), "{} {}", said.code, said.sentence);
}

fn ended_as_told(rank: &mut Rank, number: u32, ending: &str) {
    match rank.try_next() {
        None => {}
        Some(said) => assert_eq!(said, Said::Ok(ending.into()), "rank {number}"),
    }
    let signal = (ending == "crash").then_some(6);
    assert_eq!(rank.end(), signal, "rank {number} after {ending}");
}

fn kill_many(name: &str, what: &str, count: usize, trials: u32) {
    let before = leftovers();
    let mut delays = Delays::default();
    for trial in 0..trials {
        kill_one(4, what, count, trial % 2 == 1, trial % 4, trial / 4, &mut delays);
    }
    delays.report(name);
    let left: Vec<_> = still_there(&before);
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// What came since `before` and stays. Other tests of this process meet at sockets for a moment, or keep a verdict for 10 s.
pub fn still_there(before: &std::collections::BTreeSet<String>) -> Vec<String> {
    let mut left: Vec<String> = leftovers().difference(before).cloned().collect();
    for _ in 0..1_500 {
        if left.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
        let now = leftovers();
        left.retain(|name| now.contains(name));
    }
    left
}

#[test]
fn survivors_of_a_small_all_reduce_name_the_dead() {
    kill_many("all_reduce_64B", "all_reduce", 16, times(16, 80));
}

#[test]
fn survivors_of_a_medium_all_reduce_name_the_dead() {
    kill_many("all_reduce_64KiB", "all_reduce", 16 << 10, times(16, 80));
}

#[test]
fn survivors_of_a_large_all_reduce_name_the_dead() {
    kill_many("all_reduce_16MiB", "all_reduce", 4 << 20, times(8, 40));
}

#[test]
fn survivors_of_every_other_call_name_the_dead() {
    let mut delays = Delays::default();
    let calls = [
        "reduce_scatter",
        "all_gather",
        "alltoall",
        "broadcast",
        "reduce",
        "gather",
        "scatter",
        "barrier",
        "transfer",
        "signals",
        "children",
        "semaphore",
    ];
    let mut trial = 0;
    for what in calls {
        for count in [16, 16 << 10] {
            for _ in 0..times(2, 20) {
                kill_one(4, what, count, trial % 2 == 1, trial % 4, trial / 4, &mut delays);
                trial += 1;
            }
        }
    }
    delays.report("other_calls");
}

#[test]
fn two_ranks_notice_each_others_death_too() {
    let mut delays = Delays::default();
    for trial in 0..times(8, 50) {
        kill_one(
            2,
            "all_reduce",
            [1, 4096, 1 << 20][trial as usize % 3],
            trial % 2 == 1,
            trial % 2,
            trial / 2,
            &mut delays,
        );
    }
    delays.report("two_ranks");
}

#[test]
fn a_disagreement_that_follows_a_death_is_told_as_the_death() {
    let _turn = turn();
    // Rank 0 learns of the death and goes on to another call than that to which rank 1 comes afterwards.
    let mut ranks = start(3, &PLAIN, |rank| {
        let after = ["call all_gather 16", "call barrier 0", "call all_reduce 16"][rank as usize];
        acts(&["join", "call all_reduce 16", "hold", after, "exit"])
    });
    for rank in &mut ranks {
        ["join", "call all_reduce 16"].iter().for_each(|act| rank.did(act));
    }
    ranks[2].kill();
    let _ = ranks[2].end();
    let named = format!("rank 2 (pid {}) died", ranks[2].pid());
    for rank in &mut ranks[..2] {
        rank.release();
        rank.did("hold");
        let said = rank.failed();
        assert!(said.code == REMOTE && said.sentence.contains(&named), "{} {}", said.code, said.sentence);
    }
}
