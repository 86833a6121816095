//! Ports that serve the connections at them in turns, a packet each.
//!
//! ```text
//!     connection A   a1 a2 a3 a4 a5            first come, first served    a1 a2 a3 a4 a5 b1 b2
//!     connection B      b1 b2                  in turns                    a1 a2 b1 a3 b2 a4 a5
//! ```
//!
//! Packets pass ports one by one, each when it is there in whole, and the gap goes before the first packet of a message.
//! A packet has the smallest MTU of its connection's way. A message waits at its first port in one piece, and has
//! arrived with its last packet: packets of a connection do not overtake each other. If the port never idles, the connection that
//! comes last is done at the same time as with first come, first served.
//!
//! Cost: an event for each packet's coming and going, so messages of many packets take long.

use super::{NONE, RunContext, Running, Span, StepMessage, TimedEvent, schedule};
use crate::error::Result;
use crate::fabric::engine::port::MessageCost;
use crate::fabric::engine::queue::Queue;
use crate::topology::{Class, Network, PortId};
use std::collections::VecDeque;

/// Set as [`TimedEvent::call`]: the port `who` may serve its next packet. After all calls, so that who comes then is there.
pub const TURN: u32 = u32::MAX;

/// The connections that wait at a port.
#[derive(Clone, Default)]
pub struct Turns {
    /// The next one first.
    lines: VecDeque<Line>,
    waiting: u32,
    /// There is an event for the next turn.
    due: bool,
}

#[derive(Clone)]
struct Line {
    call: u32,
    connection: u32,
    messages: VecDeque<u32>,
}

/// The packets' costs of a call on a network with fair ports.
#[derive(Clone)]
pub(super) struct Packets {
    classes: Vec<Class>,
    /// For each connection, the bytes of a packet; 0 if messages are not divided.
    mtu: Vec<u64>,
}

impl Packets {
    pub fn of(network: &Network, program: &super::Program) -> Packets {
        let mtu = program.connections.iter().map(|connection| {
            let hops = &program.hops[connection.first_hop as usize..][..connection.hops as usize];
            hops.iter().map(|hop| network.class(hop.port).mtu).filter(|&mtu| mtu > 0).min().unwrap_or(0)
        });
        Packets { mtu: mtu.collect(), classes: network.classes.clone() }
    }
}

impl Turns {
    /// Returns the call and the message that are next.
    pub fn next(&self) -> Option<(u32, u32)> {
        self.lines.front().map(|line| (line.call, line.messages[0]))
    }

    fn join(&mut self, call: u32, connection: u32, who: u32) {
        self.waiting += 1;
        match self.lines.iter_mut().find(|line| (line.call, line.connection) == (call, connection)) {
            Some(line) => line.messages.push_back(who),
            None => self.lines.push_back(Line { call, connection, messages: [who].into() }),
        }
    }

    /// The next one had its turn, and perhaps is through.
    fn took(&mut self, through: bool) {
        let Some(mut line) = self.lines.pop_front() else { return };
        if through {
            line.messages.pop_front();
            self.waiting -= 1;
        }
        if !line.messages.is_empty() {
            self.lines.push_back(line);
        }
    }
}

impl Running {
    /// A packet, or a message at its first port, gets in line.
    pub(super) fn join(&mut self, who: u32, now_ps: u64, shared: &mut RunContext<'_, '_>) -> Result<u32> {
        let StepMessage { connection, hop, .. } = self.messages[who as usize];
        let id = self.program.hops[hop as usize].port;
        let (port, turns) = (&mut shared.ports[id as usize], &mut shared.turns[id as usize]);
        turns.join(self.number, connection, who);
        let at_ps = now_ps.max(port.free_ps);
        let waits = if turns.due || at_ps > now_ps { turns.waiting } else { 0 };
        port.counters.queue_high = port.counters.queue_high.max(waits);
        if !std::mem::replace(&mut turns.due, true) {
            turn(shared.queue, at_ps, id)?;
        }
        Ok(NONE)
    }

