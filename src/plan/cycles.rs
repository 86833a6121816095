//! Programs that go round cycles, said in closed form instead of step by step.
//!
//! ```text
//!     position     0      1      2          round t: position p hands on chunk p - t, which p - 1 handed on in
//!     round 0     (0)    (1)    (2)         round t - 1; so a chunk advances one position a round, and a lane is
//!     round 1     (2)    (0)    (1)         one cycle of positions with one chunk at each
//!     round 2     (1)    (2)    (0)
//! ```
//!
//! A list of steps is 2n(n-1) entries a lane: for 100,000 ranks none that fits. This is n a lane, and says the same:
//! which rank follows which, and how many bytes the chunk has with which a rank begins.

use super::{Chunk, Lane, RankView};
use crate::types::{Collective, Rank};

/// The programs of all ranks, a cycle a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycles {
    collective: Collective,
    orders: Vec<Vec<Rank>>,
}

impl Cycles {
    /// One cycle a lane, each naming every rank of the view once. `None` for collectives whose chunks do not all go
    /// round, and for one rank, which sends nothing.
    pub fn new(view: &RankView, orders: Vec<Vec<Rank>>) -> Option<Cycles> {
        let goes_round = matches!(
            view.collective,
            Collective::AllReduce | Collective::ReduceScatter | Collective::AllGather
        );
        (goes_round && view.nranks > 1 && !orders.is_empty())
            .then_some(Cycles { collective: view.collective, orders })
    }

    /// Ranks.
    pub fn nranks(&self) -> u32 {
        self.orders[0].len() as u32
    }

    /// Cycles.
    pub fn lanes(&self) -> u32 {
        self.orders.len() as u32
    }

    /// Returns the ranks in the order in which a lane visits them.
    pub fn order(&self, lane: Lane) -> &[Rank] {
        &self.orders[lane as usize]
    }

    /// Messages of each rank on each lane.
    pub fn rounds(&self) -> u32 {
        (self.nranks() - 1) * if self.collective == Collective::AllReduce { 2 } else { 1 }
    }

    /// Parts of a block.
    pub fn parts(&self) -> u32 {
        self.lanes() * if self.collective == Collective::AllReduce { self.nranks() } else { 1 }
    }

    /// Returns the chunk that the rank at a position hands on in a round.
    pub fn chunk(&self, lane: Lane, position: u32, round: u32) -> Chunk {
        let n = u64::from(self.nranks());
        let back = u64::from(round) + u64::from(self.collective == Collective::ReduceScatter);
        let rank = self.order(lane)[((u64::from(position) + 2 * n - back) % n) as usize];
        self.named(lane, rank)
    }

    /// Returns the chunk that is called after a rank. It has the bytes of what that rank hands on first.
    pub fn named(&self, lane: Lane, rank: Rank) -> Chunk {
        match self.collective {
            Collective::AllReduce => Chunk::part(lane as u32 * self.nranks() + rank),
            _ => Chunk { block: rank, part: lane as u32 },
        }
    }

    /// Bytes of a chunk where blocks have `count` elements of `size` bytes; `None` past u64.
    pub fn bytes(&self, chunk: Chunk, count: u64, size: u64) -> Option<u64> {
        let part = count.div_ceil(u64::from(self.parts()));
        let begin = part.saturating_mul(u64::from(chunk.part)).min(count);
        part.min(count - begin).checked_mul(size)
    }
}
