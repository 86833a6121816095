//! The link model once more, as slowly and plainly as can be: a list of what is pending, and maps for the rest.

use crate::fabric::{CallTimes, PortState, PricedCall};
use crate::plan::{Operand, Plan};
use crate::topology::{Network, PortId};
use crate::types::Rank;
use std::collections::{BTreeMap, BTreeSet};

/// By whom ties are decided: call, rank, lane, step, slice, reader.
type Order = (usize, Rank, u16, usize, u64, usize);

/// From whom to whom, of which call, on which lane.
type Connection = (usize, Rank, Rank, u16);

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
}

impl Message {
    fn connection(&self) -> Connection {
        (self.order.0, self.order.1, self.to, self.order.2)
    }
}

enum What {
    Enter(usize, Rank),
    Head(Message),
}

struct Naive<'a> {
    network: &'a Network,
    calls: &'a [PricedCall<'a>],
    pending: Vec<(u64, Order, What)>,
    entered: BTreeSet<(usize, Rank)>,
    /// Call, rank, step, operand, slice.
    there: BTreeSet<(usize, Rank, usize, usize, u64)>,
    issued: BTreeMap<(usize, Rank, usize), u64>,
    under_way: BTreeMap<Connection, u32>,
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
        pending: Vec::new(),
        entered: BTreeSet::new(),
        there: BTreeSet::new(),
        issued: BTreeMap::new(),
        under_way: BTreeMap::new(),
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
        &self.calls[call].plans[rank as usize]
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
            let program = &self.calls[call].plans[rank as usize].steps[step];
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
                self.network.routes.route(from, at, program.lane, &mut ports).unwrap();
                let order = (call, rank, program.lane, step, slice, reader);
                let becomes = self.becomes(call, rank, step, to);
                self.set_out(Message { order, to, becomes, bytes, ports, hop: 0, tail: 0 }, now, true);
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
        let credits = classes.map(|c| c.credits).filter(|&c| c > 0).min().unwrap_or(u32::MAX);
        let under_way = self.under_way.entry(connection).or_insert(0);
        if *under_way == credits {
            assert!(last_in_line);
            self.blocked.push(message);
            return;
        }
        *under_way += 1;
        let post = self.network.class(message.ports[0]).post_ps;
        self.pending.push((now + post, message.order, What::Head(message)));
    }

    fn pass(&mut self, mut message: Message, now: u64) {
        let port = message.ports[message.hop] as usize;
        let class = self.network.class(port as u32);
        let start = now.max(self.ports[port].free_ps);
        let end = (start + class.gap_ps + class.serialisation_ps(message.bytes)).max(message.tail);
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
        self.issue(call, message.to, step, now);
    }
}