    /// A message that is next at a port sends one packet. The rank that is finished by it, or `NONE`.
    pub fn transmit(
        &mut self,
        who: u32,
        id: PortId,
        now_ps: u64,
        shared: &mut RunContext<'_, '_>,
    ) -> Result<u32> {
        let message = &self.messages[who as usize];
        let hop = self.program.hops[message.hop as usize];
        let (packet, bytes, last) = self.packet(message);
        let mut cost = MessageCost::of(self.class(hop.class()), bytes, bytes);
        if packet > 0 {
            cost.hold_ps -= cost.gap_ps;
            cost.lead_ps -= cost.gap_ps;
            cost.gap_ps = 0;
        }
        let (rank, index) =
            (self.program.steps[message.step as usize].rank, self.program.indices[message.step as usize]);
        let (call, place) = (self.id, self.places[rank as usize]);
        let (order, slice, first) = (message.order, message.slice, message.first);
        let (sink, port) = (&mut shared.sink, &mut shared.ports[id as usize]);
        let mut stay = |start_ps, end_ps, bytes| {
            if let Some(sink) = sink {
                sink(Span { call, place, port: id, step: index, slice, start_ps, end_ps, bytes });
            }
        };
        // A number for each packet: messages have fewer than 2^32 of them.
        let number = port.counters.messages << 32 | packet;
        let served = shared.faults.serve(id, number, now_ps, 0, cost, |from, until| stay(from, until, 0))?;
        stay(served.start_ps, served.end_ps, bytes);
        port.free_ps = served.end_ps;
        let counters = &mut port.counters;
        counters.bytes = counters.bytes.saturating_add(bytes);
        counters.messages += u64::from(last);
        counters.busy_ps = counters.busy_ps.saturating_add(served.busy_ps);
        counters.errors += served.errors;
        counters.resends += served.resends;

        let turns = &mut shared.turns[id as usize];
        let through = last || !first;
        turns.took(through);
        turns.due = turns.waiting > 0;
        if turns.due {
            turn(shared.queue, served.end_ps, id)?;
        }
        // The packet goes on; what is left of the message stays.
        let moved = StepMessage {
            tail_ps: packet,
            hop: self.messages[who as usize].hop + 1,
            left: self.messages[who as usize].left - 1,
            first: false,
            ..self.messages[who as usize]
        };
        let on = if through {
            self.messages[who as usize] = moved;
            who
        } else {
            self.messages[who as usize].tail_ps = packet + 1;
            self.place(moved)?
        };
        let at_ps = served.end_ps.saturating_add(cost.latency_ps);
        schedule(shared.queue, TimedEvent { at_ps, call: self.number, order, who: on })?;
        Ok(if first && last { self.did(rank, served.end_ps) } else { NONE })
    }

    /// Tells whether this is the last packet of its message. If not, its place is freed.
    pub(super) fn is_last(&mut self, who: u32) -> bool {
        let last = self.packet(&self.messages[who as usize]).2;
        if !last {
            self.vacate(who);
        }
        last
    }

    /// Which packet of a message is next, its bytes, and whether it is the last. Its number takes the place of `tail_ps`.
    fn packet(&self, message: &StepMessage) -> (u64, u64, bool) {
        let (bytes, packet) = (self.program.sizes[message.size as usize], message.tail_ps);
        let mtu = self.packets.as_ref().map_or(0, |packets| packets.mtu[message.connection as usize]);
        let mtu = if mtu == 0 { bytes.max(1) } else { mtu };
        let last = packet + 1 >= bytes.div_ceil(mtu);
        (packet, (bytes - packet * mtu).min(mtu), last)
    }

    fn class(&self, class: u32) -> &Class {
        &self.packets.as_ref().expect("fair networks have packets").classes[class as usize]
    }
}

fn turn(queue: &mut Queue, at_ps: u64, port: PortId) -> Result<()> {
    schedule(queue, TimedEvent { at_ps, call: TURN, order: u64::from(port), who: port })
}
