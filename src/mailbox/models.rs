//! The protocols themselves under loom (`RUSTFLAGS="--cfg loom"`): every interleaving of a few threads.
//!
//! What runs here is the library's code over words that loom watches, and payload that loom knows to be written or read. Each
//! model is run as it is, and then once for each line that can be broken (`planted.rs`): then it must fail.

use super::planted::{PlantedSite, plant};
use crate::memory::mailbox::{MailboxHeader, MailboxWords, Slot};
use crate::sync::prim::model::{AtomicU32, Ordering};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A mailbox whose payload is one word a slot.
struct Shelf {
    head: MailboxHeader,
    slots: Vec<Slot>,
    tails: Vec<AtomicU32>,
    entries: Vec<AtomicU32>,
    payload: Vec<UnsafeCell<u64>>,
}

const STRIDE: usize = 2;

impl Shelf {
    fn new(slots: usize) -> Shelf {
        let capacity = slots.next_power_of_two();
        let shelf = Shelf {
            head: MailboxHeader::default(),
            slots: (0..slots).map(|_| Slot::default()).collect(),
            tails: (0..STRIDE).map(|_| AtomicU32::new(0)).collect(),
            entries: (0..capacity * STRIDE).map(|_| AtomicU32::new(0)).collect(),
            payload: (0..slots).map(|_| UnsafeCell::new(0)).collect(),
        };
        shelf.words().prepare();
        shelf
    }

    fn words(&self) -> MailboxWords<'_> {
        MailboxWords {
            head: &self.head,
            slots: &self.slots,
            tails: &self.tails,
            entries: &self.entries,
            capacity: self.slots.len().next_power_of_two() as u32,
            stride: STRIDE as u32,
        }
    }

    fn write(&self, slot: u32, value: u64) {
        // SAFETY: loom checks that no other thread reads or writes meanwhile: that is what the models are for.
        self.payload[slot as usize].with_mut(|p| unsafe { *p = value });
    }
    fn read(&self, slot: u32) -> u64 {
        // SAFETY: loom checks that no other thread writes meanwhile.
        self.payload[slot as usize].with(|p| unsafe { *p })
    }

    /// Send, as `Mailboxes::multicast` does where it need not wait.
    fn send(&self, mask: u64, value: u64) {
        let words = self.words();
        let slot = words.claim().expect("a free slot");
        self.write(slot, value);
        // BOUND: the other thread of the model unlocks.
        while !words.try_lock(0) {
            thread::yield_now();
        }
        words.insert(slot, mask, 0);
        words.unlock();
    }

    /// Receives and frees what is at a position, if it has come.
    fn receive(&self, thread: u32, position: u32) -> Option<u64> {
        let slot = self.words().head(thread, position)?;
        let value = self.read(slot);
        self.words().release(slot).expect("a count");
        Some(value)
    }

    fn await_message(&self, thread: u32, position: u32) -> u64 {
        // BOUND: the other thread of the model sends it.
        loop {
            if let Some(value) = self.receive(thread, position) {
                return value;
            }
            thread::yield_now();
        }
    }
}

/// The model holds as it is, and fails with each of these lines broken.
fn prove(sites: &[PlantedSite], model: impl Fn() + Send + Sync + Clone + 'static) {
    let run = |site: Option<PlantedSite>| {
        plant(site);
        let model = model.clone();
        let ended = catch_unwind(AssertUnwindSafe(move || {
            let mut builder = loom::model::Builder::new();
            builder.preemption_bound = Some(4);
            builder.check(model);
        }));
        plant(None);
        ended.is_ok()
    };
    assert!(run(None), "the model fails as it is");
    for &site in sites {
        assert!(!run(Some(site)), "nothing notices that {site:?} is broken");
    }
}

