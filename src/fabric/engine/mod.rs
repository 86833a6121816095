//! The general engine: an event queue over ports.
//!
//! ```text
//!     a message of b bytes, ready at r, on ports p1..pk                 hold = gap + serialisation of b, or the class's least
//!       s1 = max(r + post, free[p1])        free[p1] = s1 + hold(p1)
//!       head reaches p(i+1) at  s(i) + gap + one packet + latency       cut-through
//!                          or   free[p(i)] + latency                    where p(i+1) is store-and-forward
//!       s(i) = max(head, free[p(i)])        free[p(i)] = max(s(i) + hold(p(i)), free[p(i-1)] + latency(p(i-1)))
//!       arrival = free[pk] + latency(pk)
//! ```
//!
//! - A slice of a step is ready when its rank has entered, the slice of every operand that arrives is there, and the
//!   slice before it was handed on. Steps of a rank do not otherwise wait for each other.
//! - A step with several readers sends one message to each. Where a switch copies and sums, messages of a step that says so are one at
//!   the port that they share: see `running/in_switch.rs`.
//! - Folds and copies within a rank take no time.
//! - Where a class bounds its lanes, r is when the lane has let the message go: see `running/lanes.rs`.
//! - A port serves messages first come, first served, by when their heads reach it; ties by call, rank, lane, step,
//!   slice, reader. What arrives at a moment is there before any head is served at it. Ports have room for all that
//!   waits: nothing presses back but credits.
//! - The credits of a connection are the fewest that a class on its way has. A message that finds none waits in the
//!   order of readiness, and is posted when an earlier one arrives. Each call has connections of its own.
//! - A fair network's ports serve packets in turns instead: see `running/fair.rs`.
//! - A port with declared faults holds messages longer: see `faults.rs`.
//! - A rank is done when what it sends has left its first port, and what it takes has arrived.
//!
//! Cost: one event a port that a message passes, one for its arrival, one for a rank's entry. Times past u64 are an
//! error.

use super::trace::Span;
use super::{CallTimes, Finished, PortCounters, PortState, PricedCall};
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::topology::Network;
use crate::types::Rank;
use faults::Faults;
use port::PortQueue;
use program::Plans;
use queue::{HEAD, Queue};
use running::fair::{TURN, Turns};
use running::{NONE, RunContext, Running, Sink, too_long};
use std::collections::VecDeque;

/// When each rank of a call is done that enters at `entry_ps`, and what passed the ports. The network is idle before.
pub fn price(network: &Network, call: &PricedCall<'_>, entry_ps: &[u64]) -> Result<CallTimes> {
    Engine::new(network).run(network, call, entry_ps, None)
}

/// Returns the times of a call of no elements, which ranks do not begin.
pub fn price_of_nothing(network: &Network, ranks: usize) -> CallTimes {
    let counters = vec![PortCounters::default(); network.ports.len()];
    CallTimes { exit_ps: vec![0; ranks], counters, events: 0 }
}

/// Prices a call as `price` does, with programs that `write` gives rank by rank, so that no list of them has to fit in memory; the
/// call's own list is not used.
/// `None`: the last rank is not done before `limit_ps`.
pub fn price_written(
    network: &Network,
    call: &PricedCall<'_>,
    write: &dyn Fn(Rank) -> Plan,
    entry_ps: &[u64],
    limit_ps: u64,
) -> Result<Option<CallTimes>> {
    let mut engine = Engine::new(network);
    engine.admit_plans(network, call, &Plans::Written(write), entry_ps)?;
    let times = engine.finish(entry_ps.len(), limit_ps, None)?;
    Ok(engine.is_idle().then_some(times))
}

/// When each rank is done with the last of several equal calls, each of which it enters `gap_ps` after it was done with the one before;
/// the first at `gap_ps`. As ranks that move bytes have it: a call is under way when all have entered it. Traffic and events are those of all.
pub fn price_in_succession(
    network: &Network,
    call: &PricedCall<'_>,
    gap_ps: u64,
    times: u32,
) -> Result<CallTimes> {
    let mut engine = Engine::new(network);
    let mut exit_ps = vec![0; call.places.len()];
    let mut events = 0;
    let mut counters = Vec::new();
    for _ in 0..times {
        let entry_ps: Vec<u64> =
            exit_ps.iter().map(|at_ps: &u64| at_ps.saturating_add(gap_ps).min(u64::MAX - 1)).collect();
        let outcome = engine.run(network, call, &entry_ps, None)?;
        (exit_ps, counters) = (outcome.exit_ps, outcome.counters);
        events += outcome.events;
        engine = Engine::resume(network, engine.ports());
    }
    Ok(CallTimes { exit_ps, counters, events })
}

