//! Tree: two binary trees, half of the data in each; a leaf of one has children in the other.
//!
//! ```text
//!     positions 1..=6, in order       4           tree 0: rank r sits at position r+1
//!     (odd ones are leaves)         /   \         tree 1: mirrored, rank r at position 6-r, so odd and even
//!                                 2       6               swap; for an odd number shifted by one instead
//!                                / \     /
//!                               1   3   5
//! ```
//!
//! Up: a rank folds its left child's value, its own, its right child's, and hands the result to its parent. Down: the
//! top's result goes to everybody. No rank has children in both trees, so none does the work of two. For a rooted
//! collective the root stands above both trees, which hold the other ranks.
//!
//! Cost: 2 log2(n) latencies; a rank sends the buffer once on the way up and at most once on the way down. For large
//! buffers `ring` works in smaller pieces and keeps more links busy; for a few bytes `one_shot` pays one latency, as
//! long as its n-1 arrivals cost less than the hops.

use super::rounds::Rounds;
use super::{Algorithm, Cost, any, unlike, unserved};
use crate::plan::Operand::{From, Own};
use crate::plan::{Chunk, Lane, Operand, Plan, RankView};
use crate::types::{Collective, Rank};

/// The row of the table.
pub static TREE: Algorithm = Algorithm {
    name: "tree",
    about: "two binary trees, half of the data in each, leaves of one are inner in the other",
    cost_formula: "2 log2(n)(a + S/2B)",
    serves: &[Collective::AllReduce, Collective::Broadcast, Collective::Reduce],
    rank_order: false,
    guard: any,
    alike: unlike,
    cost,
    plan,
};

/// The number of trees.
pub(super) const TREES: u32 = 2;

fn plan(v: &RankView, out: &mut Plan) {
    out.parts = TREES;
    let mut rounds = Rounds::default();
    for tree in 0..TREES {
        let (node, chunk, lane) = (Node::of(v, tree), Chunk::part(tree), tree as Lane);
        let (depth, height) = (node.depth, height(v));
        // Going up, all nodes of one depth work in the same round; going down likewise.
        match (v.collective, node.up) {
            (Collective::AllReduce, Some(up)) => {
                rounds.at(height - depth).recv_reduce_send(node.fold(), chunk, false, up).on(lane);
                rounds.at(height + depth).recv_copy_send(up, chunk, node.children()).on(lane);
            }
            (Collective::AllReduce, None) => {
                rounds.at(height).recv_reduce_send(node.fold(), chunk, true, node.children()).on(lane);
            }
            (Collective::Reduce, Some(up)) => {
                rounds.at(height - depth).recv_reduce_send(node.fold(), chunk, false, up).on(lane);
            }
            (Collective::Reduce, None) => {
                rounds.at(height).recv_reduce(node.fold(), chunk).on(lane);
            }
            (Collective::Broadcast, Some(up)) => {
                rounds.at(depth).recv_copy_send(up, chunk, node.children()).on(lane);
            }
            (Collective::Broadcast, None) => {
                rounds.at(0).copy_send(chunk, node.children()).on(lane);
            }
            _ => unserved(v),
        }
    }
    rounds.write(out);
}

fn cost(v: &RankView) -> Cost {
    let mut cost = Cost { parts: TREES, depth: height(v), ..Cost::default() };
    for node in (0..TREES).map(|tree| Node::of(v, tree)) {
        let (up, children) = (node.up.is_some() as u32, node.children().len() as u32);
        if v.collective != Collective::Broadcast {
            cost.sends += up;
            cost.chunks_sent += up;
            cost.combines += children;
        }
        if v.collective != Collective::Reduce {
            cost.sends += children.min(1);
            cost.chunks_sent += children;
        }
    }
    if v.collective == Collective::AllReduce {
        cost.depth *= 2;
    }
    cost
}

/// A rank's place in one tree.
pub(super) struct Node {
    /// The parent; the top has none.
    pub up: Option<Rank>,
    left: Option<Rank>,
    right: Option<Rank>,
    /// Hops from the top.
    pub depth: u32,
}

