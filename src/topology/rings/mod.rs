//! Rings on machines of direct links: cycles from neighbour to neighbour through the devices of all ranks.
//!
//! ```text
//!     places of ranks --> graph      which ranks have a link, and how many side by side
//!                           |
//!     grid, joined, pack <--'        cycles that visit every rank once, no two over one link: known ones for whole grids and for
//!           |                        nodes whose places are all joined, else a search
//!         detour                     no such cycle: the order in which the fewest messages share a link
//!           |
//!         lanes                      which ring takes which lane, so that rings over one edge take different links
//! ```
//!
//! All of it follows from the topology and the places alone, with bounds that count steps and not time: every rank, and the simulator,
//! finds the same.

mod detour;
mod graph;
mod grid;
mod joined;
mod lanes;
mod mask;
mod pack;
mod search;
#[cfg(test)]
mod tests;
mod torus;

use super::Network;
use crate::plan::{LinkCycle, RingOrders};
use crate::types::Rank;
use graph::{LinkGraph, Pathways};
use std::sync::Arc;

/// Rings of more ranks follow the ranks' numbers.
const MOST_RANKS: usize = 1024;

/// The direct links of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wiring {
    /// Devices are joined by switches: every one is as far from every other one.
    Switches,
    /// A wire to each neighbour along the axes of the machine's shape.
    Grid {
        /// Whether the ends of each axis are joined.
        wraps: bool,
        /// Links of a wire.
        links: u32,
    },
    /// Pairs of places and the links between them, each pair once.
    Edges(Vec<(Rank, Rank, u32)>),
    /// Edges within each node, and the number of places of a node. NICs join the nodes.
    Nodes(u32, Vec<(Rank, Rank, u32)>),
}

impl Network {
    /// Returns the rings of ranks at these places, if the machine's devices are joined by direct links and the ranks are not too many.
    pub fn ring_orders(&self, places: &[Rank]) -> Option<Arc<RingOrders>> {
        if !(2..=MOST_RANKS).contains(&places.len()) {
            return None;
        }
        let wiring = match self.routes.wiring() {
            Wiring::Switches => return None,
            Wiring::Nodes(size, edges) => {
                let first = places[0] - places[0] % size;
                if places.iter().any(|place| place / size != first / size) {
                    let cycles = joined::of_nodes(self, size, &edges, places)?;
                    return Some(self.apart(widths(cycles, places.len()), places));
                }
                Wiring::Edges(edges.into_iter().map(|(a, b, links)| (first + a, first + b, links)).collect())
            }
            wiring => wiring,
        };
        let graph = LinkGraph::of(self, &wiring, places);
        let pathways = Pathways { network: self, places };
        let cycles = match grid::of_whole(self, &wiring, places) {
            Some(cycles) => cycles,
            None => pack::most(&graph),
        };
        let cycles = widths(cycles, places.len());
        if cycles.is_empty() {
            let order = detour::least_congested(&graph, &pathways);
            let width = lanes::width(&order, &graph, &pathways);
            let longest_hop =
                order.iter().zip(order.iter().cycle().skip(1)).map(|(&a, &b)| pathways.hops(a, b));
            let longest_hop = longest_hop.max().unwrap_or(1);
            let cycles = vec![LinkCycle { order, width }];
            let lanes = lanes::in_order(&cycles);
            return Some(Arc::new(RingOrders::new(cycles, lanes, longest_hop)));
        }
        Some(self.apart(cycles, places))
    }

    /// Returns the rings over cycles that have no link in common. Rings that would have to share links are left out.
    fn apart(&self, cycles: Vec<LinkCycle>, places: &[Rank]) -> Arc<RingOrders> {
        let pathways = Pathways { network: self, places };
        let apart =
            (1..=cycles.len()).rev().find_map(|most| Some((most, lanes::apart(&cycles[..most], &pathways)?)));
        let (most, lanes) = apart.unwrap_or_else(|| (1, lanes::in_order(&cycles[..1])));
        Arc::new(RingOrders::new(cycles[..most].to_vec(), lanes, 1))
    }
}

/// Returns the different ones among cycles, each with how often it is there; each begins with rank 0, and goes to the lower of its neighbours.
fn widths(cycles: Vec<Vec<Rank>>, nranks: usize) -> Vec<LinkCycle> {
    let mut turned: Vec<Vec<Rank>> = cycles.into_iter().map(|cycle| turned(cycle, nranks)).collect();
    turned.sort_unstable();
    let mut cycles: Vec<LinkCycle> = Vec::new();
    for order in turned {
        match cycles.last_mut() {
            Some(last) if last.order == order => last.width += 1,
            _ => cycles.push(LinkCycle { order, width: 1 }),
        }
    }
    cycles.sort_by_key(|cycle| u32::MAX - cycle.width);
    cycles
}

fn turned(mut cycle: Vec<Rank>, nranks: usize) -> Vec<Rank> {
    let first = cycle.iter().position(|&rank| rank == 0).expect("a cycle visits every rank");
    cycle.rotate_left(first);
    if nranks > 2 && cycle[1] > cycle[nranks - 1] {
        cycle[1..].reverse();
    }
    cycle
}
