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
use super::links::Links;
use super::message::{EMPTY, LinkMessage, VACANT, WAITS};
use super::period::PeriodFinder;
use super::port::PortGroup;
use crate::error::{Error, Result};
use crate::fabric::engine::queue::{Queue, TimedEvent};
use std::collections::BTreeMap;
use std::hint::black_box;

/// Set in [`TimedEvent::who`] where its other bits are a rank, which enters.
const ENTRY: u32 = 1 << 31;
/// Set in [`TimedEvent::order`] of a head at a port: at one moment all that arrives goes before.
const HEAD: u64 = 1 << 63;
/// No message.
const NONE: u32 = u32::MAX;

/// The data that a message needs of a port on its link's way. It is at `link << shift | passed`, so that it is found without the
/// link.
#[derive(Clone, Copy, Default)]
struct Stop {
    port: u32,
    /// The index of the first cost of its class.
    costs: u32,
    /// The rank that sends.
    rank: u32,
    whole: bool,
    last: bool,
}

/// The messages in flight on a link, and the data that are needed to send over it.
struct Track {
    /// The order of its first message.
    order: u64,
    post_ps: u64,
    /// When the last message was fed into the lane.
    fed_ps: u64,
    under_way: u32,
    credits: u32,
    /// The messages that wait for credits.
    first: u32,
    last: u32,
    /// The link on which its messages go on, and the rank that sends there.
    next: u32,
    next_rank: u32,
}

/// The time at which the last head came to a port, and the copy whose message that was.
pub struct HeadArrival {
    pub at_ps: u64,
    pub which: u32,
}

pub struct LinkEngine<'a> {
    pub links: &'a Links,
    queue: Queue,
    pub ports: Vec<PortGroup>,
    /// The arrivals of heads by port, if a few ranks stand for all.
    pub heads: Vec<HeadArrival>,
    tracks: Vec<Track>,
    stops: Vec<Stop>,
    shift: u32,
    /// First the first message in flight of each link, so that messages that act at the same moment lie together; then all others.
    pub messages: Vec<LinkMessage>,
    /// The first vacant place among the other messages.
    vacant: u32,
    entered: Vec<bool>,
    /// For each link, the messages that arrived before its rank entered.
    early: BTreeMap<u32, Vec<LinkMessage>>,
    exit_ps: Vec<u64>,
    pub events: u64,
    round_bits: u32,
    slice_bits: u32,
    refused: bool,
}

/// Prices the links. `None`: refused, see the module's head.
pub fn run(links: &Links, entry_ps: &[u64], watch: Option<PeriodFinder>) -> Result<Option<Priced>> {
    if links.is_folded() && links.least_latency_ps == 0 {
        return Ok(None);
    }
    LinkEngine::new(links, entry_ps)?.run(watch)
}

