//! The links between the places of ranks.

use super::super::{Network, PortId};
use super::Wiring;
use crate::plan::Lane;
use crate::types::Rank;
use std::collections::HashMap;

/// The ranks that have a link to each rank.
pub(super) struct LinkGraph {
    /// By rank: its neighbours in ascending order.
    pub(super) neighbours: Vec<Vec<Neighbour>>,
}

/// One end of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Neighbour {
    pub(super) rank: Rank,
    /// Links side by side.
    pub(super) links: u32,
    /// Bytes a second of a link, in the slower direction.
    pub(super) rate: u64,
}

/// The ways of messages between ranks.
pub(super) struct Pathways<'a> {
    pub(super) network: &'a Network,
    pub(super) places: &'a [Rank],
}

impl LinkGraph {
    /// Returns the links between these places.
    pub(super) fn of(network: &Network, wiring: &Wiring, places: &[Rank]) -> LinkGraph {
        let ranks: HashMap<Rank, Rank> = places.iter().copied().zip(0..).collect();
        let mut edges: Vec<(Rank, Rank, u32)> = Vec::new();
        match wiring {
            Wiring::Switches | Wiring::Nodes(..) => {}
            Wiring::Grid { wraps, links } => {
                let shape = network.shape;
                for (&place, &rank) in &ranks {
                    for axis in 0..3 {
                        let (mut at, extent) = (shape.coordinates(place), shape.0[axis]);
                        if extent == 1 || (at[axis] + 1 == extent && !wraps) {
                            continue;
                        }
                        at[axis] = (at[axis] + 1) % extent;
                        if let Some(&up) = ranks.get(&shape.rank(at)) {
                            // Of an axis of two, whose ends are joined, each place comes here with its own wire to the other.
                            edges.push((rank.min(up), rank.max(up), *links));
                        }
                    }
                }
            }
            Wiring::Edges(listed) => {
                let named =
                    |&(a, b, links): &(Rank, Rank, u32)| Some((*ranks.get(&a)?, *ranks.get(&b)?, links));
                edges
                    .extend(listed.iter().filter_map(named).map(|(a, b, links)| (a.min(b), a.max(b), links)));
            }
        }
        edges.sort_unstable();
        let mut neighbours: Vec<Vec<Neighbour>> = vec![Vec::new(); places.len()];
        let pathways = Pathways { network, places };
        for edge in edges.chunk_by(|one, other| (one.0, one.1) == (other.0, other.1)) {
            let (a, b, links) = (edge[0].0, edge[0].1, edge.iter().map(|edge| edge.2).sum());
            let rate = pathways.rate(a, b).min(pathways.rate(b, a));
            neighbours[a as usize].push(Neighbour { rank: b, links, rate });
            neighbours[b as usize].push(Neighbour { rank: a, links, rate });
        }
        neighbours.iter_mut().for_each(|of_rank| of_rank.sort_unstable_by_key(|neighbour| neighbour.rank));
        LinkGraph { neighbours }
    }

    pub(super) fn nranks(&self) -> usize {
        self.neighbours.len()
    }

    /// Returns the most links side by side.
    pub(super) fn most_links(&self) -> u32 {
        self.neighbours.iter().flatten().map(|neighbour| neighbour.links).max().unwrap_or(1)
    }

    /// Returns the graph of the edges that are at least so fast.
    pub(super) fn at_least(&self, rate: u64) -> LinkGraph {
        let fast = |of_rank: &Vec<Neighbour>| of_rank.iter().copied().filter(|n| n.rate >= rate).collect();
        LinkGraph { neighbours: self.neighbours.iter().map(fast).collect() }
    }
}

impl Pathways<'_> {
    /// Returns the ports that a message passes; none where there is no way.
    pub(super) fn ports(&self, from: Rank, to: Rank, lane: Lane) -> Vec<PortId> {
        let mut ports = Vec::new();
        let (from, to) = (self.places[from as usize], self.places[to as usize]);
        match self.network.routes.route(from, to, lane, &mut ports) {
            Ok(()) => ports,
            Err(_) => Vec::new(),
        }
    }

    /// Returns the links between two ranks; many where there is no way.
    pub(super) fn hops(&self, from: Rank, to: Rank) -> u32 {
        match self.ports(from, to, 0).len() {
            0 => NO_WAY,
            hops => hops as u32,
        }
    }

    fn rate(&self, from: Rank, to: Rank) -> u64 {
        self.ports(from, to, 0).iter().map(|&port| self.network.class(port).rate).min().unwrap_or(0)
    }
}

/// Hops between places between which nothing can be sent.
const NO_WAY: u32 = 1 << 20;
