//! Sending.

use super::set::{AwaitedRanks, Mailboxes};
use crate::error::{Error, Result};
use crate::kernels;
use crate::memory::mailbox::{FLIT, MailboxShape};
use crate::recorder::{self, Recorded};
use crate::sync::prim::model::Ordering;
use crate::types::Rank;

/// A message that is being sent: who sends it and how long it is.
#[derive(Clone, Copy)]
pub(super) struct Letter {
    pub thread: u32,
    pub flits: u32,
    /// The word of a programmed key for its receivers; 0 without a key.
    pub local_key: u32,
}

impl Mailboxes {
    /// Sends what a thread has written to its send slot to every thread of `dest`'s mailbox whose bit is set. Waits while that
    /// mailbox is full. The send slot may be written again when this returns.
    #[inline]
    pub fn multicast(&self, dest: i32, mask: u64, send_slot: usize) -> Result<()> {
        let _recorded = recorder::record(|d| self.describe_message(d, send_slot, &[(dest as Rank, mask)]));
        let thread = self.sender(send_slot)?;
        let (dest, shape) = self.dest(dest)?;
        check_mask(dest, shape, mask)?;
        let (thread, guard) = self.sit(thread)?;
        let letter = Letter { thread, flits: guard.flits(), local_key: 0 };
        let slot = self.claim(thread, dest)?;
        die_point!(100 "mail_claimed");
        self.fill(letter, dest, slot).inspect_err(|_| self.give_back(dest, slot))?;
        die_point!(101 "mail_filled");
        self.carry(letter, [(dest, mask)].into_iter()).inspect_err(|_| self.give_back(dest, slot))?;
        self.deliver(letter, dest, slot, mask)?;
        guard.count_sent();
        Ok(())
    }

    /// Sends, or returns false and does nothing if `dest`'s mailbox is full. Use it in a thread that must receive for
    /// other threads to make progress.
    #[inline]
    pub fn try_multicast(&self, dest: i32, mask: u64, send_slot: usize) -> Result<bool> {
        let recorded = recorder::record(|d| self.describe_message(d, send_slot, &[(dest as Rank, mask)]));
        let sent = self.multicast_or_leave(dest, mask, send_slot);
        if !matches!(sent, Ok(true)) {
            recorded.into_iter().for_each(Recorded::forget);
        }
        sent
    }

    #[inline]
    fn multicast_or_leave(&self, dest: i32, mask: u64, send_slot: usize) -> Result<bool> {
        let thread = self.sender(send_slot)?;
        let (dest, shape) = self.dest(dest)?;
        check_mask(dest, shape, mask)?;
        let (thread, guard) = self.sit(thread)?;
        let letter = Letter { thread, flits: guard.flits(), local_key: 0 };
        let Some(slot) = self.try_claim(dest)? else {
            if guard.in_vain() {
                self.looked_in_vain()?;
            }
            return Ok(false);
        };
        self.fill(letter, dest, slot).inspect_err(|_| self.give_back(dest, slot))?;
        self.carry(letter, [(dest, mask)].into_iter()).inspect_err(|_| self.give_back(dest, slot))?;
        self.deliver(letter, dest, slot, mask)?;
        guard.count_sent();
        Ok(true)
    }

    /// Tells whether a message to `dest` could be sent without waiting now; other senders may take the slot first.
    pub fn can_send(&self, thread: i32, dest: i32) -> Result<bool> {
        let (dest, _) = self.dest(dest)?;
        let (_, guard) = self.sit(thread)?;
        let free = self.has_free(dest)?;
        if !free && guard.in_vain() {
            self.looked_in_vain()?;
        }
        Ok(free)
    }

    /// Returns the thread whose send slot this is.
    #[inline]
    pub(super) fn sender(&self, send_slot: usize) -> Result<i32> {
        let thread = self.mine().sender_at(send_slot);
        thread.map(|thread| thread as i32).ok_or_else(|| {
            Error::argument(format!(
                "slot {send_slot:#x} is no send slot of rank {}'s mailbox; pass what pennyMailboxSendSlot gave",
                self.rank()
            ))
        })
    }

