//! Proves that the programs of all ranks together are the collective.
//!
//! Four questions, each its own pass, none of them shared with the code that runs plans:
//!
//! 1. *Well formed* (here): every chunk, peer and lane exists, a rank reads only input and writes only output that it
//!    has, and no rank sends to itself.
//! 2. *Matched* (`matching`): every message has exactly one sender and one taker in each place, and both mean the same
//!    chunk on the same lane.
//! 3. *Right* (`values`): with a symbol for each input chunk of each rank, every output chunk that the collective
//!    defines is written once and holds every rank's input exactly once, in the same expression on all ranks; in place
//!    no input is read after it was overwritten. The cost is counted on the way.
//! 4. *Free of deadlock* (`channels`): with channels of 1, 2 and 8 places; 1, 2, 3 and 5 slices; two calls back to
//!    back.
//!
//! What is proved of a program holds for every count, since chunks are affine in it.
//!
//! The fourth is asked of the channels that run plans. `prove_over` asks it of any other `Protocol` (`protocol`): of one
//! without acknowledgements, say, which only some programs get through.

mod channels;
mod matching;
#[cfg(test)]
mod protocol;
mod values;

#[cfg(test)]
pub use protocol::Protocol;

use std::fmt;

use super::{Chunk, Operand, Plan, RankView, Step};
use crate::types::{Collective, Rank};

/// The cost of one rank's program, in exact counts. A message's size is one chunk: a block's `parts`-th part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Cost {
    /// Parts that a block is divided into, so that `chunks_sent / parts` blocks leave the rank.
    pub parts: u32,
    /// Messages this rank sends; a send to a set counts once.
    pub sends: u32,
    /// Chunks this rank puts on the wire; a send to a set of k counts k.
    pub chunks_sent: u32,
    /// Two-operand combinations this rank computes.
    pub combines: u32,
    /// Length of the longest chain of messages, each made from the one before it, over all ranks.
    pub depth: u32,
}

/// A fault in a set of plans, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanFault {
    /// Whose program.
    pub rank: Rank,
    /// Index of the step in it; `None`: the program as a whole.
    pub step: Option<usize>,
    /// The chunk that it is about.
    pub chunk: Option<Chunk>,
    /// The sentence.
    pub what: String,
}

/// A set of plans that [`prove`] found right, and what it learned about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The collective that they are.
    pub collective: Collective,
    /// Its root.
    pub root: Rank,
    /// Each rank's measured cost.
    pub costs: Vec<Cost>,
    /// For each rank and step, how long the longest chain of messages is that the step needs.
    pub levels: Vec<Vec<u32>>,
    /// The first output that is not one left-to-right fold of all inputs in rank order.
    unordered: Option<PlanFault>,
}

type Checked<T> = Result<T, Box<PlanFault>>;

/// Proves that `plans`, one a rank, are `collective` with this root.
pub fn prove(plans: &[Plan], collective: Collective, root: Rank) -> Checked<Proof> {
    let case = Case { plans, collective, root };
    case.well_formed()?;
    let matching = matching::Matching::of(&case)?;
    let values = values::trace(&case, &matching)?;
    channels::run_all(&case, &matching)?;
    let depth = values.levels.iter().flatten().max().copied().unwrap_or(0);
    Ok(Proof {
        collective,
        root,
        costs: plans.iter().map(|plan| measure(plan, depth)).collect(),
        levels: values.levels,
        unordered: values.unordered,
    })
}

/// Proves that `plans`, which [`prove`] finds right, also get through under this protocol, call after call.
#[cfg(test)]
pub fn prove_over(plans: &[Plan], collective: Collective, root: Rank, protocol: Protocol) -> Checked<()> {
    let case = Case { plans, collective, root };
    case.well_formed()?;
    protocol::prove(&case, &matching::Matching::of(&case)?, protocol)
}

impl Proof {
    /// Does this rank cost what is declared?
    pub fn costs(&self, rank: Rank, declared: Cost) -> Checked<()> {
        let measured = self.costs[rank as usize];
        let rows = [
            ("parts", declared.parts, measured.parts),
            ("sends", declared.sends, measured.sends),
            ("chunks sent", declared.chunks_sent, measured.chunks_sent),
            ("combines", declared.combines, measured.combines),
            ("depth", declared.depth, measured.depth),
        ];
        match rows.into_iter().find(|(_, declared, measured)| declared != measured) {
            None => Ok(()),
            Some((what, declared, measured)) => {
                Err(program(rank, format!("declares {declared} {what}, but has {measured}")))
            }
        }
    }

