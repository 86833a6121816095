//! The cycles of a graph that visit every rank once, one after the other.
//!
//! ```text
//!     path 0 1 3          next: a neighbour of 3 that is not on the path, first the one with the fewest free neighbours itself
//!                         (Warnsdorff); back where a free rank has fewer than two neighbours left, or is cut off
//! ```

use super::mask::Mask;
use crate::types::Rank;

/// A graph whose edges have links that are still free.
pub(super) struct FreeLinks<const W: usize> {
    n: usize,
    links: Vec<u32>,
    neighbours: Vec<Mask<W>>,
}

/// A walk through all cycles of a graph; each is found in one direction only.
pub(super) struct CycleSearch<const W: usize> {
    n: usize,
    neighbours: Vec<Mask<W>>,
    path: Vec<Rank>,
    /// For each rank on the path, what may follow it; the best last.
    next: Vec<Vec<Rank>>,
    free: Mask<W>,
}

impl<const W: usize> FreeLinks<W> {
    /// Makes a graph without links.
    pub(super) fn new(n: usize) -> FreeLinks<W> {
        FreeLinks { n, links: vec![0; n * n], neighbours: vec![Mask::EMPTY; n] }
    }

    /// Adds links between two ranks, or takes them away.
    pub(super) fn change(&mut self, a: Rank, b: Rank, by: i32) {
        let (a, b) = (a as usize, b as usize);
        for (from, to) in [(a, b), (b, a)] {
            let links = &mut self.links[from * self.n + to];
            *links = links.wrapping_add_signed(by);
            match *links {
                0 => self.neighbours[from].remove(to),
                _ => self.neighbours[from].add(to),
            }
        }
    }

    /// Takes a cycle's links away (-1) or gives them back (1).
    pub(super) fn change_cycle(&mut self, cycle: &[Rank], by: i32) {
        for (&a, &b) in cycle.iter().zip(cycle.iter().cycle().skip(1)) {
            self.change(a, b, by);
        }
    }

    /// Returns the most cycles that there can be: two links of every rank belong to each.
    pub(super) fn most_cycles(&self) -> u32 {
        let of_rank = |rank: usize| self.links[rank * self.n..][..self.n].iter().sum::<u32>() / 2;
        (0..self.n).map(of_rank).min().unwrap_or(0)
    }

    /// Begins to look for cycles over edges that have at least `width` free links now.
    pub(super) fn cycles(&self, width: u32) -> CycleSearch<W> {
        let mut neighbours = self.neighbours.clone();
        for (rank, near) in neighbours.iter_mut().enumerate() {
            (*near).filter(|&to| self.links(rank, to as Rank) < width).for_each(|to| near.remove(to));
        }
        // From the rank with the fewest neighbours, so that it cannot be left over.
        let first = (0..self.n).min_by_key(|&rank| (neighbours[rank].len(), rank)).unwrap_or(0);
        let mut search = CycleSearch {
            n: self.n,
            neighbours,
            path: Vec::with_capacity(self.n),
            next: Vec::with_capacity(self.n),
            free: Mask::first(self.n),
        };
        search.push(first, self);
        search
    }

    fn links(&self, a: usize, b: Rank) -> u32 {
        self.links[a * self.n + b as usize]
    }
}

impl<const W: usize> CycleSearch<W> {
    /// Returns the next cycle, over links that were free when the search began. `None`: there is none, or the steps are used up.
    pub(super) fn next(&mut self, links: &FreeLinks<W>, steps: &mut u32) -> Option<Vec<Rank>> {
        let price = 1 + self.n as u32 / 16;
        // BOUND: every turn takes from `steps`, or from what may follow the path.
        while let Some(&last) = self.path.last() {
            if self.path.len() == self.n {
                let cycle = self.path.clone();
                self.pop();
                let closes = self.neighbours[last as usize].has(cycle[0] as usize);
                if closes && (self.n < 3 || cycle[1] < last) {
                    return Some(cycle);
                }
                continue;
            }
            let Some(rank) = self.next.last_mut().and_then(Vec::pop) else {
                self.pop();
                continue;
            };
            *steps = steps.checked_sub(price)?;
            self.push(rank as usize, links);
            if !self.can_close(last as usize) {
                self.pop();
            }
        }
        None
    }

    fn push(&mut self, rank: usize, links: &FreeLinks<W>) {
        self.path.push(rank as Rank);
        self.free.remove(rank);
        let mut next: Vec<Rank> = self.neighbours[rank].and(&self.free).map(|rank| rank as Rank).collect();
        let key = |&to: &Rank| {
            let free = self.neighbours[to as usize].and(&self.free).len();
            (free, u32::MAX - links.links(rank, to), to)
        };
        next.sort_by_cached_key(|to| std::cmp::Reverse(key(to)));
        self.next.push(next);
    }

    fn pop(&mut self) {
        self.next.pop();
        if let Some(rank) = self.path.pop() {
            self.free.add(rank as usize);
        }
    }

    /// Tells whether each free rank can still be entered and left, and all can be reached. `left`: the rank before the path's last, which no
    /// longer counts as a neighbour.
    fn can_close(&self, left: usize) -> bool {
        if self.free.is_empty() {
            return true;
        }
        let (first, last) = (self.path[0] as usize, self.path[self.path.len() - 1] as usize);
        let mut open = self.free;
        open.add(first);
        open.add(last);
        let starved = |rank: usize| self.neighbours[rank].and(&open).len() < 2;
        if left != first && self.neighbours[left].and(&self.free).any(starved) {
            return false;
        }
        if self.neighbours[first].and(&self.free).is_empty() {
            return false;
        }
        let mut unseen = self.free;
        let mut found = self.neighbours[last].and(&unseen);
        // BOUND: a turn for each free rank.
        while let Some(rank) = found.pop() {
            unseen.remove(rank);
            for near in self.neighbours[rank].and(&unseen) {
                unseen.remove(near);
                found.add(near);
            }
        }
        unseen.is_empty()
    }
}
