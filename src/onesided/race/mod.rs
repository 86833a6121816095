//! `PENNY_CHECK=race`: two ranks that access the same bytes, one to write, with nothing that orders the one before the other.
//!
//! All ranks share vector clocks (`vector_clocks.rs`) in rank 0's memory, under a lock. Every put checks there that its
//! rank knows of the earlier accesses to its bytes; signals and waits, atomic operations, semaphores, collectives and
//! transfers pass this knowledge on. The check is slow; without it a call only tests an option.
//!
//! Bytes are read by gets, by puts and remote copies from symmetric memory, and by a rank that has waited for the remote copy that
//! brought them. Other loads and stores of a program to its own memory are not seen, nor is order that arises outside of the
//! communicator. Words are read without order on purpose, so reads of 8 bytes or less are not checked. A rank's threads count as one.

mod access;
mod counted;
mod lock;

pub(super) use access::Operation;

use super::region::{HeapWord, Region};
use super::symmetric_memory::{HeapPlace, SymmetricMemory};
use crate::env;
use crate::error::{Error, Result};
use crate::sync::prim::Ordering;
use crate::sync::prim::model::AtomicU64;
use crate::sync::wait::eagerly;
use crate::timing::WORD;
use crate::transport::Transport;
use crate::transport::watch::seconds;
use crate::types::Rank;
use access::Conflict;
use lock::Lock;
use std::ops::Range;
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
    /// Tells whether `PENNY_CHECK` asks for the check.
    pub fn are_asked_for() -> Result<bool> {
        match env::get("PENNY_CHECK").as_deref() {
            None => Ok(false),
            Some("race") => Ok(true),
            Some(other) => Err(Error::argument(format!("PENNY_CHECK is `{other}`; it takes `race`"))),
        }
    }
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
        let heap = self.transport.near_heap(0);
        let begin = usize::try_from(self.region.place(0, self.begin).at).unwrap_or(usize::MAX);
        let mapped =
            begin.checked_add(bytes).filter(|_| begin.is_multiple_of(8)).and_then(|end| heap?.up_to(end));
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

    /// This rank is about to access a range of a rank's heap.
    fn access(&self, operation: Operation, first: HeapWord, bytes: usize) -> Result<()> {
        let (me, target) = (self.transport.rank(), first.rank);
        let range = first.at..first.at.saturating_add(bytes as u64);
        self.locked(|clocks| clocks.access(me, operation, target, range.clone()))?
            .map_err(|other| self.race(operation, target, &range, &other))
    }

    #[cold]
    fn race(&self, operation: Operation, target: Rank, range: &Range<u64>, other: &Conflict) -> Error {
        let does = match (operation.is_write(), other.operation.is_write()) {
            (true, true) => "both write to",
            (true, false) => "write to and read",
            (false, _) => "read and write to",
        };
        let so = match operation.is_write() {
            true => "nothing was written now",
            false => "what is read may be the one or the other",
        };
        Error::usage(format!(
            "a race: {operation} of rank {} and {} of rank {} {does} bytes {} to {} of this one's {} at rank {target}, and no \
             signal, semaphore or collective orders the one before the other; {so}",
            self.transport.rank(),
            other.operation,
            other.rank,
            other.range.start.saturating_sub(range.start),
            other.range.end.saturating_sub(range.start + 1),
            range.end.saturating_sub(range.start)
        ))
    }

    /// This rank is about to signal: what it knows goes with it.
    pub(super) fn release(&self, word: HeapWord) -> Result<()> {
        self.locked(|clocks| clocks.release(self.transport.rank(), word))
    }

    /// This rank has seen a word of some rank's memory.
    pub(super) fn acquire(&self, word: HeapWord) -> Result<()> {
        self.locked(|clocks| clocks.acquire(self.transport.rank(), word))
    }

    /// This rank is about to add to a semaphore: what it knows goes with it. `brought`: where the bytes of a remote copy are.
    pub(super) fn release_counted(
        &self,
        word: HeapWord,
        amount: u64,
        brought: Option<(HeapWord, usize)>,
    ) -> Result<()> {
        let range = |(first, bytes): (HeapWord, usize)| first.at..first.at.saturating_add(bytes as u64);
        let brought = brought.map_or(0..0, range);
        self.locked(|clocks| clocks.release_counted(self.transport.rank(), word, amount, brought))
    }

    /// This rank has taken an amount off a semaphore, and may read what was brought.
    pub(super) fn acquire_counted(&self, word: HeapWord, amount: u64) -> Result<()> {
        let me = self.transport.rank();
        let raced = self.locked(|clocks| {
            let brought = clocks.acquire_counted(me, word, amount);
            let read = |range: Range<u64>| {
                clocks.access(me, Operation::Received, me, range.clone()).map_err(|other| (range, other))
            };
            brought
                .into_iter()
                .filter(|range| range.end.saturating_sub(range.start) > WORD as u64)
                .try_for_each(read)
        })?;
        raced.map_err(|(range, other)| self.race(Operation::Received, me, &range, &other))
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
            Some(races) => races.access(operation, place.region.place(rank, place.offset), bytes),
        }
    }

    /// This rank is about to read bytes at an address of a rank, if they are symmetric memory.
    #[inline]
    pub(super) fn about_to_read(
        &self,
        operation: Operation,
        rank: Rank,
        addr: usize,
        bytes: usize,
    ) -> Result<()> {
        let Some(races) = self.races().filter(|_| bytes > WORD) else { return Ok(()) };
        // Where nobody can write from outside there is no race.
        let Ok(place) = self.place("source", addr, bytes) else { return Ok(()) };
        races.access(operation, place.region.place(rank, place.offset), bytes)
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
