//! `PENNY_CHECK=race`: two ranks that write to the same bytes, with nothing that orders the one before the other.
//!
//! All ranks share vector clocks (`vector_clocks.rs`) in rank 0's memory, under a lock. Every put checks there that its
//! rank knows of the earlier writers of its bytes; signals and waits, atomic operations, semaphores, collectives and
//! transfers pass this knowledge on. The check is slow; without it a call only tests an option.
//!
//! It does not detect loads and stores of a program to its own memory, nor order that arises outside of the communicator.
//! A rank's threads count as one.

mod lock;

pub(super) use vector_clocks::Operation;

use super::region::{HeapWord, Region};
use super::symmetric_memory::{HeapPlace, SymmetricMemory};
use crate::error::{Error, Result};
use crate::sync::prim::Ordering;
use crate::sync::prim::model::AtomicU64;
use crate::sync::wait::eagerly;
use crate::transport::Transport;
use crate::transport::watch::seconds;
use crate::types::Rank;
use lock::Lock;
use std::sync::Arc;
use vector_clocks::{Cells, VectorClocks};

/// The check of one rank.
pub struct Races {
    transport: Arc<Transport>,
    region: Region,
    /// The offset of the lock in the region; the vector clocks follow it.
    begin: usize,
}

/// The words of the vector clocks in rank 0's memory.
struct Shared<'a>(&'a [AtomicU64]);

impl Cells for Shared<'_> {
    // ORDER: the lock publishes all of them.
    fn get(&self, at: usize) -> u64 {
        self.0[at].load(Ordering::Relaxed)
    }
    fn set(&self, at: usize, value: u64) {
        self.0[at].store(value, Ordering::Relaxed);
    }
}

/// The number of threads that may queue for the lock; further threads retry.
const IN_LINE: usize = 1024;
/// The number of words before the vector clocks.
const LOCK: usize = Lock::words(IN_LINE);

/// A place in the queue for the lock, which is given back in every case.
struct InLine<'a> {
    transport: &'a Transport,
    lock: Lock<'a>,
    number: Option<u64>,
}

impl InLine<'_> {
    /// Tells whether this rank's turn has come.
    fn comes(&mut self) -> bool {
        self.number = self.number.or_else(|| self.lock.draw(self.transport.rank()));
        self.number.is_some_and(|number| self.lock.is_held(number))
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.lock.give_up(number);
            die_point!(193 "race_handed");
            self.transport.after_post();
            self.transport.after_post_to(self.transport.rank());
        }
    }
}

