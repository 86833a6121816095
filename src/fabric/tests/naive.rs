//! The link model once more, as slowly and plainly as can be: a list of what is pending, and maps for the rest.

use crate::fabric::{Call, Counters, Outcome};
use crate::plan::{Operand, Plan};
use crate::topology::{Network, PortId};
use crate::types::Rank;
use std::collections::{BTreeMap, BTreeSet};

/// By whom ties are decided: rank, lane, step, slice, reader.
type Order = (Rank, u16, usize, u64, usize);

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

enum What {
    Enter(Rank),
    Head(Message),
}

struct Naive<'a> {
    network: &'a Network,
    call: &'a Call<'a>,
    pending: Vec<(u64, Order, What)>,
    entered: BTreeSet<Rank>,
    /// Rank, step, operand, slice.
    there: BTreeSet<(Rank, usize, usize, u64)>,
    issued: BTreeMap<(Rank, usize), u64>,
    under_way: BTreeMap<(Rank, Rank, u16), u32>,
    blocked: Vec<Message>,
    free: Vec<u64>,
    starts: Vec<Vec<(u64, u64)>>,
    outcome: Outcome,
}

/// What [`crate::fabric::engine::price`] has to say.
pub fn price(network: &Network, call: &Call<'_>, entry_ps: &[u64]) -> Outcome {
    let ports = network.ports.len();
    let mut naive = Naive {
        network,
        call,
        pending: Vec::new(),
        entered: BTreeSet::new(),
        there: BTreeSet::new(),
        issued: BTreeMap::new(),
        under_way: BTreeMap::new(),
        blocked: Vec::new(),
        free: vec![0; ports],
        starts: vec![Vec::new(); ports],
        outcome: Outcome {
            exit_ps: entry_ps.to_vec(),
            counters: vec![Counters::default(); ports],
            events: 0,
        },
    };
    for (rank, &at) in (0..).zip(entry_ps) {
        naive.pending.push((at, (rank, 0, 0, 0, 0), What::Enter(rank)));
    }
    naive.run();
    naive.outcome
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
            self.outcome.events += 1;
            match what {
                What::Enter(rank) => {
                    self.entered.insert(rank);
                    let mut steps: Vec<usize> = (0..self.plan(rank).steps.len()).collect();
                    steps.sort_by_key(|&s| (self.plan(rank).steps[s].lane, s));
                    for step in steps {
                        self.issue(rank, step, now);
                    }
                }
                What::Head(message) if message.hop < message.ports.len() => self.pass(message, now),
                What::Head(message) => self.arrive(message, now),
            }
        }
    }

    fn plan(&self, rank: Rank) -> &Plan {
        &self.call.plans[rank as usize]
    }

    /// Bytes of a step's slice, or `None` if it has no such slice.
    fn slice_bytes(&self, rank: Rank, step: usize, slice: u64) -> Option<u64> {
        let plan = self.plan(rank);
        let c = self.call.count.div_ceil(plan.parts as u64);
        let p = plan.steps[step].chunk.part as u64;
        let bytes = (((p + 1) * c).min(self.call.count) - (p * c).min(self.call.count)) * self.call.size;
        if bytes == 0 {
            return (slice == 0).then_some(0);
        }
        let begin = slice * self.call.slice_bytes;
        (begin < bytes).then(|| (bytes - begin).min(self.call.slice_bytes))
    }

    fn issue(&mut self, rank: Rank, step: usize, now: u64) {
        loop {
            let slice = *self.issued.get(&(rank, step)).unwrap_or(&0);
            let Some(bytes) = self.slice_bytes(rank, step, slice) else { return };
            let program = &self.call.plans[rank as usize].steps[step];
            let ready = (0..program.operands.len())
                .all(|o| program.operands[o] == Operand::Own || self.there.contains(&(rank, step, o, slice)));
            if !ready || !self.entered.contains(&rank) {
                return;
            }
            self.issued.insert((rank, step), slice + 1);
            for (reader, &to) in program.to.iter().enumerate() {
                let mut ports = Vec::new();
                self.network.routes.route(rank, to, program.lane, &mut ports).unwrap();
                let order = (rank, program.lane, step, slice, reader);
                let becomes = self.becomes(rank, step, to);
                self.set_out(Message { order, to, becomes, bytes, ports, hop: 0, tail: 0 }, now, true);
            }
        }
    }

    /// The step and operand of `to` that takes what a step of `rank` sends it.
    fn becomes(&self, rank: Rank, step: usize, to: Rank) -> (usize, usize) {
        let k = self.plan(rank).steps[..step].iter().filter(|s| s.to.contains(&to)).count();
        let steps = self.plan(to).steps.iter().enumerate();
        let operands = steps.flat_map(|(s, step)| (0..step.operands.len()).map(move |o| (s, o)));
        operands
            .filter(|&(s, o)| self.plan(to).steps[s].operands[o] == Operand::From(rank))
            .nth(k)
            .expect("a taker")
    }

    fn set_out(&mut self, message: Message, now: u64, last_in_line: bool) {
        let connection = (message.order.0, message.to, message.order.1);
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
        let start = now.max(self.free[port]);
        let end = (start + class.gap_ps + class.serialisation_ps(message.bytes)).max(message.tail);
        self.free[port] = end;
        self.starts[port].push((now, start));
        let counters = &mut self.outcome.counters[port];
        counters.bytes += message.bytes;
        counters.messages += 1;
        counters.busy_ps += end - start;
        let waiting = self.starts[port].iter().filter(|&&(head, start)| head <= now && start > now).count();
        counters.queue_high = counters.queue_high.max(waiting as u32);
        if message.hop == 0 {
            let exit = &mut self.outcome.exit_ps[message.order.0 as usize];
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
        let connection = (message.order.0, message.to, message.order.1);
        *self.under_way.get_mut(&connection).unwrap() -= 1;
        let next = self.blocked.iter().position(|m| (m.order.0, m.to, m.order.1) == connection);
        if let Some(next) = next {
            let next = self.blocked.remove(next);
            self.set_out(next, now, false);
        }
        let (step, operand) = message.becomes;
        self.there.insert((message.to, step, operand, message.order.3));
        let exit = &mut self.outcome.exit_ps[message.to as usize];
        *exit = now.max(*exit);
        self.issue(message.to, step, now);
    }
}
