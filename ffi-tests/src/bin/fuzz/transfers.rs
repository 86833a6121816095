//! Sends and receives: one outside of a group, or many within.

use crate::actor::{Actor, Outcome, Place, call};
use crate::api::Out;
use crate::buffer::{Buffer, difference};
use crate::collective::plant;
use crate::draw::{draw_count, draw_kind};
use crate::element::{Patterns, TYPES, Type};
use crate::program::{Kind, Step};

/// From whom to whom.
struct Edge {
    from: usize,
    to: usize,
    count: usize,
    kind: Type,
    patterns: Patterns,
    send: Option<Buffer>,
    recv: Option<Buffer>,
    sent: String,
    received: String,
}

/// The transfers of a step, as one member sees them.
pub struct Transfers {
    place: Place,
    edges: Vec<Edge>,
    step: u32,
}

impl Transfers {
    pub fn prepare(actor: &mut Actor<'_>, place: &Place, step: &Step) -> Outcome<Transfers> {
        let n = place.n();
        let mut random = place.common(step);
        // Alone, a rank must not wait for itself.
        let single = step.kind == Kind::Transfer;
        let number = if single { usize::from(n > 1) } else { 1 + random.below(2 * n + 2) };
        let ring = !single && random.chance(30);
        let mut edges = Vec::new();
        for i in 0..number {
            let from = if ring { i % n } else { random.below(n) };
            let to = match () {
                () if ring => (from + 1) % n,
                () if single => (from + 1 + random.below(n - 1)) % n,
                () => random.below(n),
            };
            let kind = random.one(&TYPES);
            let count = draw_count(&mut random, kind.size, n);
            let patterns =
                Patterns::new(kind, None, 1, step.salt ^ (i as u64 + 1) << 32 ^ place.members[0] as u64);
            let (sent, received) = (String::new(), String::new());
            edges.push(Edge { from, to, count, kind, patterns, send: None, recv: None, sent, received });
        }
        let mut random = place.own(step);
        for edge in &mut edges {
            let (size, bytes) = (edge.kind.size, edge.count * edge.kind.size);
            if edge.from == place.me {
                let kind = draw_kind(&mut random);
                let mut buffer = Buffer::new(actor, place.comm, kind, bytes, size, &mut random)?;
                edge.patterns.write(&edge.patterns.inputs[0], 0, buffer.bytes());
                edge.send = Some(buffer);
            }
            if edge.to == place.me {
                let kind = draw_kind(&mut random);
                let mut buffer = Buffer::new(actor, place.comm, kind, bytes, size, &mut random)?;
                buffer.bytes().fill(0xee);
                edge.recv = Some(buffer);
            }
        }
        Ok(Transfers { place: place.clone(), edges, step: step.id })
    }

    pub fn issue(&mut self, actor: &mut Actor<'_>, stream: Out) -> Outcome {
        actor.step = self.step;
        let comm = self.place.comm;
        for edge in &mut self.edges {
            let (count, kind) = (edge.count, edge.kind.number);
            if let Some(buffer) = &edge.send {
                let (from, peer) = (buffer.input(0), edge.to as i32);
                call!(actor, pennySend(from, count, kind, peer, comm, stream))?;
                edge.sent = actor.call().to_owned();
            }
            if let Some(buffer) = &edge.recv {
                let (to, peer) = (buffer.at(0), edge.from as i32);
                call!(actor, pennyRecv(to, count, kind, peer, comm, stream))?;
                edge.received = actor.call().to_owned();
            }
        }
        Ok(())
    }

    pub fn check(self, actor: &mut Actor<'_>) -> Outcome {
        actor.step = self.step;
        for edge in self.edges {
            let mut expected = vec![0; edge.count * edge.kind.size];
            edge.patterns.write(&edge.patterns.inputs[0], 0, &mut expected);
            if let Some(mut buffer) = edge.recv {
                actor.about(&format!("{}, {:?}", edge.received, buffer.kind()));
                plant(actor, &mut buffer, 0, expected.len());
                difference("what was received", edge.kind.size, buffer.bytes(), &expected)?;
                buffer.guards()?;
                buffer.free(actor)?;
            }
            if let Some(mut buffer) = edge.send {
                actor.about(&format!("{}, {:?}", edge.sent, buffer.kind()));
                difference("what was sent has changed", edge.kind.size, buffer.bytes(), &expected)?;
                buffer.guards()?;
                buffer.free(actor)?;
            }
        }
        Ok(())
    }
}