    /// Returns a free slot of `dest`'s mailbox.
    #[inline]
    fn claim(&self, thread: u32, dest: Rank) -> Result<u32> {
        match self.try_claim(dest)? {
            Some(slot) => Ok(slot),
            None => self.wait_for_slot(thread, dest),
        }
    }

    /// Returns a free slot of `dest`'s mailbox, if there is one now.
    #[inline]
    pub(super) fn try_claim(&self, dest: Rank) -> Result<Option<u32>> {
        if self.is_far(dest) { self.claim_far(dest) } else { Ok(self.words(dest).claim()) }
    }

    /// Has `dest`'s mailbox a free slot now?
    pub(super) fn has_free(&self, dest: Rank) -> Result<bool> {
        if self.is_far(dest) { Ok(self.free_far(dest)? > 0) } else { Ok(self.words(dest).has_free()) }
    }

    /// Waits for one.
    #[cold]
    pub(super) fn wait_for_slot(&self, thread: u32, dest: Rank) -> Result<u32> {
        let mut claimed = Ok(None);
        let mut looks = self.looks_at(dest);
        let ready = || {
            if looks.now() {
                claimed = self.try_claim(dest);
            }
            !matches!(claimed, Ok(None))
        };
        let what = || {
            let slots = self.told[dest as usize].1.slots;
            let what = format!(
                "a free slot of rank {dest}'s mailbox (its threads do not receive and free the {slots} messages in it)"
            );
            AwaitedRanks::of(dest, what)
        };
        self.announced(thread, dest, || self.wait(thread, ready, || self.able(dest), what))?;
        claimed?.ok_or_else(|| Error::internal("a wait for a slot ended without one"))
    }

    /// Checks that `dest` lives, so that slots of its mailbox can still become free.
    pub(super) fn able(&self, dest: Rank) -> Result<()> {
        self.transport.watch_hope()?;
        self.transport.check_ranks(Some(dest).filter(|&r| r != self.rank()).into_iter())
    }

    /// Lets who frees slots of `dest`'s mailbox know, during `wait`, that this thread waits for one.
    pub(super) fn announced<T>(&self, thread: u32, dest: Rank, wait: impl FnOnce() -> T) -> T {
        if self.is_far(dest) {
            return wait();
        }
        let (bit, block) = (1 << thread, self.block(dest));
        let mine = &block.waiting()[self.rank() as usize];
        mine.fetch_or(bit, Ordering::Relaxed);
        // ORDER: comes before the fence in `Bell::prepare`, and that before the last look; partner: `slot_freed`.
        block.words().head.waiting.0.fetch_add(1, Ordering::Relaxed);
        die_point!(108 "mail_waits");
        let ended = wait();
        block.words().head.waiting.0.fetch_sub(1, Ordering::Relaxed);
        mine.fetch_and(!bit, Ordering::Relaxed);
        ended
    }

    /// Copies a thread's message to a claimed slot.
    #[inline]
    pub(super) fn fill(&self, letter: Letter, dest: Rank, slot: u32) -> Result<()> {
        let bytes = letter.flits as usize * FLIT;
        let message = self.mine().send_slot(letter.thread, bytes);
        if self.is_far(dest) {
            return self.fill_far(dest, slot, message);
        }
        let block = self.block(dest);
        kernels::copy(block.payload(slot, bytes), message, false);
        let line = &block.words().slots[slot as usize];
        line.source.store((self.rank() as u64) << 32 | letter.thread as u64, Ordering::Relaxed);
        line.flits.store(letter.flits, Ordering::Relaxed);
        line.local_key.store(letter.local_key, Ordering::Relaxed);
        Ok(())
    }

