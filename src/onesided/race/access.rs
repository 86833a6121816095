//! What ranks did with bytes of symmetric memory.

use crate::types::Rank;
use std::fmt;
use std::ops::Range;

/// The operation by which bytes were accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::onesided) enum Operation {
    Put = 1,
    PutSignal,
    RemoteCopy,
    /// The bytes were read by a get.
    Get,
    /// The bytes were the source of a put.
    PutSource,
    /// The bytes were the source of a remote copy.
    CopySource,
    /// The rank waited for the remote copy that brought the bytes: its program reads them from then on until it signals next.
    Received,
}

impl Operation {
    /// Tells whether the bytes were written.
    pub fn is_write(self) -> bool {
        matches!(self, Operation::Put | Operation::PutSignal | Operation::RemoteCopy)
    }

    fn of(number: u64) -> Operation {
        use Operation::*;
        let all = [Put, PutSignal, RemoteCopy, Get, PutSource, CopySource];
        all.into_iter().find(|&operation| operation as u64 == number).unwrap_or(Received)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Put => "a put",
            Operation::PutSignal => "a put with signal",
            Operation::RemoteCopy => "a remote copy",
            Operation::Get => "a get",
            Operation::PutSource => "a put from there",
            Operation::CopySource => "a remote copy from there",
            Operation::Received => "a wait for the remote copy that brought them",
        })
    }
}

/// An access that nothing orders with the new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub rank: Rank,
    pub operation: Operation,
    /// The range of the target's memory.
    pub range: Range<u64>,
}

/// An access of a rank to a range of a rank's memory, at a time of its own clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Access {
    pub rank: Rank,
    pub operation: Operation,
    pub target: Rank,
    pub range: Range<u64>,
    pub time: u64,
}

impl Access {
    /// Tells whether it is to bytes of this range.
    pub fn overlaps(&self, target: Rank, range: &Range<u64>) -> bool {
        self.target == target && self.range.start < range.end && range.start < self.range.end
    }

    /// Returns it as four words.
    pub fn words(&self) -> [u64; 4] {
        let who = u64::from(self.rank) | u64::from(self.target) << 24 | (self.operation as u64) << 48;
        [who, self.range.start, self.range.end, self.time]
    }

    /// Reads it from its words. Ranks that a peer's fault has made up are brought into the bounds of `n` ranks.
    pub fn from_words([who, start, end, time]: [u64; 4], n: usize) -> Access {
        let rank = |word: u64| (word as usize & 0xff_ffff).min(n - 1) as Rank;
        Access {
            rank: rank(who),
            target: rank(who >> 24),
            operation: Operation::of(who >> 48),
            range: start..end,
            time,
        }
    }
}
