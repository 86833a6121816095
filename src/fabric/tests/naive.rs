//! The link model once more, as slowly and plainly as can be: a list of what is pending, and maps.

use crate::fabric::{CallTimes, PortState, PricedCall};
use crate::plan::{Operand, Plan, Step};
use crate::topology::{Class, Network, PortId};
use crate::types::Rank;
use std::collections::{BTreeMap, BTreeSet};

/// By whom ties are decided: call, rank, lane, step, slice, reader.
type Order = (usize, Rank, u16, usize, u64, usize);

/// From whom to whom, of which call, on which lane, and whether a switch sums what goes there.
type Connection = (usize, Rank, Rank, u16, bool, bool);

#[derive(Clone)]
struct Message {
    order: Order,
    to: Rank,
    /// Step and operand that it becomes.
    becomes: (usize, usize),
    bytes: u64,
    ports: Vec<PortId>,
    hop: usize,
    tail: u64,
    copied: bool,
    summed: bool,
}

impl Message {
    fn connection(&self) -> Connection {
        (self.order.0, self.order.1, self.to, self.order.2, self.copied, self.summed)
    }
}

enum What {
    Enter(usize, Rank),
    Head(Message),
}

struct Naive<'a> {
    network: &'a Network,
    calls: &'a [PricedCall<'a>],
    /// By call and rank, with what goes to a switch and comes back.
    plans: Vec<Vec<Plan>>,
    /// When the first copy of a call's rank's step's slice left.
    copies: BTreeMap<(usize, Rank, usize, u64), (u64, u64)>,
    /// The parts of sums that wait in a switch, by call, receiver, step and slice.
    sums: BTreeMap<(usize, Rank, usize, u64), Vec<Message>>,
    pending: Vec<(u64, Order, What)>,
    entered: BTreeSet<(usize, Rank)>,
    /// Call, rank, step, operand, slice.
    there: BTreeSet<(usize, Rank, usize, usize, u64)>,
    issued: BTreeMap<(usize, Rank, usize), u64>,
    under_way: BTreeMap<Connection, u32>,
    /// When the last message of a connection was fed into its lane.
    fed: BTreeMap<Connection, u64>,
    blocked: Vec<Message>,
    starts: Vec<Vec<(u64, u64)>>,
    exit_ps: Vec<Vec<u64>>,
    ports: Vec<PortState>,
    events: u64,
}

/// What [`crate::fabric::engine::price`] has to say.
pub fn price(network: &Network, call: &PricedCall<'_>, entry_ps: &[u64]) -> CallTimes {
    let mut ports = vec![PortState::default(); network.ports.len()];
    let (mut exit_ps, events) =
        together(network, std::slice::from_ref(call), &[entry_ps.to_vec()], &mut ports);
    let counters = ports.iter().map(|port| port.counters).collect();
    CallTimes { exit_ps: exit_ps.remove(0), counters, events }
}

