//! All ranks' programs as flat tables: steps in the order of ties, sends matched to operands, routes looked up once.
//!
//! How far a step is lies beside what it is: with a thousand ranks each look-up is a miss of the cache.

use crate::error::{Error, Result};
use crate::fabric::PricedCall;
use crate::plan::{Chunk, Lane, Operand, Plan};
use crate::topology::{Network, PortId};
use crate::types::Rank;

/// One step of one rank.
pub struct ProgramStep {
    pub rank: Rank,
    /// Its place in the rank's program.
    pub index: u32,
    /// Its operands that arrive are `operands[first_operand..][..operands]`.
    pub first_operand: u32,
    pub operands: u32,
    /// Its messages a slice are `sends[first_send..][..sends]`.
    pub first_send: u32,
    pub sends: u32,
    pub slices: u32,
    /// Index in `sizes` of every slice but the last.
    pub size: u32,
    /// Index in `sizes` of the last slice.
    pub last_size: u32,
    /// The slice to be handed on next.
    pub next: u32,
    /// The number of things that the slice still needs: arrivals, and the rank's entry.
    pub missing: u32,
}

/// An operand that arrives.
pub struct ArrivingOperand {
    pub step: u32,
    pub from: Rank,
    /// Slices of it that are there.
    pub arrived: u32,
}

/// The message that a step sends to one reader.
pub struct Send {
    pub connection: u32,
    /// The operand that it becomes.
    pub operand: u32,
}

/// The way from one rank to another on a lane.
pub struct Connection {
    /// The message passes `hops[first_hop..][..hops]`.
    pub first_hop: u32,
    pub hops: u32,
    pub post_ps: u64,
    /// Messages that may be under way.
    pub credits: u32,
}

/// A port on a way.
pub struct Hop {
    pub port: PortId,
    pub class: u32,
    /// Whether the next step begins only when the whole message has come through: at a store-and-forward port, or at the end.
    pub whole: bool,
    /// The port has declared faults.
    pub faulty: bool,
}

/// All ranks' programs.
pub struct Program {
    /// The steps, sorted by rank, then lane, then place in the program: the order in which ties are decided.
    pub steps: Vec<ProgramStep>,
    /// Rank r's steps are `steps[ranks[r]..ranks[r + 1]]`.
    pub ranks: Vec<u32>,
    pub operands: Vec<ArrivingOperand>,
    pub sends: Vec<Send>,
    pub connections: Vec<Connection>,
    pub hops: Vec<Hop>,
    /// The few different sizes of slices, in bytes.
    pub sizes: Vec<u64>,
    /// Ports with declared faults, ascending.
    faulty: Vec<PortId>,
}

