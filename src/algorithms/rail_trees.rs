//! Rail trees: for each rail two binary trees over the nodes, half of the rail's data in each, and a chain inside every node.
//!
//! ```text
//!     3 nodes of 4, rail 1, tree 0         node 0: 2 > 3 > 0 > 1        the chain ends at the rank on the rail,
//!                                          node 1: 6 > 7 > 4 > 5        which is a node of the tree
//!              5                           node 2: 10 > 11 > 8 > 9
//!             / \
//!            1   9                         up: chains, then the tree; down: the tree, then the chains backwards
//! ```
//!
//! The trees are those of `tree`, with nodes in place of ranks. Every rank is the head of its node's chain on its own rail, so all NICs
//! carry the same. This is what NCCL calls Tree.
//!
//! Cost: 2(g-1) latencies inside nodes and 2 log2(N) between them, N nodes of g ranks. A NIC sends its rail's share of the buffer up
//! once and down at most once; a rank passes on the whole buffer in each direction.

use super::rounds::Rounds;
use super::tree::{Node, TREES, height};
use super::{Algorithm, Cost, unlike};
use crate::plan::Operand::{From, Own};
use crate::plan::{Chunk, Lane, Plan, RankView};
use crate::types::{Collective, Rank};

/// The row of the table.
pub static RAIL_TREES: Algorithm = Algorithm {
    name: "rail_trees",
    about: "two binary trees over the nodes for each rail, chains inside the nodes",
    cost_formula: "2(g-1 + log2 N)a + 2S/gB across, N nodes of g",
    serves: &[Collective::AllReduce],
    rank_order: false,
    guard: check_per_node,
    alike: unlike,
    cost,
    plan,
};

/// The most ranks of a node: with each, all ranks have two places more.
const MOST_PER_NODE: u32 = 64;

/// A rank's place on one rail, in one tree.
struct Place {
    lane: Lane,
    /// The rank before it in the chain, which is farther from the head.
    before: Option<Rank>,
    /// The rank after it; the head has none.
    after: Option<Rank>,
    /// Ranks before it in the chain.
    position: u32,
    /// The heads of the parent node and of the child nodes; only a head has them.
    up: Option<Rank>,
    children: Vec<Rank>,
    /// Hops from the top node to this node.
    depth: u32,
}

/// Returns the rank's places on all rails, in both trees.
fn places(v: &RankView) -> impl Iterator<Item = Place> + '_ {
    let (g, own) = (v.shape.per_node(), v.rank / v.shape.per_node());
    trees(v).map(move |(lane, rail, node)| {
        // The chain goes round from the rank after the head to the head.
        let position = (v.rank % g + 2 * g - rail - 1) % g;
        let at = |position: u32| own * g + (rail + 1 + position) % g;
        let head = |node: Rank| node * g + rail;
        let is_head = position == g - 1;
        Place {
            lane,
            before: position.checked_sub(1).map(at),
            after: (!is_head).then(|| at(position + 1)),
            position,
            up: node.up.filter(|_| is_head).map(head),
            children: if is_head { node.children().into_iter().map(head).collect() } else { Vec::new() },
            depth: node.depth,
        }
    })
}

/// Returns the place of the rank's node in the trees of all rails: lane, rail, and the node.
pub(super) fn trees(v: &RankView) -> impl Iterator<Item = (Lane, u32, Node)> + '_ {
    let (g, own) = (v.shape.per_node(), v.rank / v.shape.per_node());
    let of_rails = move |tree: u32| (0..g).map(move |rail| (tree, rail));
    (0..TREES)
        .flat_map(of_rails)
        .map(move |(tree, rail)| ((tree * g + rail) as Lane, rail, Node::of(&nodes(v).of(own), tree)))
}

/// Refuses nodes of more ranks than the trees of all rails are made for.
pub(super) fn check_per_node(v: &RankView) -> Option<&'static str> {
    (v.shape.per_node() > MOST_PER_NODE).then_some("nodes have more than 64 ranks")
}

/// Returns the view in which nodes are ranks.
pub(super) fn nodes(v: &RankView) -> RankView {
    RankView::flat(v.collective, 0, v.nranks / v.shape.per_node(), 0)
}

fn plan(v: &RankView, out: &mut Plan) {
    let (g, height) = (v.shape.per_node(), height(&nodes(v)));
    out.parts = TREES * g;
    let mut rounds = Rounds::default();
    for Place { lane, before, after, position, up, children, depth } in places(v) {
        let chunk = Chunk::part(lane.into());
        let operands = before.map(From).into_iter().chain([Own]);
        let operands = operands.chain(children.iter().copied().map(From)).collect();
        let down: Vec<Rank> = children.into_iter().chain(before).collect();
        let top = height + g - 1;
        match after.or(up) {
            None => {
                rounds.at(top).recv_reduce_send(operands, chunk, true, down).on(lane);
            }
            Some(towards_top) => {
                rounds
                    .at(height - depth + position)
                    .recv_reduce_send(operands, chunk, false, towards_top)
                    .on(lane);
                let round = top + depth + (g - 1 - position);
                rounds.at(round).recv_copy_send(towards_top, chunk, down).on(lane);
            }
        }
    }
    rounds.write(out);
}

fn cost(v: &RankView) -> Cost {
    let (g, height) = (v.shape.per_node(), height(&nodes(v)));
    let mut cost = Cost { parts: TREES * g, depth: 2 * (height + g - 1), ..Cost::default() };
    for place in places(v) {
        let incoming = (place.before.is_some() as u32) + place.children.len() as u32;
        let up = place.after.or(place.up).is_some() as u32;
        cost.sends += up + incoming.min(1);
        cost.chunks_sent += up + incoming;
        cost.combines += incoming;
    }
    cost
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Shape;

    #[test]
    fn ranks_on_other_rails_of_other_nodes_never_meet() {
        for (g, n) in [(1, 5), (4, 3), (8, 2), (3, 7)] {
            for rank in 0..g * n {
                let v = RankView {
                    shape: Shape([g, n, 1]),
                    ..RankView::flat(Collective::AllReduce, rank, g * n, 0)
                };
                for peer in places(&v).flat_map(|p| p.up.into_iter().chain(p.children)) {
                    assert_eq!(peer % g, rank % g, "{n} nodes of {g}: rank {rank} and {peer}");
                    assert_ne!(peer / g, rank / g);
                }
            }
        }
    }

    #[test]
    fn every_rank_is_the_head_of_its_own_rail() {
        let v =
            |rank| RankView { shape: Shape([4, 3, 1]), ..RankView::flat(Collective::AllReduce, rank, 12, 0) };
        for rank in 0..12 {
            let heads: Vec<_> =
                places(&v(rank)).filter(|p| p.after.is_none()).map(|p| u32::from(p.lane) % 4).collect();
            assert_eq!(heads, [rank % 4; 2]);
        }
    }
}
