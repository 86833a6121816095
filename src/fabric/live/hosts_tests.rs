//! Ranks of several hosts, each host with a clock segment of its own, and a thread for each rank that hears what others tell.

use super::super::clock_segment::{ClockSegment, FREE};
use super::super::{CallSpec, Clock, HostNews, Machine, Post, What};
use super::Participant;
use crate::error::{Error, Result};
use crate::plan::{Plan, RankView};
use crate::sync::prim::{AtomicU64, Ordering};
use crate::sys::clock;
use crate::topology::open;
use crate::types::Rank;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};

fn no_programs(_: u8, _: &RankView) -> Result<Vec<Plan>> {
    panic!("a program that cannot be written")
}

/// The participants of ranks on hosts as `first_of` tells by rank.
fn ranks(first_of: &[Rank]) -> Vec<Arc<Participant>> {
    ranks_with(first_of, 0)
}

/// What a rank hears.
#[derive(Clone)]
pub enum Told {
    Message { from: Rank, bytes: Vec<u8> },
    Left(Rank),
}

impl Told {
    pub fn is_heard_by(&self, participant: &Participant) {
        participant.hear(&match self {
            Told::Message { from, bytes } => HostNews::Message { from: *from, bytes },
            Told::Left(rank) => HostNews::Left(*rank),
        });
    }
}

/// The participants of ranks on hosts, which nothing connects.
pub fn unconnected(first_of: &[Rank], grace_ns: u64) -> Vec<Arc<Participant>> {
    let network = Arc::new(open("dgx-h100:nodes=2").unwrap());
    let (n, ports) = (first_of.len() as u32, network.ports.len() as u32);
    let machine = Machine { network, spec: String::new(), clock: Clock::Virtual, grace_ns };
    let mut all: Vec<Participant> = Vec::new();
    for (rank, &first) in (0..).zip(first_of) {
        all.push(if first == rank {
            Participant::found(machine.clone(), first_of, rank, no_programs).unwrap()
        } else {
            let file = all[first as usize].clock_segment().file().unwrap().try_clone().unwrap();
            let segment = ClockSegment::open(file, n, ports).unwrap();
            Participant::join(segment, machine.clone(), first_of, rank, no_programs).unwrap()
        });
    }
    all.into_iter().map(Arc::new).collect()
}

/// The same with a grace period.
fn ranks_with(first_of: &[Rank], grace_ns: u64) -> Vec<Arc<Participant>> {
    connected(unconnected(first_of, grace_ns), || {}).0
}

/// Connects participants by a thread for each, which calls `before` each time that it hears something. With them, by which ranks are told.
pub fn connected(
    all: Vec<Arc<Participant>>,
    before: impl Fn() + Copy + Send + 'static,
) -> (Vec<Arc<Participant>>, Vec<Sender<Told>>) {
    let senders: Vec<Sender<Told>> = all.iter().map(|participant| listener(participant, before)).collect();
    for (from, participant) in (0..).zip(&all) {
        let others = (0..).zip(&senders).filter(|&(rank, _)| rank != from);
        let others: Vec<_> = others.map(|(_, sender)| sender.clone()).collect();
        participant.connect(Box::new(move |bytes| {
            let told = Told::Message { from, bytes: bytes.to_vec() };
            others.iter().for_each(|other| drop(other.send(told.clone())));
            Ok(())
        }));
    }
    (all, senders)
}

/// Takes its time, by chance, as a process that is slow to hear.
pub fn slow() {
    static CHANCE: AtomicU64 = AtomicU64::new(0);
    let word = CHANCE.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..word >> 58).for_each(|_| std::thread::yield_now());
}

/// A thread that hears for a rank, until nobody is left who could tell it something.
fn listener(participant: &Arc<Participant>, before: impl Fn() + Send + 'static) -> Sender<Told> {
    let (sender, receiver) = channel::<Told>();
    let participant: Weak<Participant> = Arc::downgrade(participant);
    std::thread::spawn(move || {
        for told in receiver {
            let Some(participant) = participant.upgrade() else { return };
            before();
            told.is_heard_by(&participant);
        }
    });
    sender
}

/// One half of a transfer.
pub fn half(send: bool, from: Rank, to: Rank, key: u64, count: u64) -> Post {
    let spec = CallSpec::plain(What::Transfer { from, to }, count, 1, 0);
    Post { comm: 0, key, spec, member: !send as u32, members: 2 }
}

/// Posts and waits. The deadline only turns a hang into a failure.
pub fn pass(participant: &Participant, posts: &[Post]) -> Result<u64> {
    let waiting = participant.enter(posts, None)?;
    let hangs = || Error::timeout(format!("rank {} hangs", participant.place()));
    participant.leave(waiting, clock::now_ns() + 60_000_000_000, || Ok(()), hangs)
}

