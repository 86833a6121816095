//! Ranks that disagree on the root: often no rank notices within the call, and yet all ranks are told.

use super::*;
use crate::algorithms;
use crate::memory::control::DEPTH;
use crate::plan::RankView;
use crate::tests::collectives::on_ranks_with;
use crate::tests::fabric::on_machine;
use std::sync::Barrier;

const ROOTED: [Collective; 4] =
    [Collective::Broadcast, Collective::Reduce, Collective::Gather, Collective::Scatter];
/// The number of calls after which all ranks have been told.
const SOON: usize = DEPTH + 1;

fn shape(collective: Collective, count: usize, root: u32) -> Shape {
    Shape { collective, count, dtype: DataType::Int32, op: RedOp::Sum, root: root as i32 }
}

/// What the errors of several calls said, one after the other.
#[derive(Default)]
struct Told(String);

impl Told {
    fn hear(&mut self, ended: Result<()>) {
        if let Err(e) = ended {
            assert_eq!(e.code, Code::InvalidUsage, "{e}");
            self.0 += &e.message;
            self.0.push('\n');
        }
    }
    /// Both sides of one disagreement.
    fn has(&self, a: &Shape, b: &Shape) -> bool {
        self.0.contains(&a.text()) && self.0.contains(&b.text()) && self.0.contains("disagree")
    }
}

/// The algorithms that serve a collective with any of two roots.
fn algorithms(n: u32, collective: Collective) -> impl Iterator<Item = &'static str> {
    algorithms::ALL
        .iter()
        .filter(move |a| (0..n).all(|root| a.refuses(&RankView::flat(collective, 0, n, root)).is_none()))
        .map(|a| a.name)
}

fn pairs(n: u32) -> impl Iterator<Item = (Rank, Rank)> + Clone {
    (0..n * n).map(move |i| (i / n, i % n)).filter(|(a, b)| a != b)
}

#[test]
fn every_disagreement_on_the_root_is_told_to_every_rank_by_rooted_calls_alone() {
    for (n, heap) in [(2, false), (2, true), (3, false), (3, true), (4, false), (5, false), (8, false)] {
        for collective in ROOTED {
            for algo in algorithms(n, collective) {
                on_ranks_with(n, &format!("{collective}:{algo}"), |me, comm| {
                    let mut memory = Memory::new(heap);
                    // Of 8 ranks a fifth of the pairs, in which each rank is either root: a pair takes hundreds of calls.
                    for (i, (a, b)) in pairs(n).step_by(if n < 8 { 1 } else { 5 }).enumerate() {
                        // One rank alone takes itself for the root, or every other one has another root.
                        let odd = if i % 2 == 0 { me == b } else { me % 2 == 1 };
                        let count = [3, 700, 5000][i % 3];
                        let [first, second] = [a, b].map(|root| shape(collective, count, root));
                        let mut told = Told::default();
                        told.hear(memory.call(comm, if odd { &second } else { &first }));
                        for _ in 0..SOON {
                            told.hear(memory.call(comm, &first));
                        }
                        let what = format!("{algo} {collective}, roots {a} and {b} of {n}, rank {me}");
                        assert!(told.has(&first, &second), "{what} is told `{}`", told.0);
                        // It is over then, and told once.
                        assert_eq!(told.0.matches("ranks disagree").count(), 1, "{what}: {}", told.0);
                        memory.call(comm, &first).unwrap_or_else(|e| panic!("{what}, long after: {e}"));
                    }
                    memory.all_reduce_is_right(comm, n, 100).unwrap();
                });
            }
        }
    }
}

#[test]
fn a_loop_of_broadcasts_does_not_outlive_a_disagreement() {
    for (n, count) in [(2, 1), (3, 30), (4, 3000)] {
        on_ranks(n, |me, comm| {
            let mut memory = Memory::new(me % 2 == 0);
            let usual = shape(Collective::Broadcast, count, 0);
            let odd = shape(Collective::Broadcast, count, n - 1);
            for at in [100, 302, 2003] {
                let mut told = Told::default();
                for call in 0..at + 2 * SOON {
                    let mine = if call == at && me == n - 1 { &odd } else { &usual };
                    told.hear(memory.call(comm, mine));
                    if call == at + SOON {
                        assert!(told.has(&usual, &odd), "rank {me} of {n}: {}", told.0);
                    }
                }
                assert_eq!(told.0.matches("ranks disagree").count(), 1, "rank {me} of {n}: {}", told.0);
            }
        });
    }
}

