//! Reverse ring: `ring`, the other way round.
//!
//! ```text
//!     n = 3:   0 --a--> 2 --c--> 1 --b--> 0
//! ```
//!
//! Cost: that of `ring`. On a machine where both directions are alike there is nothing to gain; it is for fabrics whose
//! links are loaded on one side only, and the other half of `ring_pair`.

use super::ring::{SERVES, backward, cost, cycled, plan};
use super::{Algorithm, any};

/// The row of the table.
pub static RING_REVERSE: Algorithm = Algorithm {
    name: "ring_reverse",
    about: "the ring, the other way round",
    cost_formula: "2(n-1)(a + S/nB)",
    serves: SERVES,
    rank_order: false,
    guard: any,
    alike: cycled,
    cost: |v| cost(v, &backward(v)),
    plan: |v, out| plan(v, &backward(v), out),
};
