//! What a plan would take on a declared machine: one engine, in whole picoseconds.
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
//!     mover                        the protocol on one Ethernet link, packet by packet
//! ```

pub mod engine;
pub mod ethernet;
pub mod live;
pub mod pricer;
pub mod shortcuts;
#[cfg(test)]
mod tests;
pub mod trace;
pub mod world;

use crate::plan::{Plan, RankView};
use crate::types::Rank;
use std::sync::Arc;

/// A collective call to be priced.
pub struct PricedCall<'a> {
    /// All ranks' programs.
    pub plans: &'a [Plan],
    /// Where in the network each rank stands.
    pub places: &'a [Rank],
    /// What they are programs of; its rank does not matter.
    pub view: RankView,
    /// Elements a block.
    pub count: u64,
    /// Bytes of an element.
    pub size: u64,
    /// Chunks above this many bytes travel in slices of so many; 0: whole.
    pub slice_bytes: u64,
}

/// A call whose plans are shared, so that the same call can be recognised.
#[derive(Clone)]
pub struct SharedCall {
    /// All ranks' programs; those of another allocation count as others.
    pub plans: Arc<[Plan]>,
    /// What they are programs of.
    pub view: RankView,
    /// Elements a block.
    pub count: u64,
    /// Bytes of an element.
    pub size: u64,
    /// As in [`PricedCall`].
    pub slice_bytes: u64,
}

impl SharedCall {
    /// As the engine takes it.
    pub fn call<'a>(&'a self, places: &'a [Rank]) -> PricedCall<'a> {
        PricedCall {
            plans: &self.plans,
            places,
            view: self.view.clone(),
            count: self.count,
            size: self.size,
            slice_bytes: self.slice_bytes,
        }
    }
}

/// What passed a port.
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
    /// What passed since then; the longest queue is that of all time.
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

/// How a port is left when nothing is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortState {
    /// It is taken until then.
    pub free_ps: u64,
    /// What passed it so far.
    pub counters: PortCounters,
}

/// One rank of a call is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// What admitting the call returned.
    pub call: u64,
    /// The rank in the call.
    pub member: Rank,
    /// When; perhaps later than what has happened so far.
    pub exit_ps: u64,
}

/// A priced call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallTimes {
    /// When each rank is done.
    pub exit_ps: Vec<u64>,
    /// What passed each port of the network.
    pub counters: Vec<PortCounters>,
    /// Events that the engine handled.
    pub events: u64,
}