#[test]
fn of_several_disagreements_in_a_row_each_is_told() {
    for n in [2, 3, 5] {
        for algo in ["", "tree"] {
            on_ranks_with(n, algo, |me, comm| {
                let mut memory = Memory::new(false);
                for (i, (a, b)) in pairs(n).cycle().take(32).enumerate() {
                    let collective = if algo.is_empty() { ROOTED[i % 4] } else { Collective::Broadcast };
                    let between = [0, 1, 3, 6][i / 4 % 4];
                    let usual = shape(collective, 8, a);
                    let right = shape(collective, 7, a);
                    // The third undoes what the first did, in a hash that only adds.
                    let odd: Vec<Shape> = [b, a, b].map(|root| shape(collective, 8, root)).to_vec();
                    let others: Vec<Shape> = [a, b, a].map(|root| shape(collective, 8, root)).to_vec();
                    let mut told = Told::default();
                    for (odd, other) in odd.iter().zip(&others) {
                        told.hear(memory.call(comm, if me == b { odd } else { other }));
                        for _ in 0..between {
                            told.hear(memory.call(comm, &right));
                        }
                    }
                    for _ in 0..SOON {
                        told.hear(memory.call(comm, &right));
                    }
                    let what =
                        format!("{algo} {collective}, {a} and {b} of {n}, {between} between, rank {me}");
                    assert!(told.has(&usual, &odd[0]), "{what}: {}", told.0);
                    assert_eq!(told.0.matches("in call #").count(), 3, "{what}: {}", told.0);
                }
                memory.all_reduce_is_right(comm, n, 100).unwrap();
            });
        }
    }
}

#[test]
fn the_end_tells_what_no_call_could_tell() {
    for n in [2, 3, 6] {
        for collective in ROOTED {
            for (calls_after, finalize) in [(0, false), (0, true), (3, false), (3, true)] {
                let id = comm::unique_id().unwrap();
                let all_called = Barrier::new(n as usize);
                std::thread::scope(|scope| {
                    for me in 0..n {
                        let all_called = &all_called;
                        scope.spawn(move || {
                            let config = comm::Config { timeout_ms: Some(60_000), ..comm::Config::default() };
                            let comm = comm::init_rank(n as i32, &id, me as i32, &config).unwrap();
                            let mut memory = Memory::new(false);
                            let (usual, odd) = (shape(collective, 5, 0), shape(collective, 5, n - 1));
                            let mut told = Told::default();
                            told.hear(memory.call(comm, if me == n - 1 { &odd } else { &usual }));
                            for _ in 0..calls_after {
                                told.hear(memory.call(comm, &usual));
                            }
                            all_called.wait();
                            if finalize {
                                told.hear(comm::finalize(comm));
                                assert!(told.has(&usual, &odd), "{collective} of {n}, rank {me}: {}", told.0);
                            }
                            told.hear(comm::destroy(comm));
                            assert!(told.has(&usual, &odd), "{collective} of {n}, rank {me}: {}", told.0);
                            assert_eq!(told.0.matches("ranks disagree").count(), 1, "{}", told.0);
                            // It is gone all the same.
                            assert_eq!(comm::count(comm).unwrap_err().code, Code::InvalidArgument);
                        });
                    }
                });
            }
        }
    }
}

#[test]
fn the_last_to_end_is_told_whatever_the_others_have_seen() {
    let id = comm::unique_id().unwrap();
    let gone = Barrier::new(2);
    std::thread::scope(|scope| {
        for me in 0..2 {
            let gone = &gone;
            scope.spawn(move || {
                let comm = comm::init_rank(2, &id, me, &comm::Config::default()).unwrap();
                let mut memory = Memory::new(false);
                if me == 1 {
                    gone.wait();
                }
                let mine = shape(Collective::Broadcast, 5, me as u32);
                memory.call(comm, &mine).unwrap();
                let ended = comm::destroy(comm);
                if me == 0 {
                    // No other rank has made the call yet, and this one waits for none.
                    ended.unwrap();
                    gone.wait();
                    return;
                }
                let mut told = Told::default();
                told.hear(ended);
                assert!(told.has(&mine, &shape(Collective::Broadcast, 5, 0)), "{}", told.0);
            });
        }
    });
}

#[test]
fn ranks_on_a_declared_machine_are_told_as_well() {
    for n in [2, 3] {
        on_machine(n, "dgx-h100", "virtual", "", |me, comm| {
            let mut memory = Memory::new(false);
            let (usual, odd) = (shape(Collective::Broadcast, 5, 0), shape(Collective::Broadcast, 5, n - 1));
            let mut told = Told::default();
            told.hear(memory.call(comm, if me == n - 1 { &odd } else { &usual }));
            for _ in 0..SOON {
                told.hear(memory.call(comm, &usual));
            }
            assert!(told.has(&usual, &odd), "rank {me} of {n}: {}", told.0);
            memory.all_reduce_is_right(comm, n, 100).unwrap();
        });
    }
}
