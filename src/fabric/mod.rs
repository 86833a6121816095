//! What a plan would take on a declared machine: one engine, in whole picoseconds.

pub mod engine;
pub mod pricer;
mod program;
mod queue;
pub mod shortcuts;
#[cfg(test)]
mod tests;
pub mod trace;

use crate::plan::{Plan, View};

/// A collective call to be priced.
pub struct Call<'a> {
    /// All ranks' programs; rank r runs at place r.
    pub plans: &'a [Plan],
    /// What they are programs of; its rank does not matter.
    pub view: View,
    /// Elements a block.
    pub count: u64,
    /// Bytes of an element.
    pub size: u64,
    /// Chunks above this many bytes travel in slices of so many; 0: whole.
    pub slice_bytes: u64,
}

/// What passed a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Payload.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
    /// Time during which the port was taken.
    pub busy_ps: u64,
    /// The most messages that waited for it at once.
    pub queue_high: u32,
}

/// A priced call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// When each rank is done.
    pub exit_ps: Vec<u64>,
    /// What passed each port of the network.
    pub counters: Vec<Counters>,
    /// Events that the engine handled.
    pub events: u64,
}
