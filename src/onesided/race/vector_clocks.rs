//! Who has written where, and who knows of it: vector clocks over plain words.
//!
//! ```text
//!     rank 0   write x (time 1 of rank 0)   signal s --.         every write is a tick of its writer's own clock; a clock says
//!                                                      |         up to which tick of each rank its owner knows of
//!     rank 1                         wait s: knows 0's tick 1 -> may write x
//!     rank 2   write x: does not know it -> a race
//! ```
//!
//! A signal leaves its sender's clock at a word, a wait takes it up from there. Clocks of waits may hold more than what the
//! program is owed (a semaphore's word collects the clocks of all who have ever signalled it): so a race may be missed, and
//! what is reported is one, as far as the ranks told each other through this library alone.

use crate::onesided::region::HeapWord;
use crate::types::Rank;
use std::fmt;
use std::ops::Range;

/// Words whose clocks are kept one by one. Of more, the clocks are thrown together.
const WORDS: usize = 1024;
/// Ranges whose last writers are kept. Of more, the oldest are forgotten.
const WRITES: usize = 4096;
/// Collective calls that ranks may be apart.
const CALLS: u64 = 16;

/// The words that hold the vector clocks: initially 0, and exclusive to the lock's holder during each call.
pub(super) trait Cells {
    fn get(&self, at: usize) -> u64;
    fn set(&self, at: usize, value: u64);
}

/// The operation by which bytes were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::onesided) enum Operation {
    Put = 1,
    PutSignal,
    RemoteCopy,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Put => "a put",
            Operation::PutSignal => "a put with signal",
            Operation::RemoteCopy => "a remote copy",
        })
    }
}

/// A write that nothing orders with the new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub writer: Rank,
    pub operation: Operation,
    /// The range of the target's memory.
    pub range: Range<u64>,
}

struct Write {
    writer: Rank,
    operation: Operation,
    target: Rank,
    range: Range<u64>,
    time: u64,
}

impl Write {
    fn overlaps(&self, target: Rank, range: &Range<u64>) -> bool {
        self.target == target && self.range.start < range.end && range.start < self.range.end
    }
}

/// The vector clocks of `n` ranks.
pub(super) struct VectorClocks<C> {
    cells: C,
    n: usize,
}

/// Cells 0 and 1: words and writes that are kept.
const KEPT_WORDS: usize = 0;
const KEPT_WRITES: usize = 1;
const CLOCKS: usize = 2;

