//! In switch: the switch between the ranks folds what they send, and copies what is for all.
//!
//! ```text
//!     n = 3, chunks a b c      first     0, 1, 2 --a0 + a1 + a2--> 0    chunk j, folded by the switch, to rank j
//!                              second    0 --a--> {0, 1, 2}             rank j sends it once, the switch copies it
//! ```
//!
//! The data moves as with `two_shot`, and a broadcast or a reduction as with `one_shot`; on shared memory they are the same. What differs is
//! what the declared machine's ports carry: a rank sends its n chunks to the switch and one result, and gets one sum and n results, where
//! a ring passes almost two buffers each way. This is what NCCL calls NVLS, and on the leaves of a network SHARP.
//!
//! Cost: two latencies; (n+1)/n of the buffer through each port in each direction.

use super::one_shot::ONE_SHOT;
use super::two_shot::TWO_SHOT;
use super::{Algorithm, Cost, turned};
use crate::plan::{InSwitch, Plan, RankView};
use crate::types::Collective;

/// The row of the table.
pub static IN_SWITCH: Algorithm = Algorithm {
    name: "in_switch",
    about: "the switch between the ranks folds chunk j for rank j and copies its result to all",
    cost_formula: "2a + (n+1)/n S/B",
    serves: &[
        Collective::AllReduce,
        Collective::ReduceScatter,
        Collective::AllGather,
        Collective::Reduce,
        Collective::Broadcast,
    ],
    rank_order: true,
    guard,
    alike: turned,
    cost,
    plan,
};

fn guard(v: &RankView) -> Option<&'static str> {
    match v.in_switch {
        InSwitch::All => None,
        InSwitch::Nodes => Some("no single switch that copies and sums joins all ranks; see in_switch_trees"),
        InSwitch::None => {
            Some("no switch that copies and sums (in_switch in a machine's file) joins the ranks")
        }
    }
}

/// Returns the algorithm that moves the same data without the switch's help.
fn plain(v: &RankView) -> &'static Algorithm {
    if v.collective.rooted() { &ONE_SHOT } else { &TWO_SHOT }
}

fn plan(v: &RankView, out: &mut Plan) {
    (plain(v).plan)(v, out);
    for step in &mut out.steps {
        if step.operands.len() > 1 || (step.keep && !step.to.is_empty()) {
            step.in_switch();
        }
    }
}

fn cost(v: &RankView) -> Cost {
    (plain(v).cost)(v)
}
