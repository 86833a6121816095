//! Semaphores: counters that any rank adds to and their own rank takes from.
//!
//! ```text
//!     rank 0                              rank 1, whose memory it is
//!     signal(s, 2, rank 1)   -- + 2 -->   s: | value | last writer | by rank 0 | by rank 1 | ...
//!                                         wait(s, 1)   until value >= 1, then - 1
//!     report                 <---------   what its threads wait for, for ranks that give up (`waits.rs`)
//! ```
//!
//! A semaphore of ordinary kind counts signals; one of a remote copy (`remote_copy.rs`) counts bytes, which no
//! signal may touch. Beside each value stands who has added how much: nothing but a report reads it, and a signal costs two
//! stores more for it. What goes wrong is told: a wait that ends at the deadline says who has signalled, who never has and
//! what the others wait for; and a semaphore that is not 0 at the end is an error with its name (`report.rs`).

mod far;
mod report;
mod waits;

use super::mesh::{Declared, Device, Mesh};
use super::region::{HeapWord, Region};
use super::symmetric_memory::SymmetricMemory;
use crate::error::{Error, Result};
use crate::recorder;
use crate::sync::lock::{Mutex, MutexGuard};
use crate::sync::prim::{AtomicU32, AtomicU64, Ordering};
use crate::timing::WORD;
use crate::types::Rank;
use std::sync::Arc;
use waits::{Waits, Wanted};

/// Barrier semaphores of a communicator.
pub const BARRIERS: usize = 32;
/// Semaphores that one call may make.
pub const MOST: usize = 1 << 20;
/// The largest amount of one signal or wait: a larger one is a negative number.
const MOST_AT_ONCE: u64 = i64::MAX as u64;

/// The unit that a semaphore counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SemaphoreUnit {
    /// Bytes of remote copies.
    Dma = 0,
    /// Signals.
    Regular = 1,
}

/// The state that the semaphores of a communicator share on one rank: the symmetric heap, the mesh, and the current
/// waits.
pub struct SemaphoreMemory {
    symmetric: Arc<SymmetricMemory>,
    waits: Waits,
    mesh: Declared,
    barriers: Arc<Set>,
    /// Sets made so far: the number of the last one.
    made: AtomicU32,
    /// All sets of semaphores, for reports.
    sets: Mutex<Vec<Arc<Set>>>,
}

/// Semaphores of one name, the same number on every rank.
struct Set {
    /// The id, the same on all ranks.
    id: u32,
    name: Box<str>,
    kind: SemaphoreUnit,
    count: usize,
    region: Region,
    /// The offset of the first one in the region.
    begin: usize,
    stride: usize,
}

/// A semaphore of one rank.
struct Line<'a> {
    value: &'a AtomicU64,
    /// The rank that added last, plus 1; 0: none.
    last: &'a AtomicU64,
}

/// Returns the bytes of one semaphore among `nranks` ranks.
fn stride(nranks: u32) -> usize {
    (8 * (2 + nranks as usize)).next_multiple_of(64)
}

/// Returns the bytes of each rank's memory that `count` semaphores take.
pub fn bytes(count: usize, nranks: u32) -> usize {
    count * stride(nranks)
}

impl Set {
    /// Returns a word of one semaphore's line.
    #[inline]
    fn word<'a>(
        &self,
        home: &'a SemaphoreMemory,
        rank: Rank,
        index: usize,
        word: usize,
    ) -> Result<&'a AtomicU64> {
        let t = home.symmetric.transport();
        let offset = self.begin + index * self.stride + word * 8;
        self.region.word64(t, rank, offset).ok_or_else(|| {
            Error::remote(format!(
                "rank {rank} told nonsense about its semaphores' place; destroy the communicator"
            ))
        })
    }

    #[inline]
    fn line<'a>(&self, home: &'a SemaphoreMemory, rank: Rank, index: usize) -> Result<Line<'a>> {
        Ok(Line { value: self.word(home, rank, index, 0)?, last: self.word(home, rank, index, 1)? })
    }

    /// Returns the position of a semaphore's value.
    fn place(&self, rank: Rank, index: usize) -> HeapWord {
        self.region.place(rank, self.begin + index * self.stride)
    }

    /// Returns the sum that a rank has added to a semaphore.
    #[inline]
    fn added_by<'a>(
        &self,
        home: &'a SemaphoreMemory,
        rank: Rank,
        index: usize,
        by: Rank,
    ) -> Result<&'a AtomicU64> {
        self.word(home, rank, index, 2 + by as usize)
    }
}

impl SemaphoreMemory {
    /// Bytes that it takes of each rank's memory.
    pub fn bytes(nranks: u32) -> usize {
        Waits::BYTES + bytes(BARRIERS, nranks)
    }