/// The exits of calls that are under way together, in the order of their admission, and how many events that takes.
pub fn together(
    network: &Network,
    calls: &[PricedCall<'_>],
    entry_ps: &[Vec<u64>],
    ports: &mut Vec<PortState>,
) -> (Vec<Vec<u64>>, u64) {
    let mut naive = Naive {
        network,
        calls,
        plans: calls.iter().map(|call| with_own_parts(network, call)).collect(),
        copies: BTreeMap::new(),
        sums: BTreeMap::new(),
        pending: Vec::new(),
        entered: BTreeSet::new(),
        there: BTreeSet::new(),
        issued: BTreeMap::new(),
        under_way: BTreeMap::new(),
        fed: BTreeMap::new(),
        blocked: Vec::new(),
        starts: vec![Vec::new(); network.ports.len()],
        exit_ps: entry_ps.to_vec(),
        ports: std::mem::take(ports),
        events: 0,
    };
    for (call, entries) in entry_ps.iter().enumerate() {
        for (rank, &at) in (0..).zip(entries) {
            naive.pending.push((at, (call, rank, 0, 0, 0, 0), What::Enter(call, rank)));
        }
    }
    naive.run();
    *ports = naive.ports;
    (naive.exit_ps, naive.events)
}

/// Have two ranks a switch between them that copies and sums?
fn share_switch(network: &Network, call: &PricedCall<'_>, a: Rank, b: Rank) -> bool {
    let switch = |rank: Rank| network.summing_switch(call.places[rank as usize]);
    switch(a).is_some() && switch(a) == switch(b)
}

/// Plans in which ranks send to themselves what goes to a switch and comes back.
fn with_own_parts(network: &Network, call: &PricedCall<'_>) -> Vec<Plan> {
    let mut plans = Vec::new();
    for (rank, plan) in (0..).zip(call.plans) {
        let mut steps = Vec::new();
        for step in &plan.steps {
            let mut step = step.clone();
            let meets = |&peer: &Rank| step.in_switch && share_switch(network, call, rank, peer);
            let summed = step.operands.iter().any(|o| matches!(o, Operand::From(from) if meets(from)));
            let copied = step.keep && step.to.iter().any(meets);
            let own = step.clone();
            if summed && own.operands.contains(&Operand::Own) {
                steps.push(Step { operands: vec![Operand::Own], to: vec![rank], ..own.clone() });
                step.operands.retain(|&operand| operand != Operand::Own);
                step.operands.push(Operand::From(rank));
            }
            if copied {
                step.to.push(rank);
            }
            steps.push(step);
            if copied {
                steps.push(Step { operands: vec![Operand::From(rank)], to: Vec::new(), ..own });
            }
        }
        plans.push(Plan { parts: plan.parts, steps });
    }
    plans
}

impl Naive<'_> {
    fn run(&mut self) {
        while !self.pending.is_empty() {
            // At one moment, all that arrives before any head.
            let is_head = |what: &What| matches!(what, What::Head(m) if m.hop < m.ports.len());
            let first = (0..self.pending.len())
                .min_by_key(|&i| (self.pending[i].0, is_head(&self.pending[i].2), self.pending[i].1))
                .unwrap();
            let (now, _, what) = self.pending.remove(first);
            self.events += 1;
            match what {
                What::Enter(call, rank) => {
                    self.entered.insert((call, rank));
                    let mut steps: Vec<usize> = (0..self.plan(call, rank).steps.len()).collect();
                    steps.sort_by_key(|&s| (self.plan(call, rank).steps[s].lane, s));
                    for step in steps {
                        self.issue(call, rank, step, now);
                    }
                }
                What::Head(message) if message.hop < message.ports.len() => self.pass(message, now),
                What::Head(message) => self.arrive(message, now),
            }
        }
    }

    fn plan(&self, call: usize, rank: Rank) -> &Plan {
        &self.plans[call][rank as usize]
    }

    /// Bytes of a step's slice, or `None` if it has no such slice.
    fn slice_bytes(&self, call: usize, rank: Rank, step: usize, slice: u64) -> Option<u64> {
        let (plan, call) = (self.plan(call, rank), &self.calls[call]);
        let c = call.count.div_ceil(plan.parts as u64);
        let p = plan.steps[step].chunk.part as u64;
        let bytes = (((p + 1) * c).min(call.count) - (p * c).min(call.count)) * call.size;
        if bytes == 0 {
            return (slice == 0).then_some(0);
        }
        let begin = slice * call.slice_bytes;
        (begin < bytes).then(|| (bytes - begin).min(call.slice_bytes))
    }

    fn issue(&mut self, call: usize, rank: Rank, step: usize, now: u64) {
        loop {
            let slice = *self.issued.get(&(call, rank, step)).unwrap_or(&0);
            let Some(bytes) = self.slice_bytes(call, rank, step, slice) else { return };
            let program = self.plan(call, rank).steps[step].clone();
            let there = |o| self.there.contains(&(call, rank, step, o, slice));
            let ready = (0..program.operands.len()).all(|o| program.operands[o] == Operand::Own || there(o));
            if !ready || !self.entered.contains(&(call, rank)) {
                return;
            }
            self.issued.insert((call, rank, step), slice + 1);
            for (reader, &to) in program.to.iter().enumerate() {
                let mut ports = Vec::new();
                let places = self.calls[call].places;
                let (from, at) = (places[rank as usize], places[to as usize]);
                match self.network.routes.switch(from).filter(|_| from == at) {
                    Some((_, to_and_from)) => ports.extend(to_and_from),
                    None => self.network.routes.route(from, at, program.lane, &mut ports).unwrap(),
                }
                let order = (call, rank, program.lane, step, slice, reader);
                let becomes = self.becomes(call, rank, step, to);
                let meets = share_switch(self.network, &self.calls[call], rank, to);
                let takes = &self.plan(call, to).steps[becomes.0];
                let copied = meets && program.in_switch;
                let summed = meets && takes.in_switch && takes.operands.len() > 1;
                let message = Message { order, to, becomes, bytes, ports, hop: 0, tail: 0, copied, summed };
                self.set_out(message, now, true);
            }
        }
    }

    /// The step and operand of `to` that takes what a step of `rank` sends it.
    fn becomes(&self, call: usize, rank: Rank, step: usize, to: Rank) -> (usize, usize) {
        let k = self.plan(call, rank).steps[..step].iter().filter(|s| s.to.contains(&to)).count();
        let steps = self.plan(call, to).steps.iter().enumerate();
        let operands = steps.flat_map(|(s, step)| (0..step.operands.len()).map(move |o| (s, o)));
        operands
            .filter(|&(s, o)| self.plan(call, to).steps[s].operands[o] == Operand::From(rank))
            .nth(k)
            .expect("a taker")
    }

    fn set_out(&mut self, message: Message, now: u64, last_in_line: bool) {
        let connection = message.connection();
        let classes = message.ports.iter().map(|&p| self.network.class(p));
        let credits = match message {
            Message { summed: true, .. } => 2,
            Message { copied: true, .. } => u32::MAX,
            _ => classes.map(|c| c.credits).filter(|&c| c > 0).min().unwrap_or(u32::MAX),
        };
        let under_way = self.under_way.entry(connection).or_insert(0);
        if *under_way == credits {
            assert!(last_in_line);
            self.blocked.push(message);
            return;
        }
        *under_way += 1;
        let class = self.network.class(message.ports[0]);
        let (feed, wire) = (class.feed_ps(message.bytes), class.serialisation_ps(message.bytes));
        let piece = match class.lane_piece {
            0 => feed,
            most => class.feed_ps(message.bytes.min(most)),
        };
        let fed = self.fed.entry(connection).or_insert(0);
        let begin = now.max(*fed);
        *fed = begin + feed;
        // The port sends the last byte no sooner than the lane has it, or the first piece, if receivers hand it on by pieces.
        let head = begin + piece.saturating_sub(wire) + class.post_ps;
        self.pending.push((head, message.order, What::Head(message)));
    }

    fn pass(&mut self, mut message: Message, now: u64) {
        let port = message.ports[message.hop] as usize;
        let class = match message.copied || message.summed {
            true => self.network.class(port as u32).through_switch(),
            false => self.network.class(port as u32).clone(),
        };
        let (call, rank, _, step, slice, _) = message.order;
        if message.copied
            && message.hop == 0
            && let Some(&(start, end)) = self.copies.get(&(call, rank, step, slice))
        {
            let exit = &mut self.exit_ps[call][rank as usize];
            *exit = end.max(*exit);
            return self.goes_on(message, &class, start, end);
        }
        if message.summed && message.hop + 1 == message.ports.len() {
            let takes = self.plan(call, message.to).steps[message.becomes.0].operands.clone();
            let parts = takes.iter().filter(|o| match o {
                Operand::From(from) => share_switch(self.network, &self.calls[call], *from, message.to),
                Operand::Own => false,
            });
            let parts = parts.count();
            let there = self.sums.entry((call, message.to, message.becomes.0, slice)).or_default();
            message.tail = there.iter().map(|part| part.tail).max().unwrap_or(0).max(message.tail);
            there.push(message.clone());
            if there.len() < parts {
                return;
            }
        }
        let start = now.max(self.ports[port].free_ps);
        let taken = (class.gap_ps + class.serialisation_ps(message.bytes)).max(class.least_hold_ps);
        let end = (start + taken).max(message.tail);
        if message.copied && message.hop == 0 {
            self.copies.insert((call, rank, step, slice), (start, end));
        }
        self.ports[port].free_ps = end;
        self.starts[port].push((now, start));
        let counters = &mut self.ports[port].counters;
        counters.bytes += message.bytes;
        counters.messages += 1;
        counters.busy_ps += end - start;
        let waiting = self.starts[port].iter().filter(|&&(head, start)| head <= now && start > now).count();
        counters.queue_high = counters.queue_high.max(waiting as u32);
        if message.hop == 0 {
            let exit = &mut self.exit_ps[message.order.0][message.order.1 as usize];
            *exit = end.max(*exit);
        }
        self.goes_on(message, &class, start, end);
    }

    fn goes_on(&mut self, mut message: Message, class: &Class, start: u64, end: u64) {
        message.tail = end + class.latency_ps;
        message.hop += 1;
        let whole = match message.ports.get(message.hop) {
            Some(&next) => self.network.class(next).store_and_forward,
            None => true,
        };
        let cut_through = start + class.gap_ps + class.packet_ps(message.bytes) + class.latency_ps;
        let head = if whole { message.tail } else { cut_through };
        self.pending.push((head, message.order, What::Head(message)));
    }

    fn arrive(&mut self, message: Message, now: u64) {
        let (call, .., slice, _) = message.order;
        let step = message.becomes.0;
        let mut parts = match message.summed {
            true => self.sums.remove(&(call, message.to, step, slice)).unwrap(),
            false => vec![message.clone()],
        };
        // In the order of the operands.
        parts.sort_by_key(|part| part.becomes);
        for part in parts {
            self.part_arrives(&part, now);
        }
        self.issue(call, message.to, step, now);
    }

    fn part_arrives(&mut self, message: &Message, now: u64) {
        let connection = message.connection();
        *self.under_way.get_mut(&connection).unwrap() -= 1;
        let next = self.blocked.iter().position(|m| m.connection() == connection);
        if let Some(next) = next {
            let next = self.blocked.remove(next);
            self.set_out(next, now, false);
        }
        let (step, operand) = message.becomes;
        let call = message.order.0;
        self.there.insert((call, message.to, step, operand, message.order.4));
        let exit = &mut self.exit_ps[call][message.to as usize];
        *exit = now.max(*exit);
    }
}
