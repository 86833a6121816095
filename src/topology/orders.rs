//! Orders in which a ring visits the ranks of nodes, and a census of what they ask of the network.
//!
//! ```text
//!     4 nodes of 4 ranks, a NIC each; the alternating ring 0 stays on rails 0 and 1
//!       rail 0     n0 ----> n1     n2 ----> n3         enter on one rail of the pair, visit the whole node,
//!       rail 1  -> n0      n1 ----> n2      n3 ->      leave on the other
//! ```
//!
//! A **rail** joins the NICs of equal local rank. A ring that stays on a rail between nodes passes one leaf switch; one
//! that changes rail passes the spine. The single order keeps one NIC a node busy each way; [`alternating`] has as many
//! rings as NICs, and over all of them each NIC transmits once and receives once:
//!
//! - an even number of nodes of even size: rings in pairs. The first leaves even nodes by rail a and odd ones by rail
//!   a + 1, the second is the same backwards. All hops inside nodes are between neighbours.
//! - otherwise ring r leaves node k by rail r + c(k) modulo the ranks a node, with c = 0, 1, 0, 1, ... and, where the
//!   number of nodes is odd, c = 2 for the last: neighbouring nodes differ round the whole circle. No hop changes rail.
//!   The last c costs each ring one hop inside node 0 between ranks that are two apart, if nodes have four ranks or
//!   more.
//! - an odd number of nodes of two ranks: two rails cannot alternate round an odd circle, so each ring changes rail in
//!   one hop, into node 0.
//! - nodes of one rank: there is one ring, on the one rail.
//! - one node: rings within it, every other one backwards.

use crate::plan::Shape;
use crate::types::Rank;

/// The load that a set of orders puts on the network: see [`check`].
#[cfg(test)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Census {
    /// Hops from node to node.
    pub between: u32,
    /// Those of them that end on another rail than they began on.
    pub rail_changes: u32,
    /// Hops within a node between ranks that are not neighbours in its circle.
    pub leaps: u32,
    /// By rank: how often its NIC transmits.
    pub transmits: Vec<u32>,
    /// By rank: how often its NIC receives.
    pub receives: Vec<u32>,
}

/// Node by node, each one's ranks ascending.
#[cfg(test)]
pub fn single(shape: Shape) -> Vec<Rank> {
    (0..shape.nranks()).collect()
}

/// The single order backwards.
#[cfg(test)]
pub fn reversed(shape: Shape) -> Vec<Rank> {
    (0..shape.nranks()).rev().collect()
}

/// Node by node, each one's ranks descending: as the single order, over other NICs.
#[cfg(test)]
pub fn mirrored(shape: Shape) -> Vec<Rank> {
    let g = shape.per_node();
    (0..shape.nodes()).flat_map(|node| (node * g..(node + 1) * g).rev()).collect()
}

/// One ring for each NIC of a node: see the file's head.
pub fn alternating(shape: Shape) -> Vec<Vec<Rank>> {
    let (g, nodes) = (shape.per_node(), shape.nodes());
    let paired = (g % 2 == 0 && nodes % 2 == 0) || nodes == 1;
    (0..g)
        .map(|ring| match paired && ring % 2 == 1 {
            true => ring_from(g, nodes, ring - 1).into_iter().rev().collect(),
            false => ring_from(g, nodes, ring),
        })
        .collect()
}

/// The ring that leaves node 0 by this rail.
fn ring_from(g: u32, nodes: u32, rail: u32) -> Vec<Rank> {
    let shift = |node: u32| if nodes % 2 == 1 && nodes > 1 && node == nodes - 1 { 2 } else { node % 2 };
    let exit = |node: u32| (rail + shift(node)) % g;
    let visit = |node: u32| {
        let (arrival, exit) = (exit((node + nodes - 1) % nodes), exit(node));
        let entry = if arrival == exit { (exit + 1) % g } else { arrival };
        path(g, entry, exit).into_iter().map(move |local| node * g + local)
    };
    (0..nodes).flat_map(visit).collect()
}

/// All ranks of a node from `entry` to `exit`, which are one apart, or `exit` two below `entry`.
fn path(g: u32, entry: u32, exit: u32) -> Vec<u32> {
    let (up, down) = (|k: u32| (entry + k) % g, |k: u32| (entry + g - k % g) % g);
    if exit == up(1) {
        (0..g).map(down).collect()
    } else if exit == down(1) {
        (0..g).map(up).collect()
    } else {
        [entry, down(1)].into_iter().chain((1..g - 1).map(up)).collect()
    }
}

