//! Whether staged copies are written through the caches or around them.
//!
//! A line that a peer has read must be taken back from its core before it can be written. Where that is slow, it is quicker to write
//! around the caches and let the peer read memory (docs/decisions/0009-pace.md). Which of the two holds can change while a program runs: schedulers move
//! ranks, and hosts move virtual cores. So it is measured once in a while, in the way that is right for the processor
//! (`kernels/hints.rs`):
//!
//! ```text
//!     probed      the first lines of one copy in 32 are taken back alone, and timed
//!     compared    of 256 copies four of one size are timed: as before, the other way, as before, the other way
//! ```

use crate::kernels::{self, hints, hints::Around};
use crate::memory::view::Payload;
use crate::sys::clock;

/// Lines that a probe takes back.
const LINES: u64 = 32;
/// Staged copies between two probes.
const EVERY: u32 = 32;
/// From this many nanoseconds a line on, the cores share no cache.
const FAR_NS: u64 = 7;
/// Staged copies between two comparisons.
const COMPARED_EVERY: u32 = 256;
/// Staged copies before the first comparison: those that touch new memory tell nothing.
const UNCOMPARED: u32 = 16;
/// Copies of a comparison.
const COMPARED: u32 = 4;

/// What the last measurements of one rank said.
#[derive(Clone, Default)]
pub struct Pace {
    non_temporal: bool,
    /// The last measurement spoke against `non_temporal`: the next one decides.
    doubted: bool,
    copies: u32,
    comparison: Comparison,
}

/// Copies of one size, of which every other one is written the other way.
#[derive(Clone, Default)]
struct Comparison {
    bytes: usize,
    copies: u32,
    /// When the copy that is being written began; 0: it is not timed.
    since_ns: u64,
    /// What the copies took that were written as before, and the other way.
    took_ns: [u64; 2],
    /// There was one before.
    is_later: bool,
}

impl Pace {
    /// Write a copy to staging memory around the caches? `staging`: that memory, or as much that peers have read since it was written; it is
    /// free to be overwritten. `swapped`: this rank has read last what was there, which is quick to write where others would be probed
    /// (docs/decisions/0093). [`Pace::written`] follows when the copy has been made.
    #[inline]
    pub fn non_temporal(&mut self, staging: Payload<'_>, swapped: bool) -> bool {
        let limits = hints::limits();
        if staging.bytes() < limits.around_from {
            return false;
        }
        match limits.around {
            Around::Probed if swapped => return false,
            Around::Probed if self.is_probe_next() => self.probe(staging),
            Around::Compared if self.is_compared_next() => return self.begin_compared(staging.bytes()),
            _ => self.copies += 1,
        }
        self.non_temporal
    }

    /// The copy has been made about which [`Pace::non_temporal`] was asked last.
    #[inline]
    pub fn written(&mut self) {
        if self.comparison.since_ns != 0 {
            self.end_compared();
        }
    }

    /// Were the last copies written around the caches?
    #[inline]
    pub fn is_around(&self) -> bool {
        self.non_temporal
    }

    /// Leave the lines of the next copy, of `bytes` bytes, to the peer? It goes around the caches, or is a probe.
    #[inline]
    pub fn leaves_lines(&self, bytes: usize) -> bool {
        let limits = hints::limits();
        let is_probe = || limits.around == Around::Probed && self.is_probe_next();
        bytes >= limits.around_from && (self.non_temporal || is_probe())
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

    #[inline]
    fn is_compared_next(&self) -> bool {
        let between = if self.comparison.is_later { COMPARED_EVERY } else { UNCOMPARED };
        self.doubted || self.copies >= between
    }

    /// Begins a copy that is timed; tells whether it is written around the caches.
    #[cold]
    fn begin_compared(&mut self, bytes: usize) -> bool {
        if self.comparison.bytes != bytes {
            self.comparison = Comparison { bytes, ..Comparison::default() };
        }
        kernels::await_stores();
        self.comparison.since_ns = clock::now_ns();
        self.non_temporal != self.comparison.is_other_way()
    }

    #[cold]
    fn end_compared(&mut self) {
        kernels::await_stores();
        let took_ns = clock::now_ns() - self.comparison.since_ns;
        if let Some(other_is_quicker) = self.comparison.took(took_ns) {
            self.said(self.non_temporal != other_is_quicker);
        }
    }

    /// One measurement may have been interrupted; two in a row are believed.
    fn said(&mut self, around: bool) {
        self.copies = 0;
        self.doubted = around != self.non_temporal && !self.doubted;
        if !self.doubted {
            self.non_temporal = around;
        }
    }
}

impl Comparison {
    /// Is the next copy one that is written the other way?
    fn is_other_way(&self) -> bool {
        self.copies % 2 == 1
    }

    /// Adds what a copy took. After the last one: is the other way quicker, by an eighth at least?
    fn took(&mut self, ns: u64) -> Option<bool> {
        self.took_ns[self.copies as usize % 2] += ns;
        self.copies += 1;
        self.since_ns = 0;
        if self.copies < COMPARED {
            return None;
        }
        let [as_before, other] = self.took_ns;
        *self = Comparison { is_later: true, ..Comparison::default() };
        Some(other + other / 8 < as_before)
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

    #[test]
    fn copies_that_go_each_way_in_turns_are_compared_by_their_sums() {
        let compare = |times: [u64; 4]| {
            let mut comparison = Comparison { bytes: 1, ..Comparison::default() };
            let mut said = None;
            for (number, ns) in times.into_iter().enumerate() {
                assert_eq!(comparison.is_other_way(), number % 2 == 1);
                said = comparison.took(ns);
                assert_eq!(said.is_some(), number == 3);
            }
            said.unwrap()
        };
        assert!(compare([10, 5, 10, 5]));
        assert!(!compare([10, 9, 10, 9]), "too little to be believed");
        assert!(!compare([5, 10, 5, 10]));
    }

    #[test]
    fn a_comparison_is_of_copies_of_one_size() {
        let mut pace = Pace::default();
        for bytes in [1, 2, 2, 1, 1, 1] {
            assert!(!pace.begin_compared(bytes) || pace.comparison.is_other_way());
            assert_eq!(pace.comparison.bytes, bytes);
            assert_ne!(pace.comparison.since_ns, 0);
            pace.written();
            assert_eq!(pace.comparison.since_ns, 0);
        }
        assert_eq!(pace.comparison.copies, 3);
    }
}
