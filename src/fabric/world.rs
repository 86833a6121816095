//! A machine in which several calls are under way, and share its ports.
//!
//! ```text
//!     admit call 0, members enter at 100, 400       events ...100........400.............
//!     advance(300)                                         ------->|  all before 300 are handled
//!     admit call 1, members enter at 300, 350                      |......
//!     advance(500)  -> member 1 of call 0 is done at 730           ---->|  its exit may be later
//! ```
//!
//! A caller that admits calls as their members come asks for no more than is certain: events before the earliest time at
//! which a member could still enter. What comes of it does not depend on how often, and up to when, was asked.
//!
//! - A call has members 0..n, member m stands at place `places[m]`, and each is reported once, as soon as its exit is
//!   known.
//! - An entry before the latest event is moved up to that event; see [`World::boundary_ps`]. Ties go to the call that
//!   was admitted first, so an entry at the time of the latest event is in order.
//! - After an error of [`World::advance`] the world is of no further use.
//!
//! Memory: tables of the calls under way, freed with their last member; 8 bytes a call for those behind one that is not
//! finished.

use super::engine::Engine;
#[cfg(test)]
use super::trace::Span;
use super::{Finished, PortState, SharedCall};
use crate::error::{Error, Result};
use crate::topology::Network;
use crate::types::Rank;
use std::sync::Arc;

/// A network and the calls under way in it.
#[derive(Clone)]
pub struct World {
    /// The network's views.
    views: Vec<Arc<Network>>,
    engine: Engine,
}

impl World {
    /// Idle, at 0.
    pub fn new(network: Arc<Network>) -> World {
        let ports = vec![PortState::default(); network.ports.len()];
        World::resume(network, ports)
    }

    /// Nothing is under way, and the ports are as [`World::ports`] gave them.
    ///
    /// # Panics
    /// If there is not one state for each port of the network.
    pub fn resume(network: Arc<Network>, ports: Vec<PortState>) -> World {
        assert_eq!(ports.len(), network.ports.len(), "one state for each port");
        let engine = Engine::resume(&network, ports.into_iter());
        World { views: network.views(), engine }
    }

    /// Returns the present state of the ports. A message that is being served is counted in full.
    pub fn ports(&self) -> Vec<PortState> {
        self.engine.ports().collect()
    }

    /// One more call: member m stands at `places[m]` and enters at `entry_ps[m]`, or at [`World::boundary_ps`] where
    /// that is later. Returns what [`Finished::call`] will say, counting from 0. A call that is refused changes nothing.
    pub fn admit(&mut self, call: &SharedCall, places: &[Rank], entry_ps: &[u64]) -> Result<u64> {
        self.engine.admit(&self.views[call.tuning.protocol as usize], &call.call(places), entry_ps)
    }

    /// Handles what happens before `until_ps`, in order, and returns as soon as a member is finished. `None`: all that
    /// happens before is handled. `Err` names who waits for whom if nothing can ever happen any more and a call is not
    /// finished.
    pub fn advance(&mut self, until_ps: u64) -> Result<Option<Finished>> {
        self.engine.advance(until_ps, None)
    }

    /// Does the same, and passes each message's stay at each port to `sink`, in the order in which heads reach ports.
    #[cfg(test)]
    pub fn advance_traced(&mut self, until_ps: u64, sink: &mut dyn FnMut(Span)) -> Result<Option<Finished>> {
        self.engine.advance(until_ps, Some(sink))
    }

    /// Tells whether every member of every call has finished.
    pub fn idle(&self) -> bool {
        self.engine.is_idle()
    }

    /// Returns the number of messages of the calls that are under way, passed or to come.
    pub fn messages_under_way(&self) -> u64 {
        self.engine.messages_under_way()
    }

    /// Returns the time of the latest event, before which nobody can enter any more; 0 in an idle world, where an earlier
    /// entry meets ports that are taken until they are free.
    pub fn boundary_ps(&self) -> u64 {
        self.engine.boundary_ps()
    }

    /// Calls whose tables are kept.
    #[cfg(test)]
    pub fn under_way(&self) -> usize {
        self.engine.under_way()
    }

    /// Returns an error that says which rank waits for which, if nothing can happen any more and a call is not finished.
    pub fn deadlock(&self) -> Option<Error> {
        self.engine.deadlock()
    }
}