impl<C: Cells> VectorClocks<C> {
    /// Cells that it takes.
    pub fn cells(n: usize) -> usize {
        VectorClocks::<C>::writes_at(n) + 4 * WRITES
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
    fn writes_at(n: usize) -> usize {
        Self::words_at(n) + WORDS * (2 + n)
    }

    /// Over as many cells as [`cells`](Self::cells) says.
    pub fn new(cells: C, n: u32) -> VectorClocks<C> {
        VectorClocks { cells, n: n as usize }
    }

    fn clock(&self, rank: Rank) -> usize {
        CLOCKS + rank as usize * self.n
    }

    /// Raise one clock to another.
    fn join(&self, to: usize, from: usize) {
        for k in 0..self.n {
            self.cells.set(to + k, self.cells.get(to + k).max(self.cells.get(from + k)));
        }
    }

    fn copy(&self, to: usize, from: usize, count: usize) {
        (0..count).for_each(|k| self.cells.set(to + k, self.cells.get(from + k)));
    }

    fn knows(&self, rank: Rank, write: &Write) -> bool {
        rank == write.writer || self.cells.get(self.clock(rank) + write.writer as usize) >= write.time
    }

    /// `writer` writes to a range of a rank's memory: nothing changes if another's write there is not known to it.
    pub fn write(
        &self,
        writer: Rank,
        operation: Operation,
        target: Rank,
        range: Range<u64>,
    ) -> Result<(), Conflict> {
        let overlapping = |w: &Write| w.overlaps(target, &range);
        if let Some(other) = self.writes().find(|w| overlapping(w) && !self.knows(writer, w)) {
            let range = other.range.start.max(range.start)..other.range.end.min(range.end);
            return Err(Conflict { writer: other.writer, operation: other.operation, range });
        }
        // What is written over is known to this write, and need not be kept.
        let mut k = 0;
        while k < self.kept() {
            let old = self.read(k);
            if !old.overlaps(target, &range) {
                k += 1;
                continue;
            }
            let before = old.range.start..range.start;
            let after = range.end..old.range.end;
            match (before.is_empty(), after.is_empty()) {
                (true, true) => self.remove(k),
                (false, true) => self.put(k, &Write { range: before, ..old }),
                (true, false) => self.put(k, &Write { range: after, ..old }),
                (false, false) => {
                    self.put(k, &Write { range: before, ..old });
                    self.append(&Write { range: after, ..self.read(k) });
                }
            }
        }
        let tick = self.clock(writer) + writer as usize;
        let time = self.cells.get(tick) + 1;
        self.cells.set(tick, time);
        self.append(&Write { writer, operation, target, range, time });
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

    /// Records that `rank` has seen a word of its memory, and with it the clock stored there or that of the word's
    /// writer.
    pub fn acquire(&self, rank: Rank, word: HeapWord) {
        let (at, own) = (self.place(word), self.clock(rank));
        if self.cells.get(at) != 0 {
            self.join(own, at + 2);
        }
        self.join(own, Self::rest_at(self.n));
        let range = word.at..word.at + 1;
        let writers: Vec<Rank> =
            self.writes().filter(|w| w.overlaps(word.rank, &range)).map(|w| w.writer).collect();
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

    /// Returns the place of a word, or a free place for it; one place is always free.
    fn place(&self, word: HeapWord) -> usize {
        let key = [u64::from(word.rank) + 1, word.at];
        let start = ((word.at / 8) ^ (key[0] << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let at = |k: usize| Self::words_at(self.n) + (start as usize + k) % WORDS * (2 + self.n);
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
        (self.cells.get(KEPT_WRITES) as usize).min(WRITES)
    }
    fn writes(&self) -> impl Iterator<Item = Write> {
        (0..self.kept()).map(|k| self.read(k))
    }
    fn write_at(&self, k: usize) -> usize {
        Self::writes_at(self.n) + 4 * k
    }
    fn read(&self, k: usize) -> Write {
        let at = self.write_at(k);
        let who = self.cells.get(at);
        let operation = match who >> 48 {
            1 => Operation::Put,
            2 => Operation::PutSignal,
            _ => Operation::RemoteCopy,
        };
        // Ranks that a peer's fault has made up are brought into bounds.
        let rank = |word: u64| (word as usize & 0xff_ffff).min(self.n - 1) as Rank;
        Write {
            writer: rank(who),
            target: rank(who >> 24),
            operation,
            range: self.cells.get(at + 1)..self.cells.get(at + 2),
            time: self.cells.get(at + 3),
        }
    }
    fn put(&self, k: usize, write: &Write) {
        let who = u64::from(write.writer) | u64::from(write.target) << 24 | (write.operation as u64) << 48;
        let words = [who, write.range.start, write.range.end, write.time];
        (0..).zip(words).for_each(|(i, word)| self.cells.set(self.write_at(k) + i, word));
    }
    fn remove(&self, k: usize) {
        let last = self.kept() - 1;
        self.copy(self.write_at(k), self.write_at(last), 4);
        self.cells.set(KEPT_WRITES, last as u64);
    }

    fn append(&self, write: &Write) {
        if self.kept() == WRITES {
            // First those that everybody knows of, which cannot be half of a race any more; else any.
            for k in (0..WRITES).rev() {
                let old = self.read(k);
                if (0..self.n as Rank).all(|rank| self.knows(rank, &old)) {
                    self.remove(k);
                }
            }
            (0..self.kept().saturating_sub(WRITES * 3 / 4)).for_each(|k| self.remove(k));
        }
        self.put(self.kept(), write);
        self.cells.set(KEPT_WRITES, self.kept() as u64 + 1);
    }
}

#[cfg(test)]
#[path = "vector_clocks_tests.rs"]
mod tests;
