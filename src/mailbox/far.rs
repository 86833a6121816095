//! Mailboxes of ranks on other hosts: their processes insert what this rank sends, and this one's inserts what they send.
//!
//! ```text
//!     rank 0 (host a)                                          rank 1's process (host b), where its mailbox is
//!     claims a slot      ---- Claim ------------------->       takes a free slot for rank 0, or has none
//!                        <--- its number ---------------
//!     copies, delivers   ---- Fill.., Deliver --------->       copies to the slot, and puts it in the queues
//! ```
//!
//! Slots that others have claimed are noted: what is not claimed by the rank that fills or delivers it is refused. A claimed slot is not free, so
//! no round of being idle ends while a message is under way. Who waits for a slot asks again at intervals ([`Looks`]).

use super::send::{Letter, check_mask};
use super::set::Mailboxes;
use crate::error::{Error, Result};
use crate::kernels;
use crate::memory::heap;
use crate::memory::mailbox::{CENSUS_AT, FLIT, MailboxMemory, MailboxShape};
use crate::memory::view::Payload;
use crate::sync::lock::Mutex;
use crate::sync::prim::model::Ordering;
use crate::sys::{clock, cpu};
use crate::transport::Transport;
use crate::transport::far_memory::Service;
use crate::transport::link::LARGEST_ACCESS;
use crate::types::Rank;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The time between two looks of a thread that waits for a slot on another host.
const LOOK_NS: u64 = 200_000;
/// How long a service waits for its turn at its own mailbox: a turn takes nanoseconds, unless a thread was stopped in it.
const TURN_NS: u64 = 2_000_000_000;

/// What is asked of a mailbox, in the low half of a request's first word; the slot is in the high half.
const CLAIM: u64 = 0;
const FILL: u64 = 1;
const DELIVER: u64 = 2;
const GIVE_BACK: u64 = 3;
const FREE: u64 = 4;
const IDLE: u64 = 5;
const VERDICT: u64 = 6;

/// When a thread looks again whether a mailbox has a free slot.
pub(super) struct Looks {
    is_far: bool,
    next_ns: u64,
}

impl Looks {
    /// Is it time to look?
    pub fn now(&mut self) -> bool {
        if !self.is_far {
            return true;
        }
        let now = clock::now_ns();
        let is_time = now >= self.next_ns;
        if is_time {
            self.next_ns = now + LOOK_NS;
        }
        is_time
    }
}

fn of_slot(act: u64, slot: u32) -> u64 {
    act | u64::from(slot) << 32
}

impl Mailboxes {
    pub(super) fn looks_at(&self, dest: Rank) -> Looks {
        Looks { is_far: self.is_far(dest), next_ns: 0 }
    }

    fn ask(&self, rank: Rank, act: u64) -> Result<u64> {
        self.transport.ask_far(rank, self.number, [act, 0, 0])
    }

    /// Returns a free slot of a far mailbox, if there is one.
    pub(super) fn claim_far(&self, dest: Rank) -> Result<Option<u32>> {
        Ok((self.ask(dest, CLAIM)? as u32).checked_sub(1))
    }

    /// Returns how many slots of a far mailbox are free.
    pub(super) fn free_far(&self, dest: Rank) -> Result<u32> {
        self.ask(dest, FREE).map(|free| free as u32)
    }

    /// Returns the threads of a far mailbox that are idle, a bit each.
    pub(super) fn idle_far(&self, rank: Rank) -> Result<u64> {
        self.ask(rank, IDLE)
    }

    /// Copies a message to a claimed slot of a far mailbox.
    pub(super) fn fill_far(&self, dest: Rank, slot: u32, message: Payload<'_>) -> Result<()> {
        for at in (0..message.bytes()).step_by(LARGEST_ACCESS) {
            let part = message.part(at, LARGEST_ACCESS.min(message.bytes() - at));
            let words = [of_slot(FILL, slot), at as u64, 0];
            self.transport.tell_far(dest, self.number, words, part, true)?;
        }
        Ok(())
    }

    /// Has a filled slot of a far mailbox put in the queues.
    pub(super) fn deliver_far(&self, letter: Letter, dest: Rank, slot: u32, mask: u64) -> Result<()> {
        let Letter { thread, flits, local_key } = letter;
        // Threads and flits are small: a mailbox has 64 threads, a message 4096 flits.
        let of_letter = u64::from(local_key) << 32 | u64::from(flits) << 8 | u64::from(thread);
        let words = [of_slot(DELIVER, slot), mask, of_letter];
        self.transport.tell_far(dest, self.number, words, Payload::EMPTY, false)
    }

    /// Gives back a slot of a far mailbox. If that cannot be told, the communicator has ended.
    pub(super) fn give_back_far(&self, dest: Rank, slot: u32) {
        let words = [of_slot(GIVE_BACK, slot), 0, 0];
        let _ = self.transport.tell_far(dest, self.number, words, Payload::EMPTY, false);
    }

    /// Tells a far rank that a round of being idle has ended.
    pub(super) fn end_round_far(&self, rank: Rank, verdict: u64) -> Result<()> {
        self.transport.tell_far(rank, self.number, [VERDICT, verdict, 0], Payload::EMPTY, false)
    }
}

