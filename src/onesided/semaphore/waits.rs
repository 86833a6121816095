//! What the threads of each rank wait for, where the others can read it.
//!
//! A wait stands here only once it is slow, and stays when it has failed: a rank that fails later can still tell what every rank
//! was waiting for. Nothing but reports reads it, so what is read may be a moment old.

use super::super::region::Region;
use crate::onesided::symmetric_memory::SymmetricMemory;
use crate::sync::prim::{AtomicU64, Ordering};
use crate::types::Rank;

/// Threads of a rank whose waits are told.
const PLACES: usize = 16;
/// A place that is being written.
const BUSY: u64 = u64::MAX;
/// The wait has failed; the place may be used again.
const GAVE_UP: u64 = 1 << 63;

/// How long a report waits for what the ranks of other hosts say.
pub(super) const PATIENCE_NS: u64 = 1_000_000_000;

/// The boards of all ranks.
pub(super) struct Waits(Region);

/// A wait for an amount of a semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The id of the semaphores.
    pub set: u32,
    /// The index of the semaphore.
    pub index: u32,
    /// The amount.
    pub value: u64,
}

impl Waits {
    /// The bytes of each rank's table of waits, at the beginning of its region.
    pub const BYTES: usize = 16 * PLACES;

    pub fn new(region: Region) -> Waits {
        Waits(region)
    }

    /// Two words: which semaphore, and how much of it.
    fn place<'a>(
        &self,
        symmetric: &'a SymmetricMemory,
        rank: Rank,
        place: usize,
    ) -> Option<[&'a AtomicU64; 2]> {
        let word = |k: usize| self.0.word64(symmetric.transport(), rank, 16 * place + 8 * k);
        Some([word(0)?, word(1)?])
    }

    /// Tells what a thread of this rank waits for, if there is a place.
    pub fn post(&self, symmetric: &SymmetricMemory, wanted: Wanted) -> Option<usize> {
        let tag = u64::from(wanted.set) << 32 | (u64::from(wanted.index) + 1);
        (0..PLACES).find(|&place| {
            let Some([which, value]) = self.place(symmetric, symmetric.my_pe(), place) else { return false };
            let old = which.load(Ordering::Relaxed);
            let free = old == 0 || (old != BUSY && old & GAVE_UP != 0);
            // ORDER: the place is this thread's alone until it is settled.
            if !free || which.compare_exchange(old, BUSY, Ordering::Acquire, Ordering::Relaxed).is_err() {
                return false;
            }
            value.store(wanted.value, Ordering::Relaxed);
            // ORDER: publishes the value; partner: `of`.
            which.store(tag, Ordering::Release);
            true
        })
    }

    /// Ends the wait.
    pub fn settle(&self, symmetric: &SymmetricMemory, place: Option<usize>, well: bool) {
        let Some([which, _]) = place.and_then(|place| self.place(symmetric, symmetric.my_pe(), place)) else {
            return;
        };
        let after = if well { 0 } else { which.load(Ordering::Relaxed) | GAVE_UP };
        // ORDER: the next thread that takes the place comes after this one; partner: the exchange in `post`.
        which.store(after, Ordering::Release);
    }

    /// Returns the current waits of each rank's threads, and their failed ones (`true`). `None`: a rank of another host does not answer.
    pub fn of(&self, symmetric: &SymmetricMemory, ranks: &[Rank]) -> Vec<Option<Vec<(Wanted, bool)>>> {
        let t = symmetric.transport();
        let wanted = |[tag, value]: [u64; 2]| {
            let index = (tag as u32).checked_sub(1)?;
            let set = (tag & !GAVE_UP) >> 32;
            let wanted = Wanted { set: set as u32, index, value };
            (tag != BUSY).then_some((wanted, tag & GAVE_UP != 0))
        };
        let read = |rank: Rank, place| {
            let [which, value] = self.place(symmetric, rank, place)?;
            // ORDER: partner of `post`.
            let tag = which.load(Ordering::Acquire);
            wanted([tag, value.load(Ordering::Relaxed)])
        };
        let far: Vec<(Rank, u64)> =
            ranks.iter().filter(|&&rank| t.is_far(rank)).map(|&rank| (rank, self.0.at(rank, 0))).collect();
        let mut answers = t.words_of_each::<{ 2 * PLACES }>(&far, PATIENCE_NS).into_iter();
        let of_rank = |&rank: &Rank| match t.is_far(rank) {
            true => {
                let words = answers.next()??;
                Some(words.chunks_exact(2).filter_map(|two| wanted([two[0], two[1]])).collect())
            }
            false => Some((0..PLACES).filter_map(|place| read(rank, place)).collect()),
        };
        ranks.iter().map(of_rank).collect()
    }
}