    /// Puts a filled slot in the queues, and wakes who sleeps for it.
    #[inline]
    pub(super) fn deliver(&self, letter: Letter, dest: Rank, slot: u32, mask: u64) -> Result<()> {
        if self.is_far(dest) {
            return self.deliver_far(letter, dest, slot, mask);
        }
        let words = self.words(dest);
        if !words.try_lock(self.rank()) {
            self.wait_for_turn(letter.thread, dest).inspect_err(|_| self.give_back(dest, slot))?;
        }
        die_point!(102 "mail_locked");
        words.insert(slot, mask, letter.flits as u64 * FLIT as u64);
        die_point!(106 "mail_counted");
        words.unlock();
        die_point!(107 "mail_unlocked");
        if words.head.sleepers.after_post() {
            self.ring(dest, mask);
        }
        self.stored(dest);
        Ok(())
    }

    /// Inserts for ever, as a rank that is stopped there.
    #[cfg(test)]
    pub(crate) fn hold_turn(&self, dest: Rank) {
        assert!(self.words(dest).try_lock(self.rank()));
    }

    #[cold]
    fn wait_for_turn(&self, thread: u32, dest: Rank) -> Result<()> {
        let words = self.words(dest);
        let what = || match words.holder() {
            Some(rank) if rank < self.transport.nranks() => {
                AwaitedRanks::of(rank, format!("its turn at rank {dest}'s mailbox, which rank {rank} holds"))
            }
            _ => AwaitedRanks::of_all(format!("its turn at rank {dest}'s mailbox")),
        };
        // The end of a turn wakes no thread, and a declared machine knows nothing of turns.
        self.wait_here(thread, || words.try_lock(self.rank()), || self.transport.watch_hope(), what)
    }

    /// Rings threads of a mailbox, if they sleep.
    #[cold]
    pub(super) fn ring(&self, rank: Rank, mask: u64) {
        let block = self.block(rank);
        for thread in (0..block.shape().threads).filter(|thread| mask >> thread & 1 == 1) {
            #[cfg(not(loom))]
            block.doorbell(thread).ring();
            #[cfg(loom)]
            let _ = thread;
        }
    }

    /// Gives back a slot that was claimed but not used.
    pub(super) fn give_back(&self, dest: Rank, slot: u32) {
        if self.is_far(dest) {
            return self.give_back_far(dest, slot);
        }
        self.words(dest).give_back(slot);
        self.slot_freed(dest);
    }

    /// Wakes the threads that wait for a free slot of a mailbox.
    #[inline]
    pub(super) fn slot_freed(&self, rank: Rank) {
        let head = self.words(rank).head;
        // ORDER: the slot is free before; partner: the fence in `Bell::prepare`, after `announced`.
        crate::sync::prim::model::fence(Ordering::SeqCst);
        if head.waiting.0.load(Ordering::Relaxed) != 0 {
            self.ring_waiting(rank);
        }
    }

    #[cold]
    fn ring_waiting(&self, full: Rank) {
        for (rank, waiting) in (0..).zip(self.block(full).waiting()) {
            let mask = waiting.load(Ordering::Relaxed);
            if mask != 0 && !self.is_far(rank) {
                self.ring(rank, mask);
                self.stored(rank);
            }
        }
    }
}

/// Checks that a mask names at least one thread of a mailbox, and no thread that it does not have.
#[inline]
pub(super) fn check_mask(dest: Rank, shape: &MailboxShape, mask: u64) -> Result<()> {
    let threads = shape.threads;
    if mask == 0 {
        return Err(Error::argument(format!(
            "the mask is empty; set the bit of at least one of the {threads} threads of rank {dest}'s mailbox"
        )));
    }
    let most = u64::BITS - mask.leading_zeros();
    if most > threads {
        return Err(Error::argument(format!(
            "the mask {mask:#x} has bit {}; rank {dest}'s mailbox has threads 0..{threads}",
            most - 1
        )));
    }
    Ok(())
}