/// The programs of all ranks, listed or written one at a time: lists of a call of a thousand ranks take more memory than all the rest.
pub enum Plans<'a> {
    Listed(&'a [Plan]),
    Written(&'a dyn Fn(Rank) -> Plan),
}

/// What both ends of a message must agree on.
type Subject = (Chunk, Lane);

/// One end of a message before its other end is known.
#[derive(Clone, Copy)]
struct End {
    peer: Rank,
    /// Place of the step in its rank's program, and among all steps.
    index: u32,
    step: u32,
    /// Index of the send or the operand.
    id: u32,
}

impl Program {
    /// Flatten and match. `Err` names the ranks whose programs do not fit together, or that no route connects.
    pub fn of(network: &Network, call: &PricedCall<'_>, plans: &Plans<'_>) -> Result<Program> {
        let mut program = Program {
            steps: Vec::new(),
            ranks: vec![0],
            operands: Vec::new(),
            sends: Vec::new(),
            connections: Vec::new(),
            hops: Vec::new(),
            sizes: Vec::new(),
            faulty: network.faults.iter().map(|fault| fault.port).collect(),
        };
        program.faulty.sort_unstable();
        let nranks = call.places.len() as u32;
        let (mut readers, mut subjects, mut parts) = (Vec::new(), Vec::new(), None);
        for rank in 0..nranks {
            let known = readers.len();
            match plans {
                Plans::Listed(plans) => {
                    let plan = &plans[rank as usize];
                    check_parts(plan.parts, *parts.get_or_insert(plan.parts))?;
                    program.flatten(rank, plan, call, &mut readers, &mut subjects)?;
                }
                Plans::Written(write) => {
                    let plan = write(rank);
                    check_parts(plan.parts, *parts.get_or_insert(plan.parts))?;
                    program.flatten(rank, &plan, call, &mut readers, &mut subjects)?;
                }
            }
            let new = &readers[known..];
            if let Some(peer) = new.iter().find(|&&to| to >= nranks || to == rank) {
                return Err(Error::usage(format!("rank {rank} of {nranks} sends to rank {peer}")));
            }
            program.connect(rank, network, call, &readers, &subjects)?;
        }
        program.match_ends(&readers, &subjects)?;
        Ok(program)
    }

    fn flatten(
        &mut self,
        rank: Rank,
        plan: &Plan,
        call: &PricedCall<'_>,
        readers: &mut Vec<Rank>,
        subjects: &mut Vec<Subject>,
    ) -> Result<()> {
        let mut order: Vec<u32> = (0..plan.steps.len() as u32).collect();
        order.sort_by_key(|&i| plan.steps[i as usize].lane);
        for index in order {
            let step = &plan.steps[index as usize];
            let id = self.steps.len() as u32;
            subjects.push((step.chunk, step.lane));
            let first_operand = self.operands.len() as u32;
            self.operands.extend(step.operands.iter().filter_map(|&operand| match operand {
                Operand::From(from) => Some(ArrivingOperand { step: id, from, arrived: 0 }),
                Operand::Own => None,
            }));
            let operands = self.operands.len() as u32 - first_operand;
            let first_send = self.sends.len() as u32;
            for &to in &step.to {
                readers.push(to);
                self.sends.push(Send { connection: 0, operand: 0 });
            }
            let bytes = chunk_bytes(step.chunk, plan.parts, call)?;
            let slice = if call.slice_bytes == 0 { u64::MAX } else { call.slice_bytes };
            let slices = bytes.div_ceil(slice).max(1);
            let last = bytes - (slices - 1) * slice.min(bytes);
            let (size, last_size) = (self.size(slice.min(bytes)), self.size(last));
            self.steps.push(ProgramStep {
                rank,
                index,
                first_operand,
                operands,
                first_send,
                sends: step.to.len() as u32,
                slices: u32::try_from(slices).map_err(|_| too_large("slices of a chunk"))?,
                size,
                last_size,
                next: 0,
                missing: operands + 1,
            });
        }
        self.ranks.push(self.steps.len() as u32);
        match self.steps.len().max(self.sends.len()).max(self.operands.len()) >= u32::MAX as usize {
            true => Err(too_large("steps")),
            false => Ok(()),
        }
    }

    /// The index of a size; there are few.
    fn size(&mut self, bytes: u64) -> u32 {
        let found = self.sizes.iter().position(|&b| b == bytes);
        found.unwrap_or_else(|| {
            self.sizes.push(bytes);
            self.sizes.len() - 1
        }) as u32
    }

    /// One connection for each (reader, lane) of the rank's sends.
    fn connect(
        &mut self,
        rank: Rank,
        network: &Network,
        call: &PricedCall<'_>,
        readers: &[Rank],
        subjects: &[Subject],
    ) -> Result<()> {
        let first = self.ranks[rank as usize];
        let mut sends: Vec<(Rank, Lane, u32)> = Vec::new();
        for step in first..self.steps.len() as u32 {
            let lane = subjects[step as usize].1;
            let ProgramStep { first_send, sends: n, .. } = self.steps[step as usize];
            sends.extend((first_send..first_send + n).map(|id| (readers[id as usize], lane, id)));
        }
        sends.sort();
        let (mut ports, mut last) = (Vec::new(), None);
        for (to, lane, id) in sends {
            if last.replace((to, lane)) != Some((to, lane)) {
                ports.clear();
                let lost = |why: String| {
                    Error::usage(format!("no way from rank {rank} to rank {to} on lane {lane}: {why}"))
                };
                let place = |rank: Rank| call.places[rank as usize];
                network.routes.route(place(rank), place(to), lane, &mut ports).map_err(lost)?;
                if ports.is_empty() {
                    return Err(lost("it passes no port".into()));
                }
                self.connection(network, &ports);
            }
            self.sends[id as usize].connection = self.connections.len() as u32 - 1;
        }
        Ok(())
    }

    fn connection(&mut self, network: &Network, ports: &[PortId]) {
        let credits = ports.iter().map(|&port| network.class(port).credits).filter(|&credits| credits > 0);
        self.connections.push(Connection {
            first_hop: self.hops.len() as u32,
            hops: ports.len() as u32,
            post_ps: network.class(ports[0]).post_ps,
            credits: credits.min().unwrap_or(u32::MAX),
        });
        self.hops.extend(ports.iter().enumerate().map(|(i, &port)| Hop {
            port,
            class: network.ports[port as usize].class,
            whole: ports.get(i + 1).is_none_or(|&next| network.class(next).store_and_forward),
            faulty: self.faulty.binary_search(&port).is_ok(),
        }));
    }

    /// The k-th send of p to r becomes the k-th operand from p in r's program.
    fn match_ends(&mut self, readers: &[Rank], subjects: &[Subject]) -> Result<()> {
        let nranks = self.ranks.len() - 1;
        // Sends by reader; a counting sort, since there may be millions.
        let mut starts = vec![0u32; nranks + 1];
        for &to in readers {
            starts[to as usize + 1] += 1;
        }
        for r in 0..nranks {
            starts[r + 1] += starts[r];
        }
        let mut places = starts.clone();
        let mut coming = vec![End { peer: 0, index: 0, step: 0, id: 0 }; readers.len()];
        for (number, step) in (0..).zip(&self.steps) {
            for id in step.first_send..step.first_send + step.sends {
                let place = &mut places[readers[id as usize] as usize];
                coming[*place as usize] = End { peer: step.rank, index: step.index, step: number, id };
                *place += 1;
            }
        }
        let mut wanted = Vec::new();
        for rank in 0..nranks {
            wanted.clear();
            for step in &self.steps[self.ranks[rank] as usize..self.ranks[rank + 1] as usize] {
                wanted.extend((step.first_operand..step.first_operand + step.operands).map(|id| End {
                    peer: self.operands[id as usize].from,
                    index: step.index,
                    step: self.operands[id as usize].step,
                    id,
                }));
            }
            let coming = &mut coming[starts[rank] as usize..starts[rank + 1] as usize];
            // Stable, and nearly always sorted already.
            coming.sort_by_key(|end| (end.peer, end.index));
            wanted.sort_by_key(|end| (end.peer, end.index));
            self.pair(rank as Rank, coming, &wanted, subjects)?;
        }
        Ok(())
    }

    fn pair(&mut self, rank: Rank, coming: &[End], wanted: &[End], subjects: &[Subject]) -> Result<()> {
        for k in 0..coming.len().max(wanted.len()) {
            let (sent, taken) = match (coming.get(k), wanted.get(k)) {
                (Some(sent), Some(taken)) if sent.peer == taken.peer => (sent, taken),
                (Some(sent), taken) if taken.is_none_or(|taken| taken.peer > sent.peer) => {
                    return Err(Error::usage(format!(
                        "step {} of rank {} sends to rank {rank}, which does not take it",
                        sent.index, sent.peer
                    )));
                }
                (_, Some(taken)) => {
                    return Err(Error::usage(format!(
                        "step {} of rank {rank} takes what rank {} does not send",
                        taken.index, taken.peer
                    )));
                }
                (_, None) => unreachable!("k is below one of the lengths"),
            };
            let ((chunk, lane), (sends, on)) = (subjects[taken.step as usize], subjects[sent.step as usize]);
            if (chunk, lane) != (sends, on) {
                return Err(Error::usage(format!(
                    "step {} of rank {} sends {sends} on lane {on} where step {} of rank {rank} takes {chunk} on lane {lane}",
                    sent.index, sent.peer, taken.index
                )));
            }
            self.sends[sent.id as usize].operand = taken.id;
        }
        Ok(())
    }
}

/// Refuses programs that divide blocks differently.
fn check_parts(parts: u32, first: u32) -> Result<()> {
    match parts == 0 || parts != first {
        true => Err(Error::usage(format!("programs divide blocks into {first} and {parts} parts"))),
        false => Ok(()),
    }
}

/// Bytes of a chunk.
fn chunk_bytes(chunk: Chunk, parts: u32, call: &PricedCall<'_>) -> Result<u64> {
    let part = call.count.div_ceil(parts as u64);
    let begin = part.saturating_mul(chunk.part as u64).min(call.count);
    part.min(call.count - begin).checked_mul(call.size).ok_or_else(|| too_large("bytes of a chunk"))
}

fn too_large(what: &str) -> Error {
    Error::argument(format!("there are too many {what} to be priced"))
}
