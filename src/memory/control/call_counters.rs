//! What a rank has done so far: calls and bytes of each collective, messages, time in waits. `penny top` reads it.
//!
//! ```text
//!     calls   1 .. 40 all_reduce 8 B | 41 .. 90 broadcast 1 MiB | 91 .. 17,000,000 all_reduce 8 B
//!             '----- in the sums: 90 calls, `upto` = 90 ------'   '- the run: its reader counts it -'
//! ```
//!
//! Calls in a row with the same collective and size are a run. Only a call that differs from the one before writes here; the number of calls in the
//! run follows from the number of the latest call, which the rank's records have anyway. So a call like the last one pays nothing.

use super::Pair;
use super::lines::Lines;
use crate::memory::segment::ShmSafe;
use crate::sync::prim::{AtomicU64, Ordering, fence};
use crate::sync::wait_time::WaitTime;

/// Room for collectives, by their C numbers.
pub const KINDS: usize = 16;

/// One rank's sums. The rank alone writes them.
#[repr(C, align(128))]
pub struct CallCounters {
    /// Odd while the words up to `sums` are written.
    pub(super) version: AtomicU64,
    /// Calls that are in `sums`.
    pub(super) upto: AtomicU64,
    /// The collective and the bytes of each later call.
    pub(super) run: [AtomicU64; 2],
    /// Messages and their bytes: sent, received.
    pub(super) messages: [[AtomicU64; 2]; 2],
    /// Time in waits that lasted longer than their first polls.
    pub waits: WaitTime,
    _rest: [AtomicU64; 6],
    /// Calls and bytes of each collective.
    pub(super) sums: [[AtomicU64; 2]; KINDS],
}
// SAFETY: repr(C), atomics only, any bits valid.
unsafe impl ShmSafe for CallCounters {}

#[cfg(not(loom))]
const _: () = assert!(size_of::<CallCounters>() == 384);

/// A number of calls or messages, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Calls or messages.
    pub number: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Amount {
    pub(super) fn read(words: &[AtomicU64; 2]) -> Amount {
        let [number, bytes] = words.each_ref().map(|word| word.load(Ordering::Relaxed));
        Amount { number, bytes }
    }

    pub(super) fn plus(self, number: u64, bytes_each: u64) -> Amount {
        Amount {
            number: self.number.wrapping_add(number),
            bytes: self.bytes.wrapping_add(number.wrapping_mul(bytes_each)),
        }
    }

    fn write(self, words: &[AtomicU64; 2]) {
        words[0].store(self.number, Ordering::Relaxed);
        words[1].store(self.bytes, Ordering::Relaxed);
    }
}

impl CallCounters {
    /// Counts a call that begins after `before` others.
    #[inline]
    pub fn call(&self, before: u64, kind: usize, bytes: u64) {
        let run = self.run.each_ref().map(|word| word.load(Ordering::Relaxed));
        if run != [kind as u64, bytes] || before == 0 {
            self.begin_run(before, run, [kind as u64, bytes]);
        }
    }

    fn begin_run(&self, before: u64, run: [u64; 2], next: [u64; 2]) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        // ORDER: the odd version before the words; partner: the fence in `read_once`.
        fence(Ordering::Release);
        let made = before.wrapping_sub(self.upto.load(Ordering::Relaxed));
        if let Some(words) = self.sums.get(run[0] as usize) {
            Amount::read(words).plus(made, run[1]).write(words);
        }
        self.upto.store(before, Ordering::Relaxed);
        self.run[0].store(next[0], Ordering::Relaxed);
        self.run[1].store(next[1], Ordering::Relaxed);
        // ORDER: the words before the even version; partner: the first load in `read_once`.
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }

    /// Counts a call that has no number.
    #[inline]
    pub fn unnumbered_call(&self, kind: usize, bytes: u64) {
        if let Some(words) = self.sums.get(kind) {
            let version = self.version.load(Ordering::Relaxed);
            self.version.store(version.wrapping_add(1), Ordering::Relaxed);
            // ORDER: the odd version before the words; partner: the fence in `read_once`.
            fence(Ordering::Release);
            Amount::read(words).plus(1, bytes).write(words);
            // ORDER: the words before the even version; partner: the first load in `read_once`.
            self.version.store(version.wrapping_add(2), Ordering::Release);
        }
    }

    /// Counts messages.
    #[inline]
    pub fn messages(&self, is_sent: bool, number: u64, bytes: u64) {
        let words = &self.messages[usize::from(!is_sent)];
        let Amount { number: before, bytes: so_far } = Amount::read(words);
        Amount { number: before.wrapping_add(number), bytes: so_far.wrapping_add(bytes) }.write(words);
    }
}

impl Pair {
    /// Counts a message that the rank whose words these are begins.
    #[inline]
    pub fn count(&self, is_sent: bool) {
        let word = &self.begun[usize::from(!is_sent)];
        word.store(word.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Reads the messages that it has begun to send, and to receive.
    pub fn counted(&self) -> [u64; 2] {
        self.begun.each_ref().map(|word| word.load(Ordering::Relaxed))
    }
}

impl Lines {
    /// A rank's counters.
    #[inline]
    pub fn counters(&self, rank: u32) -> &CallCounters {
        self.nth(self.layout.counters, rank as usize, self.layout.nranks)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::memory::control::{Control, Layout};
    use crate::sync::prim::Ordering;
    use std::cell::Cell;

    fn one() -> Control {
        Control::create(Layout::new(1, 4096)).unwrap()
    }

    fn make(control: &Control, seq: u64, kind: usize, bytes: u64) {
        control.counters(0).call(seq - 1, kind, bytes);
        control.record(0, seq).seq.store(seq, Ordering::Release);
    }

    #[test]
    fn runs_are_counted_while_they_last_and_afterwards() {
        let control = one();
        assert_eq!(control.counted(0).unwrap().latest, None);
        let calls = (1..=1000).map(|seq| (seq, 0, 8)).chain((1001..=1003).map(|seq| (seq, 2, 100)));
        for (seq, kind, bytes) in calls.chain([(1004, 0, 8), (1005, 0, 16)]) {
            make(&control, seq, kind, bytes);
            let counted = control.counted(0).unwrap();
            let all: u64 = counted.collectives.iter().map(|amount| amount.number).sum();
            assert_eq!((all, counted.latest.unwrap().0), (seq, seq));
        }
        let counted = control.counted(0).unwrap();
        assert_eq!((counted.collectives[0].number, counted.collectives[0].bytes), (1002, 1001 * 8 + 16));
        assert_eq!((counted.collectives[2].number, counted.collectives[2].bytes), (3, 300));
    }

    #[test]
    fn a_look_during_which_a_run_ends_is_taken_again() {
        let control = one();
        (1..=10).for_each(|seq| make(&control, seq, 0, 8));
        let has_written = Cell::new(false);
        let counted = control.counters(0).read(|place| {
            if !has_written.replace(true) {
                (11..=30).for_each(|seq| make(&control, seq, 1, 8));
            }
            control.record(0, place)
        });
        let counted = counted.unwrap();
        assert_eq!([0, 1].map(|kind| counted.collectives[kind].number), [10, 20]);
        // A rank that is writing, or was killed while it wrote.
        control.counters(0).version.fetch_add(1, Ordering::Relaxed);
        assert_eq!(control.counted(0), None);
    }
}
