//! The time of plans on a declared machine: one engine, in whole picoseconds.
//!
//! ```text
//!     plans, places, entries --> program   lists of steps as flat tables
//!                                  |
//!       engine <-- running ---- queue, port, faults         one call's messages; when; where; what goes wrong
//!         |
//!         |-- price, trace         one call from beginning to end
//!         |-- world                several calls under way, which share ports
//!         |-- pricer               what was asked before
//!         '-- live                 ranks that move real bytes and take their time from it
//!     shortcuts                    the same prices for calls too large for lists of steps
//!     tuning, slicing              by which protocol, and how finely chunks are cut: what has the least price
//!     bound                        what a call takes at least, from the programs of a few ranks
//!     mover                        the protocol on one Ethernet link, packet by packet
//! ```

pub mod bound;
pub mod engine;
pub mod ethernet;
pub mod live;
pub mod pricer;
pub mod shortcuts;
pub mod slicing;
#[cfg(all(test, not(loom)))]
mod tests;
pub mod trace;
pub mod tuning;
pub mod world;

use crate::plan::{Plan, RankView};
use crate::types::Rank;
use std::sync::Arc;
use tuning::Tuning;

/// A collective call to be priced.
pub struct PricedCall<'a> {
    /// The programs of all ranks.
    pub plans: &'a [Plan],
    /// The place of each rank in the network.
    pub places: &'a [Rank],
    /// The view for which they are made; its rank is not used.
    pub view: RankView,
    /// Elements a block.
    pub count: u64,
    /// Bytes of an element.
    pub size: u64,
    /// The largest slice of a chunk in bytes; 0: chunks are not cut.
    pub slice_bytes: u64,
}

/// A call whose plans are shared, so that the same call can be recognised.
#[derive(Clone)]
pub struct SharedCall {
    /// The programs of all ranks; programs in another allocation count as different.
    pub plans: Arc<[Plan]>,
    /// The view for which they are made.
    pub view: RankView,
    /// Elements a block.
    pub count: u64,
    /// Bytes of an element.
    pub size: u64,
    /// The protocol, and the largest slice as in [`PricedCall`].
    pub tuning: Tuning,
}

impl SharedCall {
    /// Converts the call for the engine.
    pub fn call<'a>(&'a self, places: &'a [Rank]) -> PricedCall<'a> {
        PricedCall {
            plans: &self.plans,
            places,
            view: self.view.clone(),
            count: self.count,
            size: self.size,
            slice_bytes: self.tuning.slice_bytes,
        }
    }
}

/// The traffic counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Payload.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
    /// Time during which the port was taken.
    pub busy_ps: u64,
    /// The most messages that waited for it at once.
    pub queue_high: u32,
    /// Messages that were damaged on the way, each time counted.
    pub errors: u64,
    /// Messages that were sent again: damaged, or cut off when the port went down.
    pub resends: u64,
    /// Time for which it was down or retrained, before its last message left.
    pub down_ps: u64,
}

impl PortCounters {
    /// Returns the traffic since then; the longest queue is that of all time.
    fn since(&self, earlier: &PortCounters) -> PortCounters {
        PortCounters {
            bytes: self.bytes - earlier.bytes,
            messages: self.messages - earlier.messages,
            busy_ps: self.busy_ps - earlier.busy_ps,
            queue_high: self.queue_high,
            errors: self.errors - earlier.errors,
            resends: self.resends - earlier.resends,
            down_ps: self.down_ps - earlier.down_ps,
        }
    }
}

/// The state of a port when no call is in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortState {
    /// The time until which it is busy.
    pub free_ps: u64,
    /// Its traffic counters.
    pub counters: PortCounters,
}

/// The completion of one rank of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The number that admitting the call returned.
    pub call: u64,
    /// The rank in the call.
    pub member: Rank,
    /// The time, which may be later than the last handled event.
    pub exit_ps: u64,
}

/// A priced call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallTimes {
    /// The time at which each rank is done.
    pub exit_ps: Vec<u64>,
    /// The traffic counters of each port of the network.
    pub counters: Vec<PortCounters>,
    /// Events that the engine handled.
    pub events: u64,
}