/// Checks that every order visits every rank once, and counts what its hops use. `Err` says which order is no circle.
#[cfg(test)]
pub fn check(orders: &[Vec<Rank>], shape: Shape) -> Result<Census, String> {
    let (n, g) = (shape.nranks(), shape.per_node());
    let idle = vec![0; n as usize];
    let mut census =
        Census { between: 0, rail_changes: 0, leaps: 0, transmits: idle.clone(), receives: idle };
    for (ring, order) in orders.iter().enumerate() {
        let mut visited = order.clone();
        visited.sort_unstable();
        if !visited.iter().copied().eq(0..n) {
            return Err(format!("ring {ring} does not visit each of {n} ranks once: {order:?}"));
        }
        for (&from, &to) in order.iter().zip(order.iter().cycle().skip(1)) {
            let apart = (from % g).abs_diff(to % g);
            if from / g != to / g {
                census.between += 1;
                census.rail_changes += (apart != 0) as u32;
                census.transmits[from as usize] += 1;
                census.receives[to as usize] += 1;
            } else if apart > 1 && apart < g - 1 {
                census.leaps += 1;
            }
        }
    }
    Ok(census)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes of all sizes that tell the rules apart, and all numbers of them.
    fn shapes() -> impl Iterator<Item = Shape> {
        [1, 2, 3, 4, 5, 8].into_iter().flat_map(|g| (1..=9).map(move |nodes| Shape([g, nodes, 1])))
    }

    #[test]
    fn every_nic_transmits_once_and_receives_once_over_all_alternating_rings() {
        for shape in shapes() {
            let [g, nodes, _] = shape.0;
            let orders = alternating(shape);
            let census = check(&orders, shape).unwrap();
            let (odd, once) = (nodes % 2 == 1 && nodes > 1, (nodes > 1) as u32);
            assert_eq!(orders.len() as u32, g);
            assert_eq!(census.between, g * nodes * once, "{shape:?}");
            assert!(census.transmits.iter().chain(&census.receives).all(|&times| times == once), "{shape:?}");
            assert_eq!(census.rail_changes, if odd && g == 2 { 2 } else { 0 }, "{shape:?}");
            assert_eq!(census.leaps, if odd && g >= 4 { g } else { 0 }, "{shape:?}");
        }
    }

    #[test]
    fn two_nodes_of_four_are_visited_in_pairs_of_opposite_rings() {
        let rings = alternating(Shape([4, 2, 1]));
        assert_eq!(rings[0], [1, 2, 3, 0, 4, 7, 6, 5]);
        assert_eq!(rings[2], [3, 0, 1, 2, 6, 5, 4, 7]);
        for pair in rings.chunks(2) {
            assert!(pair[0].iter().eq(pair[1].iter().rev()));
        }
    }

    #[test]
    fn a_plain_ring_keeps_one_nic_a_node_busy_each_way() {
        for shape in shapes().filter(|s| s.nodes() > 1 && s.per_node() > 1) {
            let [g, nodes, _] = shape.0;
            for (order, out, into) in
                [(single(shape), g - 1, 0), (reversed(shape), 0, g - 1), (mirrored(shape), 0, g - 1)]
            {
                let census = check(&[order], shape).unwrap();
                assert_eq!((census.between, census.rail_changes, census.leaps), (nodes, nodes, 0));
                for rank in 0..shape.nranks() {
                    assert_eq!(census.transmits[rank as usize], (rank % g == out) as u32);
                    assert_eq!(census.receives[rank as usize], (rank % g == into) as u32);
                }
            }
        }
    }

    #[test]
    fn a_plain_and_a_mirrored_ring_both_ways_load_the_nics_as_the_plain_one_both_ways_does() {
        for shape in shapes().filter(|s| s.nodes() > 1 && s.per_node() > 1) {
            let back = |order: &[Rank]| order.iter().rev().copied().collect::<Vec<_>>();
            let (plain, mirrored) = (single(shape), mirrored(shape));
            let two = check(&[plain.clone(), back(&plain)], shape).unwrap();
            let four =
                check(&[plain.clone(), back(&plain), mirrored.clone(), back(&mirrored)], shape).unwrap();
            // Four times a quarter of the data and two times a half: each NIC's share is the same.
            for (two, four) in [(two.transmits, four.transmits), (two.receives, four.receives)] {
                assert!(two.iter().zip(&four).all(|(two, four)| 2 * two == *four), "{shape:?}");
            }
        }
    }

    #[test]
    fn an_order_that_closes_early_is_no_ring() {
        let shape = Shape([2, 2, 1]);
        let why = check(&[single(shape), vec![0, 1, 0, 1]], shape).unwrap_err();
        assert_eq!(why, "ring 1 does not visit each of 4 ranks once: [0, 1, 0, 1]");
        assert!(check(&[vec![0, 1, 2]], shape).is_err());
    }
}
