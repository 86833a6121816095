//! Ring pair: half of the data each way, so that both directions of every link are busy.
//!
//! ```text
//!     n = 3, 2n chunks     lane 0:  0 --a--> 1 --b--> 2 --c--> 0     first half of the buffer
//!                          lane 1:  0 --d--> 2 --f--> 1 --e--> 0     second half
//! ```
//!
//! Cost: the bytes of `ring` in twice as many messages; half the time where a link carries both directions at once.
//! Through shared memory there is no such link, and `ring` does the same with fewer steps.

use super::ring::{SERVES, both_ways, cost, cycled, plan};
use super::{Algorithm, any};

/// The row of the table.
pub static RING_PAIR: Algorithm = Algorithm {
    name: "ring_pair",
    about: "two rings in opposite directions, half of the data each",
    cost_formula: "2(n-1)(a + S/2nB)",
    serves: SERVES,
    rank_order: false,
    guard: any,
    alike: cycled,
    cost: |v| cost(v, &both_ways(v)),
    plan: |v, out| plan(v, &both_ways(v), out),
};
