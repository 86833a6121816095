//! Neighbour rings: on a machine of direct links, as many rings at once as there are links for them.
//!
//! ```text
//!     2 x 4 devices, 2 links an edge      0 - 1      lanes 0, 1   0 1 3 5 7 6 4 2
//!                                         2 - 3      lanes 2, 3   the same backwards
//!                                         4 - 5      every link of the cycle is busy in both directions, and no message
//!                                         6 - 7      passes a third device
//! ```
//!
//! The cycles are those of the machine's graph that visit every rank once and have no link in common, each both ways and on each of
//! its parallel links; `topology::rings` finds them. Each ring carries an equal share.
//!
//! Cost: the bytes of `ring` in as many times its messages as there are rings, which is as many times faster where messages are
//! long. It needs such a cycle. A line, a tree, or a mesh of odd extents has none: there `ring` and `ring_pair` go the way on which the
//! fewest messages share a link, with hops of several links.

use super::Algorithm;
use super::ring::{SERVES, cost, cycled, plan};
use crate::plan::RankView;
use crate::types::Rank;

/// The row of the table.
pub static NEIGHBOUR_RINGS: Algorithm = Algorithm {
    name: "neighbour_rings",
    about: "rings between neighbours only, over every link that a cycle through all ranks can use",
    cost_formula: "2(n-1)(a + S/rnB), r rings",
    serves: SERVES,
    rank_order: false,
    guard,
    alike: cycled,
    cost: |v| cost(v, &lanes(v)),
    plan: |v, out| plan(v, &lanes(v), out),
};

fn guard(v: &RankView) -> Option<&'static str> {
    match &v.orders {
        None => Some(
            "it goes over the direct links of a declared machine, and here are none, or switches between them",
        ),
        Some(orders) if !orders.is_direct() => Some(
            "no cycle over the machine's links visits each of these ranks once; ask for ring or ring_pair, which go the way \
             on which the fewest messages share a link, or place the ranks on devices that a cycle joins",
        ),
        Some(_) => None,
    }
}

/// Returns the ring of each lane.
pub(super) fn lanes(v: &RankView) -> Vec<Vec<Rank>> {
    v.orders.as_ref().map_or_else(Vec::new, |orders| orders.lanes().to_vec())
}
