//! How many calls a batch has: as many as take long enough, found by batches that grow.
//!
//! ```text
//! calls    1    2    4 ...  512     each as often as it takes until one is quick
//! quick    x    x    x  ...   -     the first that never is: the batch's size
//! ```
//!
//! Another process may take a core from a rank. Two ranks that run by turns then need whole slices of the scheduler for each call,
//! for many calls on end, and a batch of one call seems long enough. So batches in which a core was taken are repeated for longer, and the ranks rest
//! together in between, after which they mostly run at the same time.

use std::time::Duration;

/// Seconds that a batch lasts at least, and that all batches last together at most, as far as the limits permit.
const BATCH_S: f64 = 200e-6;
const ALL_BATCHES_S: f64 = 40e-3;
/// Seconds after which a number of calls counts as slow, undisturbed and where a core was taken from a rank.
const FINDING_S: f64 = 20e-3;
const FINDING_DISTURBED_S: f64 = 0.6;
/// Batches in which no core was taken after which a number of calls counts as slow.
const UNDISTURBED: u32 = 5;
/// How long ranks rest: longer than a slice of the scheduler, by turns, so that ranks which run by turns do not go on to do so.
const RESTS: [Duration; 3] = [Duration::from_millis(4), Duration::from_millis(7), Duration::from_millis(5)];
const MOST_CALLS: u32 = 1 << 14;
const FEWEST_CALLS: u32 = 10;
const FEWEST_BATCHES: u32 = 5;
const MOST_BATCHES: u32 = 200;

/// The search for a batch's size. All ranks have the same, since it is told what all ranks know.
#[derive(Debug)]
pub struct BatchSize {
    calls: u32,
    /// Least seconds of a batch of this size, and the seconds of all of them.
    least: f64,
    spent: f64,
    limit: f64,
    /// Batches of this size in which no core was taken, and others.
    undisturbed: u32,
    disturbed: usize,
    /// Whether each rank can have a core, so that what takes one is a disturbance.
    fits: bool,
}

/// What the ranks do next.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// Make another batch of this number of calls.
    Batch(u32),
    /// Rest for so long, and then make another.
    Rest(Duration, u32),
    /// Measure.
    Measure {
        /// Calls of a batch.
        calls: u32,
        /// Batches.
        batches: u32,
    },
}

impl BatchSize {
    /// Begins with batches of one call.
    pub fn new(fits: bool) -> BatchSize {
        BatchSize {
            calls: 1,
            least: f64::INFINITY,
            spent: 0.0,
            limit: FINDING_S,
            undisturbed: 0,
            disturbed: 0,
            fits,
        }
    }

    /// Takes in a batch: the seconds of the slowest rank, and whether a core was taken from a rank meanwhile.
    pub fn take_in(&mut self, slowest: f64, disturbed: bool) -> Next {
        self.least = self.least.min(slowest);
        self.spent += slowest;
        let disturbed = disturbed && self.fits;
        match disturbed {
            true => {
                self.limit = FINDING_DISTURBED_S;
                self.disturbed += 1;
            }
            false => self.undisturbed += 1,
        }
        if self.least < BATCH_S && self.calls < MOST_CALLS {
            *self = BatchSize { calls: self.calls * 2, ..BatchSize::new(self.fits) };
            return Next::Batch(self.calls);
        }
        if self.least >= BATCH_S && self.spent < self.limit && self.undisturbed < UNDISTURBED {
            return match disturbed {
                true => Next::Rest(RESTS[self.disturbed % RESTS.len()], self.calls),
                false => Next::Batch(self.calls),
            };
        }
        let fewest = FEWEST_CALLS.div_ceil(self.calls).max(FEWEST_BATCHES);
        let batches = ((ALL_BATCHES_S / self.least) as u32).clamp(fewest, MOST_BATCHES);
        Next::Measure { calls: self.calls, batches }
    }

    /// Returns whether batches turned out far quicker than when their size was found. The search then goes on from there.
    pub fn was_too_small(&mut self, batch: f64) -> bool {
        let is_small = batch < BATCH_S / 4.0 && self.calls < MOST_CALLS;
        if is_small {
            *self = BatchSize { calls: self.calls * 2, ..BatchSize::new(self.fits) };
        }
        is_small
    }

    /// Returns the calls of the batch with which the search goes on.
    pub fn calls(&self) -> u32 {
        self.calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goes through a search in which a batch takes what `seconds` says of its number and calls.
    fn found(
        fits: bool,
        disturbed: impl Fn(u32) -> bool,
        seconds: impl Fn(u32, u32) -> f64,
    ) -> (u32, u32, u32, u32) {
        let mut size = BatchSize::new(fits);
        let (mut calls, mut number, mut rests) = (size.calls(), 0, 0);
        loop {
            match size.take_in(seconds(number, calls), disturbed(number)) {
                Next::Batch(next) => calls = next,
                Next::Rest(_, next) => (calls, rests) = (next, rests + 1),
                Next::Measure { calls, batches } => return (calls, batches, number + 1, rests),
            }
            number += 1;
        }
    }

    #[test]
    fn a_batch_has_as_many_calls_as_take_long_enough() {
        let (calls, batches, ..) = found(true, |_| false, |_, calls| 0.3e-6 * f64::from(calls));
        assert_eq!((calls, batches), (1024, 130));
        assert_eq!(
            found(true, |_| false, |_, _| 8e-3),
            (1, 10, 3, 0),
            "a slow call is not repeated for long"
        );
        assert_eq!(found(true, |_| false, |_, _| 0.0).0, MOST_CALLS);
    }

    #[test]
    fn ranks_that_run_by_turns_are_no_slow_call() {
        let by_turns = |number, calls| if number < 20 { 8e-3 } else { 0.3e-6 * f64::from(calls) };
        let (calls, _, _, rests) = found(true, |number| number < 20, by_turns);
        assert_eq!((calls, rests), (1024, 20));
        let (calls, _, batches, rests) = found(true, |_| true, |_, _| 8e-3);
        assert_eq!((calls, batches, rests), (1, 75, 74), "even this ends");
    }

    #[test]
    fn more_ranks_than_cores_are_not_waited_for() {
        assert_eq!(found(false, |_| true, |_, _| 8e-3), (1, 10, 3, 0));
    }

    #[test]
    fn a_size_that_was_found_by_turns_is_looked_for_again() {
        let mut size = BatchSize::new(true);
        assert!(size.was_too_small(0.3e-6));
        assert_eq!(size.calls(), 2);
        assert!(!size.was_too_small(BATCH_S));
        assert_eq!(size.calls(), 2);
    }
}