/// Has all ranks play, each on a thread. Returns their times, the hash over all calls, and how many entered late.
fn play_all(
    all: &[Arc<Participant>],
    play: impl Fn(&Participant) -> Vec<u64> + Sync,
) -> (Vec<Vec<u64>>, [u64; 2]) {
    let times = std::thread::scope(|scope| {
        let threads: Vec<_> = all.iter().map(|participant| scope.spawn(|| play(participant))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let stats = all[0].clock_stats();
    (times, [stats.trace, stats.late])
}

/// When each rank was done with each of some groups of transfers, the hash over all calls, and how many entered late.
fn exits(first_of: &[Rank]) -> (Vec<Vec<u64>>, [u64; 2]) {
    let (all, n) = (ranks(first_of), first_of.len() as Rank);
    let play = |participant: &Participant| {
        let me = participant.place();
        let round = |round: u64| {
            let by = 1 + (round as Rank) % (n - 1);
            let (to, from) = ((me + by) % n, (me + n - by) % n);
            // A group of many transfers does not fit one message.
            let transfers = if round == 5 { 60 } else { 1 };
            let group = (0..transfers).flat_map(|i| {
                let key = |from: Rank| round << 32 | u64::from(from) << 16 | i;
                let bytes = |from: Rank| 1000 * (1 + u64::from(from) * 7 + round * i);
                [half(true, me, to, key(me), bytes(me)), half(false, from, me, key(from), bytes(from))]
            });
            pass(participant, &Vec::from_iter(group)).unwrap()
        };
        (0..40).map(round).collect::<Vec<u64>>()
    };
    play_all(&all, play)
}

#[test]
fn ranks_of_several_hosts_are_done_when_those_of_one_host_are() {
    let expected = exits(&[0; 6]);
    for hosts in [[0, 0, 0, 3, 3, 3], [0, 1, 0, 1, 0, 1], [0, 0, 2, 3, 3, 2], [0, 1, 2, 3, 4, 5]] {
        assert_eq!(exits(&hosts), expected, "{hosts:?}");
    }
}

/// When each rank's stores to others' words were made, and when it had waited for as many to its own.
fn stores(first_of: &[Rank], before: impl Fn() + Copy + Send + 'static) -> (Vec<Vec<u64>>, [u64; 2]) {
    let (all, n) = (connected(unconnected(first_of, 0), before).0, first_of.len() as Rank);
    let words: Vec<AtomicU64> = first_of.iter().map(|_| AtomicU64::new(0)).collect();
    let play = |participant: &Participant| {
        let me = participant.place();
        let hangs = || Error::timeout(format!("rank {me} hangs"));
        let deadline_ns = clock::now_ns() + 60_000_000_000;
        participant.serve_exactly();
        let round = |round: u64| {
            let to = (me + 1 + (round as Rank) % (n - 1)) % n;
            let bytes = 1000 * (1 + u64::from(me) * 7 + round);
            let arrived =
                participant.put_all(&[[me, to]], bytes, None, deadline_ns, || Ok(()), hangs).unwrap();
            words[to as usize].fetch_add(1, Ordering::AcqRel);
            participant.stored(to);
            let at_ps = arrived.at_ps;
            drop(arrived);
            let come = || words[me as usize].load(Ordering::Acquire) > round;
            participant.await_store(come, deadline_ns, || Ok(()), hangs, String::new).unwrap();
            [at_ps, participant.clock_ps()]
        };
        let times: Vec<u64> = (0..30).flat_map(round).collect();
        // None ends before all are done.
        let spec = CallSpec::plain(What::Meeting, 0, 0, 0);
        pass(participant, &[Post { comm: 1, key: 0, spec, member: me, members: n }]).unwrap();
        times
    };
    play_all(&all, play)
}

#[test]
fn stores_to_ranks_of_other_hosts_are_in_the_order_of_the_machines_time() {
    let expected = stores(&[0; 6], || {});
    assert_eq!(expected.1[1], 0, "late entries");
    for hosts in [[0, 0, 0, 3, 3, 3], [0, 1, 0, 1, 0, 1], [0, 0, 2, 3, 3, 2], [0, 1, 2, 3, 4, 5]] {
        for time in 0..4 {
            assert_eq!(stores(&hosts, slow), expected, "{hosts:?}, time {time}");
        }
    }
}

#[test]
fn a_host_that_is_told_of_a_store_as_it_leaves_does_not_hold_the_clock() {
    for is_told_after in [true, false] {
        let mut all = ranks(&[0, 1, 2]);
        // Its rank hears nothing any more.
        let left = all.pop().unwrap();
        left.depart();
        if is_told_after {
            all[0].hear(&HostNews::Left(2));
        }
        all[0].stored(2);
        if !is_told_after {
            all[0].hear(&HostNews::Left(2));
        }
        std::thread::scope(|scope| {
            scope.spawn(|| pass(&all[0], &[half(true, 0, 1, 1, 64)]).unwrap());
            assert!(pass(&all[1], &[half(false, 0, 1, 1, 64)]).unwrap() > 0);
        });
    }
}

#[test]
fn what_a_thread_of_a_program_knows_is_known_on_all_hosts_when_it_goes_on() {
    let all = connected(unconnected(&[0, 1, 1, 3], 0), slow).0;
    for (ps, from) in [(5000, 1), (6000, 0), (7000, 3), (7000, 0), (9000, 2)] {
        all[from].tell_known(ps);
        for other in all.iter().filter(|other| !other.is_here(from as Rank)) {
            let known_ps = other.clock_segment().header().known_ps.load(Ordering::Acquire);
            assert!(known_ps >= ps, "rank {}: {known_ps} after rank {from} knew {ps}", other.place());
        }
    }
}

#[test]
fn a_death_ends_the_waits_of_all_hosts() {
    let all = ranks(&[0, 1, 2]);
    std::thread::scope(|scope| {
        let waits = all[..2].iter().map(|participant| {
            scope.spawn(|| {
                let me = participant.place();
                pass(participant, &[half(true, me, 2, u64::from(me), 64)]).unwrap_err()
            })
        });
        let waits: Vec<_> = waits.collect();
        all[..2].iter().for_each(|participant| participant.hear(&HostNews::Death(2)));
        for wait in waits {
            let told = wait.join().unwrap();
            assert!(told.message.contains("rank 2") && told.message.contains("died"), "{told}");
        }
    });
}

#[test]
fn a_host_whose_ranks_have_left_does_not_hold_the_clock() {
    let mut all = ranks(&[0, 1, 2]);
    // Without a word of its own.
    let left = all.pop().unwrap();
    all.iter().for_each(|participant| participant.hear(&HostNews::Left(2)));
    std::thread::scope(|scope| {
        scope.spawn(|| pass(&all[0], &[half(true, 0, 1, 1, 64)]).unwrap());
        assert!(pass(&all[1], &[half(false, 0, 1, 1, 64)]).unwrap() > 0);
    });
    drop(left);
}

#[test]
fn who_waits_for_an_engine_that_is_gone_is_told() {
    let all = ranks(&[0, 1]);
    all[1].hear(&HostNews::Left(0));
    let told = pass(&all[1], &[half(true, 1, 0, 1, 64)]).unwrap_err();
    assert!(told.message.contains("host of rank 0"), "{told}");
    let all = ranks(&[0, 1]);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| pass(&all[1], &[half(true, 1, 0, 1, 64)]).unwrap_err());
        all[1].hear(&HostNews::Silence);
        assert!(waits.join().unwrap().message.contains("host of rank 0"));
    });
}

