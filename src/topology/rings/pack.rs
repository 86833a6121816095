//! As many cycles as there are that visit every rank once and share no link.
//!
//! A cycle is taken out of the graph, then one out of what remains, and so on; where nothing is left to be found, another cycle is taken in
//! place of the last one. The search ends when no rank has two links left, or after a fixed number of steps.

use super::graph::LinkGraph;
use super::mask::Mask;
use super::search::FreeLinks;
use crate::types::Rank;

/// Steps of a search: about a millisecond.
const STEPS: u32 = 12_000;
/// A search for one cycle more may take this part of the steps.
const SHARE: u32 = 8;
/// Kinds of links that are tried as the slowest.
const MOST_RATES: usize = 4;

/// Returns cycles of ranks, one for each link that they take side by side. Rings share the data evenly, so the slowest link counts: slower
/// kinds of links are used only where more is gained than lost.
pub(super) fn most(graph: &LinkGraph) -> Vec<Vec<Rank>> {
    let mut rates: Vec<u64> = graph.neighbours.iter().flatten().map(|neighbour| neighbour.rate).collect();
    rates.sort_unstable();
    rates.dedup();
    let mut best = (0, Vec::new());
    for &rate in rates.iter().rev().take(MOST_RATES) {
        let cycles = packed(&graph.at_least(rate));
        let bandwidth = u128::from(rate) * cycles.len() as u128;
        if bandwidth > best.0 {
            best = (bandwidth, cycles);
        }
    }
    best.1
}

fn packed(graph: &LinkGraph) -> Vec<Vec<Rank>> {
    let n = graph.nranks();
    if n == 2 {
        // There and back over one link is a cycle.
        let links = graph.neighbours[0].first().map_or(0, |neighbour| neighbour.links);
        return vec![vec![0, 1]; links as usize];
    }
    match n <= 64 {
        true => found::<1>(graph),
        false => found::<16>(graph),
    }
}

fn found<const W: usize>(graph: &LinkGraph) -> Vec<Vec<Rank>> {
    if !may_have_cycle::<W>(graph) {
        return Vec::new();
    }
    let mut packing = Packing::<W>::new(graph);
    packing.deepen(graph.most_links());
    packing.best
}

/// Tells whether nothing speaks against a cycle at once: every rank has two neighbours, and if no two neighbours of a rank are neighbours, as on
/// a chessboard, there are as many white ranks as black ones.
fn may_have_cycle<const W: usize>(graph: &LinkGraph) -> bool {
    let n = graph.nranks();
    if graph.neighbours.iter().any(|of_rank| of_rank.len() < 2) {
        return false;
    }
    let (mut colour, mut found) = (vec![0i32; n], vec![0]);
    colour[0] = 1;
    let mut unseen: Mask<W> = Mask::first(n);
    unseen.remove(0);
    let mut two_colours = true;
    // BOUND: a turn for each rank.
    while let Some(rank) = found.pop() {
        for neighbour in &graph.neighbours[rank] {
            let to = neighbour.rank as usize;
            if unseen.has(to) {
                unseen.remove(to);
                colour[to] = -colour[rank];
                found.push(to);
            }
            two_colours &= colour[to] == -colour[rank];
        }
    }
    unseen.is_empty() && (!two_colours || colour.iter().sum::<i32>() == 0)
}

/// A search for cycles in a graph.
struct Packing<const W: usize> {
    free: FreeLinks<W>,
    most: u32,
    taken: Vec<Vec<Rank>>,
    best: Vec<Vec<Rank>>,
    steps: u32,
}

impl<const W: usize> Packing<W> {
    fn new(graph: &LinkGraph) -> Packing<W> {
        let mut free = FreeLinks::new(graph.nranks());
        for (rank, of_rank) in (0..).zip(&graph.neighbours) {
            for neighbour in of_rank.iter().filter(|neighbour| neighbour.rank > rank) {
                free.change(rank, neighbour.rank, neighbour.links as i32);
            }
        }
        let most = free.most_cycles();
        Packing { free, most, taken: Vec::new(), best: Vec::new(), steps: STEPS }
    }

    /// Takes cycles one after the other, none wider than `widest`. Returns whether as many were found as there can be.
    fn deepen(&mut self, widest: u32) -> bool {
        if self.taken.len() > self.best.len() {
            self.best = self.taken.clone();
        }
        if self.best.len() as u32 >= self.most {
            return true;
        }
        if self.taken.len() as u32 + self.free.most_cycles() <= self.best.len() as u32 {
            return false;
        }
        // Wide ones first: all of their links are alike, so that rings take different ones.
        (1..=widest.min(self.free.most_cycles())).rev().any(|width| self.take(width))
    }

    /// Takes a cycle whose edges have `width` parallel links, and further ones. Returns as [`deepen`](Self::deepen) does.
    fn take(&mut self, width: u32) -> bool {
        let mut cycles = self.free.cycles(width);
        // The first cycle may take all the steps, those after it a share.
        let mut share = if self.taken.is_empty() { self.steps } else { self.steps.min(STEPS / SHARE) };
        // BOUND: each cycle takes from the steps.
        while self.steps > 0 {
            let before = share;
            let found = cycles.next(&self.free, &mut share);
            self.steps = self.steps.saturating_sub(before - share);
            let Some(cycle) = found else { return false };
            self.free.change_cycle(&cycle, -(width as i32));
            self.taken.extend(std::iter::repeat_n(cycle.clone(), width as usize));
            let done = self.deepen(width);
            self.taken.truncate(self.taken.len() - width as usize);
            self.free.change_cycle(&cycle, width as i32);
            if done {
                return true;
            }
            share = share.min(self.steps);
        }
        false
    }
}
