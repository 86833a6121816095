//! Programs whose ranks are renamed: those that speak of other ranks by their distance, laid along a cycle from neighbour to neighbour, over
//! every parallel link; and any, written for ranks in the order of their hosts.
//!
//! ```text
//!     cycle 0 1 3 2      position 2 sends to position 3   ->   rank 3 sends to rank 2
//!     2 links            part 3 on lane 0                 ->   parts 6 and 7 on lanes 0 and 1
//! ```

use super::{Algorithm, Cost};
use crate::plan::{Chunk, Lane, Operand, Plan, RankView, Step};
use crate::types::{Collective, Rank};

/// Writes the program that `write` writes for ranks in the order of the cycle, for each of its links. Without direct links, ranks follow each
/// other by their numbers.
pub(super) fn along_cycle(v: &RankView, out: &mut Plan, write: impl Fn(&RankView, &mut Plan)) {
    match direct_cycle(v) {
        None => write(v, out),
        Some(order) => {
            write(&at_position(v, order), out);
            rename(v.collective, order, out);
        }
    }
    widen(links(v), out);
}

/// Returns the cost of [`along_cycle`], where `cost` is that of what is written for the rank [`in_cycle`].
pub(super) fn cost_along_cycle(v: &RankView, cost: impl Fn(&RankView) -> Cost) -> Cost {
    let (links, Cost { parts, sends, chunks_sent, combines, depth }) = (links(v), cost(&in_cycle(v)));
    let [parts, sends, chunks_sent, combines] =
        [parts, sends, chunks_sent, combines].map(|each| each * links);
    Cost { parts, sends, chunks_sent, combines, depth }
}

/// Writes the algorithm's program for ranks that stand in the order of their hosts.
pub(super) fn host_by_host(algorithm: &Algorithm, v: &RankView, out: &mut Plan) {
    match host_order(algorithm, v) {
        None => (algorithm.plan)(v, out),
        Some(order) => {
            (algorithm.plan)(&at_position(v, order), out);
            rename(v.collective, order, out);
        }
    }
}

/// Returns the view of this rank's position in the order of hosts.
#[cfg(test)]
pub(super) fn in_host_order(algorithm: &Algorithm, v: &RankView) -> RankView {
    host_order(algorithm, v).map_or_else(|| v.clone(), |order| at_position(v, order))
}

/// Returns the ranks host by host, if that is not their own order. An algorithm that folds in the order of the ranks keeps that.
pub(super) fn host_order<'a>(algorithm: &Algorithm, v: &'a RankView) -> Option<&'a [Rank]> {
    let hosts = v.hosts.as_ref().filter(|hosts| !algorithm.rank_order && !hosts.are_in_order());
    hosts.map(|hosts| hosts.order())
}

fn rename(collective: Collective, order: &[Rank], out: &mut Plan) {
    let n = order.len() as u32;
    let rename = |rank: &mut Rank| *rank = order[*rank as usize];
    for step in &mut out.steps {
        step.to.iter_mut().for_each(rename);
        for operand in &mut step.operands {
            if let Operand::From(from) = operand {
                rename(from);
            }
        }
        let block = &mut step.chunk.block;
        match collective {
            Collective::AllReduce | Collective::Reduce | Collective::Broadcast | Collective::Barrier => {}
            Collective::ReduceScatter | Collective::AllGather | Collective::Gather | Collective::Scatter => {
                rename(block)
            }
            Collective::AlltoAll => *block = order[(*block / n) as usize] * n + order[(*block % n) as usize],
        }
    }
}

/// Divides every part among links, each on a lane of its own.
fn widen(links: u32, out: &mut Plan) {
    if links == 1 {
        return;
    }
    let on_link = |step: &Step, link: u32| Step {
        chunk: Chunk { block: step.chunk.block, part: step.chunk.part * links + link },
        lane: step.lane * links as Lane + link as Lane,
        ..step.clone()
    };
    out.steps = out.steps.iter().flat_map(|step| (0..links).map(move |link| on_link(step, link))).collect();
    out.parts *= links;
}

fn links(v: &RankView) -> u32 {
    v.orders.as_ref().map_or(1, |orders| orders.cycles()[0].width)
}

/// Returns the view of this rank's position in the cycle.
fn in_cycle(v: &RankView) -> RankView {
    direct_cycle(v).map_or_else(|| v.clone(), |order| at_position(v, order))
}

fn direct_cycle(v: &RankView) -> Option<&[Rank]> {
    v.orders.as_ref().filter(|orders| orders.is_direct()).map(|orders| orders.first())
}

fn at_position(v: &RankView, order: &[Rank]) -> RankView {
    let position = |rank| order.iter().position(|&r| r == rank).expect("a cycle visits every rank") as Rank;
    RankView { orders: None, hosts: None, ..RankView { root: position(v.root), ..v.of(position(v.rank)) } }
}
