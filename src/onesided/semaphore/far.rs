//! Semaphores of ranks on other hosts, whose processes change them.

use super::{Semaphores, Set};
use crate::error::Result;
use crate::memory::word::{AtomicOp, Change};
use crate::types::Rank;

impl Set {
    /// Returns where that word lies in a rank's heap.
    pub(super) fn at(&self, rank: Rank, index: usize, word: usize) -> u64 {
        self.region.at(rank, self.begin + index * self.stride + word * 8)
    }
}

impl Semaphores {
    /// Adds to a far rank's semaphore, whose process wakes who waits for it.
    #[cold]
    pub(super) fn add_far(&self, index: usize, inc: u64, rank: Rank) -> Result<()> {
        let t = self.home.symmetric.transport();
        let me = u64::from(t.rank());
        let change = |word: usize, op, value, more| {
            let at = self.set.at(rank, index, word);
            t.change_far(rank, at, true, Change { op, value, expected: 0 }, more)
        };
        change(2 + me as usize, AtomicOp::Add, inc, true)?;
        change(1, AtomicOp::Set, me + 1, true)?;
        change(0, AtomicOp::Add, inc, false)?;
        self.home.symmetric.stored_far(rank)
    }
}
