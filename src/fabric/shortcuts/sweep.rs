//! Round by round: where a port's messages come in an order that is known beforehand, time is sums and maxima.
//!
//! ```text
//!     round t       chunk 0 at position t, chunk 1 at t + 1, ...         ready[chunk] -> through the link's ports
//!     round t + 1   each one position further                                         -> ready[chunk] again
//! ```
//!
//! No queue of events, and no state but when each chunk is there and each port is free. That a link's own messages come
//! in the order of the rounds follows from the model, see [`super::links`]. That different links' messages come to a
//! port that they share in the order of the sweep does not, and is held against the times at which their heads come:
//! where a later one would have to be served earlier, or comes at the same moment, the call is refused.
//!
//! Refused as well: slices and credits, and calls so long that times could pass 2^62.

use super::Priced;
use super::chain::{Passage, passages};
use super::links::{HopCost, LaneLink, LinkHop, Links};
use crate::fabric::PortCounters;
use crate::fabric::engine::port::Backlog;
use std::ops::Range;

/// A way, as far as costs are concerned: links that differ only in which ports they pass share one.
struct Way {
    post_ps: u64,
    /// For each hop, the index of its first cost, and whether the whole message must arrive before it is sent on.
    hops: Vec<(u32, bool)>,
    /// The passage of each size, if messages wait at the first port only.
    passages: Option<Vec<Passage>>,
}

/// A [`Passage`] in short.
#[derive(Clone, Copy)]
struct Chain {
    post_ps: u64,
    hold_ps: u64,
    through_ps: u64,
}

/// A circle of links that follow each other.
struct Circle {
    /// Indices of links, in the order of the circle.
    links: Vec<u32>,
    /// For each position, the way and the first of its slots.
    ways: Vec<(u32, u32)>,
    /// The time of each chunk; in round 0 a chunk is at its own position.
    ready_ps: Vec<u64>,
    sizes: Vec<u32>,
    /// For each position, the time at which its rank enters; empty if all enter at once.
    entry_ps: Vec<u64>,
    /// For each position, the time until which its lane is taken.
    fed_ps: Vec<u64>,
    /// For each position, the time at which the first port is free, if all ways are chains.
    free_ps: Vec<u64>,
}

/// The known state of a port.
#[derive(Default)]
struct Port {
    counters: PortCounters,
    waiting: Backlog,
    /// Whose head came last when, if the port is passed by several: its index in `slots`.
    last: Option<(u64, u32)>,
    shared: bool,
}

struct Sweep<'a> {
    links: &'a Links,
    ways: Vec<Way>,
    circles: Vec<Circle>,
    /// The ports of every position's way, one after the other.
    slots: Vec<u32>,
    free_ps: Vec<u64>,
    ports: Vec<Port>,
    any_shared: bool,
    exit_ps: Vec<u64>,
}

/// The rounds of chains that are run at once. Work that is done once for a position then serves many messages, which still fit in
/// the nearest cache.
const ROUNDS: usize = 64;

/// Prices the links. `None`: refused, see the module's head.
pub fn run(links: &Links, entry_ps: &[u64]) -> Option<Priced> {
    if links.chunks.iter().any(|c| c.slices > 1) || links.links.iter().any(|l| l.credits < links.rounds) {
        return None;
    }
    // A message waits for no more than all the others.
    let worst = |cost: &HopCost| {
        [cost.hold_ps, cost.lead_ps, cost.latency_ps, cost.rest_ps].map(u128::from).iter().sum::<u128>()
    };
    let hop = links.costs.iter().map(worst).max().unwrap_or(0);
    let feed = links.feeds.iter().map(|feed| u128::from(feed.worst_ps())).max().unwrap_or(0);
    let post = links.links.iter().map(|l| u128::from(l.post_ps)).max().unwrap_or(0);
    let hops = links.links.iter().map(|l| u128::from(l.hops)).max().unwrap_or(0);
    let last_entry = u128::from(entry_ps.iter().copied().max().unwrap_or(0));
    let each = hop.saturating_mul(hops).saturating_add(post + feed);
    if each.saturating_mul(u128::from(links.messages())).saturating_add(last_entry) >= 1 << 62 {
        return None;
    }
    Sweep::new(links, entry_ps).run()
}