#[test]
fn model_a_slot_has_one_owner_at_a_time() {
    prove(&[PlantedSite::Claim, PlantedSite::GiveBack, PlantedSite::Tag], || {
        let shelf = Arc::new(Shelf::new(2));
        let theirs = shelf.clone();
        let other = thread::spawn(move || {
            // Takes both, and gives the first back with a new link.
            let words = theirs.words();
            let (a, b) = (words.claim(), words.claim());
            for slot in [a, b].into_iter().flatten() {
                theirs.write(slot, 1);
            }
            a.into_iter().for_each(|slot| words.give_back(slot));
            b.into_iter().for_each(|slot| {
                theirs.write(slot, 2);
                words.give_back(slot);
            });
        });
        let words = shelf.words();
        let mine: Vec<u32> = [words.claim(), words.claim()].into_iter().flatten().collect();
        for &slot in &mine {
            shelf.write(slot, 3);
        }
        mine.into_iter().for_each(|slot| words.give_back(slot));
        other.join().unwrap();
        assert_eq!(words.free_slots(), 2);
        let all = [words.claim(), words.claim(), words.claim()];
        assert!(all[0] != all[1] && all[1].is_some() && all[2].is_none());
    });
}

#[test]
fn model_a_message_comes_whole_and_to_all_or_to_none_yet() {
    prove(&[PlantedSite::Commit, PlantedSite::Committed, PlantedSite::Early], || {
        let shelf = Arc::new(Shelf::new(1));
        let theirs = shelf.clone();
        let sender = thread::spawn(move || theirs.send(0b11, 7));
        let words = shelf.words();
        // In this order: a reader that has the second entry has both.
        if let Some(slot) = words.head(0, 0) {
            assert_eq!(shelf.read(slot), 7);
            assert_eq!(words.head(1, 0), Some(slot), "one of two receivers has it");
        }
        sender.join().unwrap();
        assert!(words.head(0, 0).is_some() && words.head(1, 0).is_some());
    });
}

#[test]
fn model_an_entry_never_shows_the_message_that_was_in_its_slot_before() {
    prove(&[PlantedSite::Entry, PlantedSite::SeeEntry], || {
        let shelf = Arc::new(Shelf::new(1));
        let theirs = shelf.clone();
        let sender = thread::spawn(move || {
            theirs.send(0b01, 1);
            assert_eq!(theirs.receive(0, 0), Some(1));
            theirs.send(0b10, 2);
        });
        if let Some(value) = shelf.receive(1, 0) {
            assert_eq!(value, 2);
        }
        sender.join().unwrap();
    });
}

#[test]
fn model_two_senders_lose_nothing_and_all_receivers_see_one_order() {
    prove(&[PlantedSite::Lock, PlantedSite::Unlock], || {
        let shelf = Arc::new(Shelf::new(2));
        let theirs = shelf.clone();
        let sender = thread::spawn(move || theirs.send(0b11, 1));
        shelf.send(0b11, 2);
        sender.join().unwrap();
        let words = shelf.words();
        let order = |thread| [0, 1].map(|position| words.head(thread, position).map(|slot| shelf.read(slot)));
        assert!(matches!(order(0), [Some(1), Some(2)] | [Some(2), Some(1)]), "{:?}", order(0));
        assert_eq!(order(0), order(1));
    });
}

#[test]
fn model_a_slot_is_written_again_only_after_its_last_reader() {
    prove(&[PlantedSite::Release], || {
        let shelf = Arc::new(Shelf::new(1));
        shelf.send(0b11, 1);
        let theirs = shelf.clone();
        let receiver = thread::spawn(move || assert_eq!(theirs.receive(1, 0), Some(1)));
        assert_eq!(shelf.receive(0, 0), Some(1));
        // Once both have read the message, the next one may overwrite it.
        if let Some(slot) = shelf.words().claim() {
            shelf.write(slot, 2);
        }
        receiver.join().unwrap();
    });
}

#[test]
fn model_messages_of_a_sender_come_in_order_through_a_queue_that_goes_round() {
    prove(&[], || {
        let shelf = Arc::new(Shelf::new(1));
        let theirs = shelf.clone();
        let receiver = thread::spawn(move || {
            for position in 0..2 {
                assert_eq!(theirs.await_message(0, position), position as u64);
            }
        });
        for value in 0..2 {
            // BOUND: the receiver frees the only slot.
            while !shelf.words().has_free() {
                thread::yield_now();
            }
            shelf.send(0b01, value);
        }
        receiver.join().unwrap();
    });
}