    /// Is every output one left-to-right fold of all inputs in rank order?
    pub fn folds_in_rank_order(&self) -> Checked<()> {
        self.unordered.clone().map_or(Ok(()), |fault| Err(Box::new(fault)))
    }
}

fn measure(plan: &Plan, depth: u32) -> Cost {
    let mut cost = Cost { parts: plan.parts, depth, ..Cost::default() };
    for step in &plan.steps {
        cost.sends += !step.to.is_empty() as u32;
        cost.chunks_sent += step.to.len() as u32;
        cost.combines += step.operands.len() as u32 - 1;
    }
    cost
}

/// The case to prove.
struct Case<'a> {
    plans: &'a [Plan],
    collective: Collective,
    root: Rank,
}

impl Case<'_> {
    fn nranks(&self) -> u32 {
        self.plans.len() as u32
    }
    fn view(&self, rank: Rank) -> RankView {
        RankView::flat(self.collective, rank, self.nranks(), self.root)
    }
    fn parts(&self) -> u32 {
        self.plans[0].parts
    }
    fn ranks(&self) -> impl Iterator<Item = (Rank, &Plan)> {
        (0..).zip(self.plans)
    }
    fn step(&self, rank: Rank, index: usize) -> &Step {
        &self.plans[rank as usize].steps[index]
    }

    fn well_formed(&self) -> Checked<()> {
        if self.plans.is_empty() || self.root >= self.nranks() {
            return Err(program(self.root, format!("is the root, but there are {} programs", self.nranks())));
        }
        for (rank, plan) in self.ranks() {
            if plan.parts == 0 {
                return Err(program(rank, "divides its blocks into no parts"));
            }
            if plan.parts != self.parts() {
                let what = format!("divides blocks into {} parts, rank 0 into {}", plan.parts, self.parts());
                return Err(program(rank, what));
            }
            let view = self.view(rank);
            for (index, step) in plan.steps.iter().enumerate() {
                if let Some(what) = ill_formed(&view, plan.parts, step) {
                    return Err(fault(rank, index, step.chunk, what));
                }
            }
        }
        Ok(())
    }
}

fn ill_formed(v: &RankView, parts: u32, step: &Step) -> Option<String> {
    let Chunk { block, part } = step.chunk;
    if block >= v.blocks() || part >= parts {
        return Some(format!("does not exist; blocks: {}, parts: {parts}", v.blocks()));
    }
    if step.operands.is_empty() {
        return Some("has nothing to fold".into());
    }
    if !step.keep && step.to.is_empty() {
        return Some("neither keeps its result nor passes it on".into());
    }
    if step.operands.contains(&Operand::Own) && v.input_block(block).is_none() {
        return Some("reads an input that this rank does not have".into());
    }
    if step.keep && v.output_block(block).is_none() {
        return Some("keeps a chunk that this rank has no output for".into());
    }
    for (i, &to) in step.to.iter().enumerate() {
        if to == v.rank {
            return Some("sends to itself".into());
        }
        if to >= v.nranks {
            return Some(format!("sends to rank {to} of {}", v.nranks));
        }
        if step.to[..i].contains(&to) {
            return Some(format!("sends to rank {to} twice at once"));
        }
    }
    for &operand in &step.operands {
        match operand {
            Operand::From(from) if from == v.rank => return Some("takes a message from itself".into()),
            Operand::From(from) if from >= v.nranks => {
                return Some(format!("takes a message from rank {from} of {}", v.nranks));
            }
            _ => {}
        }
    }
    None
}

fn fault(rank: Rank, step: usize, chunk: Chunk, what: impl Into<String>) -> Box<PlanFault> {
    Box::new(PlanFault { rank, step: Some(step), chunk: Some(chunk), what: what.into() })
}

/// Makes a fault of a program as a whole.
fn program(rank: Rank, what: impl Into<String>) -> Box<PlanFault> {
    Box::new(PlanFault { rank, step: None, chunk: None, what: what.into() })
}

impl fmt::Display for PlanFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}", self.rank)?;
        if let Some(step) = self.step {
            write!(f, ", step {step}")?;
        }
        if let Some(chunk) = self.chunk {
            write!(f, ", {chunk}")?;
        }
        write!(f, ": {}", self.what)
    }
}

impl std::error::Error for PlanFault {}
