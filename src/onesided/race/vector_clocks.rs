//! Who has written and read where, and who knows of it: vector clocks over plain words.
//!
//! ```text
//!     rank 0   write x (time 1 of rank 0)   signal s --.         every access is a tick of its rank's own clock; a clock says
//!                                                      |         up to which tick of each rank its owner knows of
//!     rank 1                         wait s: knows 0's tick 1 -> may write x and read x
//!     rank 2   write x: does not know it -> a race
//! ```
//!
//! A signal leaves its sender's clock at a word, a wait takes it up from there. A semaphore's waits take the clocks of as many
//! signals as they take off (`counted.rs`); those of another word take all that were ever left there, which may be more than what
//! the program is owed. So a race may be missed, and what is reported is one, as far as the ranks told each other through this
//! library alone.

use super::access::{Access, Conflict, Operation};
use crate::onesided::region::HeapWord;
use crate::types::Rank;
use std::ops::Range;

/// Words whose clocks are kept one by one. Of more, the clocks are thrown together.
const WORDS: usize = 1024;
/// Accesses that are kept. Of more, the oldest are forgotten.
const ACCESSES: usize = 4096;
/// Collective calls that ranks may be apart.
const CALLS: u64 = 16;

/// The words that hold the vector clocks: initially 0, and exclusive to the lock's holder during each call.
pub(super) trait Cells {
    fn get(&self, at: usize) -> u64;
    fn set(&self, at: usize, value: u64);
}

/// The vector clocks of `n` ranks.
pub(super) struct VectorClocks<C> {
    pub(super) cells: C,
    pub(super) n: usize,
}

/// Cells 0 and 1: words and accesses that are kept.
const KEPT_WORDS: usize = 0;
const KEPT_ACCESSES: usize = 1;
const CLOCKS: usize = 2;

impl<C: Cells> VectorClocks<C> {
    /// Cells that it takes.
    pub fn cells(n: usize) -> usize {
        Self::counted_at(n) + Self::counted_cells(n)
    }
    fn calls_at(n: usize) -> usize {
        CLOCKS + n * n
    }
    fn rest_at(n: usize) -> usize {
        Self::calls_at(n) + n * CALLS as usize * (1 + n)
    }
    fn words_at(n: usize) -> usize {
        Self::rest_at(n) + n
    }
    fn accesses_at(n: usize) -> usize {
        Self::words_at(n) + WORDS * (2 + n)
    }
    pub(super) fn counted_at(n: usize) -> usize {
        Self::accesses_at(n) + 4 * ACCESSES
    }

    /// Over as many cells as [`cells`](Self::cells) says.
    pub fn new(cells: C, n: u32) -> VectorClocks<C> {
        VectorClocks { cells, n: n as usize }
    }

    pub(super) fn clock(&self, rank: Rank) -> usize {
        CLOCKS + rank as usize * self.n
    }

    /// Raise one clock to another.
    pub(super) fn join(&self, to: usize, from: usize) {
        for k in 0..self.n {
            self.cells.set(to + k, self.cells.get(to + k).max(self.cells.get(from + k)));
        }
    }

    pub(super) fn copy(&self, to: usize, from: usize, count: usize) {
        (0..count).for_each(|k| self.cells.set(to + k, self.cells.get(from + k)));
    }

    fn knows(&self, rank: Rank, access: &Access) -> bool {
        rank == access.rank || self.cells.get(self.clock(rank) + access.rank as usize) >= access.time
    }

    /// `rank` accesses a range of a rank's memory. Nothing changes if another's access there, of which one is a write, is not
    /// known to it.
    pub fn access(
        &self,
        rank: Rank,
        operation: Operation,
        target: Rank,
        range: Range<u64>,
    ) -> Result<(), Conflict> {
        let unordered = |other: &Access| {
            other.overlaps(target, &range)
                && (other.operation.is_write() || operation.is_write())
                && !self.knows(rank, other)
        };
        if let Some(other) = self.accesses().find(unordered) {
            let range = other.range.start.max(range.start)..other.range.end.min(range.end);
            return Err(Conflict { rank: other.rank, operation: other.operation, range });
        }
        // What is written over is known to this write, and need not be kept; nor an earlier read of the same rank.
        let replaces = |old: &Access| operation.is_write() || (!old.operation.is_write() && old.rank == rank);
        let mut k = 0;
        while k < self.kept() {
            let old = self.read(k);
            if !old.overlaps(target, &range) || !replaces(&old) {
                k += 1;
                continue;
            }
            let before = old.range.start..range.start;
            let after = range.end..old.range.end;
            match (before.is_empty(), after.is_empty()) {
                (true, true) => self.remove(k),
                (false, true) => self.put(k, &Access { range: before, ..old }),
                (true, false) => self.put(k, &Access { range: after, ..old }),
                (false, false) => {
                    self.put(k, &Access { range: before, ..old });
                    self.append(&Access { range: after, ..self.read(k) });
                }
            }
        }
        let tick = self.clock(rank) + rank as usize;
        let time = self.cells.get(tick) + 1;
        self.cells.set(tick, time);
        self.append(&Access { rank, operation, target, range, time });
        Ok(())
    }

