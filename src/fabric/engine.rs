//! The general engine: an event queue over ports.
//!
//! ```text
//!     a message of b bytes, ready at r, on ports p1..pk                 hold = gap + serialisation of b
//!       s1 = max(r + post, free[p1])        free[p1] = s1 + hold(p1)
//!       head reaches p(i+1) at  s(i) + gap + one packet + latency       cut-through
//!                          or   free[p(i)] + latency                    where p(i+1) is store-and-forward
//!       s(i) = max(head, free[p(i)])        free[p(i)] = max(s(i) + hold(p(i)), free[p(i-1)] + latency(p(i-1)))
//!       arrival = free[pk] + latency(pk)
//! ```
//!
//! - A slice of a step is ready when its rank has entered, the slice of every operand that arrives is there, and the
//!   slice before it was handed on. Steps of a rank do not otherwise wait for each other.
//! - A step with several readers sends one message to each; a network that copies on the way is not modelled.
//! - Folds and copies within a rank take no time.
//! - A port serves messages first come, first served, by when their heads reach it; ties by rank, lane, step, slice,
//!   reader. What arrives at a moment is there before any head is served at it. Ports have room for all that waits: nothing presses back but credits.
//! - The credits of a connection are the fewest that a class on its way has. A message that finds none waits in the
//!   order of readiness, and is posted when an earlier one arrives.
//! - A rank is done when what it sends has left its first port, and what it takes has arrived.
//!
//! Cost: one event a port that a message passes, one for its arrival, one for a rank's entry. Times past u64 are an
//! error.

use super::program::{Arrival, Program, Step};
use super::queue::{Event, Queue};
use super::trace::Span;
use super::{Call, Counters, Outcome};
use crate::error::{Error, Result};
use crate::topology::Network;
use std::collections::VecDeque;

/// When each rank of a call is done that enters at `entry_ps`, and what passed the ports. The network is idle before.
pub fn price(network: &Network, call: &Call<'_>, entry_ps: &[u64]) -> Result<Outcome> {
    Engine::new(network, call, entry_ps, |_: Span| {})?.run()
}

/// The same, and every message's stay at every port goes to `sink`, in the order in which heads reach ports.
pub fn price_traced(
    network: &Network,
    call: &Call<'_>,
    entry_ps: &[u64],
    sink: &mut dyn FnMut(Span),
) -> Result<Outcome> {
    Engine::new(network, call, entry_ps, sink)?.run()
}

/// Set in [`Event::who`]: the rest is a rank, which enters.
const ENTRY: u32 = 1 << 31;
/// Set in [`Event::order`] of a head at a port: at one moment all that arrives goes before, so that ranks that have
/// their messages at once compete by their own numbers, not by those of whom the messages come from.
const HEAD: u64 = 1 << 63;
/// No message.
const NONE: u32 = u32::MAX;

/// A message under way, or a place for one.
struct Message {
    /// By whom ties are decided: step, slice, reader.
    order: u64,
    /// Before this time its last byte cannot have left the port that it is at.
    tail_ps: u64,
    step: u32,
    send: u32,
    slice: u32,
    size: u32,
    /// The ports that it passed.
    passed: u32,
    /// The next of those that wait for credits, or of the free places.
    next: u32,
}

/// What a connection has under way.
#[derive(Clone, Copy)]
struct Flow {
    under_way: u32,
    /// The messages that wait for credits.
    first: u32,
    last: u32,
}

struct Port {
    free_ps: u64,
    counters: Counters,
    /// When those that waited at the last look start.
    waiting: VecDeque<u64>,
}

/// What a message of one size costs at ports of one class.
#[derive(Clone, Copy)]
struct Cost {
    /// The port is taken.
    hold_ps: u64,
    /// From the start until the head is at the next port.
    lead_ps: u64,
    latency_ps: u64,
}

struct Engine<S> {
    program: Program,
    queue: Queue,
    ports: Vec<Port>,
    /// By class, then size.
    costs: Vec<Cost>,
    flows: Vec<Flow>,
    messages: Vec<Message>,
    vacant: u32,
    /// `order` is step, slice, reader from the highest bit down; these are the places of the first two.
    step_shift: u32,
    slice_shift: u32,
    exit_ps: Vec<u64>,
    sink: S,
}