/// As [`price`], and passes each message's stay at each port to `sink`, in the order in which heads reach ports.
pub fn price_traced(
    network: &Network,
    call: &PricedCall<'_>,
    entry_ps: &[u64],
    sink: &mut dyn FnMut(Span),
) -> Result<CallTimes> {
    Engine::new(network).run(network, call, entry_ps, Some(sink))
}

/// Calls under way, without the network that they were admitted to.
#[derive(Clone)]
pub struct Engine {
    queue: Queue,
    ports: Vec<PortQueue>,
    faults: Faults,
    /// The connections that wait at each port, on machines whose ports serve them in turns.
    turns: Vec<Turns>,
    /// The calls by number, from `front` on. Finished calls are removed once they are at the front.
    calls: VecDeque<Option<Box<Running>>>,
    /// The number of the first of `calls`. Numbers begin at 0 whenever nothing is under way: events have 32 bits.
    front: u32,
    /// Calls ever admitted.
    admitted: u64,
    unfinished: usize,
    events: u64,
    /// Messages of the calls that are not finished.
    messages: u64,
}

impl Engine {
    /// Nothing is under way, and nothing ever was.
    fn new(network: &Network) -> Engine {
        Engine::resume(network, network.ports.iter().map(|_| PortState::default()))
    }

    /// Nothing is under way.
    pub fn resume(network: &Network, ports: impl Iterator<Item = PortState>) -> Engine {
        Engine {
            faults: Faults::of(network),
            turns: network.ports.iter().filter(|_| network.fair).map(|_| Turns::default()).collect(),
            queue: Queue::new(),
            ports: ports.map(PortQueue::new).collect(),
            calls: VecDeque::new(),
            front: 0,
            admitted: 0,
            unfinished: 0,
            events: 0,
            messages: 0,
        }
    }

    /// Returns the final state of each port.
    pub fn ports(&self) -> impl Iterator<Item = PortState> {
        (0..).zip(&self.ports).map(|(id, port)| {
            let mut state = port.state();
            state.counters.down_ps = self.faults.down_ps(id, state.free_ps);
            state
        })
    }

    /// Tells whether no call is in progress.
    pub fn is_idle(&self) -> bool {
        self.unfinished == 0
    }

    /// Calls of which some member is not finished.
    #[cfg(test)]
    pub fn under_way(&self) -> usize {
        self.unfinished
    }

    /// Returns the number of messages of the calls that are not finished.
    pub fn messages_under_way(&self) -> u64 {
        self.messages
    }

    /// The time of the latest event; 0 where nothing is under way.
    pub fn boundary_ps(&self) -> u64 {
        // A port that had its turn at that time does not see who comes then.
        let turn = u64::from(!self.turns.is_empty() && self.events > 0);
        if self.is_idle() { 0 } else { self.queue.now_ps() + turn }
    }

    /// One more call, and its number among all.
    pub fn admit(&mut self, network: &Network, call: &PricedCall<'_>, entry_ps: &[u64]) -> Result<u64> {
        if call.plans.len() != call.places.len() {
            return Err(no_call(call.plans.len(), call, entry_ps));
        }
        self.admit_plans(network, call, &Plans::Listed(call.plans), entry_ps)
    }

    fn admit_plans(
        &mut self,
        network: &Network,
        call: &PricedCall<'_>,
        plans: &Plans<'_>,
        entry_ps: &[u64],
    ) -> Result<u64> {
        let (ranks, places) = (call.places.len(), network.shape.nranks());
        if ranks == 0 || entry_ps.len() != ranks {
            return Err(no_call(ranks, call, entry_ps));
        }
        if let Some(place) = call.places.iter().find(|&&place| place >= places) {
            return Err(Error::argument(format!(
                "there is no place {place} among the {places} of {}; give it more nodes, or fewer ranks",
                network.name
            )));
        }
        if entry_ps.contains(&u64::MAX) {
            return Err(too_long());
        }
        let boundary_ps = self.boundary_ps();
        let entry_ps: Vec<u64> = entry_ps.iter().map(|&at_ps| at_ps.max(boundary_ps)).collect();
        let number = if self.is_idle() { 0 } else { u64::from(self.front) + self.calls.len() as u64 };
        let number = u32::try_from(number).ok().filter(|&number| number < HEAD);
        let number =
            number.ok_or_else(|| Error::usage("a call was overtaken by 2^31 later ones; let it finish"))?;
        let running = Running::new(network, call, plans, &entry_ps, number, self.admitted)?;
        if self.is_idle() {
            self.restart(entry_ps.iter().copied().min().unwrap_or(0));
        }
        running.begin(&mut self.queue);
        self.messages += running.messages() as u64;
        self.calls.push_back(Some(Box::new(running)));
        self.unfinished += 1;
        self.admitted += 1;
        Ok(self.admitted - 1)
    }

