//! Events at ports, as in the general engine, but of links instead of steps.
//!
//! A message is a link, a round and a slice. When it arrives, the next link sends the same slice in the next round,
//! and after the last round nothing. All else is the general engine's model to the letter, the order of equal times
//! included: rank, lane, round, slice.
//!
//! Where few ranks stand for all, a choice between messages of different copies whose heads reach a port at one moment
//! would depend on where the numbering begins: such a call is refused. What is ready at one moment competes by its own
//! rank's number, not by that of whom it came from, so nothing else acts at a distance, provided that no port passes a
//! head on at once: ports without latency are refused as well.

use super::Priced;
use super::links::{Link, Links};
use super::period::Watch;
use crate::error::{Error, Result};
use crate::fabric::Counters;
use crate::fabric::queue::{Event, Queue};
use std::collections::{BTreeMap, VecDeque};

/// Set in [`Event::who`]: the rest is a rank, which enters.
const ENTRY: u32 = 1 << 31;
/// Set in [`Event::order`] of a head at a port: at one moment all that arrives goes before.
const HEAD: u64 = 1 << 63;
/// No message.
const NONE: u32 = u32::MAX;

/// A message under way, or a place for one.
#[derive(Clone, Copy)]
pub struct Message {
    /// When it is at its next port or arrives; [`WAITS`] for a credit, or [`VACANT`].
    pub at_ps: u64,
    pub tail_ps: u64,
    pub link: u32,
    pub round: u32,
    pub slice: u32,
    pub chunk: u32,
    pub passed: u32,
    next: u32,
}

/// In [`Message::at_ps`].
pub const WAITS: u64 = u64::MAX;
const VACANT: u64 = u64::MAX - 1;

#[derive(Clone, Copy)]
struct Flow {
    under_way: u32,
    first: u32,
    last: u32,
}

/// A port, or all that are alike.
pub struct Port {
    pub free_ps: u64,
    pub counters: Counters,
    pub waiting: VecDeque<u64>,
    /// When the last head came, and of which copy's message.
    pub head_ps: u64,
    pub which: u32,
}

pub struct Engine<'a> {
    pub links: &'a Links,
    queue: Queue,
    pub ports: Vec<Port>,
    flows: Vec<Flow>,
    pub messages: Vec<Message>,
    vacant: u32,
    entered: Vec<bool>,
    /// By link: what arrived before its rank entered.
    early: BTreeMap<u32, Vec<Message>>,
    exit_ps: Vec<u64>,
    pub events: u64,
    lanes: u64,
    round_bits: u32,
    slice_bits: u32,
    refused: bool,
}

/// Price the links. `None`: refused, see the module's head.
pub fn run(links: &Links, entry_ps: &[u64], watch: Option<Watch>) -> Result<Option<Priced>> {
    if links.is_folded() && links.least_latency_ps == 0 {
        return Ok(None);
    }
    Engine::new(links, entry_ps)?.run(watch)
}

