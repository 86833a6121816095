//! Alternating rings: one ring for each NIC of a node, so that all of them transmit and receive all the time.
//!
//! ```text
//!     2 nodes of 4; rank = 4 * node + local
//!       lane 0    1 2 3 0 -> 4 7 6 5 ->        between nodes on rails 0 and 1
//!       lane 1    the same backwards
//!       lane 2    3 0 1 2 -> 6 5 4 7 ->        on rails 2 and 3
//!       lane 3    the same backwards
//! ```
//!
//! A broadcast starts at the root in all of them, and a reduction ends there.
//!
//! A plain ring over nodes leaves each node through one NIC, while the others idle. Each of these rings carries an
//! equal share; which rails they take, for any number of nodes of any size, is [`orders::alternating`]. In one node
//! there is no NIC to keep busy: there it is one ring each way.
//!
//! Cost: the bytes of `ring` in as many times its messages as nodes have ranks. For small messages that is too many,
//! and `hierarchical` crosses the network less often; where nodes have one NIC for all their ranks there is nothing to
//! gain.

use super::ring::{SERVES, cost, plan};
use super::{Algorithm, Alike, any};
use crate::plan::RankView;
use crate::topology::orders;
use crate::types::Rank;

/// The row of the table.
pub static ALTERNATING_RINGS: Algorithm = Algorithm {
    name: "alternating_rings",
    about: "one ring for each NIC of a node, none of which leaves its rails",
    cost_formula: "2(n-1)(a + S/gnB), g NICs a node",
    serves: SERVES,
    rank_order: false,
    guard: any,
    alike: |v| if v.collective.rooted() { Alike::No } else { Alike::StepByStep },
    cost: |v| cost(v, &rings(v)),
    plan: |v, out| plan(v, &rings(v), out),
};

/// One ring a lane.
pub(super) fn rings(v: &RankView) -> Vec<Vec<Rank>> {
    let mut rings = orders::alternating(v.shape);
    if v.shape.nodes() == 1 {
        rings.truncate(2);
    }
    rings
}
