//! What the waits for semaphores learn: the clocks of the signals that they take off, in the order in which these came.
//!
//! ```text
//!     rank 0   write x   signal s by 64  --.               .--- write x again   signal s by 64 ---.
//!                                          v               v                                      v
//!     s                                  [64: clock of rank 0 then]           [64: clock of rank 0 then]
//!                                          |
//!     rank 1                     wait s for 64: knows the first write, not the second -> reading x is a race
//! ```
//!
//! A remote copy's signal says which bytes it has brought; the rank that takes it off reads them from then on.

use super::vector_clocks::{Cells, VectorClocks};
use crate::onesided::region::HeapWord;
use crate::types::Rank;
use std::ops::Range;

/// Semaphores whose signals are kept one by one. Those of others are kept as any other word's are.
const SEMAPHORES: usize = 256;
/// Signals of a semaphore that are kept. Of more, the last ones are thrown together.
const SIGNALS: usize = 8;

/// A semaphore's cells: its rank + 1, its offset, how many signals are kept; then each signal's amount, the range of the bytes that it
/// brought, and its clock.
const HEAD: usize = 3;
/// A signal's cells before its clock.
const SIGNAL: usize = 3;

impl<C: Cells> VectorClocks<C> {
    fn counted_size(n: usize) -> usize {
        HEAD + SIGNALS * (SIGNAL + n)
    }
    /// Cells that it takes.
    pub(super) fn counted_cells(n: usize) -> usize {
        SEMAPHORES * Self::counted_size(n)
    }

    /// Records a signal of `rank` that adds to a semaphore, and the bytes of the semaphore's rank that it has brought, if it is a
    /// remote copy's.
    pub fn release_counted(&self, rank: Rank, word: HeapWord, amount: u64, brought: Range<u64>) {
        let Some(at) = self.counted(word) else { return self.release(rank, word) };
        if self.cells.get(at) == 0 {
            self.set(at, [u64::from(word.rank) + 1, word.at, 0]);
        }
        let kept = self.signals(at);
        let last = self.signal_at(at, kept.min(SIGNALS - 1));
        if kept == SIGNALS {
            self.set(last, [self.cells.get(last).saturating_add(amount), 0, 0]);
            self.join(last + SIGNAL, self.clock(rank));
        } else {
            self.set(last, [amount, brought.start, brought.end]);
            self.copy(last + SIGNAL, self.clock(rank), self.n);
            self.cells.set(at + 2, kept as u64 + 1);
        }
    }

    /// Records that `rank` has taken an amount off a semaphore, and learnt what those knew who had added it first. Returns the
    /// ranges of the bytes that the signals have brought which are taken off as a whole.
    pub fn acquire_counted(&self, rank: Rank, word: HeapWord, amount: u64) -> Vec<Range<u64>> {
        match self.counted(word).filter(|&at| self.cells.get(at) != 0) {
            None => {
                self.acquire(rank, word);
                Vec::new()
            }
            Some(at) => self.take_counted(rank, at, amount),
        }
    }

    fn take_counted(&self, rank: Rank, at: usize, mut amount: u64) -> Vec<Range<u64>> {
        let (own, kept) = (self.clock(rank), self.signals(at));
        let mut brought = Vec::new();
        while brought.len() < kept && amount > 0 {
            let signal = self.signal_at(at, brought.len());
            self.join(own, signal + SIGNAL);
            let there = self.cells.get(signal);
            if there > amount {
                self.cells.set(signal, there - amount);
                break;
            }
            amount -= there;
            brought.push(self.cells.get(signal + 1)..self.cells.get(signal + 2));
        }
        let (taken, size) = (brought.len(), SIGNAL + self.n);
        (taken..kept).for_each(|k| self.copy(self.signal_at(at, k - taken), self.signal_at(at, k), size));
        self.cells.set(at + 2, (kept - taken) as u64);
        brought
    }

    /// Records that `rank` has seen what a semaphore counts, and with it all that was added and not taken off.
    pub(super) fn acquire_all_counted(&self, rank: Rank, word: HeapWord) {
        if let Some(at) = self.counted(word).filter(|&at| self.cells.get(at) != 0) {
            (0..self.signals(at)).for_each(|k| self.join(self.clock(rank), self.signal_at(at, k) + SIGNAL));
        }
    }

    fn set(&self, at: usize, words: [u64; 3]) {
        (at..).zip(words).for_each(|(at, word)| self.cells.set(at, word));
    }
    fn signals(&self, at: usize) -> usize {
        (self.cells.get(at + 2) as usize).min(SIGNALS)
    }
    fn signal_at(&self, at: usize, k: usize) -> usize {
        at + HEAD + k * (SIGNAL + self.n)
    }

    /// Returns the place of a semaphore, or a free one for it. `None`: all are taken.
    fn counted(&self, word: HeapWord) -> Option<usize> {
        let key = [u64::from(word.rank) + 1, word.at];
        let start = VectorClocks::<C>::spread(key);
        let at = |k: usize| Self::counted_at(self.n) + (start + k) % SEMAPHORES * Self::counted_size(self.n);
        let fits =
            |at: &usize| self.cells.get(*at) == 0 || [self.cells.get(*at), self.cells.get(*at + 1)] == key;
        (0..SEMAPHORES).map(at).find(fits)
    }
}

#[cfg(test)]
#[path = "counted_tests.rs"]
mod tests;