impl<'a> LinkEngine<'a> {
    fn new(links: &'a Links, entry_ps: &[u64]) -> Result<LinkEngine<'a>> {
        let bits = |most: u32| u32::BITS - most.leading_zeros();
        let slice_bits = bits(links.chunks.iter().map(|c| c.slices).max().unwrap_or(1) - 1);
        let round_bits = bits(links.rounds);
        if bits(links.links.len() as u32) + slice_bits + round_bits >= u64::BITS {
            return Err(Error::argument("there are too many rounds and slices to be priced"));
        }
        let most = links.links.iter().map(|link| link.hops).max().unwrap_or(1);
        if most >= u32::from(u16::MAX) || links.chunks.len() > usize::from(u16::MAX) {
            return Err(Error::argument("ways are too long, or chunks too different, to be priced"));
        }
        let ranks = links.ranks as usize;
        let heads = if links.is_folded() { links.ports } else { 0 };
        let mut engine = LinkEngine {
            links,
            queue: Queue::new(),
            ports: (0..links.ports).map(|_| PortGroup::default()).collect(),
            heads: (0..heads).map(|_| HeadArrival { at_ps: u64::MAX, which: NONE }).collect(),
            tracks: Vec::new(),
            stops: Vec::new(),
            shift: most.next_power_of_two().ilog2(),
            messages: vec![EMPTY; links.links.len()],
            vacant: NONE,
            entered: vec![false; ranks],
            early: BTreeMap::new(),
            exit_ps: entry_ps[..ranks].to_vec(),
            events: 0,
            round_bits,
            slice_bits,
            refused: false,
        };
        engine.lay();
        for rank in 0..links.ranks {
            let at_ps = entry_ps[rank as usize];
            let order = engine.order(rank, 0);
            engine.schedule(TimedEvent { at_ps, call: 0, order, who: ENTRY | rank })?;
        }
        Ok(engine)
    }

    /// Lay the links out as events need them.
    fn lay(&mut self) {
        let links = self.links;
        self.stops.resize(links.links.len() << self.shift, Stop::default());
        for (id, link) in links.links.iter().enumerate() {
            let hops = links.hops(link);
            for (passed, hop) in hops.iter().enumerate() {
                self.stops[id << self.shift | passed] = Stop {
                    port: hop.port,
                    costs: hop.class * links.sizes.len() as u32,
                    rank: link.rank,
                    whole: hop.whole,
                    last: passed + 1 == hops.len(),
                };
            }
            self.tracks.push(Track {
                order: self.order(link.rank, link.lane),
                post_ps: link.post_ps,
                fed_ps: 0,
                under_way: 0,
                credits: link.credits,
                first: NONE,
                last: NONE,
                next: link.next,
                next_rank: links.links[link.next as usize].rank,
            });
        }
    }

    fn run(mut self, mut watch: Option<PeriodFinder>) -> Result<Option<Priced>> {
        let mut watches = true;
        while let Some(event) = self.queue.pop_before(u64::MAX) {
            let TimedEvent { at_ps, who, .. } = event;
            self.events += 1;
            self.look_ahead();
            if event.order & HEAD != 0 {
                self.pass(event)?;
                if self.refused {
                    return Ok(None);
                }
            } else if who & ENTRY != 0 {
                self.enter(who & !ENTRY, at_ps)?;
            } else if self.arrive(who, at_ps)? == 0
                && watches
                && let Some(watch) = &mut watch
                && self.entered.iter().all(|&entered| entered)
            {
                watches = watch.look(&mut self, at_ps)?;
            }
        }
        let counters = self.ports.iter().map(PortGroup::counters).collect();
        let periods = watch.map_or(0, |watch| watch.skipped);
        Ok(Some(Priced { exit_ps: self.exit_ps, counters, events: self.events, periods }))
    }

    /// Touches what the next events of the present time need, each a step of its chain: the cache fetches for several of
    /// them at once, while the one at hand is handled.
    #[inline]
    fn look_ahead(&self) {
        let message = |count| self.messages.get(self.queue.ahead(count)?.who as usize);
        let stop = |message: &LinkMessage| {
            self.stops.get((message.link as usize) << self.shift | usize::from(message.passed))
        };
        if let Some(fourth) = message(3) {
            black_box(fourth.link);
            black_box(message(2).and_then(stop).map(|stop| stop.port));
            let port = message(1).and_then(stop).and_then(|stop| self.ports.get(stop.port as usize));
            black_box(port.map(|port| port.free_ps));
        }
    }

    /// As in the general engine: rank, lane, round, slice. This is a link's first.
    fn order(&self, rank: u32, lane: u32) -> u64 {
        u64::from(rank * self.links.lanes + lane) << (self.round_bits + self.slice_bits)
    }

    #[inline]
    fn message_order(&self, message: &LinkMessage) -> u64 {
        self.tracks[message.link as usize].order
            | u64::from(message.round) << self.slice_bits
            | u64::from(message.slice)
    }

    #[inline]
    fn schedule(&mut self, event: TimedEvent) -> Result<()> {
        if event.at_ps >= VACANT {
            return Err(Error::argument("the call takes longer than 2^64 picoseconds"));
        }
        self.queue.push(event);
        Ok(())
    }

    fn enter(&mut self, rank: u32, now_ps: u64) -> Result<()> {
        self.entered[rank as usize] = true;
        let links = self.links;
        for link in (0..links.lanes).map(|lane| links.at(rank, lane)) {
            let chunk = links.links[link as usize].chunk;
            for slice in 0..links.chunks[chunk as usize].slices {
                self.send(link, 0, slice, chunk as u16, now_ps)?;
            }
            for early in self.early.remove(&link).unwrap_or_default() {
                self.send(link, early.round + 1, early.slice, early.chunk, now_ps)?;
            }
        }
        Ok(())
    }

    /// A message's head is at its next port.
    #[inline]
    fn pass(&mut self, event: TimedEvent) -> Result<()> {
        let TimedEvent { at_ps: now_ps, order, who, .. } = event;
        let links = self.links;
        let message = &mut self.messages[who as usize];
        let stop = self.stops[(message.link as usize) << self.shift | usize::from(message.passed)];
        let port = &mut self.ports[stop.port as usize];
        let size = links.chunks[usize::from(message.chunk)].size_of(message.slice);
        let cost = links.costs[(stop.costs + size) as usize];

        if let Some(head) = self.heads.get_mut(stop.port as usize) {
            let which = links.hops(&links.links[message.link as usize])[usize::from(message.passed)].which;
            self.refused |= head.at_ps == now_ps && head.which != which;
            *head = HeadArrival { at_ps: now_ps, which };
        }
        let start_ps = now_ps.max(port.free_ps);
        let end_ps = start_ps.saturating_add(cost.hold_ps).max(message.tail_ps);
        port.free_ps = end_ps.saturating_add(cost.rest_ps);
        port.count(now_ps, start_ps, end_ps, links.sizes[size as usize]);
        if message.passed == 0 {
            let exit = &mut self.exit_ps[stop.rank as usize];
            *exit = end_ps.max(*exit);
        }
        message.tail_ps = end_ps.saturating_add(cost.latency_ps);
        message.passed += 1;
        let at_ps = if stop.whole { message.tail_ps } else { start_ps.saturating_add(cost.lead_ps) };
        message.at_ps = at_ps;
        let order = if stop.last { order & !HEAD } else { order };
        self.schedule(TimedEvent { at_ps, call: 0, order, who })
    }

    /// A message arrives: its link.
    #[inline]
    fn arrive(&mut self, who: u32, now_ps: u64) -> Result<u32> {
        let place = &mut self.messages[who as usize];
        let message = *place;
        place.at_ps = VACANT;
        if who as usize >= self.tracks.len() {
            place.tail_ps = u64::from(std::mem::replace(&mut self.vacant, who));
        }

        let track = &mut self.tracks[message.link as usize];
        let (next, rank, waiting) = (track.next, track.next_rank as usize, track.first);
        track.under_way -= 1;
        if waiting != NONE {
            track.first = self.messages[waiting as usize].tail_ps as u32;
            self.messages[waiting as usize].tail_ps = 0;
            self.post(waiting, now_ps)?;
        }
        self.exit_ps[rank] = now_ps.max(self.exit_ps[rank]);
        if message.round + 1 == self.links.rounds {
            return Ok(message.link);
        }
        if self.entered[rank] {
            self.send(next, message.round + 1, message.slice, message.chunk, now_ps)?;
        } else {
            self.early.entry(next).or_default().push(message);
        }
        Ok(message.link)
    }

    #[inline]
    fn send(&mut self, link: u32, round: u32, slice: u32, chunk: u16, now_ps: u64) -> Result<()> {
        let who =
            self.place(LinkMessage { at_ps: WAITS, tail_ps: 0, link, round, slice, chunk, passed: 0 })?;
        let track = &mut self.tracks[link as usize];
        if track.under_way < track.credits {
            return self.post(who, now_ps);
        }
        match track.first {
            NONE => track.first = who,
            _ => self.messages[track.last as usize].tail_ps = u64::from(who),
        }
        track.last = who;
        self.messages[who as usize].tail_ps = u64::from(NONE);
        Ok(())
    }

    /// A message sets out.
    #[inline]
    fn post(&mut self, who: u32, now_ps: u64) -> Result<()> {
        let message = &mut self.messages[who as usize];
        let track = &mut self.tracks[message.link as usize];
        track.under_way += 1;
        let first_cost = self.stops[(message.link as usize) << self.shift].costs;
        let size = self.links.chunks[usize::from(message.chunk)].size_of(message.slice);
        let fed_ps = self.links.feed(first_cost, size, now_ps, &mut track.fed_ps);
        let at_ps = fed_ps.saturating_add(track.post_ps);
        message.at_ps = at_ps;
        let order = self.message_order(&self.messages[who as usize]) | HEAD;
        self.schedule(TimedEvent { at_ps, call: 0, order, who })
    }

    #[inline]
    fn place(&mut self, message: LinkMessage) -> Result<u32> {
        let own = &mut self.messages[message.link as usize];
        if own.at_ps == VACANT {
            *own = message;
            return Ok(message.link);
        }
        let who = self.vacant;
        if who != NONE {
            self.vacant = std::mem::replace(&mut self.messages[who as usize], message).tail_ps as u32;
            return Ok(who);
        }
        if self.messages.len() >= ENTRY as usize {
            return Err(Error::argument("there are too many messages under way to be priced"));
        }
        self.messages.push(message);
        Ok(self.messages.len() as u32 - 1)
    }

    /// Messages under way or waiting for a credit, and their places.
    pub fn under_way(&self) -> impl Iterator<Item = (u32, &LinkMessage)> {
        (0..).zip(&self.messages).filter(|(_, message)| message.at_ps != VACANT)
    }

    /// Returns for how long lanes are taken, from a time on.
    pub fn fed_ps(&self, now_ps: u64) -> impl Iterator<Item = u64> {
        let lanes = if self.links.feeds.is_empty() { &[] } else { &self.tracks[..] };
        lanes.iter().map(move |track| track.fed_ps.saturating_sub(now_ps))
    }

    /// Moves everything that is in flight on by `rounds` rounds and `ps` picoseconds.
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
            let arrives = u32::from(message.passed) == self.links.links[message.link as usize].hops;
            let order = self.message_order(&message) | if arrives { 0 } else { HEAD };
            queue.push(TimedEvent { at_ps: message.at_ps, call: 0, order, who });
        }
        self.queue = queue;
        // What last left a rank and what last reached it belong to the period that is repeated.
        self.exit_ps.iter_mut().for_each(|exit| *exit = exit.saturating_add(ps));
        for port in &mut self.ports {
            port.free_ps = port.free_ps.saturating_add(ps);
            port.waiting.shift(ps);
        }
        self.tracks.iter_mut().for_each(|track| track.fed_ps = track.fed_ps.saturating_add(ps));
        // `u64::MAX`: no head came yet.
        self.heads.iter_mut().for_each(|head| head.at_ps = head.at_ps.saturating_add(ps));
        Ok(())
    }
}
