//! Signals in the control segment: what one rank has counted up at another.
//!
//! ```text
//!     from rank r to rank q    one page:  context 0: 64 counters | context 1: 64 counters | ... | context 7: 64 counters
//!                                         r adds to them         q looks, and keeps to itself what it has taken
//! ```
//!
//! So a counter has one writer and one reader, and only grows. The pages get their space at first use, as the rings of
//! transfers do.

use super::lines::Lines;
use super::{Control, Layout};
use crate::error::Result;
use crate::memory::segment::ShmSafe;
use crate::sync::prim::AtomicU64;

/// Signals of a context, of each rank at each other.
pub const SIGNALS: usize = 64;
/// Contexts.
pub const CONTEXTS: usize = 8;

/// All signals from one rank to another.
#[repr(C, align(4096))]
struct Page {
    counters: [[AtomicU64; SIGNALS]; CONTEXTS],
}

// SAFETY: repr(C), atomics only, any bits valid.
unsafe impl ShmSafe for Page {}

/// Bytes of a pair's signals.
pub(super) const PAGE: usize = 4096;

// LAYOUT: the counters fill the page.
#[cfg(not(loom))]
const _: () = assert!(size_of::<Page>() == PAGE && SIGNALS * CONTEXTS * size_of::<AtomicU64>() == PAGE);

impl Layout {
    /// Where the signals from one rank to another begin: behind the rings.
    fn signals(&self, from: u32, to: u32) -> usize {
        let n = self.nranks;
        assert!((from as usize) < n && (to as usize) < n, "a rank outside of its communicator");
        self.rings_at + n * n * Self::RING + (from as usize * n + to as usize) * PAGE
    }
}

impl Control {
    /// Reserves the space of the signals from one rank to another. Both ends do it before they touch one.
    pub fn reserve_signals(&self, from: u32, to: u32) -> Result<()> {
        self.reserve(self.layout.signals(from, to), PAGE)
    }
}

impl Lines {
    /// Returns the counter of the signals that a rank has given another.
    #[inline]
    pub fn signal(&self, from: u32, to: u32, context: usize, index: usize) -> &AtomicU64 {
        let page = &self.segment.structs::<Page>(self.layout.signals(from, to), 1)[0];
        &page.counters[context][index]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::memory::control::PAIR_SLOT;
    use crate::sync::prim::Ordering;
    use std::collections::BTreeSet;

    #[test]
    fn every_signal_of_every_pair_has_a_word_of_its_own() {
        let control = Control::create(Layout::new(3, 4096)).unwrap();
        let mut words = BTreeSet::new();
        let pairs = || (0..9).map(|i| (i / 3, i % 3));
        for (from, to) in pairs() {
            control.reserve_signals(from, to).unwrap();
            for context in 0..CONTEXTS {
                for index in 0..SIGNALS {
                    let word = control.signal(from, to, context, index);
                    assert_eq!(word.fetch_add(1, Ordering::Relaxed), 0);
                    assert!(words.insert(word as *const AtomicU64 as usize));
                }
            }
        }
        let first = *words.first().unwrap();
        let ring_end = |(from, to)| {
            let (_, data) = control.pair_slot(from, to, 7, PAIR_SLOT);
            data.addr() as usize + data.bytes()
        };
        assert!(pairs().map(ring_end).all(|end| end <= first), "signals lie within a ring");
        assert_eq!(words.len(), 9 * CONTEXTS * SIGNALS);
    }
}
