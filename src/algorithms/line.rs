//! Line: a chain whose ends are not connected, both directions at once.
//!
//! ```text
//!     n = 4, the chunk of rank 1           gather:   0 <-- 1 --> 2 --> 3
//!                                          scatter:  0 --> 1 <-- 2 <-- 3         nothing between 3 and 0
//! ```
//!
//! It is `meet_in_middle` cut open: every chunk goes to both ends of the chain, and in the reduce-scatter partial sums
//! come from both ends to the owner, which folds what comes from below, its own and what comes from above.
//!
//! Cost: 2(n-1) rounds like `ring`, half as fast as `ring_pair` or `meet_in_middle`, which need the link that closes
//! the ring: where there is one, use those. Where there is none, their messages between the ends would pass every other
//! rank's link.

use super::meet_in_middle::{self, SERVES};
use super::renamed::{along_cycle, cost_along_cycle};
use super::{Algorithm, Cost, any, unlike, unserved};
use crate::plan::RankView;
use crate::types::Collective;

/// The row of the table.
pub static LINE: Algorithm = Algorithm {
    name: "line",
    about: "a chain with open ends, both directions at once",
    cost_formula: "2(n-1)(a + S/nB)",
    serves: SERVES,
    rank_order: false,
    guard: any,
    alike: unlike,
    cost: |v| cost_along_cycle(v, cost),
    plan: |v, out| {
        along_cycle(v, out, |v, out| meet_in_middle::plan(v, [|v| v.nranks - 1 - v.rank, |v| v.rank], out));
    },
};

fn cost(v: &RankView) -> Cost {
    let (n, hops) = (v.nranks, v.nranks - 1);
    // The ends start the sums and pass nothing on; the others fold every sum but their own, and theirs from both sides.
    let end = v.rank == 0 || v.rank == hops;
    let combines = if end { 1 } else { n + 1 };
    let (gather, gathered) = if end { (1, 1) } else { (n, n + 1) };
    let (parts, sends, chunks_sent, combines, depth) = match v.collective {
        Collective::AllReduce => (n, hops + gather, hops + gathered, combines, 2 * hops),
        Collective::ReduceScatter => (1, hops, hops, combines, hops),
        Collective::AllGather => (1, gather, gathered, 0, hops),
        _ => unserved(v),
    };
    Cost { parts, sends, chunks_sent, combines, depth }
}
