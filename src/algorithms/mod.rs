//! The methods, one idea a file. An algorithm is pure: given a [`View`] it writes that rank's [`Plan`].
//!
//! To add one: write the file, add its row to [`ALL`]. The plan checker, the executor, `penny plan`, `penny algos`
//! and the benchmarks find it there.

use crate::plan::{Plan, View};
use crate::types::Collective;

/// What the table of methods says about one algorithm.
pub struct Algorithm {
    /// The name that `PENNY_ALGO` accepts.
    pub name: &'static str,
    /// The idea in one sentence, for `penny algos`.
    pub about: &'static str,
    /// What it costs, for `penny algos`: n ranks, S bytes, B bandwidth, a latency.
    pub cost_formula: &'static str,
    /// The collectives it can plan.
    pub serves: &'static [Collective],
    /// Folds all inputs in rank order with one rounding, so its bits do not depend on the number of slices or on
    /// the method; `PENNY_REPRODUCIBLE=1` allows only such methods for reductions.
    pub rank_order: bool,
    /// Why it cannot serve this view, or `None` if it can.
    pub guard: fn(&View) -> Option<&'static str>,
    /// The declared cost, which the checker holds against the plan.
    pub cost: fn(&View) -> Cost,
    /// Writes the program.
    pub plan: fn(&View, &mut Plan),
}

/// What one rank's program costs, in exact counts. A fraction of the vector is `numerator` chunks of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Messages this rank sends; a send to a set counts once.
    pub sends: u32,
    /// Chunks this rank puts on the wire; a send to a set of k counts k.
    pub chunks_sent: u32,
    /// Two-operand combinations this rank computes.
    pub combines: u32,
    /// Length of the longest dependency chain of messages over all ranks.
    pub depth: u32,
}