impl<'a> Sweep<'a> {
    fn new(links: &'a Links, entry_ps: &[u64]) -> Sweep<'a> {
        let mut sweep = Sweep {
            links,
            ways: Vec::new(),
            circles: Vec::new(),
            slots: Vec::with_capacity(links.hops.len()),
            free_ps: vec![0; links.ports as usize],
            ports: (0..links.ports).map(|_| Port::default()).collect(),
            any_shared: false,
            exit_ps: entry_ps[..links.ranks as usize].to_vec(),
        };
        let late = entry_ps.iter().any(|&e| e != entry_ps[0]);
        let mut seen = vec![false; links.links.len()];
        for start in 0..links.links.len() as u32 {
            if seen[start as usize] {
                continue;
            }
            let mut circle = Circle {
                links: Vec::new(),
                ways: Vec::new(),
                ready_ps: Vec::new(),
                sizes: Vec::new(),
                entry_ps: Vec::new(),
                fed_ps: Vec::new(),
                free_ps: Vec::new(),
            };
            let mut at = start;
            while !std::mem::replace(&mut seen[at as usize], true) {
                let link = &links.links[at as usize];
                circle.links.push(at);
                let way = sweep.way(link);
                circle.ways.push((way, sweep.slots.len() as u32));
                for hop in links.hops(link) {
                    let port = &mut sweep.ports[hop.port as usize];
                    // Marked by the first who passes, shared from the second on.
                    port.shared = port.last.replace((0, 0)).is_some();
                    sweep.any_shared |= port.shared;
                    sweep.slots.push(hop.port);
                }
                circle.sizes.push(links.chunks[link.chunk as usize].size);
                circle.ready_ps.push(entry_ps[link.rank as usize]);
                at = link.next;
            }
            circle.fed_ps = vec![0; circle.links.len()];
            if late {
                circle.entry_ps.clone_from(&circle.ready_ps);
            }
            sweep.circles.push(circle);
        }
        sweep.ports.iter_mut().for_each(|port| port.last = None);
        sweep
    }

    fn way(&mut self, link: &LaneLink) -> u32 {
        let sizes = self.links.sizes.len() as u32;
        let hops = |hop: &LinkHop| (hop.class * sizes, hop.whole);
        let same = |way: &Way| {
            way.post_ps == link.post_ps && way.hops.iter().copied().eq(self.links.hops(link).iter().map(hops))
        };
        let found = self.ways.iter().position(same);
        found.unwrap_or_else(|| {
            let passages = passages(self.links, self.links.hops(link));
            let hops = self.links.hops(link).iter().map(hops).collect();
            self.ways.push(Way { post_ps: link.post_ps, hops, passages });
            self.ways.len() - 1
        }) as u32
    }

    fn run(mut self) -> Option<Priced> {
        let mut circles = std::mem::take(&mut self.circles);
        match self.chains() {
            Some(chains) => circles.iter_mut().for_each(|circle| self.run_chains(circle, &chains)),
            None => self.run_ports(&mut circles)?,
        }
        for circle in &circles {
            self.count(circle);
        }
        let hops = |link: &LaneLink| u64::from(link.hops) + 1;
        let each = self.links.links.iter().map(hops).sum::<u64>();
        let counters = self.ports.iter().map(Port::counters).collect();
        let events = u64::from(self.links.ranks) + u64::from(self.links.rounds) * each;
        Some(Priced { exit_ps: self.exit_ps, counters, events, periods: 0 })
    }

    /// Returns the chains by way, then size, if all ways are chains of separate ports and all ranks enter at once.
    fn chains(&self) -> Option<Vec<Chain>> {
        let late = self.exit_ps.iter().any(|&e| e != self.exit_ps[0]);
        if self.any_shared || late || !self.links.feeds.is_empty() {
            return None;
        }
        let mut chains = Vec::new();
        for way in &self.ways {
            chains.extend(way.passages.as_ref()?.iter().map(|passage| Chain {
                post_ps: way.post_ps,
                hold_ps: passage.stays[0].1,
                through_ps: passage.through_ps,
            }));
        }
        Some(chains)
    }

    /// All rounds of a circle of chains, several at once:
    ///
    /// ```text
    ///     round t       chunk 0, 1, 2, 3, 4 ...                 position 7 serves chunk 4 in round t, then 3 in t + 1,
    ///     round t + 1         0, 1, 2, 3 ...                    then 2 in t + 2: neighbours, which position 6 has just
    ///     round t + 2            0, 1, 2 ...                    left, while its port's state is at hand
    /// ```
    fn run_chains(&mut self, circle: &mut Circle, chains: &[Chain]) {
        let (n, rounds) = (circle.links.len(), self.links.rounds as usize);
        circle.free_ps = vec![0; n];
        for round in (0..rounds).step_by(ROUNDS) {
            let at_once = ROUNDS.min(rounds - round);
            let mut position = round % n;
            for end in 1..n + at_once {
                self.serve_chains(circle, chains, position, end.saturating_sub(at_once)..end.min(n));
                position = if position + 1 == n { 0 } else { position + 1 };
            }
        }
        for (position, &link) in circle.links.iter().enumerate() {
            let LaneLink { rank, next, .. } = self.links.links[link as usize];
            // The last message of each link is its latest.
            let chunk = (position + n - (rounds - 1) % n) % n;
            let next = self.links.links[next as usize].rank;
            for (rank, done_ps) in [(rank, circle.free_ps[position]), (next, circle.ready_ps[chunk])] {
                let exit = &mut self.exit_ps[rank as usize];
                *exit = done_ps.max(*exit);
            }
        }
    }

    /// A position serves chunks, the last first, each a round after the one before.
    #[inline]
    fn serve_chains(&mut self, circle: &mut Circle, chains: &[Chain], position: usize, chunks: Range<usize>) {
        let (way, slot) = circle.ways[position];
        let sizes = self.links.sizes.len();
        let chains = &chains[way as usize * sizes..][..sizes];
        let waiting = &mut self.ports[self.slots[slot as usize] as usize].waiting;
        let mut free_ps = circle.free_ps[position];
        let messages = circle.ready_ps[chunks.clone()].iter_mut().zip(&circle.sizes[chunks]);
        for (ready, &size) in messages.rev() {
            let chain = chains[size as usize];
            let mut start_ps = *ready + chain.post_ps;
            // Foretold well, so that who need not wait is not held up by the one before.
            if free_ps > start_ps {
                waiting.join(start_ps, free_ps);
                start_ps = free_ps;
            }
            free_ps = start_ps + chain.hold_ps;
            *ready = start_ps + chain.through_ps;
        }
        circle.free_ps[position] = free_ps;
    }

    /// All rounds, port by port. `None`: a message would have to be served before one that was.
    fn run_ports(&mut self, circles: &mut [Circle]) -> Option<()> {
        let last = self.links.rounds - 1;
        for round in 0..=last {
            for circle in circles.iter_mut() {
                let n = circle.links.len();
                // In round t chunk q is at position q + t: two stretches of positions.
                let turn = round as usize % n;
                let served = self.stretch(circle, 0..n - turn, turn, round == last)
                    && self.stretch(circle, n - turn..n, turn.wrapping_sub(n), round == last);
                if !served {
                    return None;
                }
            }
        }
        Some(())
    }

    /// One round of a stretch of chunks, each at the position `on` after its own.
    #[inline]
    fn stretch(&mut self, circle: &mut Circle, chunks: Range<usize>, on: usize, last: bool) -> bool {
        match self.any_shared {
            true => self.serve::<true>(circle, chunks, on, last),
            false => self.serve::<false>(circle, chunks, on, last),
        }
    }

    fn serve<const SHARED: bool>(
        &mut self,
        circle: &mut Circle,
        chunks: Range<usize>,
        on: usize,
        last: bool,
    ) -> bool {
        let positions = chunks.start.wrapping_add(on)..chunks.end.wrapping_add(on);
        let ways = &circle.ways[positions.clone()];
        let ready = &mut circle.ready_ps[chunks.clone()];
        for (i, ((ready, &size), &(way, slot))) in
            ready.iter_mut().zip(&circle.sizes[chunks]).zip(ways).enumerate()
        {
            let way = &self.ways[way as usize];
            if let Some(&entry_ps) = circle.entry_ps.get(positions.start + i) {
                *ready = entry_ps.max(*ready);
            }
            let fed_ps = &mut circle.fed_ps[positions.start + i];
            let fed_ps = self.links.feed(way.hops[0].0, size, *ready, fed_ps);
            let (mut head_ps, mut tail_ps) = (fed_ps + way.post_ps, 0);
            let slots = &self.slots[slot as usize..][..way.hops.len()];
            for (nth, (&port, &(costs, whole))) in slots.iter().zip(&way.hops).enumerate() {
                let cost = self.links.costs[(costs + size) as usize];
                let free_ps = &mut self.free_ps[port as usize];
                let start_ps = head_ps.max(*free_ps);
                let held_ps = start_ps + cost.hold_ps;
                let end_ps = held_ps.max(tail_ps);
                *free_ps = end_ps + cost.rest_ps;
                if start_ps > head_ps {
                    self.ports[port as usize].waiting.join(head_ps, start_ps);
                }
                if end_ps > held_ps {
                    self.ports[port as usize].counters.busy_ps += end_ps - held_ps;
                }
                if SHARED && !self.ports[port as usize].in_order(head_ps, slot + nth as u32) {
                    return false;
                }
                if last && nth == 0 {
                    let rank = self.links.links[circle.links[positions.start + i] as usize].rank;
                    let exit = &mut self.exit_ps[rank as usize];
                    *exit = end_ps.max(*exit);
                }
                tail_ps = end_ps + cost.latency_ps;
                head_ps = if whole { tail_ps } else { start_ps + cost.lead_ps };
            }
            *ready = head_ps;
            if last {
                let next = self.links.links[circle.links[positions.start + i] as usize].next;
                let exit = &mut self.exit_ps[self.links.links[next as usize].rank as usize];
                *exit = head_ps.max(*exit);
            }
        }
        true
    }

    /// Adds up what passed the ports of a circle.
    fn count(&mut self, circle: &Circle) {
        let (n, rounds) = (circle.links.len(), self.links.rounds as usize);
        for size in 0..self.links.sizes.len() as u32 {
            // For each q, the number of chunks of this size among the first q.
            let mut before = vec![0u64; n + 1];
            for (q, &s) in circle.sizes.iter().enumerate() {
                before[q + 1] = before[q] + u64::from(s == size);
            }
            for (position, &(way, slot)) in circle.ways.iter().enumerate() {
                // The chunks position, position - 1, ... pass in the last, incomplete turn.
                let rest = rounds % n;
                let passed = match (position + 1).checked_sub(rest) {
                    Some(first) => before[position + 1] - before[first],
                    None => before[position + 1] + before[n] - before[n + position + 1 - rest],
                };
                let messages = (rounds / n) as u64 * before[n] + passed;
                let way = &self.ways[way as usize];
                let ports = self.slots[slot as usize..].iter().zip(&way.hops).enumerate();
                for (nth, (&port, &(costs, _))) in ports {
                    let stay = way.passages.as_ref().map(|all| all[size as usize].stays[nth]);
                    // Port by port, what a slower port before it adds has been counted already.
                    let held_ps = match stay {
                        Some((head, end)) if !circle.free_ps.is_empty() => end - head,
                        _ => self.links.costs[(costs + size) as usize].hold_ps,
                    };
                    let counters = &mut self.ports[port as usize].counters;
                    let add = |sum: u64, each: u64| sum.saturating_add(each.saturating_mul(messages));
                    counters.messages += messages;
                    counters.bytes = add(counters.bytes, self.links.sizes[size as usize]);
                    counters.busy_ps = add(counters.busy_ps, held_ps);
                }
            }
        }
    }
}

impl Port {
    fn counters(&self) -> PortCounters {
        PortCounters { queue_high: self.waiting.most(), ..self.counters }
    }

    /// May this message be served after those that were?
    fn in_order(&mut self, head_ps: u64, slot: u32) -> bool {
        let before = self.last.replace((head_ps, slot));
        !self.shared || before.is_none_or(|(at_ps, by)| at_ps < head_ps || (at_ps == head_ps && by == slot))
    }
}
