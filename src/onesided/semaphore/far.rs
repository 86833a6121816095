//! Semaphores of ranks on other hosts, whose processes change them.

use super::waits::PATIENCE_NS;
use super::{SemaphoreMemory, Semaphores, Set};
use crate::error::Result;
use crate::memory::view::Payload;
use crate::memory::word::{AtomicOp, Change};
use crate::types::Rank;

impl Set {
    /// Returns where that word lies in a rank's heap.
    fn at(&self, rank: Rank, index: usize, word: usize) -> u64 {
        self.region.at(rank, self.begin + index * self.stride + word * 8)
    }

    /// Returns the value of a far rank's semaphore as it is now, if the rank says it in time.
    pub(super) fn far_value(&self, home: &SemaphoreMemory, rank: Rank, index: usize) -> Option<u64> {
        let mut now = [0u64];
        let dest = Payload::from(&mut now[..]);
        home.symmetric.transport().get_far_within(rank, self.at(rank, index, 0), dest, PATIENCE_NS).ok()?;
        Some(now[0])
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
        change(0, AtomicOp::Add, inc, false)
    }
}
