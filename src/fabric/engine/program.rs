//! All ranks' programs as flat tables: steps in the order of ties, sends matched to operands, routes looked up once.
//!
//! Where a switch copies and sums ([`Network::summing_switch`]), a rank's own part goes to the switch and comes back, too. For each step that
//! sums there is one more that sends the rank's input to itself; for each that copies one that takes what comes back.

mod ends;
mod tables;

use super::running::NONE;
use crate::error::{Error, Result};
use crate::fabric::PricedCall;
use crate::plan::{Chunk, Lane, Operand, Plan};
use crate::topology::{Network, PortId};
use crate::types::Rank;
pub use tables::{ArrivingOperand, ChunkCut, Connection, Hop, ProgramStep, Send};

/// Most steps, sends or operands of a call: bits are kept beside their numbers.
const MOST: usize = 1 << 30;

/// All ranks' programs.
#[derive(Clone)]
pub struct Program {
    /// The steps, sorted by rank, then lane, then place in the program: the order in which ties are decided.
    pub steps: Vec<ProgramStep>,
    /// Each step's place in its rank's program.
    pub indices: Vec<u32>,
    /// Rank r's steps are `steps[ranks[r]..ranks[r + 1]]`.
    pub ranks: Vec<u32>,
    pub operands: Vec<ArrivingOperand>,
    pub sends: Vec<Send>,
    pub connections: Vec<Connection>,
    pub hops: Vec<Hop>,
    pub cuts: Vec<ChunkCut>,
    /// The few different sizes of slices, in bytes.
    pub sizes: Vec<u64>,
    /// Ports with declared faults, ascending.
    faulty: Vec<PortId>,
    /// The switch that copies and sums at each rank, if there is one.
    switches: Vec<Option<u32>>,
}

