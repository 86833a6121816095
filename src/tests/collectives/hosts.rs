//! The collectives over ranks of several hosts: threads whose links delay and reorder frames from a seed, or are libfabric's over
//! loopback.

use super::{AbortUnlessDone, Case, every_case, run};
use crate::algorithms::{self, Algorithm};
use crate::comm::{self, CommHandle, Transfer};
use crate::error::{Code, Result};
use crate::memory::view::Address;
use crate::plan::RankView;
use crate::sync::prim::{AtomicBool, Ordering};
use crate::sys::endpoint::Carrier;
use crate::transport::Transport;
use crate::transport::in_process::{Delivery, transports};
use crate::transport::net_link::testing::{self, Loopback, Unattended, Writes};
use crate::types::{Collective, DataType, Rank};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// What connects hosts.
#[derive(Clone, Copy, Debug)]
pub enum Between {
    /// The in-process engine, with frames reordered from this seed.
    Seed(u64),
    /// TCP or libfabric.
    Loopback(&'static Carrier, Writes),
}

/// Each seed, TCP, and libfabric if there is one.
pub fn ways(seeds: Range<u64>) -> Vec<Between> {
    let mut ways: Vec<_> = seeds.map(Between::Seed).collect();
    for carrier in testing::carriers() {
        let by = |writes| Between::Loopback(carrier, writes);
        ways.extend([Writes::WithTrailers, Writes::Alone, Writes::ByTwoRails].map(by));
    }
    ways
}

/// Ends a rank's process, as far as others see.
type Kill = Box<dyn Fn(Rank) + Send + Sync>;

/// The transports of ranks on hosts as `hosts` says by rank, and what ends one.
pub fn connect(hosts: &[u32], between: Between, timeout_ms: u64) -> (Vec<Arc<Transport>>, Kill) {
    match between {
        Between::Seed(seed) => {
            let delivery = if seed % 2 == 0 { Delivery::Lent(seed) } else { Delivery::Reordered(seed) };
            let (transports, network) = transports(hosts, delivery, timeout_ms);
            (transports, Box::new(move |rank| network.kill(rank)))
        }
        Between::Loopback(carrier, writes) => {
            let loopback = Loopback::new(hosts, carrier, writes, timeout_ms);
            (loopback.transports.clone(), Box::new(move |rank| loopback.kill(rank)))
        }
    }
}

/// Runs `work` on each rank, on hosts as `hosts` says by rank. It is given what ends the process of a rank, as far as others see.
fn on_hosts(
    hosts: &[u32],
    between: Between,
    algo: &str,
    work: impl Fn(Rank, CommHandle, &(dyn Fn(Rank) + Sync)) -> Result<()> + Sync,
) -> Vec<Result<()>> {
    let (transports, kill) = connect(hosts, between, 60_000);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if matches!(between, Between::Seed(_)) {
            let (all, over) = (transports.clone(), &over);
            scope.spawn(move || attend(&all, over));
        }
        let ranks = transports.into_iter().map(|t| {
            let (work, kill) = (&work, &kill);
            scope.spawn(move || {
                let rank = t.rank();
                let handle = comm::over(t, algo).unwrap();
                let mut ended = AbortUnlessDone { handle, done: false };
                let told = work(rank, handle, &**kill);
                ended.done = true;
                let destroyed = comm::destroy(handle);
                told.and(destroyed)
            })
        });
        let ranks: Vec<_> = ranks.collect();
        let ended: Vec<_> = ranks.into_iter().map(|rank| rank.join()).collect();
        over.store(true, Ordering::Release);
        ended.into_iter().map(|ended| ended.expect("a rank's thread")).collect()
    })
}