    /// Over a region of as many bytes as [`bytes`](Self::bytes) says, all of them 0 on every rank.
    pub fn new(symmetric: Arc<SymmetricMemory>, region: Region) -> Arc<SemaphoreMemory> {
        let waits = Waits::new(region.clone());
        let barriers = Arc::new(Set {
            id: 0,
            name: "barrier".into(),
            kind: SemaphoreUnit::Regular,
            count: BARRIERS,
            region,
            begin: Waits::BYTES,
            stride: stride(symmetric.transport().nranks()),
        });
        let sets = Mutex::new(vec![barriers.clone()]);
        Arc::new(SemaphoreMemory {
            symmetric,
            waits,
            mesh: Declared::default(),
            barriers,
            made: AtomicU32::new(0),
            sets,
        })
    }

    /// Returns the symmetric heap that goes with it.
    pub fn symmetric(&self) -> &Arc<SymmetricMemory> {
        &self.symmetric
    }

    /// Sets the mesh that all ranks have declared.
    pub fn declare(&self, mesh: Mesh) {
        self.mesh.set(mesh);
    }

    /// Returns the rank that is meant.
    #[inline]
    pub(super) fn rank_of(&self, device: Device) -> Result<Rank> {
        self.mesh.rank_of(device, self.symmetric.transport().nranks())
    }

    /// Returns the barrier semaphore of one number.
    pub fn barrier(self: &Arc<SemaphoreMemory>, number: i32) -> Result<Semaphores> {
        let first = usize::try_from(number).ok().filter(|&number| number < BARRIERS).ok_or_else(|| {
            Error::argument(format!(
                "collectiveId is {number}, but a communicator has {BARRIERS} barrier semaphores, numbered from 0"
            ))
        })?;
        Ok(Semaphores { home: self.clone(), set: self.barriers.clone(), first, count: 1 })
    }

    fn sets(&self) -> MutexGuard<'_, Vec<Arc<Set>>> {
        self.sets.lock()
    }
}

/// The parameters of new semaphores, the same on all ranks.
pub struct Making {
    /// The name, for reports.
    pub name: Box<str>,
    /// The unit that they count.
    pub kind: SemaphoreUnit,
    /// The number of semaphores.
    pub count: usize,
}

/// Semaphores of one name, as their user holds them. All of a rank's threads may use them at once.
pub struct Semaphores {
    home: Arc<SemaphoreMemory>,
    set: Arc<Set>,
    /// The first one of the set.
    first: usize,
    count: usize,
}

impl Semaphores {
    /// Over a region of as many bytes as [`bytes`] says, all of them 0 on every rank. All ranks make the same in the same
    /// order.
    pub fn new(home: Arc<SemaphoreMemory>, region: Region, making: Making) -> Semaphores {
        let Making { name, kind, count } = making;
        let stride = stride(home.symmetric.transport().nranks());
        let id = home.made.fetch_add(1, Ordering::Relaxed) + 1;
        let set = Arc::new(Set { id, name, kind, count, region, begin: 0, stride });
        home.sets().push(set.clone());
        Semaphores { home, set, first: 0, count }
    }

    /// Its communicator's semaphores.
    pub fn home(&self) -> &Arc<SemaphoreMemory> {
        &self.home
    }
    /// Returns the unit that they count.
    pub fn kind(&self) -> SemaphoreUnit {
        self.set.kind
    }
    /// Tells the sets of a communicator apart; the same on all ranks. 0: its barrier semaphores.
    pub fn id(&self) -> u32 {
        self.set.id
    }

    /// Their name.
    pub fn name(&self) -> &str {
        &self.set.name
    }

    /// Its place in the set.
    #[inline]
    pub(super) fn at(&self, what: &str, index: i32) -> Result<usize> {
        match usize::try_from(index) {
            Ok(index) if index < self.count => Ok(self.first + index),
            _ => Err(Error::argument(format!(
                "{what} is {index}, but `{}` has {} semaphores, numbered from 0",
                self.set.name, self.count
            ))),
        }
    }

    /// Adds to a rank's semaphore. This thread's earlier puts are visible to the thread that takes the amount.
    pub fn signal(&self, index: i32, inc: u64, device: Device) -> Result<()> {
        let _recorded = recorder::record(|d| self.describe_signal(d, index, inc, device));
        self.home.symmetric.usable()?;
        if self.set.kind != SemaphoreUnit::Regular {
            return Err(Error::usage(format!(
                "semaphore `{}` counts the bytes of remote copies, which no signal may change; make one of kind \
                 pennySemaphoreRegular",
                self.set.name
            )));
        }
        reasonable("inc", inc)?;
        let (index, rank) = (self.at("index", index)?, self.home.rank_of(device)?);
        let symmetric = &*self.home.symmetric;
        let _carried = symmetric.carry(symmetric.my_pe(), rank, WORD)?;
        self.add(index, inc, rank, None)
    }

