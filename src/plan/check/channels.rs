//! Whether the programs get through on channels with few places, slice after slice, call after call.
//!
//! Every rank runs its steps in order, all of them for slice 0, then all for slice 1, and so on; then the second call
//! begins, over the same channels, without any pause. Two kinds of channel:
//!
//! ```text
//!     slots   each sending step k has `depth` places of its own; slice s uses place s mod depth, for all of the
//!             step's readers at once. A place is rewritten only after every reader of what it held has taken it. A
//!             fused step holds its arrivals until it has a place for the result: nothing is stored on the way.
//!     fifos   each (sender, receiver, lane) has a queue of `depth` messages. A step takes its arrivals one by one,
//!             which makes room, and then waits until every queue that it sends to has room.
//! ```
//!
//! Messages carry their call, slice and sending step, and every taker looks at them, so an overtaken or overwritten
//! message is a fault even where it would be harmless by luck.
//!
//! One schedule shows what all would: a channel has one writer and fixed readers, and a rank waits for one thing at a
//! time, so who runs first changes when a step is done but never whether.

use std::collections::{HashMap, VecDeque};

use super::matching::{Matching, MessageEnd};
use super::{Case, Checked, fault};
use crate::types::Rank;

/// Places in a channel.
const DEPTHS: [usize; 3] = [1, 2, 8];
/// Slices of each call.
const SLICES: [usize; 4] = [1, 2, 3, 5];
/// Calls back to back.
const CALLS: usize = 2;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Slots,
    Fifos,
}

/// Runs all combinations.
pub(super) fn run_all(case: &Case<'_>, matching: &Matching) -> Checked<()> {
    DEPTHS.into_iter().try_for_each(|depth| run(case, matching, depth))
}

/// Runs all combinations with channels of one depth.
pub(super) fn run(case: &Case<'_>, matching: &Matching, depth: usize) -> Checked<()> {
    let wiring = Wiring::of(case, matching);
    for slices in SLICES {
        for kind in [Kind::Slots, Kind::Fifos] {
            Run::new(case, matching, &wiring, kind, depth, slices).finish()?;
        }
    }
    Ok(())
}

/// The programs' steps and queues, numbered through.
struct Wiring {
    /// The number of each rank's first step; steps are numbered through all ranks.
    first: Vec<usize>,
    /// For each step, the queues that its result goes to.
    outgoing: Vec<Vec<usize>>,
    /// For each step, the queues that its arrivals come from, and the steps that sent them.
    incoming: Vec<Vec<(usize, usize)>>,
    /// The number of queues.
    queues: usize,
}

impl Wiring {
    fn of(case: &Case<'_>, matching: &Matching) -> Wiring {
        let mut first = vec![0];
        for plan in case.plans {
            first.push(first[first.len() - 1] + plan.steps.len());
        }
        let mut numbers = HashMap::new();
        let mut queue = |from: Rank, to: Rank, lane| {
            let next = numbers.len();
            *numbers.entry((from, to, lane)).or_insert(next)
        };
        let (mut outgoing, mut incoming) = (Vec::new(), Vec::new());
        for (rank, plan) in case.ranks() {
            for (step, senders) in plan.steps.iter().zip(&matching.senders[rank as usize]) {
                outgoing.push(step.to.iter().map(|&to| queue(rank, to, step.lane)).collect());
                incoming.push(
                    senders
                        .iter()
                        .map(|s| (queue(s.rank, rank, step.lane), first[s.rank as usize] + s.step))
                        .collect(),
                );
            }
        }
        Wiring { first, outgoing, incoming, queues: numbers.len() }
    }
}

/// Which message: the sender's call and slice, counted through, and its step, counted through all ranks.
type Tag = (usize, usize);

/// A place of a sending step.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// One more than the call and slice, counted through, whose result it holds; 0: never written.
    written: usize,
    /// Readers that have not taken it yet.
    unread: usize,
}

/// One simulated run.
struct Run<'a> {
    case: &'a Case<'a>,
    matching: &'a Matching,
    wiring: &'a Wiring,
    kind: Kind,
    depth: usize,
    slices: usize,
    /// For each rank: calls and slices done, steps done in the current slice, arrivals taken by the current step.
    at: Vec<(usize, usize, usize)>,
    /// By step and place.
    slots: Vec<Slot>,
    /// By queue.
    queues: Vec<VecDeque<Tag>>,
}