impl<'a> Engine<'a> {
    fn new(links: &'a Links, entry_ps: &[u64]) -> Result<Engine<'a>> {
        let bits = |most: u32| u32::BITS - most.leading_zeros();
        let slice_bits = bits(links.chunks.iter().map(|c| c.slices).max().unwrap_or(1) - 1);
        let round_bits = bits(links.rounds);
        if bits(links.links.len() as u32) + slice_bits + round_bits >= u64::BITS {
            return Err(Error::argument("there are too many rounds and slices to be priced"));
        }
        let port = || Port {
            free_ps: 0,
            counters: Counters::default(),
            waiting: VecDeque::new(),
            head_ps: u64::MAX,
            which: NONE,
        };
        let ranks = links.ranks as usize;
        let mut engine = Engine {
            links,
            queue: Queue::new(),
            ports: (0..links.ports).map(|_| port()).collect(),
            flows: vec![Flow { under_way: 0, first: NONE, last: NONE }; links.links.len()],
            messages: Vec::new(),
            vacant: NONE,
            entered: vec![false; ranks],
            early: BTreeMap::new(),
            exit_ps: entry_ps[..ranks].to_vec(),
            events: 0,
            lanes: links.links.len() as u64 / u64::from(links.ranks),
            round_bits,
            slice_bits,
            refused: false,
        };
        for rank in 0..links.ranks {
            let at_ps = entry_ps[rank as usize];
            let order = engine.order(rank, 0, 0, 0);
            engine.schedule(Event { at_ps, call: 0, order, who: ENTRY | rank })?;
        }
        Ok(engine)
    }

    fn run(mut self, mut watch: Option<Watch>) -> Result<Option<Priced>> {
        let mut watches = true;
        while let Some(Event { at_ps, who, .. }) = self.queue.pop_before(u64::MAX) {
            self.events += 1;
            if who & ENTRY != 0 {
                self.enter(who & !ENTRY, at_ps)?;
                continue;
            }
            let Message { link, passed, .. } = self.messages[who as usize];
            if passed < self.links.links[link as usize].hops {
                self.pass(who, at_ps)?;
                if self.refused {
                    return Ok(None);
                }
            } else {
                self.arrive(who, at_ps)?;
                if link == 0
                    && watches
                    && let Some(watch) = &mut watch
                    && self.entered.iter().all(|&entered| entered)
                {
                    watches = watch.look(&mut self, at_ps)?;
                }
            }
        }
        let counters = self.ports.iter().map(|port| port.counters).collect();
        let periods = watch.map_or(0, |watch| watch.skipped);
        Ok(Some(Priced { exit_ps: self.exit_ps, counters, events: self.events, periods }))
    }

    /// As in the general engine: rank, lane, round, slice.
    fn order(&self, rank: u32, lane: u32, round: u32, slice: u32) -> u64 {
        let link = u64::from(rank) * self.lanes + u64::from(lane);
        (link << self.round_bits | u64::from(round)) << self.slice_bits | u64::from(slice)
    }

    fn message_order(&self, message: &Message) -> u64 {
        let Link { rank, lane, .. } = self.links.links[message.link as usize];
        self.order(rank, lane, message.round, message.slice)
    }

    #[inline]
    fn schedule(&mut self, event: Event) -> Result<()> {
        if event.at_ps >= VACANT {
            return Err(Error::argument("the call takes longer than 2^64 picoseconds"));
        }
        self.queue.push(event);
        Ok(())
    }

    fn enter(&mut self, rank: u32, now_ps: u64) -> Result<()> {
        self.entered[rank as usize] = true;
        let links = self.links;
        for id in (rank as usize..links.links.len()).step_by(links.ranks as usize) {
            let chunk = links.links[id].chunk;
            for slice in 0..links.chunks[chunk as usize].slices {
                self.send(id as u32, 0, slice, chunk, now_ps)?;
            }
            for early in self.early.remove(&(id as u32)).unwrap_or_default() {
                self.send(id as u32, early.round + 1, early.slice, early.chunk, now_ps)?;
            }
        }
        Ok(())
    }

    /// A message's head is at its next port.
    #[inline]
    fn pass(&mut self, who: u32, now_ps: u64) -> Result<()> {
        let links = self.links;
        let message = &mut self.messages[who as usize];
        let link = &links.links[message.link as usize];
        let hop = &links.hops[(link.first_hop + message.passed) as usize];
        let port = &mut self.ports[hop.port as usize];
        let chunk = &links.chunks[message.chunk as usize];
        let size = if message.slice + 1 == chunk.slices { chunk.last_size } else { chunk.size };
        let cost = links.cost(hop.class, size);

        if links.is_folded() {
            self.refused |= port.head_ps == now_ps && port.which != hop.which;
            (port.head_ps, port.which) = (now_ps, hop.which);
        }
        let start_ps = now_ps.max(port.free_ps);
        let end_ps = start_ps.saturating_add(cost.hold_ps).max(message.tail_ps);
        port.free_ps = end_ps;
        port.count(now_ps, start_ps, end_ps, links.sizes[size as usize]);
        if message.passed == 0 {
            let exit = &mut self.exit_ps[link.rank as usize];
            *exit = end_ps.max(*exit);
        }
        message.tail_ps = end_ps.saturating_add(cost.latency_ps);
        message.passed += 1;
        let at_ps = if hop.whole { message.tail_ps } else { start_ps.saturating_add(cost.lead_ps) };
        message.at_ps = at_ps;
        let arrives = message.passed == link.hops;
        let order = self.message_order(&self.messages[who as usize]) | if arrives { 0 } else { HEAD };
        self.schedule(Event { at_ps, call: 0, order, who })
    }

    fn arrive(&mut self, who: u32, now_ps: u64) -> Result<()> {
        let place = &mut self.messages[who as usize];
        let message = *place;
        place.at_ps = VACANT;
        place.next = std::mem::replace(&mut self.vacant, who);

        let flow = &mut self.flows[message.link as usize];
        flow.under_way -= 1;
        let waiting = flow.first;
        if waiting != NONE {
            flow.first = self.messages[waiting as usize].next;
            self.post(waiting, now_ps)?;
        }

        let next = self.links.links[message.link as usize].next;
        let rank = self.links.links[next as usize].rank as usize;
        self.exit_ps[rank] = now_ps.max(self.exit_ps[rank]);
        if message.round + 1 == self.links.rounds {
            return Ok(());
        }
        if !self.entered[rank] {
            self.early.entry(next).or_default().push(message);
            return Ok(());
        }
        self.send(next, message.round + 1, message.slice, message.chunk, now_ps)
    }

    fn send(&mut self, link: u32, round: u32, slice: u32, chunk: u32, now_ps: u64) -> Result<()> {
        let message = Message { at_ps: WAITS, tail_ps: 0, link, round, slice, chunk, passed: 0, next: NONE };
        let who = self.place(message)?;
        let flow = &mut self.flows[link as usize];
        if flow.under_way < self.links.links[link as usize].credits {
            return self.post(who, now_ps);
        }
        match flow.first {
            NONE => flow.first = who,
            _ => self.messages[flow.last as usize].next = who,
        }
        flow.last = who;
        Ok(())
    }

    /// A message sets out.
    fn post(&mut self, who: u32, now_ps: u64) -> Result<()> {
        let link = self.messages[who as usize].link;
        self.flows[link as usize].under_way += 1;
        let at_ps = now_ps.saturating_add(self.links.links[link as usize].post_ps);
        self.messages[who as usize].at_ps = at_ps;
        let order = self.message_order(&self.messages[who as usize]) | HEAD;
        self.schedule(Event { at_ps, call: 0, order, who })
    }

    fn place(&mut self, message: Message) -> Result<u32> {
        let who = self.vacant;
        if who != NONE {
            self.vacant = std::mem::replace(&mut self.messages[who as usize], message).next;
            return Ok(who);
        }
        if self.messages.len() >= ENTRY as usize {
            return Err(Error::argument("there are too many messages under way to be priced"));
        }
        self.messages.push(message);
        Ok(self.messages.len() as u32 - 1)
    }

    /// Messages under way or waiting for a credit, and their places.
    pub fn under_way(&self) -> impl Iterator<Item = (u32, &Message)> {
        (0..).zip(&self.messages).filter(|(_, message)| message.at_ps != VACANT)
    }

    /// Everything that is under way moves on by so many rounds and so much time.
    pub fn shift(&mut self, rounds: u32, ps: u64) -> Result<()> {
        let mut queue = Queue::new();
        let live: Vec<u32> = self.under_way().map(|(who, _)| who).collect();
        for who in live {
            let message = &mut self.messages[who as usize];
            message.round += rounds;
            if message.at_ps == WAITS {
                continue;
            }
            message.at_ps = message.at_ps.saturating_add(ps);
            message.tail_ps = message.tail_ps.saturating_add(ps);
            let message = *message;
            if message.at_ps >= VACANT {
                return Err(Error::argument("the call takes longer than 2^64 picoseconds"));
            }
            let arrives = message.passed == self.links.links[message.link as usize].hops;
            let order = self.message_order(&message) | if arrives { 0 } else { HEAD };
            queue.push(Event { at_ps: message.at_ps, call: 0, order, who });
        }
        self.queue = queue;
        // What last left a rank and what last reached it belong to the period that is repeated.
        self.exit_ps.iter_mut().for_each(|exit| *exit = exit.saturating_add(ps));
        for port in &mut self.ports {
            port.free_ps = port.free_ps.saturating_add(ps);
            port.waiting.iter_mut().for_each(|start| *start = start.saturating_add(ps));
            // `u64::MAX`: no head came yet.
            port.head_ps = port.head_ps.saturating_add(ps);
        }
        Ok(())
    }
}

impl Port {
    #[inline]
    fn count(&mut self, now_ps: u64, start_ps: u64, end_ps: u64, bytes: u64) {
        while self.waiting.front().is_some_and(|&start| start <= now_ps) {
            self.waiting.pop_front();
        }
        if start_ps > now_ps {
            self.waiting.push_back(start_ps);
        }
        let counters = &mut self.counters;
        counters.queue_high = counters.queue_high.max(self.waiting.len() as u32);
        counters.bytes = counters.bytes.saturating_add(bytes);
        counters.messages += 1;
        counters.busy_ps = counters.busy_ps.saturating_add(end_ps - start_ps);
    }
}
