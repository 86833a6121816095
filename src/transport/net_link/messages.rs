//! Messages between two ranks that may have to go by another rail: each has a number, and is kept until the receiver has taken it in.

use std::collections::{BTreeSet, VecDeque};

/// Messages that may have come before one that is missing.
const WINDOW: u32 = 1 << 16;
/// Messages after which the sender is told.
const TOLD_AFTER: u32 = 32;

/// What is known of the messages to and from one peer.
#[derive(Default)]
pub struct Messages {
    /// The number of the first of `kept`.
    first: u32,
    /// The frames of messages that the peer has not said to have taken in, and the rail by which each went.
    kept: VecDeque<(usize, Vec<u64>)>,
    /// Its messages that this rank has taken in: all before this, and others.
    seen: u32,
    seen_ahead: BTreeSet<u32>,
    /// What it was told of `seen`.
    told: u32,
}

impl Messages {
    /// Returns the number of the next message.
    pub fn next(&self) -> u32 {
        self.first.wrapping_add(self.kept.len() as u32)
    }

    /// The provider has taken the next message.
    pub fn sent(&mut self, rail: usize, frames: &[u64]) {
        self.kept.push_back((rail, frames.to_vec()));
    }

    /// Takes in how many the peer has. A number that cannot be is not believed.
    pub fn acknowledge(&mut self, seen: u32) {
        let more = seen.wrapping_sub(self.first) as usize;
        if more <= self.kept.len() {
            self.kept.drain(..more);
            self.first = seen;
        }
    }

    /// Returns how many it has taken in, as far as is known.
    pub fn acknowledged(&self) -> u32 {
        self.first
    }

    /// Returns the numbers of those that went by a rail.
    pub fn by(&self, rail: usize) -> impl Iterator<Item = u32> {
        let numbered = (0..).zip(&self.kept);
        numbered.filter(move |(_, (by, _))| *by == rail).map(|(at, _)| self.first.wrapping_add(at))
    }

    /// Returns the frames of a message, and the rail by which it went; `None`: the peer has taken it in.
    pub fn kept(&mut self, number: u32) -> Option<(&mut usize, &[u64])> {
        let (rail, frames) = self.kept.get_mut(number.wrapping_sub(self.first) as usize)?;
        Some((rail, frames))
    }

    /// A message of the peer has come. False: it was taken in before, or cannot be.
    pub fn is_new(&mut self, number: u32) -> bool {
        if number.wrapping_sub(self.seen) >= WINDOW || !self.seen_ahead.insert(number) {
            return false;
        }
        while self.seen_ahead.remove(&self.seen) {
            self.seen = self.seen.wrapping_add(1);
        }
        true
    }

    /// Returns how many of the peer's were taken in, all up to there.
    pub fn seen(&self) -> u32 {
        self.seen
    }

    /// The peer was told so.
    pub fn told(&mut self, seen: u32) {
        self.told = seen;
    }

    /// Should it be told at once, because it keeps many?
    pub fn is_owed(&self) -> bool {
        self.seen.wrapping_sub(self.told) >= TOLD_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_kept_until_they_were_taken_in_and_taken_in_once() {
        let near_the_end = u32::MAX - 2;
        let mut to = Messages { first: near_the_end, ..Messages::default() };
        let mut from = Messages { seen: near_the_end, ..Messages::default() };
        for at in 0..6u32 {
            assert_eq!(to.next(), near_the_end.wrapping_add(at));
            to.sent(at as usize % 2, &[u64::from(at)]);
        }
        let number = |at: u32| near_the_end.wrapping_add(at);
        assert!([0, 2, 3].iter().all(|&at| from.is_new(number(at))));
        assert!([0, 2, 3].iter().all(|&at| !from.is_new(number(at))));
        assert!(!from.is_new(number(WINDOW + 9)) && !from.is_new(number(u32::MAX)));
        assert_eq!(from.seen(), number(1));
        to.acknowledge(number(7));
        assert_eq!(Vec::from_iter(to.by(1)), [number(1), number(3), number(5)], "more than there are");
        to.acknowledge(from.seen());
        assert_eq!(Vec::from_iter(to.by(0)), [number(2), number(4)]);
        assert!(to.kept(number(0)).is_none());
        *to.kept(number(2)).unwrap().0 = 1;
        assert_eq!((Vec::from_iter(to.by(0)), to.kept(number(2)).unwrap().1), (vec![number(4)], &[2][..]));
        assert!(from.is_new(number(1)) && from.seen() == number(4));
    }

    #[test]
    fn a_peer_that_keeps_many_is_told() {
        let mut from = Messages::default();
        assert!((0..TOLD_AFTER - 1).all(|number| from.is_new(number) && !from.is_owed()));
        assert!(from.is_new(TOLD_AFTER - 1) && from.is_owed());
        from.told(from.seen());
        assert!(!from.is_owed());
    }
}
