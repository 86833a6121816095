//! Programs that speak of other ranks by their distance, laid along a cycle from neighbour to neighbour.
//!
//! ```text
//!     cycle 0 1 3 2      position 2 sends to position 3   ->   rank 3 sends to rank 2
//! ```

use crate::plan::{Operand, Plan, RankView};
use crate::types::{Collective, Rank};

/// Writes the program that `write` writes for ranks in the order of the cycle. Without direct links, ranks follow each other by their numbers.
pub(super) fn along_cycle(v: &RankView, out: &mut Plan, write: impl Fn(&RankView, &mut Plan)) {
    let Some(order) = direct_cycle(v) else { return write(v, out) };
    write(&at_position(v, order), out);
    let names_blocks = matches!(v.collective, Collective::ReduceScatter | Collective::AllGather);
    let rename = |rank: &mut Rank| *rank = order[*rank as usize];
    for step in &mut out.steps {
        step.to.iter_mut().for_each(rename);
        for operand in &mut step.operands {
            if let Operand::From(from) = operand {
                rename(from);
            }
        }
        if names_blocks {
            rename(&mut step.chunk.block);
        }
    }
}

/// Returns the view of this rank's position in the cycle.
pub(super) fn in_cycle(v: &RankView) -> RankView {
    direct_cycle(v).map_or_else(|| v.clone(), |order| at_position(v, order))
}

fn direct_cycle(v: &RankView) -> Option<&[Rank]> {
    v.orders.as_ref().filter(|orders| orders.is_direct()).map(|orders| orders.first())
}

fn at_position(v: &RankView, order: &[Rank]) -> RankView {
    let position = |rank| order.iter().position(|&r| r == rank).expect("a cycle visits every rank") as Rank;
    RankView { orders: None, ..RankView { root: position(v.root), ..v.of(position(v.rank)) } }
}
