//! A fair lock in shared memory, which skips threads that have gone away.
//!
//! ```text
//!     number     3       4       5       6       7            each who comes draws the next one, if its place is free
//!     place    | turn  | gone  | gone  |       |       |      3 holds the lock, 4 and 5 gave up, 6 waits, 7 is next
//!
//!     3 ends:  4's place says gone, 5's as well; 6's does not: now it says that it is its turn
//! ```
//!
//! The thread that hands the lock on and the one that goes away both write to the place of that number, in one exchange; so one of them is
//! the second, sees what the first wrote and does what is left to do: it goes on to the next number. A thread that waits never
//! waits for one that gave up, and waits no longer than those took that drew before it.

use crate::sync::prim::model::{AtomicU64, Ordering};
use crate::types::Rank;

/// The lock, over zeroed words that all who use it share.
#[derive(Clone, Copy)]
pub(super) struct Lock<'a> {
    /// The next one to draw.
    next: &'a AtomicU64,
    /// The current turn: all smaller numbers are finished.
    turn: &'a AtomicU64,
    /// The state of each number that was drawn: [`its_turn`], [`gone`], or neither yet.
    places: &'a [AtomicU64],
    /// The rank that drew it, plus 1.
    owners: &'a [AtomicU64],
}

/// A number's place says: its turn has come. Zeroed words say it of number 0.
const fn its_turn(number: u64) -> u64 {
    number.wrapping_mul(2)
}
/// A number's place says: its owner went away before that.
const fn gone(number: u64) -> u64 {
    its_turn(number) | 1
}

impl<'a> Lock<'a> {
    /// Returns the words of a lock for which `waiting` ranks may wait at a time; further ranks must try again.
    pub const fn words(waiting: usize) -> usize {
        2 + 2 * waiting
    }

    /// Makes the lock over these words.
    pub fn new(words: &'a [AtomicU64]) -> Lock<'a> {
        let (head, rest) = words.split_at(2);
        let (places, owners) = rest.split_at(rest.len() / 2);
        Lock { next: &head[0], turn: &head[1], places, owners }
    }

    fn place(&self, number: u64) -> usize {
        (number % self.places.len() as u64) as usize
    }

    /// Waits in line. `None`: others were quicker, or too many wait; to be tried again.
    pub fn draw(&self, rank: Rank) -> Option<u64> {
        let number = self.next.load(Ordering::Relaxed);
        // ORDER: what the place said of an earlier number comes before what it will say of this one; partner: `hand_on`.
        let waiting = number.wrapping_sub(self.turn.load(Ordering::Acquire));
        if waiting >= self.places.len() as u64 {
            return None;
        }
        let drawn = number.wrapping_add(1);
        self.next.compare_exchange(number, drawn, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        die_point!(190 "race_drawn");
        self.owners[self.place(number)].store(u64::from(rank) + 1, Ordering::Relaxed);
        Some(number)
    }

    /// Tells whether the turn has come to a number that was drawn here and is not given up yet.
    pub fn is_held(&self, number: u64) -> bool {
        // ORDER: partner of the exchange in `hand_on`.
        self.places[self.place(number)].load(Ordering::Acquire) == its_turn(number)
    }

    /// Goes away with a number: the lock is given back if it is held, or passes this number by when its turn comes.
    pub fn give_up(&self, number: u64) {
        let place = &self.places[self.place(number)];
        let says = place.load(Ordering::Acquire);
        // ORDER: a turn that has come meanwhile is given back with all that was changed before it; partner: `hand_on`.
        let goes = || place.compare_exchange(says, gone(number), Ordering::Relaxed, Ordering::Acquire);
        if says == its_turn(number) || goes().is_err() {
            self.hand_on(number.wrapping_add(1));
        }
    }

    /// Hands the lock on to the next waiting number. The holder calls it.
    fn hand_on(&self, mut number: u64) {
        // BOUND: numbers that were drawn and given up.
        loop {
            // ORDER: before the place, after which its owner may hand on in its turn; partner: `draw`.
            self.turn.store(number, Ordering::Release);
            die_point!(192 "race_turn");
            let place = &self.places[self.place(number)];
            let says = place.load(Ordering::Relaxed);
            // ORDER: publishes what the holder has changed; partner: `is_held`.
            let told =
                || place.compare_exchange(says, its_turn(number), Ordering::Release, Ordering::Relaxed);
            if says != gone(number) && told().is_ok() {
                return;
            }
            number = number.wrapping_add(1);
        }
    }

    /// Returns the rank whose turn it is, for messages; the turn may have passed on meanwhile.
    pub fn holder(&self) -> Option<Rank> {
        let owner = &self.owners[self.place(self.turn.load(Ordering::Relaxed))];
        owner.load(Ordering::Relaxed).checked_sub(1)?.try_into().ok()
    }
}

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