impl<S: FnMut(Span)> Engine<S> {
    fn new(network: &Network, call: &Call<'_>, entry_ps: &[u64], sink: S) -> Result<Engine<S>> {
        let (ranks, places) = (call.plans.len(), network.shape.nranks() as usize);
        if ranks == 0 || ranks > places || entry_ps.len() != ranks {
            return Err(Error::argument(format!(
                "{ranks} programs with {} entries do not fit the {places} places of {}",
                entry_ps.len(),
                network.name
            )));
        }
        let program = Program::of(network, call)?;
        let bits = |most: u32| u32::BITS - most.leading_zeros();
        let slice_shift = bits(program.steps.iter().map(|s| s.sends).max().unwrap_or(0));
        let step_shift = slice_shift + bits(program.steps.iter().map(|s| s.slices).max().unwrap_or(0));
        if step_shift + bits(program.steps.len() as u32) >= u64::BITS {
            return Err(Error::argument("there are too many steps, slices and readers to be priced"));
        }
        let costs = network.classes.iter().flat_map(|class| {
            program.sizes.iter().map(|&bytes| Cost {
                hold_ps: class.gap_ps.saturating_add(class.serialisation_ps(bytes)),
                lead_ps: class.gap_ps.saturating_add(class.packet_ps(bytes)).saturating_add(class.latency_ps),
                latency_ps: class.latency_ps,
            })
        });
        let port = || Port { free_ps: 0, counters: Counters::default(), waiting: VecDeque::new() };
        let mut engine = Engine {
            queue: Queue::new(),
            ports: network.ports.iter().map(|_| port()).collect(),
            costs: costs.collect(),
            flows: vec![Flow { under_way: 0, first: NONE, last: NONE }; program.connections.len()],
            messages: Vec::new(),
            vacant: NONE,
            step_shift,
            slice_shift,
            exit_ps: entry_ps.to_vec(),
            sink,
            program,
        };
        for (rank, &at_ps) in (0..).zip(entry_ps) {
            let order = (engine.program.ranks[rank as usize] as u64) << step_shift;
            engine.schedule(Event { at_ps, order, who: ENTRY | rank })?;
        }
        Ok(engine)
    }

    fn run(mut self) -> Result<Outcome> {
        let mut events = 0;
        while let Some(Event { at_ps, who, .. }) = self.queue.pop() {
            events += 1;
            if who & ENTRY != 0 {
                self.enter(who & !ENTRY, at_ps)?;
                continue;
            }
            let message = &self.messages[who as usize];
            let connection = self.program.sends[message.send as usize].connection;
            if message.passed < self.program.connections[connection as usize].hops {
                self.pass(who, connection, at_ps)?;
            } else {
                self.arrive(who, connection, at_ps)?;
            }
        }
        self.finished()?;
        let counters = self.ports.iter().map(|port| port.counters).collect();
        Ok(Outcome { exit_ps: self.exit_ps, counters, events })
    }

    #[inline]
    fn schedule(&mut self, event: Event) -> Result<()> {
        // Sums saturate; whatever does not fit ends here.
        if event.at_ps == u64::MAX {
            return Err(Error::argument("the call takes longer than 2^64 picoseconds"));
        }
        self.queue.push(event);
        Ok(())
    }

    fn enter(&mut self, rank: u32, now_ps: u64) -> Result<()> {
        for step in self.program.ranks[rank as usize]..self.program.ranks[rank as usize + 1] {
            self.program.steps[step as usize].missing -= 1;
            self.advance(step, now_ps)?;
        }
        Ok(())
    }

    /// A message's head is at its next port.
    #[inline]
    fn pass(&mut self, who: u32, connection: u32, now_ps: u64) -> Result<()> {
        let program = &self.program;
        let message = &mut self.messages[who as usize];
        let hop =
            &program.hops[(program.connections[connection as usize].first_hop + message.passed) as usize];
        let port = &mut self.ports[hop.port as usize];
        let cost = self.costs[hop.class as usize * program.sizes.len() + message.size as usize];
        let bytes = program.sizes[message.size as usize];

        let start_ps = now_ps.max(port.free_ps);
        let end_ps = start_ps.saturating_add(cost.hold_ps).max(message.tail_ps);
        port.free_ps = end_ps;
        port.count(now_ps, start_ps, end_ps, bytes);

        let step = &program.steps[message.step as usize];
        if message.passed == 0 {
            let exit = &mut self.exit_ps[step.rank as usize];
            *exit = end_ps.max(*exit);
        }
        (self.sink)(Span {
            rank: step.rank,
            port: hop.port,
            step: step.index,
            slice: message.slice,
            start_ps,
            end_ps,
            bytes,
        });
        message.tail_ps = end_ps.saturating_add(cost.latency_ps);
        message.passed += 1;
        let at_ps = if hop.whole { message.tail_ps } else { start_ps.saturating_add(cost.lead_ps) };
        let arrives = message.passed == self.program.connections[connection as usize].hops;
        let order = message.order | if arrives { 0 } else { HEAD };
        self.schedule(Event { at_ps, order, who })
    }

