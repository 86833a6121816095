//! Hierarchical: reduce-scatter inside the node, a ring across nodes for each local rank, all-gather inside the node.
//!
//! ```text
//!     2 nodes of 2, chunk d of rank 3        0 ----> 1                       2 ----> 3
//!       up: inside, then across                      1 --------------------------> 3   folds both and its own
//!       down: across, then inside                    1 <-------------------------- 3
//!                                            0 <---- 1                       2 <---- 3
//! ```
//!
//! Two axes of the general grid, see `torus`: here the ranks of a node and the nodes, always in this order.
//!
//! Cost: what crosses between two nodes has been combined inside the node first, so each NIC carries 2(N-1)/gN of the
//! buffer, as with `alternating_rings`, but a chunk passes only 2(g-1 + N-1) hops, of which 2(N-1) between nodes.
//! In one node it is `ring`.

use super::torus::{Way, cost, plan};
use super::{Algorithm, Alike, any};
use crate::plan::{RankView, Shape};
use crate::types::Collective;

/// The row of the table.
pub static HIERARCHICAL: Algorithm = Algorithm {
    name: "hierarchical",
    about: "rings inside the nodes, and across them for each local rank",
    cost_formula: "2(g+N-2)a + 2(N-1)/gN S/B across, N nodes of g",
    serves: &[Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter],
    rank_order: false,
    guard: any,
    alike: |v| Alike::Shifted(nodes(v)),
    cost: |v| cost(v, nodes(v), &[INSIDE_FIRST]),
    plan: |v, out| plan(v, nodes(v), &[INSIDE_FIRST], out),
};

const INSIDE_FIRST: Way = Way { axes: [0, 1, 2], backwards: false };

/// Returns the ranks of a node, and the nodes as one axis.
pub(super) fn nodes(v: &RankView) -> Shape {
    Shape([v.shape.per_node(), v.shape.nodes(), 1])
}
