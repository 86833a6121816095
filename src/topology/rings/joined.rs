//! The cycles over nodes within which every place has a link to every other one.
//!
//! ```text
//!     a node of 6    cycle 0   0 1 5 2 4 3       in turn up and down from the first place: each hop is another number of places
//!                    cycle 1   1 2 0 3 5 4       long, so that the turned ones together take each link once
//!                    cycle 2   2 3 1 4 0 5
//!     nodes          n0: 0 1 5 2 4 3 -> n1: 3 4 2 5 1 0 -> n2: 0 ...      the next node backwards: a cycle leaves by the NIC of a
//!                                                                         place and arrives at the same place's
//! ```
//!
//! With nodes of g places these are g / 2 cycles; both ways they use each link within the nodes and each NIC once in each direction. Where the
//! number of nodes is odd, one hop goes to another place's NIC.

use super::super::Network;
use crate::types::Rank;

/// Returns the cycles of ranks that fill whole nodes of an even number of places, each joined to every other one. `None`: the nodes are
/// others.
pub(super) fn of_nodes(
    network: &Network,
    size: u32,
    edges: &[(Rank, Rank, u32)],
    places: &[Rank],
) -> Option<Vec<Vec<Rank>>> {
    let mut pairs = (0..size).flat_map(|a| (a + 1..size).map(move |b| (a, b)));
    let is_joined = |(a, b)| edges.iter().any(|&(from, to, _)| (from, to) == (a, b) || (from, to) == (b, a));
    if !size.is_multiple_of(2) || !pairs.all(is_joined) {
        return None;
    }
    let nodes = network.shape_of(places);
    let fills = |ranks: &[Rank]| {
        let mut standing: Vec<Rank> = ranks.to_vec();
        standing.sort_unstable();
        standing[0].is_multiple_of(size) && standing.iter().copied().eq(standing[0]..standing[0] + size)
    };
    if nodes.per_node() != size || !places.chunks(size as usize).all(fills) {
        return None;
    }
    // The rank within a node, by its place there.
    let ranks_at: Vec<Vec<Rank>> = (0..)
        .zip(places.chunks(size as usize))
        .map(|(node, standing)| {
            let mut ranks = vec![0; size as usize];
            for (rank, &place) in (node * size..).zip(standing) {
                ranks[(place % size) as usize] = rank;
            }
            ranks
        })
        .collect();
    let cycle = |first: u32| {
        let through = up_and_down(size, first);
        let visit = |(node, ranks): (usize, &Vec<Rank>)| -> Vec<Rank> {
            let order = through.iter().map(|&place| ranks[place as usize]);
            if node.is_multiple_of(2) { order.collect() } else { order.rev().collect() }
        };
        ranks_at.iter().enumerate().flat_map(visit).collect()
    };
    Some((0..size / 2).map(cycle).collect())
}

/// Returns all places of a node from `first` on: the next one above those that were visited, the next one below, and so on.
fn up_and_down(size: u32, first: u32) -> Vec<u32> {
    let away = |step: u32| if step.is_multiple_of(2) { size - step / 2 } else { step / 2 + 1 };
    (0..size).map(|step| (first + if step == 0 { 0 } else { away(step) }) % size).collect()
}