impl Node {
    /// Returns the place of the view's rank in a tree.
    pub fn of(v: &RankView, tree: u32) -> Node {
        let (n, rooted) = (v.nranks, v.collective.rooted());
        // The trees hold all ranks, or all but the root, counted from the one after it.
        let (size, first) = if rooted { (n - 1, v.root + 1) } else { (n, 0) };
        let rank_at = |position: u32| (first + seat(tree, position, size)) % n;
        let top = top(size);
        if rooted && v.rank == v.root {
            return Node { up: None, left: Some(rank_at(top)), right: None, depth: 0 };
        }
        let me = position(tree, (v.rank + n - first % n) % n, size);
        // The height of this position above the lowest leaves.
        let above = me.trailing_zeros();
        // Of the positions that are missing at the end, the child is the highest one below that is there.
        let right = (0..above).rev().map(|j| me + (1 << j)).find(|&p| p <= size);
        let depth = std::iter::successors(parent(me, size), |&p| parent(p, size)).count() as u32;
        Node {
            up: parent(me, size).map(rank_at).or(rooted.then_some(v.root)),
            left: above.checked_sub(1).map(|j| rank_at(me - (1 << j))),
            right: right.map(rank_at),
            depth: depth + rooted as u32,
        }
    }

    /// Returns the children, of which there are at most two.
    pub fn children(&self) -> Vec<Rank> {
        self.left.into_iter().chain(self.right).collect()
    }
    fn fold(&self) -> Vec<Operand> {
        self.left.map(From).into_iter().chain([Own]).chain(self.right.map(From)).collect()
    }
}

/// Returns the number of hops from the top of a tree, or from the root above it, to the lowest leaf.
pub(super) fn height(v: &RankView) -> u32 {
    if v.collective.rooted() { 1 + (v.nranks - 1).ilog2() } else { v.nranks.ilog2() }
}

/// Returns the top of the in-order tree over positions `1..=size`: the largest power of two.
fn top(size: u32) -> u32 {
    1 << size.ilog2()
}

/// Returns the parent of a position: its lowest set bit is cleared and the next bit is set. If that is beyond the end, the bit is
/// only cleared.
fn parent(position: u32, size: u32) -> Option<u32> {
    let low = position & position.wrapping_neg();
    let cleared = position - low;
    let up = cleared | low << 1;
    if up <= size { Some(up) } else { (cleared > 0).then_some(cleared) }
}

/// Returns the member, counted from 0, that has a position in a tree.
fn seat(tree: u32, position: u32, size: u32) -> u32 {
    match (tree, size % 2) {
        (0, _) => position - 1,
        (_, 0) => size - position,
        _ => position % size,
    }
}

/// Returns the position of a member, counted from 0, in a tree: the inverse of [`seat`].
fn position(tree: u32, member: u32, size: u32) -> u32 {
    match (tree, size % 2) {
        (0, _) => member + 1,
        (_, 0) => size - member,
        _ if member == 0 => size,
        _ => member,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_and_children_agree() {
        for size in 1..=130 {
            for tree in 0..TREES {
                assert!((1..=size).all(|p| position(tree, seat(tree, p, size), size) == p), "{size}, {tree}");
            }
            let node = |rank| Node::of(&RankView::flat(Collective::AllReduce, rank, size, 0), 1);
            for rank in 0..size {
                let children: Vec<Rank> = (0..size).filter(|&r| node(r).up == Some(rank)).collect();
                let mut known = node(rank).children();
                known.sort_unstable();
                assert_eq!(known, children, "rank {rank} of {size}");
            }
        }
    }

    fn inner(nranks: u32, rank: Rank, tree: u32) -> bool {
        let v = RankView::flat(Collective::AllReduce, rank, nranks, 0);
        !Node::of(&v, tree).children().is_empty()
    }

    #[test]
    fn no_rank_has_children_in_both_trees() {
        for n in 2..=130 {
            assert!((0..n).all(|r| !(inner(n, r, 0) && inner(n, r, 1))), "{n} ranks");
        }
    }

    #[test]
    fn a_leaf_of_one_tree_is_inner_in_the_other_but_for_one_rank_of_an_odd_number() {
        for n in 2..=130 {
            let idle = (0..n).filter(|&r| !inner(n, r, 0) && !inner(n, r, 1)).count() as u32;
            assert_eq!(idle, n % 2, "{n} ranks");
        }
    }

    #[test]
    fn no_rank_is_deeper_than_the_height() {
        for collective in [Collective::AllReduce, Collective::Broadcast] {
            for n in 2..=130 {
                let view = |rank| RankView::flat(collective, rank, n, n / 2);
                let deepest =
                    (0..n).map(|r| Node::of(&view(r), 0).depth.max(Node::of(&view(r), 1).depth)).max();
                assert_eq!(deepest, Some(height(&view(0))), "{collective}, {n} ranks");
            }
        }
    }
}