    /// Records a signal of `rank`: its clock is stored at a word.
    pub fn release(&self, rank: Rank, word: HeapWord) {
        if self.cells.get(KEPT_WORDS) as usize >= WORDS * 3 / 4 {
            self.throw_together();
        }
        let at = self.place(word);
        if self.cells.get(at) == 0 {
            self.cells.set(at, u64::from(word.rank) + 1);
            self.cells.set(at + 1, word.at);
            (0..self.n).for_each(|k| self.cells.set(at + 2 + k, 0));
            self.cells.set(KEPT_WORDS, self.cells.get(KEPT_WORDS) + 1);
        }
        self.join(at + 2, self.clock(rank));
    }

    /// Records that `rank` has seen a word of its memory, and with it the clocks stored there or that of the word's
    /// writer.
    pub fn acquire(&self, rank: Rank, word: HeapWord) {
        self.acquire_all_counted(rank, word);
        let (at, own) = (self.place(word), self.clock(rank));
        if self.cells.get(at) != 0 {
            self.join(own, at + 2);
        }
        self.join(own, Self::rest_at(self.n));
        let range = word.at..word.at + 1;
        let writes = self.accesses().filter(|a| a.operation.is_write() && a.overlaps(word.rank, &range));
        let writers: Vec<Rank> = writes.map(|write| write.rank).collect();
        writers.into_iter().for_each(|writer| self.join(own, self.clock(writer)));
    }

    /// Records that `rank` has received data from another rank by an unrecorded way.
    pub fn hear(&self, rank: Rank, from: Rank) {
        self.join(self.clock(rank), self.clock(from));
    }

    fn call(&self, rank: Rank, call: u64) -> usize {
        Self::calls_at(self.n) + (rank as usize * CALLS as usize + (call % CALLS) as usize) * (1 + self.n)
    }

    /// Records that `rank` enters a collective call. Calls are numbered from 1.
    pub fn enter(&self, rank: Rank, call: u64) {
        let at = self.call(rank, call);
        self.cells.set(at, call);
        self.copy(at + 1, self.clock(rank), self.n);
    }

    /// Records that `rank` leaves the call: it then knows what the ranks knew that had entered.
    pub fn leave(&self, rank: Rank, call: u64) {
        for other in 0..self.n as Rank {
            let at = self.call(other, call);
            let entered = self.cells.get(at);
            if entered == call {
                self.join(self.clock(rank), at + 1);
            } else if entered > call {
                self.hear(rank, other);
            }
        }
    }

    /// Returns where the search for the place of a word begins.
    pub(super) fn spread([rank, at]: [u64; 2]) -> usize {
        (((at / 8) ^ (rank << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize
    }

    /// Returns the place of a word, or a free place for it; one place is always free.
    fn place(&self, word: HeapWord) -> usize {
        let key = [u64::from(word.rank) + 1, word.at];
        let start = Self::spread(key);
        let at = |k: usize| Self::words_at(self.n) + (start + k) % WORDS * (2 + self.n);
        let fits =
            |at: &usize| self.cells.get(*at) == 0 || [self.cells.get(*at), self.cells.get(*at + 1)] == key;
        // BOUND: at most three quarters of the places are taken.
        (0..WORDS).map(at).find(fits).unwrap_or(at(0))
    }

    fn throw_together(&self) {
        for k in 0..WORDS {
            let at = Self::words_at(self.n) + k * (2 + self.n);
            if self.cells.get(at) != 0 {
                self.join(Self::rest_at(self.n), at + 2);
                self.cells.set(at, 0);
            }
        }
        self.cells.set(KEPT_WORDS, 0);
    }

    fn kept(&self) -> usize {
        (self.cells.get(KEPT_ACCESSES) as usize).min(ACCESSES)
    }
    fn accesses(&self) -> impl Iterator<Item = Access> {
        (0..self.kept()).map(|k| self.read(k))
    }
    fn access_at(&self, k: usize) -> usize {
        Self::accesses_at(self.n) + 4 * k
    }
    fn read(&self, k: usize) -> Access {
        let at = self.access_at(k);
        Access::from_words([0, 1, 2, 3].map(|i| self.cells.get(at + i)), self.n)
    }
    fn put(&self, k: usize, access: &Access) {
        (0..).zip(access.words()).for_each(|(i, word)| self.cells.set(self.access_at(k) + i, word));
    }
    fn remove(&self, k: usize) {
        let last = self.kept() - 1;
        self.copy(self.access_at(k), self.access_at(last), 4);
        self.cells.set(KEPT_ACCESSES, last as u64);
    }

    fn append(&self, access: &Access) {
        if self.kept() == ACCESSES {
            // First those that everybody knows of, which cannot be half of a race any more; else any.
            for k in (0..ACCESSES).rev() {
                let old = self.read(k);
                if (0..self.n as Rank).all(|rank| self.knows(rank, &old)) {
                    self.remove(k);
                }
            }
            (0..self.kept().saturating_sub(ACCESSES * 3 / 4)).for_each(|k| self.remove(k));
        }
        self.put(self.kept(), access);
        self.cells.set(KEPT_ACCESSES, self.kept() as u64 + 1);
    }
}

#[cfg(test)]
#[path = "vector_clocks_tests.rs"]
pub(super) mod tests;