    /// Adds to a rank's semaphore, and wakes who waits for it.
    #[inline]
    fn add(&self, index: usize, inc: u64, rank: Rank, brought: Option<HeapWord>) -> Result<()> {
        let symmetric = &*self.home.symmetric;
        let me = symmetric.my_pe();
        if symmetric.transport().is_far(rank) {
            return self.add_far(index, inc, rank);
        }
        let line = self.set.line(&self.home, rank, index)?;
        if let Some(races) = symmetric.races() {
            let brought = brought.map(|first| (first, inc as usize));
            races.release_counted(self.set.place(rank, index), inc, brought)?;
        }
        self.set.added_by(&self.home, rank, index, me)?.fetch_add(inc, Ordering::Relaxed);
        die_point!(130 "semaphore_by");
        line.last.store(u64::from(me) + 1, Ordering::Relaxed);
        die_point!(131 "semaphore_last");
        // ORDER: publishes what this thread has put before, and the two words above; partner: `Line::take`.
        line.value.fetch_add(inc, Ordering::Release);
        die_point!(132 "semaphore_added");
        symmetric.stored(rank);
        Ok(())
    }

    /// Bytes of a copy have come to a rank, or have been sent from it; `brought`: where they are, if it is symmetric memory.
    #[inline]
    pub(super) fn add_at(&self, index: i32, bytes: u64, rank: Rank, brought: Option<HeapWord>) -> Result<()> {
        self.add(self.at("index", index)?, bytes, rank, brought)
    }

    /// Returns the current value of this rank's semaphore.
    pub fn read(&self, index: i32) -> Result<u64> {
        self.home.symmetric.usable()?;
        let index = self.at("index", index)?;
        self.home.symmetric.transport().poll_far();
        // ORDER: partner of `add`: a rank that reads a value sees the puts that came before that value was added.
        let line = self.set.line(&self.home, self.home.symmetric.my_pe(), index)?;
        let value = line.value.load(Ordering::Acquire);
        self.seen(index)?;
        Ok(value)
    }

    /// Waits until this rank's semaphore is at least `value`, and subtracts `value`.
    pub fn wait(&self, index: i32, value: u64) -> Result<()> {
        let _recorded = recorder::record(|d| self.describe_wait(d, index, value));
        self.home.symmetric.usable()?;
        reasonable("value", value)?;
        let index = self.at("index", index)?;
        self.take(index, value)
    }

    /// Subtracts `value` if the semaphore is at least that. Returns whether it was.
    pub(super) fn try_wait(&self, index: i32, value: u64) -> Result<bool> {
        let index = self.at("index", index)?;
        let taken = self.set.line(&self.home, self.home.symmetric.my_pe(), index)?.take(value);
        if taken {
            self.took(index, value)?;
        }
        Ok(taken)
    }

    /// Undoes a [`try_wait`](Self::try_wait); it does not count as a signal.
    pub(super) fn put_back(&self, index: i32, value: u64) -> Result<()> {
        let (me, index) = (self.home.symmetric.my_pe(), self.at("index", index)?);
        if let Some(races) = self.home.symmetric.races() {
            races.release_counted(self.set.place(me, index), value, None)?;
        }
        // ORDER: continues the release sequences of what was taken.
        self.set.line(&self.home, me, index)?.value.fetch_add(value, Ordering::Release);
        self.home.symmetric.stored(me);
        Ok(())
    }

    /// This rank has taken what signals brought.
    #[inline]
    fn took(&self, index: usize, value: u64) -> Result<()> {
        let symmetric = &*self.home.symmetric;
        let place = || self.set.place(symmetric.my_pe(), index);
        symmetric.races().map_or(Ok(()), |races| races.acquire_counted(place(), value))
    }

    /// This rank has seen what signals brought.
    #[inline]
    fn seen(&self, index: usize) -> Result<()> {
        let symmetric = &*self.home.symmetric;
        symmetric.races().map_or(Ok(()), |races| races.acquire(self.set.place(symmetric.my_pe(), index)))
    }

    fn take(&self, index: usize, value: u64) -> Result<()> {
        let home = &*self.home;
        let line = self.set.line(home, home.symmetric.my_pe(), index)?;
        let soon = || home.symmetric.timing.eagerly(|| line.take(value));
        if !line.take(value) && !soon() {
            let posted =
                home.waits.post(&home.symmetric, Wanted { set: self.set.id, index: index as u32, value });
            let waited = home.symmetric.wait(|| line.take(value), || self.set.wanting(home, index, value));
            home.waits.settle(&home.symmetric, posted, waited.is_ok());
            waited?;
        }
        die_point!(133 "semaphore_taken");
        self.took(index, value)
    }
}

impl Line<'_> {
    /// Subtracts `value` if the semaphore is at least that. Several threads may wait for one semaphore; nothing is subtracted twice.
    fn take(&self, value: u64) -> bool {
        let mut there = self.value.load(Ordering::Relaxed);
        // BOUND: it is tried again only where another thread of this rank has taken or a rank has added.
        while there >= value {
            // ORDER: what was put before each signal that makes up the value; partner: `Semaphores::add`. Additions and
            // subtractions by others in between continue the release sequence of each.
            match self.value.compare_exchange(there, there - value, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => there = now,
            }
        }
        false
    }
}

/// Counts go up: what would take them down is a negative number that has lost its sign.
fn reasonable(what: &str, value: u64) -> Result<()> {
    if value > MOST_AT_ONCE {
        return Err(Error::argument(format!(
            "{what} is {value}, which no semaphore ever counts; pass a number of signals (was it negative?)"
        )));
    }
    Ok(())
}
