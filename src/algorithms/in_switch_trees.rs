//! In-switch trees: for each rail two binary trees over the nodes, half of the rail's data in each; inside a node its switch folds and
//! copies.
//!
//! ```text
//!     3 nodes of 4, rail 1, tree 0     up: each node's switch folds the part of its 4 ranks for the rank on the rail;
//!                                      then the tree
//!              5
//!             / \                      down: the tree; then each node's switch copies what its rank on the rail has
//!            1   9
//! ```
//!
//! `rail_trees` with a switch in place of each chain. This is what NCCL calls NVLSTree.
//!
//! Cost: 2 latencies inside nodes and 2 log2(N) between them, N nodes of g ranks. A NIC sends its rail's share of the buffer up
//! once and down at most once.

use super::rail_trees::{check_per_node, nodes, trees};
use super::rounds::Rounds;
use super::tree::{TREES, height};
use super::{Algorithm, Cost, unlike};
use crate::plan::Operand::{From, Own};
use crate::plan::{Chunk, InSwitch, Lane, Operand, Plan, RankView};
use crate::types::{Collective, Rank};

/// The row of the table.
pub static IN_SWITCH_TREES: Algorithm = Algorithm {
    name: "in_switch_trees",
    about: "two binary trees over the nodes for each rail, switches that fold and copy inside the nodes",
    cost_formula: "2(1 + log2 N)a + 2S/gB across, N nodes of g",
    serves: &[Collective::AllReduce],
    rank_order: false,
    guard,
    alike: unlike,
    cost,
    plan,
};

fn guard(v: &RankView) -> Option<&'static str> {
    if v.in_switch != InSwitch::Nodes {
        return Some(
            "it needs several nodes, each with a switch that copies and sums (in_switch in a machine's file)",
        );
    }
    check_per_node(v)
}

/// A rank on the one rail, in one tree, where its node's data goes to the tree.
struct Head {
    up: Option<Rank>,
    children: Vec<Rank>,
    depth: u32,
}

/// The rails in both trees: lane, rank of this node on the rail, and its place in the tree.
fn rails(v: &RankView) -> impl Iterator<Item = (Lane, Rank, Head)> + '_ {
    let (g, own) = (v.shape.per_node(), v.rank / v.shape.per_node());
    trees(v).map(move |(lane, rail, node)| {
        let on_rail = |node: Rank| node * g + rail;
        let children = node.children().into_iter().map(on_rail).collect();
        let head = Head { up: node.up.map(on_rail), children, depth: node.depth };
        (lane, on_rail(own), head)
    })
}

fn plan(v: &RankView, out: &mut Plan) {
    let (g, height) = (v.shape.per_node(), height(&nodes(v)));
    out.parts = TREES * g;
    let first = v.rank - v.rank % g;
    let mut rounds = Rounds::default();
    for (lane, head, Head { up, children, depth }) in rails(v) {
        let chunk = Chunk::part(lane.into());
        // Two rounds more below the deepest node, and above the top node: into the heads, and out of them.
        let (into, out_of) = (height - depth, height + 2 + depth);
        if v.rank != head {
            rounds.at(into).send(head, chunk).on(lane);
            rounds.at(out_of + 1).recv_copy(head, chunk).on(lane);
            continue;
        }
        let others = || (first..first + g).filter(|&rank| rank != head);
        let own_node = (first..first + g).map(|rank| if rank == head { Own } else { From(rank) });
        let operands: Vec<Operand> = own_node.chain(children.iter().copied().map(From)).collect();
        let down: Vec<Rank> = children.iter().copied().chain(others()).collect();
        match up {
            None => {
                rounds.at(height + 1).recv_reduce_send(operands, chunk, true, down).on(lane).in_switch();
            }
            Some(up) => {
                rounds.at(into + 1).recv_reduce_send(operands, chunk, false, up).on(lane).in_switch();
                rounds.at(out_of).recv_copy_send(up, chunk, down).on(lane).in_switch();
            }
        }
    }
    rounds.write(out);
}

fn cost(v: &RankView) -> Cost {
    let (g, height) = (v.shape.per_node(), height(&nodes(v)));
    let mut cost = Cost { parts: TREES * g, depth: 2 * (height + 1), ..Cost::default() };
    for (_, head, Head { up, children, .. }) in rails(v) {
        if v.rank != head {
            cost.sends += 1;
            cost.chunks_sent += 1;
            continue;
        }
        let (children, is_below) = (children.len() as u32, up.is_some() as u32);
        cost.sends += is_below + 1;
        cost.chunks_sent += is_below + children + g - 1;
        cost.combines += children + g - 1;
    }
    cost
}
