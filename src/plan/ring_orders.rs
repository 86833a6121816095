//! The orders in which rings visit the ranks of a machine whose devices are joined by direct links.
//!
//! ```text
//!     2 x 4 devices, 2 links an edge        0 - 1        first      0 1 3 5 7 6 4 2, 2 links wide
//!                                           2 - 3        lanes      twice that, twice backwards: each link once
//!                                           4 - 5                   in each direction
//!                                           6 - 7
//! ```
//!
//! A machine's topology finds them (`topology::rings`); algorithms only follow them.

use crate::types::Rank;
use std::hash::{Hash, Hasher};

/// The rings of ranks on a graph of direct links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingOrders {
    /// Cycles that visit every rank once, and the lanes that each can have side by side; the widest first.
    cycles: Vec<LinkCycle>,
    /// Every cycle both ways with all of its lanes, so arranged that they share as few links as can be.
    lanes: Vec<Vec<Rank>>,
    /// The most links that a message from a rank to the next one passes.
    longest_hop: u32,
}

/// A cycle through all ranks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkCycle {
    /// The ranks in the order in which it visits them.
    pub order: Vec<Rank>,
    /// Lanes that it can have without sharing a link.
    pub width: u32,
}

/// Number of ranks that stand for all when orders are hashed.
const HASHED: usize = 16;

impl RingOrders {
    /// Makes the orders. There is at least one cycle and one lane.
    pub fn new(cycles: Vec<LinkCycle>, lanes: Vec<Vec<Rank>>, longest_hop: u32) -> RingOrders {
        assert!(!cycles.is_empty() && !lanes.is_empty(), "a ring has an order");
        RingOrders { cycles, lanes, longest_hop }
    }

    /// Returns the cycles, of which no two share a link if they are [direct](Self::is_direct).
    pub fn cycles(&self) -> &[LinkCycle] {
        &self.cycles
    }

    /// Returns the order of the widest cycle.
    pub fn first(&self) -> &[Rank] {
        &self.cycles[0].order
    }

    /// Returns the widest cycle, a lane for each of its links.
    pub fn forward(&self) -> Vec<Vec<Rank>> {
        vec![self.first().to_vec(); self.cycles[0].width as usize]
    }

    /// Returns the widest cycle backwards.
    pub fn backward(&self) -> Vec<Vec<Rank>> {
        vec![reversed(self.first()); self.cycles[0].width as usize]
    }

    /// Returns four orders: two cycles, or the only one twice, and the same backwards.
    pub fn four(&self) -> [Vec<Rank>; 4] {
        let first = self.first();
        let second = self.cycles.get(1).map_or(first, |cycle| &cycle.order);
        [first.to_vec(), second.to_vec(), reversed(first), reversed(second)]
    }

    /// Returns every cycle both ways, a lane for each link.
    pub fn lanes(&self) -> &[Vec<Rank>] {
        &self.lanes
    }

    /// Returns the most links that a message from a rank to the next one passes.
    pub fn longest_hop(&self) -> u32 {
        self.longest_hop
    }

    /// Tells whether rings go from neighbour to neighbour only.
    pub fn is_direct(&self) -> bool {
        self.longest_hop == 1
    }
}

fn reversed(order: &[Rank]) -> Vec<Rank> {
    order.iter().rev().copied().collect()
}

impl Hash for RingOrders {
    /// Equal orders have equal hashes; a part of them tells most others apart.
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.cycles.len(), self.lanes.len(), self.longest_hop).hash(state);
        self.first()[..self.first().len().min(HASHED)].hash(state);
    }
}
