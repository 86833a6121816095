//! How fast cache lines pass between the ranks' cores right now, and so how staged copies are written.
//!
//! A line that a peer has read must be taken back from its core before it can be written. Cores that share a cache hand a
//! line over in 3 to 5 ns; cores of different dies or sockets need 13 and more, and then it is twice as quick to write
//! around the caches and let the peer read memory (docs/decisions/0009-pace.md). Which of the two holds can change while a program runs: schedulers move
//! ranks, and hosts move virtual cores. So once in a while the first lines of a staged copy are taken back alone, and timed.

use crate::kernels::{self, hints};
use crate::memory::view::Payload;
use crate::sys::clock;

/// Lines that a probe takes back.
const LINES: u64 = 32;
/// Staged copies between two probes.
const EVERY: u32 = 32;
/// From this many nanoseconds a line on, the cores share no cache.
const FAR_NS: u64 = 7;

/// What the last probes of one rank said.
#[derive(Clone, Default)]
pub struct Pace {
    non_temporal: bool,
    /// The last probe spoke against `non_temporal`: the next one decides.
    doubted: bool,
    copies: u32,
}

impl Pace {
    /// Write a copy to staging memory around the caches? `staging`: that memory, or as much that peers have read since it was written; it is
    /// free to be overwritten.
    #[inline]
    pub fn non_temporal(&mut self, staging: Payload<'_>) -> bool {
        if staging.bytes() < hints::limits().around_from {
            return false;
        }
        match self.is_probe_next() {
            true => self.probe(staging),
            false => self.copies += 1,
        }
        self.non_temporal
    }

    /// Were the last copies written around the caches?
    #[inline]
    pub fn is_around(&self) -> bool {
        self.non_temporal
    }

    /// Leave the lines of the next copy, of `bytes` bytes, to the peer? It goes around the caches, or is a probe.
    #[inline]
    pub fn leaves_lines(&self, bytes: usize) -> bool {
        bytes >= hints::limits().around_from && (self.non_temporal || self.is_probe_next())
    }

    #[inline]
    fn is_probe_next(&self) -> bool {
        self.doubted || self.copies + 1 >= EVERY
    }

    #[cold]
    fn probe(&mut self, staging: Payload<'_>) {
        // A copy just before this one may still be on its way.
        kernels::await_stores();
        let start = clock::now_ns();
        kernels::claim(staging, LINES as usize);
        self.said(clock::now_ns() - start > LINES * FAR_NS);
    }

    /// One probe may have been interrupted; two in a row are believed.
    fn said(&mut self, far: bool) {
        self.copies = 0;
        self.doubted = far != self.non_temporal && !self.doubted;
        if !self.doubted {
            self.non_temporal = far;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_probes_in_a_row_change_the_way_and_one_does_not() {
        let mut pace = Pace::default();
        let mut after = |far| {
            pace.said(far);
            pace.non_temporal
        };
        assert_eq!([true, false, false].map(&mut after), [false; 3], "an interrupted probe");
        assert_eq!([true, true, true].map(&mut after), [false, true, true]);
        assert_eq!([false, true, false, false].map(&mut after), [true, true, true, false]);
    }
}