    /// Nothing is under way: time begins anew, perhaps before what was handled.
    fn restart(&mut self, first_ps: u64) {
        if first_ps < self.queue.now_ps() {
            self.ports.iter_mut().for_each(PortQueue::forget_waiting);
        }
        self.queue.restart();
        self.calls.clear();
        self.front = 0;
    }

    /// Handles what happens before a time, until a rank is finished.
    #[inline]
    pub fn advance(&mut self, until_ps: u64, sink: Sink<'_, '_>) -> Result<Option<Finished>> {
        let faults = &self.faults;
        let turns = &mut self.turns;
        let mut shared = RunContext { queue: &mut self.queue, ports: &mut self.ports, faults, turns, sink };
        let mut next = shared.queue.pop_before(until_ps);
        while let Some(mut event) = next {
            let mut port = None;
            if event.call == TURN {
                port = Some(event.who);
                (event.call, event.who) =
                    shared.turns[event.who as usize].next().expect("a turn is due where a message waits");
            }
            let number = event.call & !HEAD;
            let call = &mut self.calls[(number - self.front) as usize];
            let running = call.as_mut().expect("events are of calls under way");
            // Most events are of the call of the event before.
            loop {
                self.events += 1;
                running.look_ahead(shared.queue, shared.ports);
                let rank = match port.take() {
                    None => running.handle(event, &mut shared)?,
                    Some(port) => running.transmit(event.who, port, event.at_ps, &mut shared)?,
                };
                if rank != NONE {
                    let exit_ps = running.exit_ps(rank);
                    let finished = Finished { call: running.id(), member: rank, exit_ps };
                    if running.unfinished() == 0 {
                        self.messages -= running.messages() as u64;
                        *call = None;
                        self.unfinished -= 1;
                        self.leave();
                    }
                    return Ok(Some(finished));
                }
                next = shared.queue.pop_before(until_ps);
                match next {
                    Some(same) if same.call & !HEAD == number => event = same,
                    _ => break,
                }
            }
        }
        self.deadlock().map_or(Ok(None), Err)
    }

    /// Forgets the finished calls at the front.
    fn leave(&mut self) {
        while self.calls.front().is_some_and(Option::is_none) {
            self.calls.pop_front();
            self.front += 1;
        }
    }

    /// Returns an error that says which rank waits for which, if nothing is in flight and yet some call is not finished.
    pub fn deadlock(&self) -> Option<Error> {
        if self.unfinished == 0 || !self.queue.is_empty() {
            return None;
        }
        let waits = self.calls.iter().flatten().map(|call| call.waits()).next()?;
        let waits: Vec<String> =
            waits.iter().map(|(rank, from)| format!("rank {rank} waits for rank {from}")).collect();
        Some(Error::usage(format!("deadlock: {}, and nothing is under way", waits.join(", "))))
    }

    /// One call from beginning to end.
    pub fn run(
        &mut self,
        network: &Network,
        call: &PricedCall<'_>,
        entry_ps: &[u64],
        sink: Sink<'_, '_>,
    ) -> Result<CallTimes> {
        self.admit(network, call, entry_ps)?;
        self.finish(entry_ps.len(), u64::MAX, sink)
    }

    /// The one call that was admitted, to its end or as far as it is before a time.
    fn finish(&mut self, ranks: usize, until_ps: u64, mut sink: Sink<'_, '_>) -> Result<CallTimes> {
        let mut exit_ps = vec![0; ranks];
        while let Some(finished) = self.advance(until_ps, sink.as_deref_mut())? {
            exit_ps[finished.member as usize] = finished.exit_ps;
        }
        let counters = self.ports().map(|port| port.counters).collect();
        Ok(CallTimes { exit_ps, counters, events: self.events })
    }
}

fn no_call(programs: usize, call: &PricedCall<'_>, entry_ps: &[u64]) -> Error {
    Error::argument(format!(
        "{programs} programs, {} places and {} entries are no call; give one of each for every rank",
        call.places.len(),
        entry_ps.len()
    ))
}
pub(in crate::fabric) mod faults;
pub(in crate::fabric) mod port;
pub(in crate::fabric) mod program;
pub(in crate::fabric) mod queue;
pub(in crate::fabric) mod running;
