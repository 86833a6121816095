//! Rounds: one rank's program, written round by round over several cycles or trees at once.
//!
//! ```text
//!     round    0          1               2               each rank's steps, sorted by round, are its program
//!     rank 0   send ----> .               take
//!     rank 1   .          take, send ---> .
//! ```
//!
//! The rule: a message that is sent in round t is taken in round t + 1. Sorted by round, the programs of all ranks then
//! agree on the order of the messages between any two of them, whatever was interleaved with what, and no ranks can
//! wait for each other in a circle. One cycle after the other would be right as well, but only one lane at a time would
//! have something to do.

use crate::plan::Plan;

/// A program under construction.
#[derive(Default)]
pub(super) struct Rounds {
    plan: Plan,
    round_of: Vec<u32>,
}

impl Rounds {
    /// Returns the plan to write the next step of `round` into: exactly one step.
    pub(super) fn at(&mut self, round: u32) -> &mut Plan {
        debug_assert_eq!(self.plan.steps.len(), self.round_of.len(), "one step for each call of `at`");
        self.round_of.push(round);
        &mut self.plan
    }

    /// Writes the program, sorted by round; within a round the steps stay in the order in which they were written.
    pub(super) fn write(self, out: &mut Plan) {
        let Rounds { plan, round_of } = self;
        let mut steps: Vec<_> = plan.steps.into_iter().map(Some).collect();
        let mut order: Vec<u32> = (0..round_of.len() as u32).collect();
        order.sort_by_key(|&step| round_of[step as usize]);
        out.steps.extend(order.iter().filter_map(|&step| steps[step as usize].take()));
    }
}
