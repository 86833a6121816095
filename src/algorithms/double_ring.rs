//! Double ring: a ring across the nodes for each local rank, then a ring inside the node.
//!
//! ```text
//!     2 nodes of 2, chunk d of rank 3        0 --------------------------> 2
//!       up: across, then inside                      1 --------------------------> 3
//!                                                                    2 ----> 3   folds both and its own
//!       down: inside, then across                                    2 <---- 3
//!                                            0 <-------------------------- 2
//!                                                    1 <-------------------------- 3
//! ```
//!
//! The rails' sums of a chunk meet in the one node that it belongs to, and are passed round the other nodes only when
//! they are complete.
//!
//! Cost: as many hops as `hierarchical`, whose axes these are in the other order. The wires inside a node carry only
//! 2(g-1)/gN of the buffer, those between nodes 2(N-1)/N. It is right where nodes are weakly wired inside; where the
//! network is the slower part, which is usual, `hierarchical` sends g times less through it.

use super::hierarchical::nodes;
use super::torus::{Way, cost, plan};
use super::{Algorithm, Alike, any};
use crate::types::Collective;

/// The row of the table.
pub static DOUBLE_RING: Algorithm = Algorithm {
    name: "double_ring",
    about: "a ring across the nodes for each local rank, then a ring inside the node",
    cost_formula: "2(g+N-2)a + 2(N-1)/N S/B across, N nodes of g",
    serves: &[Collective::AllReduce],
    rank_order: false,
    guard: any,
    alike: |v| Alike::Shifted(nodes(v)),
    cost: |v| cost(v, nodes(v), &[ACROSS_FIRST]),
    plan: |v, out| plan(v, nodes(v), &[ACROSS_FIRST], out),
};

const ACROSS_FIRST: Way = Way { axes: [1, 0, 2], backwards: false };
