//! Which ring takes which lane: a lane's link is its number modulo the links of an edge.
//!
//! ```text
//!     one cycle, 2 links      lanes 0 1 there, 2 3 back        each link once in each direction
//!     lanes 0 2 there         would take link 0 twice and link 1 never
//! ```

use super::graph::{LinkGraph, Pathways};
use crate::plan::{Lane, LinkCycle};
use crate::topology::PortId;
use crate::types::Rank;
use std::collections::HashMap;

/// Rings that are tried in place of others.
const TRIES: u32 = 256;

/// How many rings pass a port.
type Load = HashMap<PortId, u32>;

/// Returns how many lanes an order can have without more messages sharing a link than with one.
pub(super) fn width(order: &[Rank], graph: &LinkGraph, pathways: &Pathways<'_>) -> u32 {
    let most = |lanes: u32| {
        let mut load = Load::new();
        (0..lanes).for_each(|lane| add(&mut load, order, lane as Lane, pathways));
        load.values().copied().max().unwrap_or(0)
    };
    let one = most(1);
    (1..=graph.most_links()).rev().find(|&lanes| most(lanes) <= one).unwrap_or(1)
}

/// Returns every cycle both ways with all of its lanes.
pub(super) fn in_order(cycles: &[LinkCycle]) -> Vec<Vec<Rank>> {
    let mut rings: Vec<Vec<Rank>> = Vec::new();
    let there_and_back = cycles[0].order.len() == 2;
    for LinkCycle { order, width } in cycles {
        rings.extend(std::iter::repeat_n(order.clone(), *width as usize));
        if !there_and_back {
            rings.extend(std::iter::repeat_n(order.iter().rev().copied().collect(), *width as usize));
        }
    }
    rings
}

/// Returns the same in an order of lanes in which no two share a link. `None`: none was found.
pub(super) fn apart(cycles: &[LinkCycle], pathways: &Pathways<'_>) -> Option<Vec<Vec<Rank>>> {
    let rings = in_order(cycles);
    let mut search =
        Arrangement { rings: &rings, pathways, load: Load::new(), taken: Vec::new(), tries: TRIES };
    search.place().then(|| search.taken.iter().map(|&ring| rings[ring].clone()).collect())
}

fn add(load: &mut Load, order: &[Rank], lane: Lane, pathways: &Pathways<'_>) {
    for (&from, &to) in order.iter().zip(order.iter().cycle().skip(1)) {
        for port in pathways.ports(from, to, lane) {
            *load.entry(port).or_default() += 1;
        }
    }
}

/// A search for an order of rings in which no two pass one port.
struct Arrangement<'a> {
    rings: &'a [Vec<Rank>],
    pathways: &'a Pathways<'a>,
    load: Load,
    /// The ring of each lane so far.
    taken: Vec<usize>,
    tries: u32,
}

impl Arrangement<'_> {
    /// Gives the next lane a ring, and all lanes after it.
    fn place(&mut self) -> bool {
        if self.taken.len() == self.rings.len() {
            return true;
        }
        let lane = self.taken.len() as Lane;
        for ring in 0..self.rings.len() {
            // Of equal rings the first that is left.
            let same = |other: &usize| self.rings[*other] == self.rings[ring];
            if self.taken.contains(&ring)
                || (0..ring).any(|other| same(&other) && !self.taken.contains(&other))
            {
                continue;
            }
            let Some(tries) = self.tries.checked_sub(1) else { return false };
            self.tries = tries;
            let mut ports = Load::new();
            add(&mut ports, &self.rings[ring], lane, self.pathways);
            if ports.keys().any(|port| self.load.contains_key(port)) {
                continue;
            }
            self.load.extend(ports.iter().map(|(&port, &rings)| (port, rings)));
            self.taken.push(ring);
            if self.place() {
                return true;
            }
            self.taken.pop();
            ports.keys().for_each(|port| {
                self.load.remove(port);
            });
        }
        false
    }
}