impl Races {
    /// Bytes that it takes.
    pub fn bytes(nranks: u32) -> usize {
        8 * (LOCK + VectorClocks::<Shared<'_>>::cells(nranks as usize))
    }

    /// Over as many zeroed bytes as [`bytes`](Self::bytes) says, from `begin` of a region on.
    pub fn new(transport: Arc<Transport>, region: Region, begin: usize) -> Races {
        Races { transport, region, begin }
    }

    /// Returns the lock and the vector clocks. Their offset comes from rank 0 and is checked.
    fn words(&self) -> Result<&[AtomicU64]> {
        let bytes = Races::bytes(self.transport.nranks());
        let heap = self.transport.heap_of(0);
        let begin = usize::try_from(self.region.place(0, self.begin).at).unwrap_or(usize::MAX);
        let mapped =
            begin.checked_add(bytes).filter(|_| begin.is_multiple_of(8)).and_then(|end| heap.up_to(end));
        let mapped = mapped.ok_or_else(|| {
            Error::remote("rank 0 told nonsense about its ledger's place; destroy the communicator")
        })?;
        Ok(mapped.structs(begin, bytes / 8))
    }

    /// Runs a function with exclusive access to the vector clocks. Ranks take turns, because otherwise one rank could
    /// keep the others out.
    fn locked<T>(&self, body: impl FnOnce(&VectorClocks<Shared<'_>>) -> T) -> Result<T> {
        self.locked_by(self.transport.deadline(), body)
    }

    /// Runs a function with exclusive access, with its own deadline. A rank that gives up does not block others.
    fn locked_by<T>(&self, deadline_ns: u64, body: impl FnOnce(&VectorClocks<Shared<'_>>) -> T) -> Result<T> {
        let t = &*self.transport;
        let (lock, clocks) = self.words()?.split_at(LOCK);
        let lock = Lock::new(lock);
        let mut in_line = InLine { transport: t, lock, number: None };
        if !eagerly(|| in_line.comes()) {
            let expired = || {
                let holder = lock.holder().filter(|&rank| rank < t.nranks());
                let holder = holder.map_or(String::new(), |rank| format!(", which {} has", t.who(&[rank])));
                Error::timeout(format!(
                    "rank {} waited {} for the lock of PENNY_CHECK=race{holder}; raise PENNY_TIMEOUT or timeoutMs",
                    t.rank(),
                    seconds(t.timeout_ns())
                ))
            };
            t.wait_watching(deadline_ns, || in_line.comes(), || t.watch_hope(), expired)?;
        }
        die_point!(191 "race_held");
        Ok(body(&VectorClocks::new(Shared(clocks), t.nranks())))
    }

    /// This rank is about to write to a range of a rank's heap.
    fn write(&self, operation: Operation, first: HeapWord, bytes: usize) -> Result<()> {
        let (me, target, start) = (self.transport.rank(), first.rank, first.at);
        let range = start..start.saturating_add(bytes as u64);
        let Err(other) = self.locked(|clocks| clocks.write(me, operation, target, range))? else {
            return Ok(());
        };
        Err(Error::usage(format!(
            "a race: {operation} of rank {me} and {} of rank {} both write to bytes {} to {} of this one's {bytes} at rank \
             {target}, and no signal, semaphore or collective orders the one before the other; nothing was written now",
            other.operation,
            other.writer,
            other.range.start - start,
            other.range.end - start - 1
        )))
    }

    /// This rank is about to signal: what it knows goes with it.
    pub(super) fn release(&self, word: HeapWord) -> Result<()> {
        self.locked(|clocks| clocks.release(self.transport.rank(), word))
    }

    /// This rank has seen a word of some rank's memory.
    pub(super) fn acquire(&self, word: HeapWord) -> Result<()> {
        self.locked(|clocks| clocks.acquire(self.transport.rank(), word))
    }

    /// This rank enters a collective call.
    pub fn enter(&self, call: u64) -> Result<()> {
        self.locked(|clocks| clocks.enter(self.transport.rank(), call))
    }
    /// Records that this rank leaves a call.
    pub fn leave(&self, call: u64) -> Result<()> {
        self.locked(|clocks| clocks.leave(self.transport.rank(), call))
    }
    /// Records that this rank has received data from another rank.
    pub fn hear(&self, from: Rank) -> Result<()> {
        self.locked(|clocks| clocks.hear(self.transport.rank(), from))
    }
}

impl SymmetricMemory {
    /// Returns the check, if it is asked for.
    #[inline]
    pub fn races(&self) -> Option<&Races> {
        self.races.get()
    }

    /// This rank is about to write to a rank's copy.
    #[inline]
    pub(super) fn about_to_write(
        &self,
        operation: Operation,
        rank: Rank,
        place: HeapPlace<'_>,
        bytes: usize,
    ) -> Result<()> {
        match self.races() {
            None => Ok(()),
            Some(races) => races.write(operation, place.region.place(rank, place.offset), bytes),
        }
    }

    /// This rank is about to signal by a word at a symmetric address of a rank.
    #[inline]
    pub(super) fn about_to_signal(&self, addr: usize, rank: Rank) -> Result<()> {
        let Some(races) = self.races() else { return Ok(()) };
        let place = self.place("dest", addr, 1)?;
        races.release(place.region.place(rank, place.offset))
    }

    /// This rank has seen a word at a symmetric address of a rank.
    #[inline]
    pub(super) fn has_seen(&self, addr: usize, rank: Rank) -> Result<()> {
        let Some(races) = self.races() else { return Ok(()) };
        let place = self.place("dest", addr, 1)?;
        races.acquire(place.region.place(rank, place.offset))
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
mod vector_clocks;
