//! What begins a message between hosts.

use crate::types::Rank;

/// Words before the first frame.
pub const HEADER: usize = 3;

/// What a message's header tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHeader {
    /// What the receiver has told members only.
    pub token: u64,
    /// The sender.
    pub from: Rank,
    /// The receiver's writes that the sender has taken in, all up to there.
    pub seen: u32,
    /// The number of the message among those that are sent again when a rail is cut.
    pub number: Option<u32>,
    /// The receiver's messages with a number that the sender has taken in, all up to there.
    pub messages: u32,
}

/// In a header's word with the sender: the message has a number.
const NUMBERED: u64 = 1 << 31;

impl MessageHeader {
    /// Returns its words.
    pub fn words(self) -> [u64; HEADER] {
        let numbered = if self.number.is_some() { NUMBERED } else { 0 };
        let both = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let number = self.number.unwrap_or(0);
        [self.token, both(self.from, self.seen) | numbered, both(number, self.messages)]
    }

    /// Reads it. `None`: the message is too short.
    pub fn of(message: &[u64]) -> Option<MessageHeader> {
        let &[token, rest, messages, ..] = message else { return None };
        let number = (rest & NUMBERED != 0).then_some(messages as u32);
        let (from, seen, messages) = ((rest & (NUMBERED - 1)) as u32, (rest >> 32) as u32, messages >> 32);
        Some(MessageHeader { token, from, seen, number, messages: messages as u32 })
    }
}
