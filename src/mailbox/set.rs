//! All mailboxes of a communicator, as one rank sees them.

use super::key::Keys;
use super::thread_state::{Refusal, ThreadGuard, ThreadState};
use crate::error::{Error, Result};
use crate::kernels;
use crate::memory::heap;
use crate::memory::mailbox::{FLIT, MailboxMemory, MailboxShape, MailboxWords};
use crate::memory::view::Payload;
use crate::sync::prim::{AtomicBool, Ordering};
use crate::sync::wait::{Backoff, NAP, Neighbours, Waiter, eagerly};
use crate::sys::fork;
use crate::timing::Timing;
use crate::transport::Transport;
use crate::transport::watch::seconds;
use crate::types::Rank;
use std::sync::Arc;

/// The mailboxes of a communicator: a rank's own, and those to which it sends.
pub struct Mailboxes {
    pub(super) transport: Arc<Transport>,
    /// By rank, those of this host.
    blocks: Box<[Option<MailboxMemory>]>,
    /// By rank, where they begin in their ranks' heaps, and their sizes.
    pub(super) told: Box<[(u64, MailboxShape)]>,
    /// Names them to ranks of other hosts.
    pub(super) number: u64,
    thread_states: Box<[ThreadState]>,
    pub(super) keys: Keys,
    backoff: Backoff,
    /// Threads of all mailboxes.
    pub(super) threads: u32,
    closed: AtomicBool,
    /// The time of messages and waits: that of this host, or a declared machine's.
    pub(super) timing: Timing,
    /// The process that made it.
    generation: u32,
}

/// The awaited ranks and event of a failed wait, for its error sentence.
pub(super) struct AwaitedRanks {
    pub what: String,
    /// The rank that it depends on; `None`: it could come from any.
    pub of: Option<Rank>,
}

impl AwaitedRanks {
    /// Makes the description of a wait for any rank.
    pub fn of_all(what: impl Into<String>) -> AwaitedRanks {
        AwaitedRanks { what: what.into(), of: None }
    }
    /// Makes the description of a wait for one rank.
    pub fn of(rank: Rank, what: String) -> AwaitedRanks {
        AwaitedRanks { what, of: Some(rank) }
    }
}

/// The statistics of a rank's mailbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MailboxStats {
    /// Slots.
    pub slots: u32,
    /// Slots that no message is in.
    pub slots_free: u32,
    /// Messages that this rank's threads have sent, to any mailbox.
    pub sent: u64,
    /// Messages that this rank's threads have received: one for each thread that received it.
    pub received: u64,
    /// Messages written to this mailbox by any rank: one for each copy.
    pub written: u64,
    /// Threads that those were addressed to, all together.
    pub delivered: u64,
    /// Bytes of those copies.
    pub bytes_written: u64,
}

/// Makes this rank's own mailbox at an address of its heap: empty, and not known to other ranks yet.
pub fn prepare(addr: usize, shape: &MailboxShape, rank: Rank) -> Result<u64> {
    let heap = heap::mine()?;
    let offset = heap
        .offset_of(addr, shape.bytes())
        .ok_or_else(|| Error::internal("a mailbox outside of its heap"))?;
    let all =
        heap.view(offset, shape.bytes()).ok_or_else(|| Error::internal("a mailbox outside of its heap"))?;
    kernels::zero(all);
    MailboxMemory::new(&*heap::own()?, offset as u64, *shape, rank)?.words().prepare();
    Ok(offset as u64)
}

impl Mailboxes {
    /// Over the mailboxes that the ranks told of, by rank: where in its heap, and how large. `number`: the same on all ranks.
    pub fn new(timing: Timing, told: &[(u64, MailboxShape)], number: u64) -> Result<Mailboxes> {
        let transport = timing.transport().clone();
        if timing.is_declared() && transport.has_far() {
            return Err(Error::usage(
                "mailboxes on a declared machine are not there yet where their ranks run on several hosts; start all ranks on one host, or \
                 unset PENNY_FABRIC",
            ));
        }
        let block = |(rank, &(offset, shape)): (Rank, &(u64, MailboxShape))| match transport.near_heap(rank) {
            Some(heap) => MailboxMemory::new(heap, offset, shape, rank).map(Some),
            None => Ok(None),
        };
        let blocks = (0..).zip(told).map(block).collect::<Result<Box<[_]>>>()?;
        let mine = told[transport.rank() as usize].1;
        let threads = told.iter().map(|(_, shape)| shape.threads).sum();
        let flits = mine.slot_bytes / FLIT as u32;
        timing.serve_exactly();
        timing.expect_threads(mine.threads, 0);
        Ok(Mailboxes {
            blocks,
            told: told.into(),
            number,
            thread_states: (0..mine.threads).map(|_| ThreadState::new(mine.slots, flits)).collect(),
            keys: Keys::default(),
            backoff: Backoff::for_ranks(threads as usize, None),
            threads,
            closed: AtomicBool::new(false),
            timing,
            generation: fork::generation(),
            transport,
        })
    }

