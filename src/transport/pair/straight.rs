//! Messages between hosts of which what is left goes from buffer to buffer, past the ring, where the link has a way for that.
//!
//! A receiver that waits for a large message tells its sender where its buffer is. A sender that has heard so, before its first piece or
//! between two, sends all that is left as one piece, whose bytes are in the receiver's buffer when the slot's line comes.

use super::{PairTransfer, Peer, STRAIGHT};
use crate::error::{Error, Result};
use crate::transport::Transport;
use crate::transport::far::{Far, FarRanks};
use crate::transport::link::{RestOfMessage, StraightLink, WantedMessage};
use crate::types::Rank;
use std::sync::Arc;

/// Messages of this size and more: the receiver's word takes longer than the copies of smaller ones.
pub(super) const STRAIGHT_FROM: usize = 64 << 10;
/// A sender polls once for each of these bytes until the receiver has opened its buffer, and no longer: pieces take no more time.
const POLLED: usize = 8 << 10;
const MOST_POLLS: usize = 64;

/// A buffer that is open to a peer, or is sent to it. If it goes before its [end](StraightBuffer::end), nobody reads or writes buffers any more.
pub(super) struct StraightBuffer {
    ranks: Arc<FarRanks>,
    /// The peer, and whether it is the receiver.
    peer: Rank,
    send: bool,
    is_over: bool,
}

impl StraightBuffer {
    fn link(&self) -> Option<&dyn StraightLink> {
        self.ranks.link.straight()
    }

    /// Closes the buffer to the peer alone: the message has come, or none of it comes straight.
    fn end(mut self) {
        self.is_over = true;
        if let Some(link) = self.link().filter(|_| !self.send) {
            link.close_to(self.peer);
        }
    }
}

impl Drop for StraightBuffer {
    fn drop(&mut self) {
        if !self.is_over {
            self.ranks.end_straight();
        }
    }
}

impl PairTransfer<'_> {
    fn wanted(&self, first: u64) -> WantedMessage {
        WantedMessage { index: first, kind: self.kind(), count: self.count as u64 }
    }

    /// Opens the buffer of a message that is to be received to its sender.
    pub(super) fn open_buffer(&mut self, t: &Transport, first: u64) {
        let Some(ranks) = t.far.as_ref().map(Far::shared) else { return };
        let opened = ranks.link.straight().map(|link| link.open_to(self.peer, self.wanted(first), self.data));
        if opened == Some(true) {
            self.straight = Some(StraightBuffer { ranks, peer: self.peer, send: self.send, is_over: false });
        }
    }

    /// Closes the buffer of a message that the receiver has whole, or does not want.
    pub(super) fn close_buffer(&mut self) {
        if let Some(buffer) = self.straight.take() {
            buffer.end();
        }
    }

    /// Checks that the buffer was open to a peer that says that it has written what is left of the message there.
    pub(super) fn came_straight(&mut self) -> Result<()> {
        match self.straight {
            Some(_) => Ok(()),
            None => Err(Error::remote(format!(
                "rank {} says that it has written a message to a buffer that was not open to it; destroy the communicator",
                self.peer
            ))),
        }
    }

    /// Sends what is left of the message straight, as slot `index`, if the receiver has opened its buffer.
    pub(super) fn send_straight(
        &mut self,
        t: &Transport,
        peer: &mut Peer,
        [first, index]: [u64; 2],
        alone: bool,
    ) -> bool {
        let Some(far) = &t.far else { return false };
        let Some(link) = far.link.straight() else { return false };
        let is_open = || {
            // What the receiver has told may have come.
            t.poll_far();
            link.is_open_at(self.peer, self.wanted(first))
        };
        // A receiver that waits opens its buffer soon after it was sent what it has waited for before.
        let waits = alone && self.slots == 0 && std::mem::replace(&mut peer.opens, false);
        let polls = if waits { (self.data.bytes() / POLLED).min(MOST_POLLS) } else { 1 };
        // BOUND: the polls.
        if !std::iter::repeat_with(is_open).take(polls).any(|is_open| is_open) {
            return false;
        }
        let at = (self.slots as usize * super::piece_bytes(self.way)).min(self.data.bytes());
        let bytes = self.data.part(at, self.data.bytes() - at);
        let slot = RestOfMessage { index, args: self.kind() | STRAIGHT, count: self.count as u64 };
        let posted = link.post_to(self.peer, slot, bytes, at);
        if posted {
            far.note_post();
            peer.opens = true;
            let ranks = far.shared();
            ranks.count_rest(self.peer);
            self.straight = Some(StraightBuffer { ranks, peer: self.peer, send: self.send, is_over: false });
            // Mostly all of it is sent already; then a poll says so.
            t.poll_far();
        }
        posted
    }

    /// Completes a message that goes straight when all of it is sent.
    pub(super) fn leave_buffer(&mut self) {
        let link = self.straight.as_ref().and_then(StraightBuffer::link);
        if !link.is_some_and(|link| link.sends_to(self.peer)) {
            self.close_buffer();
            self.done = true;
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "straight_tests.rs"]
mod tests;
