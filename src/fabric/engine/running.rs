//! One call under way: its messages, and how far its ranks are.
//!
//! ```text
//!     entry ---> step ready ---> posted ---> port ---> port ---> arrival ---> step ready ---> ...
//!                    |             ^                                |
//!                    +-- waits for credits                          +-- returns a credit
//! ```
//!
//! When a call is admitted, the tasks of each rank are counted: to enter, to get each message through its first port, and to
//! take each message for it. A rank has finished when its count is zero.

mod ahead;
pub mod fair;
mod in_switch;
mod lanes;
mod message;
mod waits;

use super::faults::{Faults, Served};
use super::port::{MessageCost, PortQueue};
use super::program::{ArrivingOperand, ChunkCut, Plans, Program, ProgramStep};
use super::queue::{HEAD, Queue, TimedEvent};
use crate::error::{Error, Result};
use crate::fabric::{PricedCall, trace::Span};
use crate::topology::{Class, Network};
use crate::types::Rank;
use fair::{Packets, Turns};
use in_switch::Joined;
use lanes::Lanes;
use message::StepMessage;

/// Set in [`TimedEvent::who`] where its other bits are a rank, which enters.
const ENTRY: u32 = 1 << 31;
/// No message, and no rank.
pub const NONE: u32 = u32::MAX;

/// The progress of a rank.
#[derive(Clone)]
struct Member {
    exit_ps: u64,
    /// Things that it has to do.
    left: u64,
}

/// Gets each message's stay at each port, if anybody wants to know.
pub type Sink<'a, 's> = Option<&'a mut (dyn FnMut(Span) + 's)>;

/// The state that all calls share.
pub struct RunContext<'a, 's> {
    pub queue: &'a mut Queue,
    pub ports: &'a mut [PortQueue],
    pub faults: &'a Faults,
    /// The connections that wait at each port; empty on machines whose ports serve messages in the order of arrival.
    pub turns: &'a mut [Turns],
    pub sink: Sink<'a, 's>,
}

/// A call under way.
#[derive(Clone)]
pub struct Running {
    /// Among those under way; the lowest was admitted first.
    number: u32,
    /// The caller's number for it.
    id: u64,
    program: Program,
    places: Vec<Rank>,
    /// The costs by class, then size; behind them the same for messages that a switch copies or sums.
    costs: Vec<MessageCost>,
    /// Where the latter begin.
    joined_costs: usize,
    /// Messages that a switch makes one of.
    joined: Joined,
    lanes: Lanes,
    messages: Vec<StepMessage>,
    vacant: u32,
    /// `order` is step, slice, reader from the highest bit down; these are the places of the first two.
    step_shift: u32,
    slice_shift: u32,
    members: Vec<Member>,
    unfinished: u32,
    packets: Option<Packets>,
    /// See [`ahead`].
    is_large: bool,
}

impl Running {
    /// Makes a call in which nothing has happened yet. Entries are earlier than `u64::MAX`.
    pub fn new(
        network: &Network,
        call: &PricedCall<'_>,
        plans: &Plans<'_>,
        entry_ps: &[u64],
        number: u32,
        id: u64,
    ) -> Result<Running> {
        let program = Program::of(network, call, plans)?;
        let bits = |most: u32| u32::BITS - most.leading_zeros();
        let slice_shift = bits(program.steps.iter().map(|s| s.sends).max().unwrap_or(0));
        let step_shift = slice_shift + bits(program.cuts.iter().map(|cut| cut.slices).max().unwrap_or(0));
        if step_shift + bits(program.steps.len() as u32) > u64::BITS {
            return Err(Error::argument("there are too many steps, slices and readers to be priced"));
        }
        let mut costs: Vec<MessageCost> = MessageCost::table(&network.classes, &program.sizes).collect();
        let joined_costs = costs.len();
        let through_switch: Vec<Class> = network.classes.iter().map(Class::through_switch).collect();
        costs.extend(MessageCost::table(&through_switch, &program.sizes));
        let members = program.ranks.windows(2).zip(entry_ps).map(|(steps, &exit_ps)| {
            let steps = &program.steps[steps[0] as usize..steps[1] as usize];
            let things = |step: &ProgramStep| {
                u64::from(program.cut(step).slices) * (u64::from(step.sends) + u64::from(step.operands))
            };
            Member { exit_ps, left: 1 + steps.iter().map(things).sum::<u64>() }
        });
        Ok(Running {
            number,
            id,
            places: call.places.to_vec(),
            costs,
            joined_costs,
            joined: Joined::default(),
            lanes: Lanes::of(network, &program),
            messages: Vec::new(),
            vacant: NONE,
            step_shift,
            slice_shift,
            members: members.collect(),
            unfinished: entry_ps.len() as u32,
            packets: network.fair.then(|| Packets::of(network, &program)),
            is_large: program.sends.len() >= ahead::MANY,
            program,
        })
    }