/// The programs of all ranks, listed or written one at a time: lists of a call of a thousand ranks take more memory than everything else.
pub enum Plans<'a> {
    Listed(&'a [Plan]),
    Written(&'a dyn Fn(Rank) -> Plan),
}

/// What is known of a step where its messages are matched.
#[derive(Clone, Copy)]
struct Subject {
    /// Both ends of a message must agree on these.
    about: (Chunk, Lane),
    /// See [`crate::plan::Step::in_switch`].
    in_switch: bool,
}

/// Sums that a rank asks of a switch at a time for one chunk: it loads the next parts when one has come, so that results leave
/// between them.
const SUMS_UNDER_WAY: u32 = 2;

impl Program {
    /// Flatten and match. `Err` names the ranks whose programs do not fit together, or that no route connects.
    pub fn of(network: &Network, call: &PricedCall<'_>, plans: &Plans<'_>) -> Result<Program> {
        let mut program = Program {
            steps: Vec::new(),
            indices: Vec::new(),
            ranks: vec![0],
            operands: Vec::new(),
            sends: Vec::new(),
            connections: Vec::new(),
            hops: Vec::new(),
            cuts: Vec::new(),
            sizes: Vec::new(),
            faulty: network.faults.iter().map(|fault| fault.port).collect(),
            switches: call.places.iter().map(|&place| network.summing_switch(place)).collect(),
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
            let own = |to| to == rank && program.switches[rank as usize].is_none();
            if let Some(peer) = new.iter().find(|&&to| to >= nranks || own(to)) {
                return Err(Error::usage(format!("rank {rank} of {nranks} sends to rank {peer}")));
            }
        }
        program.match_ends(&readers, &subjects)?;
        for rank in 0..nranks {
            program.connect(rank, network, call, &readers, &subjects)?;
        }
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
        // Filled anew for each step, of which there may be millions.
        let (mut froms, mut to): (Vec<Rank>, Vec<Rank>) = (Vec::new(), Vec::new());
        for index in order {
            let step = &plan.steps[index as usize];
            let bytes = chunk_bytes(step.chunk, plan.parts, call)?;
            froms.clear();
            froms.extend(step.operands.iter().filter_map(arriving));
            to.clear();
            to.extend(&step.to);
            let at_switch =
                |peers: &[Rank]| step.in_switch && peers.iter().any(|&r| self.share_switch(rank, r));
            let own_is_summed = at_switch(&froms) && step.operands.contains(&Operand::Own);
            let comes_back = at_switch(&to) && step.keep;
            let subject = Subject { about: (step.chunk, step.lane), in_switch: step.in_switch };
            let steps = 1 + usize::from(own_is_summed) + usize::from(comes_back);
            subjects.extend(std::iter::repeat_n(subject, steps));
            if own_is_summed {
                self.add_step((rank, index), &[], &[rank], bytes, call, readers)?;
                froms.push(rank);
            }
            if comes_back {
                to.push(rank);
            }
            self.add_step((rank, index), &froms, &to, bytes, call, readers)?;
            if comes_back {
                self.add_step((rank, index), &[rank], &[], bytes, call, readers)?;
            }
        }
        self.ranks.push(self.steps.len() as u32);
        match self.steps.len().max(self.sends.len()).max(self.operands.len()) >= MOST {
            true => Err(too_large("steps")),
            false => Ok(()),
        }
    }

    /// Tells whether two ranks, or a rank and itself, have a switch between them that copies and sums.
    fn share_switch(&self, a: Rank, b: Rank) -> bool {
        let switch = |rank: Rank| self.switches.get(rank as usize).copied().flatten();
        switch(a).is_some() && switch(a) == switch(b)
    }

    /// One more step of a rank's program place, which takes what arrives from `froms` and sends `bytes` bytes to each of `to`.
    fn add_step(
        &mut self,
        (rank, index): (Rank, u32),
        froms: &[Rank],
        to: &[Rank],
        bytes: u64,
        call: &PricedCall<'_>,
        readers: &mut Vec<Rank>,
    ) -> Result<()> {
        let (first_operand, first_send) = (self.operands.len() as u32, self.sends.len() as u32);
        let step = self.steps.len() as u32;
        let arriving = |&from: &Rank| ArrivingOperand { step, from, arrived: 0, send: 0 };
        self.operands.extend(froms.iter().map(arriving));
        readers.extend(to);
        self.sends.extend(to.iter().map(|_| Send::default()));
        let slice = if call.slice_bytes == 0 { u64::MAX } else { call.slice_bytes };
        let slices = bytes.div_ceil(slice).max(1);
        let last = bytes - (slices - 1) * slice.min(bytes);
        let slices = u32::try_from(slices).map_err(|_| too_large("slices of a chunk"))?;
        let size = number(&mut self.sizes, slice.min(bytes));
        let cut = ChunkCut { slices, size, last_size: number(&mut self.sizes, last) };
        self.indices.push(index);
        self.steps.push(ProgramStep {
            rank,
            first_operand,
            operands: froms.len() as u32,
            first_send,
            sends: to.len() as u32,
            cut: number(&mut self.cuts, cut),
            next: 0,
            missing: froms.len() as u32 + 1,
        });
        Ok(())
    }

    /// Returns how a step's chunk is cut.
    #[inline]
    pub fn cut(&self, step: &ProgramStep) -> ChunkCut {
        self.cuts[step.cut as usize]
    }

    /// One connection for each (reader, lane) of the rank's sends, and one more each where a switch copies or sums some of them.
    fn connect(
        &mut self,
        rank: Rank,
        network: &Network,
        call: &PricedCall<'_>,
        readers: &[Rank],
        subjects: &[Subject],
    ) -> Result<()> {
        let first = self.ranks[rank as usize];
        // Reader, lane and whether a switch copies and sums it, as one number that is quick to compare, and the send.
        let mut sends: Vec<(u64, u32)> = Vec::new();
        for step in first..self.ranks[rank as usize + 1] {
            let Subject { about: (_, lane), in_switch } = subjects[step as usize];
            let ProgramStep { first_send, sends: n, .. } = self.steps[step as usize];
            if in_switch {
                for id in first_send..first_send + n {
                    self.sends[id as usize].operand |=
                        u32::from(self.share_switch(rank, readers[id as usize]));
                }
            }
            let way = |id: u32| {
                let (to, send) = (readers[id as usize], self.sends[id as usize]);
                u64::from(to) << 18
                    | u64::from(lane) << 2
                    | u64::from(send.copied()) << 1
                    | u64::from(send.summed())
            };
            sends.extend((first_send..first_send + n).map(|id| (way(id), id)));
        }
        sends.sort_by_key(|&(way, _)| way);
        let (mut ports, mut last) = (Vec::new(), None);
        for (way, id) in sends {
            if last.replace(way) != Some(way) {
                let (to, lane) = ((way >> 18) as Rank, (way >> 2) as Lane);
                ports.clear();
                let lost = |why: String| {
                    Error::usage(format!("no way from rank {rank} to rank {to} on lane {lane}: {why}"))
                };
                let place = |rank: Rank| call.places[rank as usize];
                match network.routes.switch(place(rank)).filter(|_| to == rank) {
                    Some((_, to_and_from)) => ports.extend(to_and_from),
                    None => network.routes.route(place(rank), place(to), lane, &mut ports).map_err(lost)?,
                }
                if ports.is_empty() {
                    return Err(lost("it passes no port".into()));
                }
                self.connection(network, &ports, way & 2 != 0, way & 1 != 0);
            }
            self.sends[id as usize].connection = self.connections.len() as u32 - 1;
        }
        Ok(())
    }

    fn connection(&mut self, network: &Network, ports: &[PortId], copied: bool, summed: bool) {
        let of_class = |&port: &PortId| network.class(port).credits;
        let credits = match (copied, summed) {
            (_, true) => Some(SUMS_UNDER_WAY),
            (true, false) => None,
            (false, false) => ports.iter().map(of_class).filter(|&credits| credits > 0).min(),
        };
        self.connections.push(Connection {
            post_ps: network.class(ports[0]).post_ps,
            first_hop: self.hops.len() as u32,
            hops: ports.len() as u32,
            credits: credits.unwrap_or(u32::MAX),
            under_way: 0,
            first: NONE,
            last: NONE,
        });
        self.hops.extend(ports.iter().enumerate().map(|(i, &port)| {
            let class = network.ports[port as usize].class;
            let whole = ports.get(i + 1).is_none_or(|&next| network.class(next).store_and_forward);
            Hop::new(port, class, whole, self.faulty.binary_search(&port).is_ok())
        }));
    }
}

/// Returns the number of a value among a few different ones.
fn number<T: PartialEq>(known: &mut Vec<T>, value: T) -> u32 {
    let found = known.iter().position(|other| *other == value);
    found.unwrap_or_else(|| {
        known.push(value);
        known.len() - 1
    }) as u32
}

/// Returns the rank from which an operand arrives.
fn arriving(operand: &Operand) -> Option<Rank> {
    match *operand {
        Operand::From(from) => Some(from),
        Operand::Own => None,
    }
}

/// Refuses programs that divide blocks differently.
fn check_parts(parts: u32, first: u32) -> Result<()> {
    match parts == 0 || parts != first {
        true => Err(Error::usage(format!("programs divide blocks into {first} and {parts} parts"))),
        false => Ok(()),
    }
}

/// Returns the bytes of a chunk.
pub fn chunk_bytes(chunk: Chunk, parts: u32, call: &PricedCall<'_>) -> Result<u64> {
    let part = call.count.div_ceil(parts as u64);
    let begin = part.saturating_mul(chunk.part as u64).min(call.count);
    part.min(call.count - begin).checked_mul(call.size).ok_or_else(|| too_large("bytes of a chunk"))
}

fn too_large(what: &str) -> Error {
    Error::argument(format!("there are too many {what} to be priced"))
}
