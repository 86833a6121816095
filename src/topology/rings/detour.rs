//! The order of a ring where no cycle goes from neighbour to neighbour: as few messages as can be share a link, and no message goes far.
//!
//! ```text
//!     line of 5    0 - 1 - 2 - 3 - 4      0 1 2 3 4: the last hop passes four links, and every message waits for it
//!                                         0 2 4 3 1: no hop passes more than two, and each link carries one message each way
//! ```
//!
//! Orders to begin with: the ranks' numbers, always the nearest one, and a tree's ranks, those of even depth before their children and the others
//! after them: then no hop passes more than three of the tree's links, and each link carries one message each way. The best one is improved by turning a
//! part of it round or moving a rank, for a number of tries.

use super::graph::{LinkGraph, Pathways};
use crate::topology::PortId;
use crate::types::Rank;
use std::collections::HashMap;

/// Ranks in all orders that are tried in place of the best one.
const TRIED_RANKS: u32 = 40_000;
/// Ranks from which the nearest one is gone to every time.
const FIRSTS: usize = 8;
/// Orders of more ranks are not improved.
const MOST_IMPROVED: usize = 64;

/// The congestion of an order, the most important number first: the most hops that pass one port, the number of ports with that load, the
/// links of the longest hop, the number of hops of that length, and the links of all hops.
type Fault = (u32, u32, u32, u32, u32);

/// The ways between all ranks.
struct Ways {
    n: usize,
    /// By pair of ranks: the ports there and back, and the hops.
    pairs: Vec<(Vec<u32>, u32)>,
    ports: usize,
}

/// Returns the order of a ring.
pub(super) fn least_congested(graph: &LinkGraph, pathways: &Pathways<'_>) -> Vec<Rank> {
    let n = graph.nranks();
    let by_number: Vec<Rank> = (0..n as Rank).collect();
    let by_tree = along_tree(graph);
    if n > MOST_IMPROVED {
        let longest = |order: &[Rank]| {
            let hops = order.iter().zip(order.iter().cycle().skip(1)).map(|(&a, &b)| pathways.hops(a, b));
            hops.max().unwrap_or(0)
        };
        return match by_tree {
            Some(by_tree) if longest(&by_tree) < longest(&by_number) => by_tree,
            _ => by_number,
        };
    }
    let ways = Ways::of(n, pathways);
    let orders = [Some(by_number), by_tree].into_iter().flatten();
    let orders = orders.chain((0..n.min(FIRSTS) as Rank).map(|first| ways.nearest(first)));
    let mut best: Vec<(Fault, Vec<Rank>)> = orders.map(|order| (ways.fault(&order), order)).collect();
    best.sort();
    let (fault, order) = best.swap_remove(0);
    ways.improved(fault, order)
}

/// Returns the ranks of a tree of the graph. `None`: the links do not join all ranks.
fn along_tree(graph: &LinkGraph) -> Option<Vec<Rank>> {
    let n = graph.nranks();
    let mut children: Vec<Vec<Rank>> = vec![Vec::new(); n];
    let (mut seen, mut queue) = (vec![false; n], vec![0]);
    seen[0] = true;
    let mut next = 0;
    while next < queue.len() {
        let rank = queue[next];
        next += 1;
        for neighbour in &graph.neighbours[rank as usize] {
            if !std::mem::replace(&mut seen[neighbour.rank as usize], true) {
                children[rank as usize].push(neighbour.rank);
                queue.push(neighbour.rank);
            }
        }
    }
    if queue.len() < n {
        return None;
    }
    let mut order = Vec::with_capacity(n);
    // A rank, whether it stands at an even depth, and whether its children have been visited.
    let mut stack = vec![(0, true, false)];
    // BOUND: two turns for each rank.
    while let Some((rank, even, visited)) = stack.pop() {
        if even != visited {
            order.push(rank);
        }
        if !visited {
            stack.push((rank, even, true));
            stack.extend(children[rank as usize].iter().rev().map(|&child| (child, !even, false)));
        }
    }
    Some(order)
}

impl Ways {
    fn of(n: usize, pathways: &Pathways<'_>) -> Ways {
        let mut known: HashMap<PortId, u32> = HashMap::new();
        let mut pairs = Vec::with_capacity(n * n);
        for (from, to) in (0..n * n).map(|pair| ((pair / n) as Rank, (pair % n) as Rank)) {
            let ports = [pathways.ports(from, to, 0), pathways.ports(to, from, 0)].concat();
            let mut number = |port| {
                let next = known.len() as u32;
                *known.entry(port).or_insert(next)
            };
            let ports = ports.into_iter().map(&mut number).collect();
            pairs.push((ports, if from == to { 0 } else { pathways.hops(from, to) }));
        }
        Ways { n, pairs, ports: known.len() }
    }

    fn pair(&self, a: Rank, b: Rank) -> &(Vec<u32>, u32) {
        &self.pairs[a as usize * self.n + b as usize]
    }

    /// Returns the order that goes on to the nearest rank every time, the lowest of several.
    fn nearest(&self, first: Rank) -> Vec<Rank> {
        let mut left: Vec<Rank> = (0..self.n as Rank).filter(|&rank| rank != first).collect();
        let mut order = vec![first];
        while let Some(&last) = order.last() {
            let Some(next) = (0..left.len()).min_by_key(|&i| (self.pair(last, left[i]).1, left[i])) else {
                break;
            };
            order.push(left.remove(next));
        }
        order
    }

    fn fault(&self, order: &[Rank]) -> Fault {
        let mut load = vec![0u32; self.ports];
        let (mut longest, mut as_long, mut all) = (0, 0, 0u32);
        for (&a, &b) in order.iter().zip(order.iter().cycle().skip(1)) {
            let (ports, hops) = self.pair(a, b);
            ports.iter().for_each(|&port| load[port as usize] += 1);
            all = all.saturating_add(*hops);
            match hops.cmp(&longest) {
                std::cmp::Ordering::Greater => (longest, as_long) = (*hops, 1),
                std::cmp::Ordering::Equal => as_long += 1,
                std::cmp::Ordering::Less => {}
            }
        }
        let most = load.iter().copied().max().unwrap_or(0);
        (most, load.iter().filter(|&&passed| passed == most).count() as u32, longest, as_long, all)
    }

    /// Turns parts round and moves ranks as long as that is better.
    fn improved(&self, mut fault: Fault, mut order: Vec<Rank>) -> Vec<Rank> {
        let mut tries = TRIED_RANKS / self.n as u32;
        let mut better = true;
        // BOUND: `tries` goes down.
        while std::mem::replace(&mut better, false) {
            for (i, j) in (0..self.n).flat_map(|i| (0..self.n).map(move |j| (i, j))).filter(|(i, j)| i != j) {
                for turns in [true, false] {
                    if turns && i > j {
                        continue;
                    }
                    let Some(left) = tries.checked_sub(1) else { return order };
                    tries = left;
                    let mut other = order.clone();
                    if turns {
                        other[i..=j].reverse();
                    } else {
                        let rank = other.remove(i);
                        other.insert(j, rank);
                    }
                    let found = self.fault(&other);
                    if found < fault {
                        (fault, order, better) = (found, other, true);
                    }
                }
            }
        }
        order
    }
}
