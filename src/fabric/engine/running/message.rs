//! Messages under way, and the places that they take in a call's table.

use super::{ENTRY, NONE, Running};
use crate::error::{Error, Result};

/// A message under way, or a place for one.
#[derive(Clone, Copy)]
pub(super) struct StepMessage {
    /// The key that decides ties: step, slice, reader.
    pub order: u64,
    /// Before this time its last byte cannot have left the port that it is at. Where nothing is under way: the next of
    /// those that wait for credits, or of the free places.
    pub tail_ps: u64,
    pub step: u32,
    pub send: u32,
    pub slice: u32,
    pub size: u32,
    pub connection: u32,
    /// The next port on its way, as an index of the program's hops, and how many are left.
    pub hop: u32,
    pub left: u32,
    /// It has passed no port yet.
    pub first: bool,
    /// A switch copies or sums it.
    pub joined: bool,
}

impl Running {
    /// A message's place is free.
    #[inline]
    pub(super) fn vacate(&mut self, who: u32) {
        self.messages[who as usize].tail_ps = u64::from(std::mem::replace(&mut self.vacant, who));
    }

    /// Finds room for a message.
    pub(super) fn place(&mut self, message: StepMessage) -> Result<u32> {
        let who = self.vacant;
        if who != NONE {
            self.vacant = std::mem::replace(&mut self.messages[who as usize], message).tail_ps as u32;
            return Ok(who);
        }
        if self.messages.len() >= ENTRY as usize {
            return Err(Error::argument("there are too many messages under way to be priced"));
        }
        self.messages.push(message);
        Ok(self.messages.len() as u32 - 1)
    }
}
