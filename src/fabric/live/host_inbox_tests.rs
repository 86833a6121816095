//! Messages between hosts that come late, in another order, or when a rank has just left.

use super::super::clock_segment::FREE;
use super::super::hosts::tests::{Told, connected, half, pass, slow, unconnected};
use super::Participant;
use crate::error::{Error, Result};
use crate::sync::lock::Mutex;
use crate::sync::prim::Ordering;
use crate::sys::clock;
use crate::types::Rank;
use std::collections::VecDeque;
use std::sync::Arc;

/// Ranks whose messages lie in a letter box for each until the test has a rank hear them.
struct Mail {
    all: Vec<Arc<Participant>>,
    boxes: Arc<Vec<Mutex<VecDeque<Told>>>>,
}

impl Mail {
    fn new(first_of: &[Rank]) -> Mail {
        let all = unconnected(first_of, 0);
        let boxes: Arc<Vec<Mutex<VecDeque<Told>>>> =
            Arc::new(first_of.iter().map(|_| Mutex::default()).collect());
        for (from, participant) in (0..).zip(&all) {
            let boxes = boxes.clone();
            participant.connect(Box::new(move |bytes| {
                for (_, letters) in (0..).zip(boxes.iter()).filter(|&(rank, _)| rank != from) {
                    letters.lock().push_back(Told::Message { from, bytes: bytes.to_vec() });
                }
                Ok(())
            }));
        }
        Mail { all, boxes }
    }

    /// Takes what has come for a rank.
    fn take(&self, rank: Rank) -> Vec<Told> {
        self.boxes[rank as usize].lock().drain(..).collect()
    }

    /// Has a rank hear all that has come for it.
    fn deliver(&self, rank: Rank) {
        self.take(rank).iter().for_each(|told| told.is_heard_by(&self.all[rank as usize]));
    }

    /// A rank leaves, and the others will hear it.
    fn leave(&self, rank: Rank) {
        self.all[rank as usize].depart();
        for (_, letters) in (0..).zip(self.boxes.iter()).filter(|&(other, _)| other != rank) {
            letters.lock().push_back(Told::Left(rank));
        }
    }
}

/// Waits for a call that a rank has posted, whose answer has come or will not.
fn end(participant: &Participant, posted: super::super::PendingCall) -> Result<u64> {
    let hangs = || Error::timeout(format!("rank {} hangs", participant.place()));
    participant.leave(posted, clock::now_ns() + 10_000_000_000, || Ok(()), hangs)
}

#[test]
fn an_answer_is_taken_in_although_the_first_rank_of_the_host_leaves_before_it_hears_it() {
    let mail = Mail::new(&[0, 1, 1]);
    let [zero, one, two] = [0, 1, 2].map(|rank: usize| &*mail.all[rank]);
    let gives_up = one.enter(&[half(false, 0, 1, 1, 64)], None).unwrap();
    let waits = two.enter(&[half(false, 0, 2, 2, 64)], None).unwrap();
    let sent = zero.enter(&[half(true, 0, 1, 1, 64), half(true, 0, 2, 2, 64)], None).unwrap();
    mail.deliver(0);
    end(zero, sent).unwrap();
    mail.deliver(2);
    one.withdraw(gives_up);
    mail.leave(1);
    mail.deliver(2);
    assert!(end(two, waits).unwrap() > 0);
}

#[test]
fn a_message_that_the_first_rank_has_taken_in_before_it_left_is_not_taken_in_again() {
    let mail = Mail::new(&[0, 0, 2]);
    let [zero, one, two] = [0, 1, 2].map(|rank: usize| &*mail.all[rank]);
    let sent = two.enter(&[half(true, 2, 1, 1, 64)], None).unwrap();
    let received = one.enter(&[half(false, 2, 1, 1, 64)], None).unwrap();
    mail.deliver(0);
    mail.leave(0);
    end(one, received).unwrap();
    mail.deliver(2);
    end(two, sent).unwrap();
    mail.deliver(1);
    assert_eq!(zero.clock_segment().tickets(2)[0].state.load(Ordering::Acquire), FREE);
}

