//! The threads' queues: which messages each has to receive, in which order.
//!
//! ```text
//!     entry    slot << 1 | lap         lap: 1 on a queue's first way round its positions, then 0, 1, ...
//!
//!     sender                                    receiver, at its own position
//!     lock                                      entry of this lap there?            no: nothing has come
//!     for each addressed thread:                count in the slot's word?           no: not committed yet
//!         entry at its tail; tail += 1          position += 1; the message is its
//!     count to the slot's word    (commit)
//!     unlock
//! ```
//!
//! A queue has at least as many positions as there are slots, and a slot is in a queue once at most, so no queue ever
//! overflows. All senders to a mailbox insert one after another, and that is what gives the order: a sender's messages come as
//! it sent them, and any two receivers see the messages that they have in common in the same order. The lock is held for as
//! long as the entries take, never during a copy. What it costs is one exchange a message, where entries without it would need
//! one for each addressed thread: 64 for a message to all.

use super::planted::{PlantedSite, order};
use crate::memory::mailbox::MailboxWords;
use crate::sync::prim::model::{AtomicU32, Ordering};
use crate::types::Rank;

impl MailboxWords<'_> {
    /// Takes the lock for inserting, if it is free.
    pub(super) fn try_lock(&self, rank: Rank) -> bool {
        let lock = &self.head.lock;
        // ORDER: partner of the store in `unlock`.
        let acquire = order(PlantedSite::Lock, Ordering::Acquire);
        lock.load(Ordering::Relaxed) == 0
            && lock.compare_exchange(0, rank + 1, acquire, Ordering::Relaxed).is_ok()
    }

    /// Lets others insert.
    pub(super) fn unlock(&self) {
        // ORDER: publishes tails and entries to the next holder; partner: `try_lock`.
        self.head.lock.store(0, order(PlantedSite::Unlock, Ordering::Release));
    }

    /// Returns the rank that inserts now.
    pub(super) fn holder(&self) -> Option<Rank> {
        self.head.lock.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Puts a filled slot in the queue of each thread of the mask, and commits it. By the holder of the lock; every bit of the
    /// mask is a thread's.
    pub(super) fn insert(&self, slot: u32, mask: u64, bytes: u64) {
        let count = mask.count_ones();
        if super::planted::is(PlantedSite::Early) {
            self.commit(slot, count);
        }
        let mut left = mask;
        // BOUND: a bit less each time.
        while left != 0 {
            let thread = left.trailing_zeros();
            left &= left - 1;
            let tail = &self.tails[thread as usize];
            let at = tail.load(Ordering::Relaxed);
            // ORDER: who sees the entry sees a slot that is free or newer, never the count of the message that it held
            // before; partner: `head`.
            self.entry(thread, at)
                .store(slot << 1 | self.lap(at), order(PlantedSite::Entry, Ordering::Release));
            die_point!(103 "mail_entry");
            tail.store(at.wrapping_add(1), Ordering::Relaxed);
            die_point!(104 "mail_tail");
        }
        if !super::planted::is(PlantedSite::Early) {
            self.commit(slot, count);
        }
        die_point!(105 "mail_committed");
        let add = |counter: &super::Counter, more: u64| {
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        };
        add(&self.head.messages, 1);
        add(&self.head.deliveries, count as u64);
        add(&self.head.bytes, bytes);
    }

    /// Returns the slot of the message at a thread's position, if one has come.
    pub(super) fn head(&self, thread: u32, position: u32) -> Option<u32> {
        // ORDER: partner of the store in `insert`.
        let entry = self.entry(thread, position).load(order(PlantedSite::SeeEntry, Ordering::Acquire));
        let slot = entry >> 1;
        (entry & 1 == self.lap(position) && self.committed(slot)).then_some(slot)
    }

    fn entry(&self, thread: u32, position: u32) -> &AtomicU32 {
        let row = (position & (self.capacity - 1)) as usize;
        &self.entries[row * self.stride as usize + thread as usize]
    }

    fn lap(&self, position: u32) -> u32 {
        !(position / self.capacity) & 1
    }
}