impl<'a> Run<'a> {
    fn new(
        case: &'a Case<'a>,
        matching: &'a Matching,
        wiring: &'a Wiring,
        kind: Kind,
        depth: usize,
        slices: usize,
    ) -> Run<'a> {
        Run {
            case,
            matching,
            wiring,
            kind,
            depth,
            slices,
            at: vec![(0, 0, 0); case.plans.len()],
            slots: vec![Slot::default(); wiring.outgoing.len() * depth],
            queues: vec![VecDeque::new(); wiring.queues],
        }
    }

    fn finish(mut self) -> Checked<()> {
        let laps = self.slices * CALLS;
        loop {
            let mut moved = false;
            for rank in 0..self.at.len() {
                let steps = self.case.plans[rank].steps.len();
                while self.at[rank].0 < laps && steps > 0 && self.advance(rank)? {
                    moved = true;
                    let (lap, step, _) = self.at[rank];
                    self.at[rank] = if step + 1 < steps { (lap, step + 1, 0) } else { (lap + 1, 0, 0) };
                }
            }
            if !moved {
                break;
            }
        }
        for (rank, plan) in self.case.ranks() {
            let (lap, step, _) = self.at[rank as usize];
            if lap < laps && !plan.steps.is_empty() {
                return Err(self.deadlock(rank, step));
            }
        }
        let left = self.queues.iter().any(|q| !q.is_empty()) || self.slots.iter().any(|s| s.unread > 0);
        assert!(!left, "a matched message was left over though every rank is done");
        Ok(())
    }

    /// Does the rank's current step, if it can be done now.
    fn advance(&mut self, rank: usize) -> Checked<bool> {
        let (lap, index, taken) = self.at[rank];
        let step = self.wiring.first[rank] + index;
        match self.kind {
            Kind::Slots => {
                let place = lap % self.slices % self.depth;
                for &(_, sender) in &self.wiring.incoming[step] {
                    let slot = self.slots[sender * self.depth + place];
                    if slot.written > lap + 1 {
                        return Err(self.overtaken(rank, index, sender));
                    }
                    if slot.written < lap + 1 {
                        return Ok(false);
                    }
                }
                if self.slots[step * self.depth + place].unread > 0 {
                    return Ok(false);
                }
                for &(_, sender) in &self.wiring.incoming[step] {
                    self.slots[sender * self.depth + place].unread -= 1;
                }
                let unread = self.wiring.outgoing[step].len();
                self.slots[step * self.depth + place] = Slot { written: lap + 1, unread };
                Ok(true)
            }
            Kind::Fifos => {
                for &(queue, sender) in &self.wiring.incoming[step][taken..] {
                    match self.queues[queue].pop_front() {
                        None => return Ok(false),
                        Some(tag) if tag != (lap, sender) => return Err(self.overtaken(rank, index, sender)),
                        Some(_) => self.at[rank].2 += 1,
                    }
                }
                let outgoing = &self.wiring.outgoing[step];
                if outgoing.iter().any(|&q| self.queues[q].len() >= self.depth) {
                    return Ok(false);
                }
                for &queue in outgoing {
                    self.queues[queue].push_back((lap, step));
                }
                Ok(true)
            }
        }
    }

    fn overtaken(&self, rank: usize, index: usize, sender: usize) -> Box<super::PlanFault> {
        let chunk = self.case.plans[rank].steps[index].chunk;
        let from = self.wiring.first.partition_point(|&first| first <= sender) - 1;
        let what = format!("finds another message where it takes that of rank {from}, {}", self.setting());
        fault(rank as Rank, index, chunk, what)
    }

    /// Returns the sentence for ranks that wait for each other.
    fn deadlock(&self, rank: Rank, step: usize) -> Box<super::PlanFault> {
        let stands = |r: Rank| self.at[r as usize];
        let (lap, _, _) = stands(rank);
        let late = |s: &&MessageEnd| (stands(s.rank).0, stands(s.rank).1) <= (lap, s.step);
        let chunk = self.case.step(rank, step).chunk;
        let why = match self.matching.senders[rank as usize][step].iter().find(late) {
            Some(s) => format!(
                "waits for step {} of rank {}, which stands at step {}",
                s.step,
                s.rank,
                stands(s.rank).1
            ),
            None => {
                let to = &self.case.step(rank, step).to;
                format!("has no place to send to {to:?}, who have not taken what is there")
            }
        };
        fault(rank, step, chunk, format!("deadlock: {why}, {}", self.setting()))
    }

    fn setting(&self) -> String {
        let kind = match self.kind {
            Kind::Slots => "slots",
            Kind::Fifos => "fifos",
        };
        format!("with {kind} of depth {}, slices: {}", self.depth, self.slices)
    }
}
