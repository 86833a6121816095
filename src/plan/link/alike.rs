//! Programs that are alike: one of them tells the levels of all.
//!
//! ```text
//!     ring, n = 4      rank 0   send own   fold 3's, pass on   fold 3's, pass on   ...
//!                      rank 1   send own   fold 0's, pass on   fold 0's, pass on   ...
//!     step 2 of each rank needs step 1 of some rank: so its level is 2 on all ranks, whichever that is
//! ```
//!
//! All ranks run in step, so step j of all ranks can run when the steps that it takes from have an index below j. Which rank
//! and step an operand comes from is found in the peer's program; where the peer's program is the own one with the ranks
//! renamed, the own one tells that too.

use super::Ties;
use super::steps::{Steps, marks};
use crate::plan::{Operand, Plan, RankView, Shape};
use crate::types::Rank;

/// How the programs of all ranks resemble each other, as an algorithm declares it for a view.
///
/// What the resemblances have in common: step i of every rank keeps its result or not, passes it on or not, and takes as
/// many operands from steps of the same indices as step i of every other rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alike {
    /// Not at all.
    No,
    /// As above, and no more.
    StepByStep,
    /// The program of one rank becomes that of another if all ranks in it are moved round the axes of this grid.
    Shifted(Shape),
    /// The program of rank r becomes that of rank s if every rank x in it is replaced by `x ^ r ^ s`.
    Exclusive,
}

impl Alike {
    /// Returns the rank that stands to `rank` as `rank` stands to `peer`; `None` where the program of `rank` does not tell.
    fn mirrored(self, rank: Rank, peer: Rank) -> Option<Rank> {
        match self {
            Alike::No | Alike::StepByStep => None,
            Alike::Exclusive => Some(peer),
            Alike::Shifted(shape) => {
                let (here, there) = (shape.coordinates(rank), shape.coordinates(peer));
                Some(shape.rank(std::array::from_fn(|axis| {
                    let extent = shape.0[axis];
                    (2 * here[axis] + extent - there[axis]) % extent
                })))
            }
        }
    }
}

/// By rank: the steps of a program that send to it, and those that take from it, once for each operand.
type Meetings = Vec<[Vec<u32>; 2]>;

fn meetings(plan: &Plan, nranks: u32) -> Result<Meetings, String> {
    let mut all: Meetings = vec![Default::default(); nranks as usize];
    for (index, step) in (0..).zip(&plan.steps) {
        for &to in &step.to {
            all.get_mut(to as usize).ok_or("a send to a rank outside")?[0].push(index);
        }
        for operand in &step.operands {
            if let Operand::From(from) = *operand {
                all.get_mut(from as usize).ok_or("a receive from a rank outside")?[1].push(index);
            }
        }
    }
    Ok(all)
}

/// Returns the steps of all ranks and what ties the view's rank, whose program is `plan`, to its peers.
pub(super) fn find(
    view: &RankView,
    alike: Alike,
    plan: &Plan,
    program: &dyn Fn(&RankView) -> Plan,
) -> Result<(Steps, Ties), String> {
    let own = meetings(plan, view.nranks)?;
    let length = plan.steps.len() as u32;
    let mut ties =
        Ties { makers: vec![Vec::new(); plan.steps.len()], readers: vec![Vec::new(); plan.steps.len()] };
    for (peer, [sent, taken]) in (0..).zip(&own) {
        if sent.is_empty() && taken.is_empty() {
            continue;
        }
        let theirs;
        let [sends, takes] = match alike.mirrored(view.rank, peer) {
            Some(mirrored) => &own[mirrored as usize],
            None => {
                let program = program(&view.of(peer));
                if program.steps.len() != plan.steps.len() || program.parts != plan.parts {
                    return Err(format!(
                        "the programs of ranks {} and {peer} are declared alike and are not",
                        view.rank
                    ));
                }
                theirs = std::mem::take(&mut meetings(&program, view.nranks)?[view.rank as usize]);
                &theirs
            }
        };
        if sends.len() != taken.len() || takes.len() != sent.len() {
            return Err(format!(
                "ranks {} and {peer}: {} messages are sent and {} taken, {} and {} the other way",
                view.rank,
                sent.len(),
                takes.len(),
                sends.len(),
                taken.len()
            ));
        }
        // In the order of the peers, and each peer's in the order of its messages: a step's operands are sorted below.
        for (&step, &maker) in taken.iter().zip(sends) {
            ties.makers[step as usize].push((peer, maker));
        }
        for (&step, &reader) in sent.iter().zip(takes) {
            ties.readers[step as usize].push((peer, reader));
        }
    }
    let mut steps = Steps::default();
    steps.ranges.push(0..length);
    steps.marks = plan.steps.iter().map(marks).collect();
    steps.count_sends();
    steps.level = vec![0; plan.steps.len()];
    steps.inputs = vec![0; plan.steps.len()];
    let mut makers = Vec::new();
    for (id, of_step) in ties.makers.iter().enumerate() {
        makers.clear();
        makers.extend(of_step.iter().map(|&(_, maker)| maker));
        if makers.iter().any(|&maker| maker as usize >= id) {
            return Err(format!("the plans deadlock: step {id} of each rank waits for one that comes later"));
        }
        steps.find(id, 0, &makers)?;
    }
    for (of_step, step) in ties.makers.iter_mut().zip(&plan.steps) {
        in_order_of_operands(of_step, &step.operands);
    }
    Ok((steps, ties))
}

/// Sorts makers, which stand in the order of their ranks, into the order of the operands.
fn in_order_of_operands(makers: &mut Vec<(Rank, u32)>, operands: &[Operand]) {
    if makers.len() < 2 {
        return;
    }
    let ranks = || {
        operands
            .iter()
            .filter_map(|operand| if let Operand::From(rank) = operand { Some(*rank) } else { None })
    };
    if ranks().is_sorted() {
        return;
    }
    let mut left = std::mem::take(makers);
    for rank in ranks() {
        if let Some(place) = left.iter().position(|&(maker, _)| maker == rank) {
            makers.push(left.remove(place));
        }
    }
}