    fn arrive(&mut self, who: u32, connection: u32, now_ps: u64) -> Result<()> {
        let message = &mut self.messages[who as usize];
        let operand = self.program.sends[message.send as usize].operand;
        message.next = std::mem::replace(&mut self.vacant, who);

        let flow = &mut self.flows[connection as usize];
        flow.under_way -= 1;
        let waiting = flow.first;
        if waiting != NONE {
            flow.first = self.messages[waiting as usize].next;
            self.post(waiting, connection, now_ps)?;
        }

        let operand = &mut self.program.operands[operand as usize];
        operand.arrived += 1;
        let id = operand.step;
        let step = &mut self.program.steps[id as usize];
        let exit = &mut self.exit_ps[step.rank as usize];
        *exit = now_ps.max(*exit);
        if operand.arrived == step.next + 1 {
            step.missing -= 1;
            self.advance(id, now_ps)?;
        }
        Ok(())
    }

    /// Hand on the slices of a step that are ready.
    fn advance(&mut self, id: u32, now_ps: u64) -> Result<()> {
        loop {
            let step = &self.program.steps[id as usize];
            if step.missing > 0 || step.next == step.slices {
                return Ok(());
            }
            self.send(id, step.next, now_ps)?;
            let arrivals = self.program.arrivals(id);
            let step = &mut self.program.steps[id as usize];
            step.next += 1;
            let lacking = |operand: &&Arrival| operand.arrived <= step.next;
            step.missing = self.program.operands[arrivals].iter().filter(lacking).count() as u32;
        }
    }

    fn send(&mut self, step: u32, slice: u32, now_ps: u64) -> Result<()> {
        let Step { first_send, sends, slices, size, last_size, .. } = self.program.steps[step as usize];
        for reader in 0..sends {
            let order = (step as u64) << self.step_shift | (slice as u64) << self.slice_shift | reader as u64;
            let send = first_send + reader;
            let size = if slice + 1 == slices { last_size } else { size };
            let who =
                self.place(Message { order, tail_ps: 0, step, send, slice, size, passed: 0, next: NONE })?;
            let connection = self.program.sends[send as usize].connection;
            let flow = &mut self.flows[connection as usize];
            if flow.under_way < self.program.connections[connection as usize].credits {
                self.post(who, connection, now_ps)?;
            } else {
                match flow.first {
                    NONE => flow.first = who,
                    _ => self.messages[flow.last as usize].next = who,
                }
                flow.last = who;
            }
        }
        Ok(())
    }

    /// A message sets out.
    fn post(&mut self, who: u32, connection: u32, now_ps: u64) -> Result<()> {
        self.flows[connection as usize].under_way += 1;
        let at_ps = now_ps.saturating_add(self.program.connections[connection as usize].post_ps);
        self.schedule(Event { at_ps, order: self.messages[who as usize].order | HEAD, who })
    }

    /// Find room for a message.
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

    /// Is every step done? If not, say who waits for whom.
    fn finished(&self) -> Result<()> {
        let mut waits: Vec<(u32, u32)> = Vec::new();
        for (id, step) in (0..).zip(&self.program.steps) {
            if step.next == step.slices || waits.iter().any(|&(rank, _)| rank == step.rank) {
                continue;
            }
            let arrivals = &self.program.operands[self.program.arrivals(id)];
            let Some(lacking) = arrivals.iter().find(|o| o.arrived <= step.next) else { continue };
            waits.push((step.rank, lacking.from));
            if waits.len() == 2 {
                break;
            }
        }
        if waits.is_empty() {
            return Ok(());
        }
        let waits: Vec<String> =
            waits.iter().map(|(rank, from)| format!("rank {rank} waits for rank {from}")).collect();
        Err(Error::usage(format!("deadlock: {}, and nothing is under way", waits.join(", "))))
    }
}

impl Program {
    /// The operands of a step that arrive.
    fn arrivals(&self, step: u32) -> std::ops::Range<usize> {
        let step = &self.steps[step as usize];
        step.first_operand as usize..(step.first_operand + step.operands) as usize
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