/// A rank's mailbox, as it serves ranks of other hosts.
pub struct MailboxService {
    block: MailboxMemory,
    rank: Rank,
    ranks: u32,
    /// Slots that ranks of other hosts have claimed, with these ranks.
    claimed: Mutex<BTreeMap<u32, Rank>>,
}

impl MailboxService {
    /// Begins to serve a mailbox that [`prepare`](super::prepare) has made at an offset of this rank's heap. `number`: as in [`Mailboxes::new`].
    pub fn begin(t: &Transport, number: u64, offset: u64, shape: MailboxShape) -> Result<()> {
        if !t.has_far() {
            return Ok(());
        }
        let block = MailboxMemory::new(&*heap::own()?, offset, shape, t.rank())?;
        let claimed = Mutex::new(BTreeMap::new());
        t.serve(number, Arc::new(MailboxService { block, rank: t.rank(), ranks: t.nranks(), claimed }));
        t.open(offset + CENSUS_AT as u64, 8);
        Ok(())
    }

    /// Ends it.
    pub fn end(t: &Transport, number: u64, offset: u64) {
        t.stop_serving(number);
        t.shut(offset + CENSUS_AT as u64, 8);
    }

    fn faulty(&self, from: Rank) -> Error {
        Error::remote(format!(
            "rank {from} sends to the mailbox of rank {} what makes no sense; the rank or its network is faulty: make a new communicator",
            self.rank
        ))
    }

    /// Returns a slot that a rank has claimed.
    fn of(&self, from: Rank, slot: u64) -> Result<u32> {
        let slot = u32::try_from(slot).ok();
        slot.filter(|slot| self.claimed.lock().get(slot) == Some(&from)).ok_or_else(|| self.faulty(from))
    }

    /// Puts a slot in the queues, and wakes who sleeps for it.
    fn deliver(&self, from: Rank, slot: u32, mask: u64, of_letter: u64) -> Result<()> {
        let (shape, words) = (self.block.shape(), self.block.words());
        let (thread, flits) = (of_letter as u8, (of_letter as u32) >> 8);
        check_mask(self.rank, shape, mask).map_err(|_| self.faulty(from))?;
        if flits == 0 || flits > shape.slot_bytes / FLIT as u32 || from >= self.ranks {
            return Err(self.faulty(from));
        }
        let line = &words.slots[slot as usize];
        line.source.store(u64::from(from) << 32 | u64::from(thread), Ordering::Relaxed);
        line.flits.store(flits, Ordering::Relaxed);
        line.local_key.store((of_letter >> 32) as u32, Ordering::Relaxed);
        let deadline = clock::now_ns() + TURN_NS;
        // BOUND: the deadline.
        while !words.try_lock(self.rank) {
            if clock::now_ns() > deadline {
                let holder = words.holder().unwrap_or(self.rank);
                return Err(Error::remote(format!(
                    "rank {holder} has not finished its turn at the mailbox of rank {}; it was stopped, or died: make a new communicator",
                    self.rank
                )));
            }
            cpu::yield_now();
        }
        self.claimed.lock().remove(&slot);
        words.insert(slot, mask, u64::from(flits) * FLIT as u64);
        words.unlock();
        self.ring(mask);
        Ok(())
    }

    /// Rings threads of the mailbox, if they sleep.
    fn ring(&self, mask: u64) {
        if !self.block.words().head.sleepers.after_post() {
            return;
        }
        for thread in (0..self.block.shape().threads).filter(|thread| mask >> thread & 1 == 1) {
            #[cfg(not(loom))]
            self.block.doorbell(thread).ring();
            #[cfg(loom)]
            let _ = thread;
        }
    }
}

impl Service for MailboxService {
    fn serve(&self, from: Rank, [act, first, second]: [u64; 3], bytes: Payload<'_>) -> Result<u64> {
        let words = self.block.words();
        let slot = act >> 32;
        match act & 0xffff_ffff {
            CLAIM => {
                let Some(slot) = words.claim() else { return Ok(0) };
                self.claimed.lock().insert(slot, from);
                return Ok(u64::from(slot) + 1);
            }
            FILL => {
                let (slot, room) = (self.of(from, slot)?, self.block.shape().slot_bytes as usize);
                let at = usize::try_from(first).ok().filter(|at| *at <= room && bytes.bytes() <= room - at);
                let at = at.ok_or_else(|| self.faulty(from))?;
                kernels::copy(self.block.payload(slot, room).part(at, bytes.bytes()), bytes, false);
            }
            DELIVER => self.deliver(from, self.of(from, slot)?, first, second)?,
            GIVE_BACK => {
                let slot = self.of(from, slot)?;
                self.claimed.lock().remove(&slot);
                // Threads of this host that wait for one look for themselves, now and then.
                words.give_back(slot);
            }
            FREE => return Ok(u64::from(words.free_slots())),
            IDLE => return Ok(words.head.idle.0.load(Ordering::Relaxed)),
            VERDICT => {
                words.head.set_verdict(first);
                self.ring(u64::MAX);
            }
            _ => return Err(self.faulty(from)),
        }
        Ok(0)
    }
}