#[test]
fn a_call_that_was_withdrawn_is_not_served_in_place_of_the_next() {
    let all = ranks(&[0, 1]);
    let given_up = all[1].enter(&[half(true, 1, 0, 1, 1 << 30)], None).unwrap();
    let known = &all[0].clock_segment().tickets(1)[0];
    // BOUND: the listener of rank 0.
    while known.state.load(Ordering::Acquire) == FREE {
        std::thread::yield_now();
    }
    all[1].withdraw(given_up);
    std::thread::scope(|scope| {
        scope.spawn(|| pass(&all[0], &[half(false, 1, 0, 2, 64)]).unwrap());
        let exit_ps = pass(&all[1], &[half(true, 1, 0, 2, 64)]).unwrap();
        assert!(exit_ps < 1_000_000_000, "{exit_ps} is that of a gigabyte");
    });
    assert!(!all[1].has_engine() && all[0].has_engine() && all[1].is_across_hosts());
}

#[test]
fn a_thread_that_stays_away_on_another_host_does_not_hold_the_clock_for_ever() {
    let all = ranks_with(&[0, 0, 2], 1_000_000);
    std::thread::scope(|scope| {
        let both = [half(true, 0, 1, 1, 64), half(false, 0, 1, 1, 64)];
        let waits = [0, 1].map(|rank: usize| {
            scope.spawn({
                let all = &all;
                move || pass(&all[rank], &both[rank..=rank]).unwrap()
            })
        });
        // Rank 2 does not call. What the lifeline does where it hears nothing.
        // BOUND: the grace period.
        while !waits.iter().all(|wait| wait.is_finished()) {
            all[0].hear(&HostNews::Nothing);
            std::thread::yield_now();
        }
    });
    assert_eq!(all[2].clock_ps(), 0);
}
