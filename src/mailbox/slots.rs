//! The life of a slot: claimed, filled, committed, freed by each of its receivers, free again.
//!
//! ```text
//!     word of a slot    1 | ....... | count          in use: `count` threads still have to free it
//!                       0 | depth   | 1 + next       free: the next free slot (0: none), and how many there are from here on
//!     head's `free`     tag         | 1 + first      tag: bumped whenever a slot is taken
//! ```
//!
//! Count and link are never needed at the same time, so they share a word. Free slots are a stack. A thread that takes the first
//! slot has read its link before. Meanwhile another thread may have taken the slot, sent it and freed it again, with a new link;
//! the tag then differs. It has 44 bits: at ten million messages a second it takes twenty days to repeat.
//!
//! The store of the count is what commits a message: until then its receivers find a link behind the entries of their queues.

use super::planted::{PlantedSite, order};
use crate::memory::mailbox::{MailboxWords, Slot};
use crate::sync::prim::model::Ordering;

/// The bit of a slot's word that marks a count instead of a link.
const IN_USE: u64 = 1 << 63;
const DEPTH: u32 = 32;
const LINK: u64 = (1 << DEPTH) - 1;
/// The bits of the head's word that hold the first slot.
const FIRST: u64 = (1 << 20) - 1;
const TAG: u64 = FIRST + 1;

/// Returns the number of free slots in the list from one with this word on, itself included.
fn depth(word: u64) -> u64 {
    (word & !IN_USE) >> DEPTH
}

impl MailboxWords<'_> {
    /// Puts all slots on the free list, before another rank knows of the mailbox.
    pub(super) fn prepare(&self) {
        let n = self.slots.len() as u64;
        for (i, slot) in (0..).zip(self.slots) {
            let next = if i + 1 < n { i + 2 } else { 0 };
            slot.word.store((n - i) << DEPTH | next, Ordering::Relaxed);
        }
        self.head.free.0.store(1, Ordering::Release);
    }

    /// Returns a slot; `None` if none is free.
    pub(super) fn claim(&self) -> Option<u32> {
        let free = &self.head.free.0;
        // ORDER: who frees stores the link, and has read the payload, before; partner: `give_back`.
        let mut first = free.load(order(PlantedSite::Claim, Ordering::Acquire));
        // BOUND: a retry means that another thread has taken or freed a slot.
        loop {
            let slot = ((first & FIRST) as u32).checked_sub(1)?;
            let next = self.slots.get(slot as usize)?.word.load(Ordering::Relaxed) & LINK & FIRST;
            let tag = if super::planted::is(PlantedSite::Tag) { 0 } else { TAG };
            let after = (first & !FIRST).wrapping_add(tag) | next;
            let acquire = order(PlantedSite::Claim, Ordering::Acquire);
            match free.compare_exchange(first, after, acquire, acquire) {
                Ok(_) => return Some(slot),
                Err(now) => first = now,
            }
        }
    }

    /// Frees a slot: its last receiver has freed it, or it was claimed but not used.
    pub(super) fn give_back(&self, slot: u32) {
        let free = &self.head.free.0;
        let mut first = free.load(Ordering::Acquire);
        // BOUND: as in `claim`.
        loop {
            // If another thread takes the first slot meanwhile, the value read here may be anything, and the exchange fails.
            let below = self
                .nth((first & FIRST).wrapping_sub(1))
                .map_or(0, |s| depth(s.word.load(Ordering::Relaxed)));
            let link = (below + 1) << DEPTH & !IN_USE | first & FIRST;
            self.slots[slot as usize].word.store(link, Ordering::Relaxed);
            die_point!(111 "mail_link");
            let after = first & !FIRST | (slot as u64 + 1);
            // ORDER: publishes the link, and hands the payload over to the next sender; partner: `claim`.
            let release = order(PlantedSite::GiveBack, Ordering::AcqRel);
            match free.compare_exchange(first, after, release, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Commits the message for `count` receivers.
    pub(super) fn commit(&self, slot: u32, count: u32) {
        // ORDER: publishes payload and line; partner: `committed`.
        let release = order(PlantedSite::Commit, Ordering::Release);
        self.slots[slot as usize].word.store(IN_USE | count as u64, release);
    }

    /// Tells whether the message is committed.
    pub(super) fn committed(&self, slot: u32) -> bool {
        // ORDER: partner of the store in `commit`.
        let word =
            self.nth(slot as u64).map(|s| s.word.load(order(PlantedSite::Committed, Ordering::Acquire)));
        word.is_some_and(|word| word & IN_USE != 0)
    }

    /// Counts one receiver off. Returns whether it was the last, so that the slot is free; `None` if the word holds no
    /// count.
    pub(super) fn release(&self, slot: u32) -> Option<bool> {
        // ORDER: hands over what this receiver has read; partner: the last receiver's, which hands it on in `give_back`.
        let word = self.nth(slot as u64)?.word.fetch_sub(1, order(PlantedSite::Release, Ordering::AcqRel));
        match word.checked_sub(IN_USE) {
            None | Some(0) => None,
            Some(1) => {
                die_point!(110 "mail_released");
                self.give_back(slot);
                Some(true)
            }
            Some(_) => Some(false),
        }
    }

    /// Returns the number of free slots; it is exact if no thread takes or frees one meanwhile.
    pub(super) fn free_slots(&self) -> u32 {
        let first = self.head.free.0.load(Ordering::Acquire);
        let count =
            self.nth((first & FIRST).wrapping_sub(1)).map_or(0, |s| depth(s.word.load(Ordering::Relaxed)));
        count.min(self.slots.len() as u64) as u32
    }

    /// Tells whether a slot is free.
    pub(super) fn has_free(&self) -> bool {
        self.head.free.0.load(Ordering::Relaxed) & FIRST != 0
    }

    /// Returns a slot by a number that others wrote.
    fn nth(&self, slot: u64) -> Option<&Slot> {
        self.slots.get(usize::try_from(slot).ok()?)
    }
}
