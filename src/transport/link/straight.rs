//! The way of a message from the sender's buffer to the receiver's, where a link has one.

use crate::memory::view::Payload;
use crate::types::Rank;

/// A message for which its receiver has opened its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedMessage {
    /// The index of its first slot.
    pub index: u64,
    /// What both ends agree on: the element type with flags.
    pub kind: u64,
    /// The count.
    pub count: u64,
}

/// A slot that stands for all that is left of a message, and comes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestOfMessage {
    /// The index of the slot.
    pub index: u64,
    /// As in `PairSlot::args`.
    pub args: u64,
    /// As in `PairSlot::count`.
    pub count: u64,
}

/// Writes messages from buffer to buffer.
pub trait StraightLink {
    /// Opens the receiver's buffer to the sender of a message, and tells it. False: not here. Of each peer's messages one at a time is open.
    /// The buffer stays until it is [closed](Self::close_to), or [all are](Self::end).
    fn open_to(&self, from: Rank, message: WantedMessage, into: Payload<'_>) -> bool;
    /// Closes the buffer of a message that has come or was refused: its sender does not write to it any more.
    fn close_to(&self, from: Rank);
    /// Tells whether the receiver has opened its buffer for a message.
    fn is_open_at(&self, to: Rank, message: WantedMessage) -> bool;
    /// Hands over what is left of a message from byte `at` on, for a receiver that has opened its buffer. The bytes lie anywhere, and stay until the
    /// link [sends none](Self::sends_to), or was [ended](Self::end). False: not now.
    fn post_to(&self, to: Rank, slot: RestOfMessage, bytes: Payload<'_>, at: usize) -> bool;
    /// Tells whether such bytes are still to be sent to a rank. Polling sends them.
    fn sends_to(&self, to: Rank) -> bool;
    /// Ends this way after a failed message: from then on these functions read and write no buffer.
    fn end(&self);
}