    /// This rank.
    #[inline]
    pub(super) fn rank(&self) -> Rank {
        self.transport.rank()
    }
    /// This rank's mailbox.
    #[inline]
    pub(super) fn mine(&self) -> &MailboxMemory {
        self.block(self.rank())
    }
    /// Returns the mailboxes of this host, with their ranks.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (Rank, &MailboxMemory)> {
        (0..).zip(&self.blocks).filter_map(|(rank, block)| Some((rank, block.as_ref()?)))
    }
    /// Returns the mailbox of a rank of this host.
    #[inline]
    pub(super) fn block(&self, rank: Rank) -> &MailboxMemory {
        self.blocks[rank as usize].as_ref().expect("a mailbox of this host")
    }
    /// Returns the size of the mailbox of a rank that is meant by a number.
    #[inline]
    pub(super) fn dest(&self, dest: i32) -> Result<(Rank, &MailboxShape)> {
        let told = usize::try_from(dest).ok().and_then(|dest| self.told.get(dest));
        told.map(|(_, shape)| (dest as Rank, shape)).ok_or_else(|| {
            Error::argument(format!("dest is {dest}; the communicator has ranks 0..{}", self.told.len()))
        })
    }
    /// Is a rank's mailbox on another host?
    #[inline]
    pub(super) fn is_far(&self, rank: Rank) -> bool {
        self.blocks[rank as usize].is_none()
    }
    /// Returns the words of the mailbox of a rank of this host.
    #[inline]
    pub(super) fn words(&self, rank: Rank) -> &MailboxWords<'_> {
        self.block(rank).words()
    }

    /// Enters a call as a thread of this mailbox.
    #[inline]
    pub(super) fn sit(&self, thread: i32) -> Result<(u32, ThreadGuard<'_>)> {
        let thread_state = usize::try_from(thread).ok().and_then(|thread| self.thread_states.get(thread));
        let thread_state = thread_state.ok_or_else(|| {
            Error::argument(format!(
                "thread {thread} is not of this mailbox; rank {} has threads 0..{}",
                self.rank(),
                self.thread_states.len()
            ))
        })?;
        if self.generation != fork::generation() {
            return Err(Error::usage(
                "this process was forked from a rank; only the parent may use its mailboxes: make a communicator here",
            ));
        }
        match thread_state.take() {
            Ok(guard) => Ok((thread as u32, guard)),
            Err(Refusal::Closed) => Err(closed()),
            Err(Refusal::Taken) if self.closed.load(Ordering::Acquire) => Err(closed()),
            Err(Refusal::Taken) => Err(Error::usage(format!(
                "another call of rank {} is under way as thread {thread}; give every thread its own number",
                self.rank()
            ))),
        }
    }

    /// Returns the slot in which a thread writes its next message; it is always the same.
    pub fn send_slot(&self, thread: i32) -> Result<usize> {
        let (thread, _sitting) = self.sit(thread)?;
        Ok(self.mine().send_slot(thread, 0).addr() as usize)
    }

    /// Writes a thread's next message, with zeros up to the end of the last flit, and sets its length to the flits that hold it.
    pub fn write(&self, thread: i32, message: Payload<'_>) -> Result<usize> {
        let (thread, guard) = self.sit(thread)?;
        let most = self.mine().shape().slot_bytes as usize;
        if message.is_empty() || message.bytes() > most {
            return Err(Error::argument(format!(
                "the message has {} bytes; a message has 1 to {most} bytes in this mailbox",
                message.bytes()
            )));
        }
        let (bytes, flits) = (message.bytes(), message.bytes().div_ceil(FLIT));
        let slot = self.mine().send_slot(thread, flits * FLIT);
        kernels::copy(slot.part(0, bytes), message, false);
        // All flits are sent: what an earlier message has left there is not.
        kernels::zero(slot.part(bytes, flits * FLIT - bytes));
        guard.set_flits(flits as u32);
        Ok(slot.addr() as usize)
    }

    /// Sets the length of a thread's messages, from the next one on.
    pub fn set_len(&self, thread: i32, flits: i32) -> Result<()> {
        let (_, guard) = self.sit(thread)?;
        let most = self.mine().shape().slot_bytes / FLIT as u32;
        match u32::try_from(flits) {
            Ok(flits) if (1..=most).contains(&flits) => guard.set_flits(flits),
            _ => {
                return Err(Error::argument(format!(
                    "flits is {flits}; a message has 1 to {most} flits of {FLIT} bytes in this mailbox"
                )));
            }
        }
        Ok(())
    }

    /// Returns the statistics.
    pub fn stats(&self) -> Result<MailboxStats> {
        let (shape, words) = (self.mine().shape(), self.mine().words());
        Ok(MailboxStats {
            slots: shape.slots,
            slots_free: words.free_slots(),
            sent: self.thread_states.iter().map(ThreadState::sent).sum(),
            received: self.thread_states.iter().map(ThreadState::received).sum(),
            written: words.head.messages.load(Ordering::Relaxed),
            delivered: words.head.deliveries.load(Ordering::Relaxed),
            bytes_written: words.head.bytes.load(Ordering::Relaxed),
        })
    }

    /// Waits as a thread of this mailbox. `watch` returns an error if the wait cannot succeed; `what` words the
    /// deadline's error.
    #[inline]
    pub(super) fn wait(
        &self,
        thread: u32,
        ready: impl FnMut() -> bool,
        watch: impl Fn() -> Result<()>,
        what: impl Fn() -> AwaitedRanks,
    ) -> Result<()> {
        match self.timing.is_declared() {
            false => self.wait_here(thread, ready, watch, what),
            true => self.wait_there(thread, ready, watch, what),
        }
    }

    /// Waits, and lets a declared machine's clock wait, too.
    #[inline]
    pub(super) fn wait_here(
        &self,
        thread: u32,
        mut ready: impl FnMut() -> bool,
        watch: impl Fn() -> Result<()>,
        what: impl Fn() -> AwaitedRanks,
    ) -> Result<()> {
        if eagerly(&mut ready) {
            return Ok(());
        }
        let t = &*self.transport;
        let ready = || {
            t.poll_far();
            ready()
        };
        let waiter = Waiter {
            backoff: &self.backoff,
            doorbell: self.mine().doorbell(thread),
            sleepers: &self.mine().words().head.sleepers,
            deadline_ns: t.deadline(),
            nap: NAP,
            neighbours: t.has_far().then_some(t as &dyn Neighbours),
            time: Some(&t.control().counters(t.rank()).waits),
        };
        waiter.until(ready, || self.open().and_then(|()| watch()), || self.waited(thread, &what))
    }

    /// Makes the error of a wait that reached its deadline.
    #[cold]
    pub(super) fn waited(&self, thread: u32, what: &impl Fn() -> AwaitedRanks) -> Error {
        let (t, AwaitedRanks { what, of }) = (&*self.transport, what());
        let ranks: Vec<Rank> = match of {
            Some(rank) => vec![rank],
            None => (0..t.nranks()).filter(|&r| r != t.rank() || t.nranks() == 1).collect(),
        };
        Error::timeout(format!(
            "thread {thread} of rank {} waited {} for {what}, which could come from {}; if the others are only slow, raise \
             PENNY_TIMEOUT or timeoutMs",
            t.rank(),
            seconds(t.timeout_ns()),
            t.who(&ranks)
        ))
    }

    /// Checks that a message can still arrive: not all other ranks have left, and no rank has died.
    pub(super) fn hope(&self) -> Result<()> {
        self.open()?;
        self.transport.watch_hope()
    }

    pub(super) fn open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(closed()) } else { Ok(()) }
    }

    /// Ends this rank's waits and lets no call in any more; returns when none is under way.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        for (thread, thread_state) in (0..).zip(&self.thread_states) {
            // BOUND: calls that wait look at `closed`; others end by themselves.
            while !thread_state.close() {
                #[cfg(not(loom))]
                self.mine().doorbell(thread).ring();
                let _: u32 = thread;
                crate::sys::cpu::yield_now();
            }
        }
    }

    /// Takes [`close`](Self::close) back: the others do not agree.
    pub fn reopen(&self) {
        self.closed.store(false, Ordering::Release);
        self.thread_states.iter().for_each(ThreadState::reopen);
    }
}

#[cold]
fn closed() -> Error {
    Error::usage("the mailbox was destroyed, or its communicator was; make a new one on all ranks")
}