    /// Lets the ranks come when they said they would.
    pub fn begin(&self, queue: &mut Queue) {
        for (rank, member) in (0..).zip(&self.members) {
            let order = u64::from(self.program.ranks[rank as usize]) << self.step_shift;
            queue.push(TimedEvent { at_ps: member.exit_ps, call: self.number, order, who: ENTRY | rank });
        }
    }

    /// Returns the caller's number for it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the number of its messages, each slice of a step counted once for all.
    pub fn messages(&self) -> usize {
        self.program.sends.len()
    }

    /// Ranks that are not finished.
    pub fn unfinished(&self) -> u32 {
        self.unfinished
    }

    /// Returns the end time of a rank that has finished.
    pub fn exit_ps(&self, rank: Rank) -> u64 {
        self.members[rank as usize].exit_ps
    }

    /// Something happens. The rank that is finished by it, or `NONE`.
    #[inline]
    pub fn handle(&mut self, event: TimedEvent, shared: &mut RunContext<'_, '_>) -> Result<u32> {
        let TimedEvent { at_ps, who, .. } = event;
        if who & ENTRY != 0 {
            return self.enter(who & !ENTRY, at_ps, shared.queue);
        }
        if self.messages[who as usize].left > 0 {
            match shared.turns.is_empty() {
                true => self.pass(who, at_ps, shared),
                false => self.join(who, at_ps, shared),
            }
        } else if !shared.turns.is_empty() && !self.is_last(who) {
            Ok(NONE)
        } else {
            self.arrive(who, at_ps, shared.queue)
        }
    }

    fn enter(&mut self, rank: Rank, now_ps: u64, queue: &mut Queue) -> Result<u32> {
        for step in self.program.ranks[rank as usize]..self.program.ranks[rank as usize + 1] {
            self.program.steps[step as usize].missing -= 1;
            self.advance(step, now_ps, queue)?;
        }
        Ok(self.did(rank, now_ps))
    }

    /// A rank did one of its things, and is not done before a time.
    #[inline]
    fn did(&mut self, rank: Rank, until_ps: u64) -> u32 {
        let member = &mut self.members[rank as usize];
        member.exit_ps = until_ps.max(member.exit_ps);
        member.left -= 1;
        if member.left > 0 {
            return NONE;
        }
        self.unfinished -= 1;
        rank
    }

    /// A message's head is at its next port.
    #[inline]
    fn pass(&mut self, who: u32, now_ps: u64, shared: &mut RunContext<'_, '_>) -> Result<u32> {
        let program = &self.program;
        let message = &mut self.messages[who as usize];
        let hop = program.hops[message.hop as usize];
        let port = &mut shared.ports[hop.port as usize];
        let is_joined = message.joined;
        let cost = self.costs[hop.class() as usize * program.sizes.len()
            + message.size as usize
            + if is_joined { self.joined_costs } else { 0 }];
        let send = || program.sends[message.send as usize];
        let (first, arrives) = (message.first, message.left == 1);
        let copied = is_joined && first && send().copied();
        if is_joined && arrives && send().summed() {
            let Some(tail_ps) = self.joined.sum(program, message) else {
                return Ok(self.is_taken_up(who));
            };
            message.tail_ps = tail_ps;
        }
        let bytes = program.sizes[message.size as usize];
        let mut stay = |start_ps, end_ps, bytes| {
            let Some(sink) = shared.sink.as_deref_mut() else { return };
            let (rank, step) =
                (program.steps[message.step as usize].rank, program.indices[message.step as usize]);
            let (call, place, port, slice) = (self.id, self.places[rank as usize], hop.port, message.slice);
            sink(Span { call, place, port, step, slice, start_ps, end_ps, bytes });
        };
        let ready_ps = now_ps.max(port.free_ps);
        let copy = if is_joined && first { self.joined.copy_of(program, message) } else { None };
        let is_copy = copy.is_some();
        let served = if let Some(served) = copy {
            served
        } else if hop.faulty() {
            let number = port.counters.messages;
            let served =
                shared.faults.serve(hop.port, number, ready_ps, message.tail_ps, cost, |from, until| {
                    stay(from, until, 0);
                })?;
            port.counters.errors += served.errors;
            port.counters.resends += served.resends;
            served
        } else {
            Served::sound(ready_ps, message.tail_ps, cost)
        };
        let Served { first_ps, start_ps, end_ps, head_ps, busy_ps, .. } = served;
        if !is_copy {
            port.free_ps = end_ps.saturating_add(cost.rest_ps);
            port.count(now_ps, first_ps, busy_ps, bytes);
            stay(start_ps, end_ps, bytes);
            if copied {
                self.joined.leaves(program, message, served);
            }
        }
        message.tail_ps = end_ps.saturating_add(cost.latency_ps);
        (message.hop, message.left, message.first) = (message.hop + 1, message.left - 1, false);
        let at_ps = if hop.whole() { message.tail_ps } else { head_ps };
        let (order, step) = (message.order, message.step);
        let call = self.number | if arrives { 0 } else { HEAD };
        schedule(shared.queue, TimedEvent { at_ps, call, order, who })?;
        Ok(if first { self.did(self.program.steps[step as usize].rank, end_ps) } else { NONE })
    }