#[test]
fn a_message_that_overtakes_another_of_its_host_waits_for_it() {
    let mail = Mail::new(&[0, 1]);
    let [zero, one] = [0, 1].map(|rank: usize| &*mail.all[rank]);
    let received = zero.enter(&[half(false, 1, 0, 1, 64)], None).unwrap();
    let sent = one.enter(&[half(true, 1, 0, 1, 64)], None).unwrap();
    let told = mail.take(0);
    assert!(told.len() > 1, "the call, and that the host rests");
    told.iter().rev().for_each(|told| told.is_heard_by(zero));
    end(zero, received).unwrap();
    mail.deliver(1);
    end(one, sent).unwrap();
}

#[test]
fn a_call_that_is_withdrawn_before_it_is_told_does_not_stand() {
    let mail = Mail::new(&[0, 1, 1]);
    let [zero, one, two] = [0, 1, 2].map(|rank: usize| &*mail.all[rank]);
    let given_up = one.enter(&[half(true, 1, 0, 1, 1 << 30)], None).unwrap();
    let turn = one.clock_segment().tickets(1)[0].turn.load(Ordering::Relaxed);
    one.tell_withdrawn(0, turn);
    // The posts are told behind it, as by a process that had found them standing.
    let waits = two.enter(&[half(true, 2, 0, 2, 64)], None).unwrap();
    mail.deliver(0);
    assert_eq!(zero.clock_segment().tickets(1)[0].state.load(Ordering::Acquire), FREE);
    one.withdraw(given_up);
    two.withdraw(waits);
}

/// Six ranks of three hosts pass messages in a ring; then some leave, and those that remain go on. When each was done with each.
fn play(first_of: &[Rank], leaving: &[Rank], before: impl Fn() + Copy + Send + 'static) -> Vec<Vec<u64>> {
    let n = first_of.len() as Rank;
    let (all, senders) = connected(unconnected(first_of, 0), before);
    let staying: Vec<Rank> = (0..n).filter(|rank| !leaving.contains(rank)).collect();
    let ring = |ranks: &[Rank], me: Rank, round: u64| {
        let at = ranks.iter().position(|&rank| rank == me).unwrap();
        let (to, from) = (ranks[(at + 1) % ranks.len()], ranks[(at + ranks.len() - 1) % ranks.len()]);
        let key = |from: Rank| round << 16 | u64::from(from);
        let bytes = |from: Rank| 1000 * (1 + u64::from(from) * 7 + round);
        pass(
            &all[me as usize],
            &[half(true, me, to, key(me), bytes(me)), half(false, from, me, key(from), bytes(from))],
        )
        .unwrap()
    };
    let everyone: Vec<Rank> = (0..n).collect();
    let of_rank = |me: Rank| {
        let mut exits: Vec<u64> = (0..3).map(|round| ring(&everyone, me, round)).collect();
        if leaving.contains(&me) {
            all[me as usize].depart();
            let others = (0..).zip(&senders).filter(|&(rank, _)| rank != me);
            others.for_each(|(_, sender)| drop(sender.send(Told::Left(me))));
        } else {
            exits.extend((3..20).map(|round| ring(&staying, me, round)));
        }
        exits
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = everyone.iter().map(|&me| scope.spawn(move || of_rank(me))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn ranks_go_on_when_the_first_of_each_host_leaves() {
    for leaving in [&[0, 2, 4][..], &[2, 4], &[0, 3], &[2, 3]] {
        let expected = play(&[0; 6], leaving, || {});
        for time in 0..12 {
            let found = play(&[0, 0, 2, 2, 4, 4], leaving, slow);
            assert_eq!(found, expected, "{leaving:?} leave, time {time}");
        }
    }
}