/// Polls the links of ranks that are elsewhere, as the attendants of links over libfabric do.
pub fn attend(transports: &[Arc<Transport>], over: &AtomicBool) {
    // BOUND: the ranks' ends.
    while !over.load(Ordering::Acquire) {
        transports.iter().for_each(|t| t.poll_far());
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Runs `work` on `n` ranks of one host, then on as many of two hosts and of three.
pub fn everywhere(n: u32, work: impl Fn(Rank, CommHandle) + Sync) {
    super::on_ranks(n, &work);
    on_some_hosts(n, ways(0..1), &work);
}

/// The same where communicators are made from others, for which libfabric is needed.
pub fn everywhere_with_children(n: u32, work: impl Fn(Rank, CommHandle) + Sync) {
    super::on_ranks(n, &work);
    on_some_hosts(n, ways(0..0), &work);
}

fn on_some_hosts(n: u32, ways: Vec<Between>, work: &(impl Fn(Rank, CommHandle) + Sync)) {
    for several in 2..=n.min(3) {
        let hosts: Vec<u32> = (0..n).map(|rank| rank % several).collect();
        for &between in &ways {
            println!("hosts {hosts:?}, {between:?}");
            let told = on_hosts(&hosts, between, "", |me, comm, _| {
                work(me, comm);
                Ok(())
            });
            told.into_iter().for_each(|told| told.unwrap());
        }
    }
}

fn all_right(
    hosts: &[u32],
    between: Between,
    algo: &str,
    counts: &[usize],
    served: impl Fn(Collective) -> bool + Sync,
) {
    let n = hosts.len() as u32;
    let told = on_hosts(hosts, between, algo, |me, comm, _| {
        every_case(n, counts, |case| {
            if served(case.collective) {
                run(case, n, me, comm);
            }
        });
        Ok(())
    });
    told.into_iter().for_each(|told| told.unwrap());
}

#[test]
fn automatic_choice_is_right_over_hosts() {
    for hosts in [&[0, 1][..], &[0, 1, 0], &[0, 0, 1, 1], &[0, 1, 2], &[2, 0, 1, 1]] {
        for between in ways(0..2) {
            all_right(hosts, between, "", &[1, 300, 20_001], |_| true);
        }
    }
}

#[test]
fn every_algorithm_is_right_over_hosts() {
    for (seed, hosts) in (0..).zip([&[0, 1, 0][..], &[0, 1, 1, 2]]) {
        let n = hosts.len() as u32;
        for &algorithm in algorithms::ALL {
            let serves = |c: Collective, algorithm: &Algorithm| {
                let roots = if c.rooted() { vec![0, n - 1] } else { vec![0] };
                roots.into_iter().all(|root| algorithm.refuses(&RankView::flat(c, 0, n, root)).is_none())
            };
            for between in ways(seed..seed + 1) {
                all_right(hosts, between, algorithm.name, &[1, 9001], |c| serves(c, algorithm));
            }
        }
    }
}

#[test]
fn a_death_ends_a_collective_on_every_host() {
    for (i, between) in ways(0..10).into_iter().enumerate() {
        let told = on_hosts(&[0, 0, 1, 2], between, "", |me, comm, kill| {
            let case = |count| Case {
                collective: Collective::AllReduce,
                root: 0,
                count,
                heap: false,
                in_place: false,
            };
            super::outcome(&case(5000), 4, me, comm)?;
            if me == 2 {
                kill(2);
                return Ok(());
            }
            super::outcome(&case(if i % 2 == 0 { 1 } else { 20_000 }), 4, me, comm)
        });
        for (rank, told) in told.into_iter().enumerate().filter(|(rank, _)| *rank != 2) {
            let e = told.expect_err("a call without rank 2");
            assert!(e.code == Code::RemoteError && e.message.contains("rank 2"), "rank {rank}: {e}");
        }
    }
}

#[test]
fn a_disagreement_is_told_on_every_host() {
    for between in ways(0..10) {
        let told = on_hosts(&[0, 1, 1], between, "", |me, comm, _| {
            let count = if me == 1 { 301 } else { 300 };
            let case =
                Case { collective: Collective::AllReduce, root: 0, count, heap: false, in_place: false };
            super::outcome(&case, 3, me, comm)
        });
        for told in told {
            let e = told.expect_err("ranks disagree");
            assert!(e.code == Code::InvalidUsage && e.message.contains("rank 1 passed"), "{e}");
        }
    }
}

/// One half of a message of bytes.
fn half(send: bool, peer: usize, bytes: &mut [u8]) -> Transfer<'_> {
    let (count, dtype) = (bytes.len(), DataType::Uint8);
    Transfer { send, buffer: Address::of_mut(bytes), count, dtype, peer: peer as i32, of_collective: false }
}

/// The bytes of a message from one rank to another.
fn message(from: Rank, to: Rank, bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 11) as u8 ^ (from * 16 + to) as u8).collect()
}

