//! A rank of several hosts is killed, where rank 0's process serves the meeting, as under a launcher, and survivors end as soon as they know:
//! each is told the death, and none hangs.

use penny_ffi_tests::hosts::{self, Carrier};

use crate::ranks::{Rank, Said, Setting, acts, now_ns, random, start_one, times, turn};
use std::time::Duration;

const REMOTE: i32 = 6;
/// What a survivor does when its call has failed.
const ENDINGS: [&str; 3] = ["crash", "exit", "abort"];
/// The hosts of the ranks, by trial.
const HOSTS: [&[&str]; 4] =
    [&["a", "a", "b"], &["a", "b", "a"], &["a", "b", "b", "a"], &["a", "b", "c", "a", "b"]];
const CALLS: [&str; 6] = ["all_reduce", "transfer", "broadcast", "all_gather", "children", "barrier"];

fn start(on: &[&str], carrier: &Carrier, list: impl Fn(u32) -> Vec<String>) -> Vec<Rank> {
    let id = penny::internals::comm::unique_id().expect("an id");
    let port = hosts::port();
    let (job, count) = (format!("{:032x}", now_ns()), on.len().to_string());
    (0..)
        .zip(on)
        .map(|(rank, host)| {
            let number = rank.to_string();
            let beside = on.iter().filter(|other| *other == host).count().to_string();
            let variables = hosts::variables(host, port, carrier);
            let mut env: Vec<_> = variables.iter().map(|(name, value)| (&**name, &**value)).collect();
            env.extend([
                ("PENNY_JOB_ID", &*job),
                ("PENNY_RANK", &number),
                ("PENNY_WORLD_SIZE", &count),
                ("PENNY_LOCAL_SIZE", &beside),
            ]);
            start_one(rank, on.len() as u32, &id, &Setting { env: &env, shell: "true" }, &list(rank))
        })
        .collect()
}

#[test]
fn survivors_that_end_at_once_leave_the_others_told_of_the_first_death() {
    let _turn = turn();
    let carriers = hosts::carriers();
    let (mut last, mut wrong) = (Vec::new(), Vec::new());
    // Where large messages are under way, the last words of rank 0 may wait behind them (docs/decisions/0051): 1 of 600.
    let counts: &[usize] = if times(0, 1) == 1 { &[4, 4_000, 40_000] } else { &[4, 1_000] };
    for trial in 0..times(24, 200) as usize {
        let (on, what) = (HOSTS[trial % HOSTS.len()], CALLS[trial % CALLS.len()]);
        // Of messages large ones, too, which go from buffer to buffer (docs/decisions/0070).
        let is_straight = what == "transfer" && trial / 6 % 2 == 0;
        let count = if is_straight { 300_000 } else { counts[trial / 3 % counts.len()] };
        let (first, repeated) = (format!("call {what} {count}"), format!("loop {what} {count}"));
        let ending = |rank: u32| ENDINGS[(rank as usize + trial) % ENDINGS.len()];
        let list = |rank| acts(&["join-env", &first, &repeated, ending(rank)]);
        let mut ranks = start(on, &carriers[trial / 2 % carriers.len()], list);
        for rank in &mut ranks {
            rank.did("join-env");
            rank.did(&first);
        }
        std::thread::sleep(Duration::from_micros(random(8_000)));
        // Rank 0, too: then the server is gone, and what survivors tell each other is all.
        let victim = random(ranks.len() as u64) as usize;
        let pid = format!("(pid {}", ranks[victim].pid());
        let killed = now_ns();
        ranks[victim].kill();
        let mut took = 0;
        for (r, rank) in ranks.iter_mut().enumerate().filter(|&(r, _)| r != victim) {
            match rank.try_next() {
                Some(Said::Failed(said)) if said.code == REMOTE && said.sentence.contains(&pid) => {
                    took = took.max(said.returned.saturating_sub(killed.max(said.entered)));
                }
                said => wrong.push(format!(
                    "{what} {count} on {on:?}, trial {trial}: rank {r} says {said:?}, rank {victim} {pid})"
                )),
            }
        }
        last.push(took);
    }
    last.sort_unstable();
    let ms = |share: usize| last[(last.len() * share / 100).min(last.len() - 1)] as f64 / 1e6;
    println!(
        "kills_beside_the_server: {} trials, last survivor p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
        last.len(),
        ms(50),
        ms(99),
        ms(100)
    );
    assert!(wrong.is_empty(), "{} complaints:\n{}", wrong.len(), wrong.join("\n"));
}