/// Two mailboxes of one thread each.
struct Pair {
    boxes: [Shelf; 2],
    /// What each thread has written by the end of the round.
    work: [UnsafeCell<u64>; 2],
}

impl Pair {
    fn new() -> Pair {
        Pair { boxes: [Shelf::new(1), Shelf::new(1)], work: [UnsafeCell::new(0), UnsafeCell::new(0)] }
    }

    fn all_free(&self) -> bool {
        self.boxes.iter().all(|shelf| {
            let free = shelf.words().free_slots() == 1;
            // Between two looks anything may happen; loom does not come upon that by itself.
            thread::yield_now();
            free
        })
    }

    /// `Mailboxes::idle`, round after round of messages until there is a verdict. What a message asks for is done by `work`.
    fn idle(&self, me: usize, vote: bool, mut work: impl FnMut(u64)) -> bool {
        let counts = &self.boxes[0].head;
        let mut position = 0;
        // BOUND: the other thread comes to be idle, too.
        loop {
            let entered = counts.enter(vote);
            counts.conclude(entered, 2, 0, || self.all_free(), || 0);
            let mine = &self.boxes[me];
            // BOUND: as above.
            while counts.verdict(0).is_none() && mine.words().head(0, position).is_none() {
                thread::yield_now();
            }
            if let Some(all_true) = counts.verdict(0) {
                return all_true;
            }
            assert!(counts.leave(vote, 0), "a round ended while a message was here");
            work(mine.receive(0, position).expect("a message"));
            position += 1;
        }
    }
}

#[test]
fn model_idle_is_found_and_never_while_a_message_is_under_way() {
    prove(&[PlantedSite::Version, PlantedSite::EnterIdle], || {
        let pair = Arc::new(Pair::new());
        let enter = |pair: &Pair| {
            let counts = &pair.boxes[0].head;
            let entered = counts.enter(true);
            counts.conclude(entered, 2, 0, || pair.all_free(), || 0)
        };
        // Thread 1 is idle when a message comes to it, which it answers before it frees it.
        pair.boxes[1].send(1, 5);
        assert!(!enter(&pair));
        let theirs = pair.clone();
        let other = thread::spawn(move || {
            assert!(theirs.boxes[0].head.leave(true, 0), "too early: a message is here");
            let slot = theirs.boxes[1].words().head(0, 0).expect("it was there from the start");
            assert_eq!(theirs.boxes[1].read(slot), 5);
            theirs.boxes[0].send(1, 6);
            theirs.boxes[1].words().release(slot);
            enter(&theirs);
        });
        // Thread 0 looks at its own mailbox before the answer is sent, perhaps, and at the other after all is done.
        assert!(!enter(&pair), "too early: the answer was under way");
        let early = pair.boxes[0].words().head(0, 0).is_some();
        if early {
            assert!(pair.boxes[0].head.leave(true, 0), "too early: the answer was here");
            assert_eq!(pair.boxes[0].receive(0, 0), Some(6));
            enter(&pair);
        }
        other.join().unwrap();
        assert_eq!(
            pair.boxes[0].head.verdict(0),
            early.then_some(true),
            "found once the answer has been freed"
        );
    });
}

#[test]
fn model_votes_are_counted_and_who_learns_the_verdict_sees_all_work() {
    prove(&[PlantedSite::Verdict, PlantedSite::EnterIdle], || {
        let pair = Arc::new(Pair::new());
        let part = |pair: &Pair, me: usize| {
            // SAFETY: loom checks that no other thread reads meanwhile.
            pair.work[me].with_mut(|p| unsafe { *p = 1 });
            assert!(!pair.idle(me, me == 0, |_| ()), "one has voted false");
            // SAFETY: loom checks that no other thread writes meanwhile.
            pair.work[1 - me].with(|p| unsafe { assert_eq!(*p, 1) });
        };
        let theirs = pair.clone();
        let other = thread::spawn(move || part(&theirs, 1));
        part(&pair, 0);
        other.join().unwrap();
        assert_eq!(pair.boxes[0].head.idlers(), 0, "the next round begins with nobody");
        assert_eq!(pair.boxes[0].head.census.0.load(Ordering::Relaxed) >> 34 & 1, 1);
    });
}