#[test]
fn messages_of_all_sizes_pass_between_hosts() {
    for between in ways(0..4) {
        let told = on_hosts(&[0, 1, 1, 2], between, "", |me, comm, _| {
            for bytes in [0usize, 7, 8, 40, 256, 8192, 8200, 65_536, 300_000] {
                let mut received: Vec<_> = (0..4).map(|_| vec![0u8; bytes]).collect();
                let mut sent: Vec<_> = (0..4).map(|to| message(me, to, bytes)).collect();
                let others = (0..4).filter(|&peer| peer != me as usize);
                let mut both: Vec<Transfer<'_>> = Vec::new();
                for (peer, (sent, received)) in sent.iter_mut().zip(&mut received).enumerate() {
                    if others.clone().any(|other| other == peer) {
                        both.extend([half(true, peer, sent), half(false, peer, received)]);
                    }
                }
                comm::transfers_now(comm, &both)?;
                for peer in others {
                    assert!(
                        received[peer] == message(peer as Rank, me, bytes),
                        "{bytes} bytes from {peer} to {me}"
                    );
                }
            }
            Ok(())
        });
        told.into_iter().for_each(|told| told.unwrap());
    }
}

#[test]
fn a_message_of_another_host_that_is_received_otherwise_is_told_to_both_ends() {
    for between in ways(0..4) {
        let told = on_hosts(&[0, 1], between, "", |me, comm, _| {
            // More than the ring takes, so that the sender is still in its call.
            let mut bytes = vec![1u8; 300_000];
            let count = if me == 0 { 300_000 } else { 7 };
            let told = comm::transfer_now(comm, &half(me == 0, 1 - me as usize, &mut bytes[..count]));
            // The slots of the message that was refused serve those that follow.
            for bytes in [300_000, 40_000, 9] {
                let expected = message(0, 1, bytes);
                let mut bytes = if me == 0 { expected.clone() } else { vec![0; bytes] };
                comm::transfer_now(comm, &half(me == 0, 1 - me as usize, &mut bytes))?;
                assert!(bytes == expected, "{} bytes after a refusal", bytes.len());
            }
            told
        });
        for told in told {
            let e = told.expect_err("the ends disagree");
            assert!(e.code == Code::InvalidUsage && e.message.contains("rank 0 sends (count 300000"), "{e}");
        }
    }
}

#[test]
fn a_receiver_of_broadcasts_answers_several_at_once() {
    for carrier in testing::carriers() {
        const CALLS: u64 = 5;
        let ranks = Unattended::new(&[0, 1], carrier);
        let comms: Vec<_> = ranks.transports.iter().map(|t| comm::over(t.clone(), "").unwrap()).collect();
        let broadcast = |me: Rank| {
            let case =
                Case { collective: Collective::Broadcast, root: 0, count: 2, heap: false, in_place: false };
            run(&case, 2, me, comms[me as usize]);
        };
        (0..CALLS).for_each(|_| broadcast(0));
        ranks.until(|t| t.has_arrived(0, CALLS));
        (0..CALLS).for_each(|_| broadcast(1));
        assert!(ranks.links[1].held_for(0) > 0, "its arrivals travel together");
        ranks.until(|t| t.has_arrived(1, CALLS));
        assert_eq!(ranks.links[1].held_for(0), 0);
        comms.into_iter().for_each(|comm| comm::abort(comm).unwrap());
    }
}