    fn arrive(&mut self, who: u32, now_ps: u64, queue: &mut Queue) -> Result<u32> {
        let StepMessage { send, connection, .. } = self.messages[who as usize];
        let send = self.program.sends[send as usize];
        self.vacate(who);
        if send.summed() {
            return self.sum_arrives(send.operand(), now_ps, queue);
        }
        self.give_back(connection, now_ps, queue)?;

        let operand = &mut self.program.operands[send.operand() as usize];
        operand.arrived += 1;
        let id = operand.step;
        let step = &mut self.program.steps[id as usize];
        let rank = step.rank;
        if operand.arrived == step.next + 1 {
            step.missing -= 1;
            self.advance(id, now_ps, queue)?;
        }
        Ok(self.did(rank, now_ps))
    }

    /// A message that was under way on a connection is so no more, and the next one that waits sets out.
    #[inline]
    fn give_back(&mut self, connection: u32, now_ps: u64, queue: &mut Queue) -> Result<()> {
        let way = &mut self.program.connections[connection as usize];
        way.under_way -= 1;
        let waiting = way.first;
        if waiting != NONE {
            way.first = self.messages[waiting as usize].tail_ps as u32;
            self.post(waiting, connection, now_ps, queue)?;
        }
        Ok(())
    }

    /// Hands on the slices of a step that are ready.
    fn advance(&mut self, id: u32, now_ps: u64, queue: &mut Queue) -> Result<()> {
        loop {
            let step = &self.program.steps[id as usize];
            if step.missing > 0 {
                return Ok(());
            }
            let slices = self.program.cut(step).slices;
            if step.next == slices {
                return Ok(());
            }
            self.send(id, step.next, now_ps, queue)?;
            let arrivals = self.program.arrivals(id);
            let step = &mut self.program.steps[id as usize];
            step.next += 1;
            if step.next == slices {
                return Ok(());
            }
            let lacking = |operand: &&ArrivingOperand| operand.arrived <= step.next;
            step.missing = self.program.operands[arrivals].iter().filter(lacking).count() as u32;
        }
    }

    fn send(&mut self, step: u32, slice: u32, now_ps: u64, queue: &mut Queue) -> Result<()> {
        let ProgramStep { first_send, sends, cut, .. } = self.program.steps[step as usize];
        let ChunkCut { slices, size, last_size } = self.program.cuts[cut as usize];
        for reader in 0..sends {
            let order = (step as u64) << self.step_shift | (slice as u64) << self.slice_shift | reader as u64;
            let send = first_send + reader;
            let size = if slice + 1 == slices { last_size } else { size };
            let sent = self.program.sends[send as usize];
            let connection = sent.connection;
            let way = &mut self.program.connections[connection as usize];
            let (hop, left, posted) = (way.first_hop, way.hops, way.under_way < way.credits);
            let who = self.place(StepMessage {
                order,
                tail_ps: u64::from(NONE),
                step,
                send,
                slice,
                size,
                connection,
                hop,
                left,
                first: true,
                joined: sent.copied() || sent.summed(),
            })?;
            if posted {
                self.post(who, connection, now_ps, queue)?;
                continue;
            }
            let way = &mut self.program.connections[connection as usize];
            match way.first {
                NONE => way.first = who,
                _ => self.messages[way.last as usize].tail_ps = u64::from(who),
            }
            way.last = who;
        }
        Ok(())
    }

    /// A message sets out.
    fn post(&mut self, who: u32, connection: u32, now_ps: u64, queue: &mut Queue) -> Result<()> {
        let message = &mut self.messages[who as usize];
        message.tail_ps = 0;
        let StepMessage { order, size, .. } = *message;
        let fed_ps = self.lanes.feed(&self.program, connection, size, now_ps);
        let way = &mut self.program.connections[connection as usize];
        way.under_way += 1;
        let at_ps = fed_ps.saturating_add(way.post_ps);
        schedule(queue, TimedEvent { at_ps, call: self.number | HEAD, order, who })
    }
}

/// Sums of times saturate; whatever does not fit ends here.
#[inline]
fn schedule(queue: &mut Queue, event: TimedEvent) -> Result<()> {
    if event.at_ps == u64::MAX {
        return Err(too_long());
    }
    queue.push(event);
    Ok(())
}

/// Times are u64.
pub fn too_long() -> Error {
    Error::argument("the call takes longer than 2^64 picoseconds")
}
