//! What every chunk holds, by symbols: each input chunk of each rank is a letter, a fold is a word of them.
//!
//! Equal expressions are one node, so that comparing what two ranks hold is comparing two numbers.
//!
//! The rule for calls in place: a rank may read its input up to and in the step that overwrites it. The output's place
//! in the input is the one that the C interface documents, for example block `rank` of a reduce-scatter's input. An
//! all-to-all in place has output block i over input block i, so the rule says there: the block for rank i is sent
//! before what comes from rank i is kept. Nothing needs to be staged then. Slices are ranges of a chunk that do not
//! overlap, input and output alike, so what holds for a chunk in one piece holds for its slices.

use std::collections::HashMap;

use super::matching::Matching;
use super::{Case, Checked, PlanFault, fault, program};
use crate::plan::{Chunk, Operand, RankView};
use crate::types::{Collective, Rank};

/// The result of following the values through the programs.
pub(super) struct Trace {
    /// For each rank and step, how many messages the longest chain has that ends in the step's result, its own send
    /// included.
    pub(super) levels: Vec<Vec<u32>>,
    /// The first output that is not one fold of all inputs in rank order.
    pub(super) unordered: Option<PlanFault>,
}

/// An expression's number.
type Id = usize;

#[derive(Clone, PartialEq, Eq, Hash)]
enum Expression {
    /// A rank's own input.
    Input(Rank, Chunk),
    /// Left to right.
    Fold(Vec<Id>),
}

#[derive(Default)]
struct Expressions {
    all: Vec<Expression>,
    ids: HashMap<Expression, Id>,
}

impl Expressions {
    fn id(&mut self, expression: Expression) -> Id {
        *self.ids.entry(expression).or_insert_with_key(|e| {
            self.all.push(e.clone());
            self.all.len() - 1
        })
    }

    /// The inputs in an expression, from left to right.
    fn inputs(&self, id: Id, found: &mut Vec<(Rank, Chunk)>) {
        match &self.all[id] {
            &Expression::Input(rank, chunk) => found.push((rank, chunk)),
            Expression::Fold(operands) => operands.iter().for_each(|&o| self.inputs(o, found)),
        }
    }

    /// Is it one fold of `count` ranks' inputs, in rank order?
    fn is_rank_order(&self, id: Id, count: u32) -> bool {
        match &self.all[id] {
            Expression::Input(rank, _) => *rank == 0 && count == 1,
            Expression::Fold(operands) => {
                operands.len() as u32 == count
                    && (0..)
                        .zip(operands)
                        .all(|(r, &o)| matches!(self.all[o], Expression::Input(rank, _) if rank == r))
            }
        }
    }

    /// As a formula of `x<rank>`.
    fn formula(&self, id: Id) -> String {
        match &self.all[id] {
            Expression::Input(rank, _) => format!("x{rank}"),
            Expression::Fold(operands) => {
                let terms: Vec<String> = operands.iter().map(|&o| self.formula(o)).collect();
                format!("({})", terms.join(" + "))
            }
        }
    }
}

/// Follows the values through the programs, as far as they go, and judges what is in the outputs.
pub(super) fn trace(case: &Case<'_>, matching: &Matching) -> Checked<Trace> {
    let mut expressions = Expressions::default();
    let mut ranks: Vec<State> = case.ranks().map(|(rank, _)| State::new(case.view(rank))).collect();
    // A rank runs until it needs a message that is not there; when none can move, all are done or stuck.
    loop {
        let mut moved = false;
        for rank in 0..ranks.len() {
            while let Some(step) = case.plans[rank].steps.get(ranks[rank].results.len()) {
                let index = ranks[rank].results.len();
                let senders = &matching.senders[rank][index];
                let arrived = |ranks: &[State]| -> Option<Vec<(Id, u32)>> {
                    senders.iter().map(|s| ranks[s.rank as usize].results.get(s.step).copied()).collect()
                };
                let Some(arrivals) = arrived(&ranks) else { break };
                let level = arrivals.iter().map(|&(_, level)| level).max().unwrap_or(0);
                let mut arrivals = arrivals.into_iter().map(|(id, _)| id);
                let mut operands = Vec::with_capacity(step.operands.len());
                for operand in &step.operands {
                    operands.push(match operand {
                        Operand::From(_) => arrivals.next().expect("one sender for each arrival"),
                        Operand::Own => {
                            ranks[rank].may_read(index, step.chunk)?;
                            expressions.id(Expression::Input(rank as Rank, step.chunk))
                        }
                    });
                }
                let result = match operands[..] {
                    [only] => only,
                    _ => expressions.id(Expression::Fold(operands)),
                };
                if step.keep {
                    ranks[rank].keep(index, step.chunk, result)?;
                }
                ranks[rank].results.push((result, level + !step.to.is_empty() as u32));
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    for (rank, plan) in case.ranks() {
        let stuck = ranks[rank as usize].results.len();
        if stuck < plan.steps.len() {
            let from = matching.senders[rank as usize][stuck]
                .iter()
                .find(|s| ranks[s.rank as usize].results.len() <= s.step)
                .expect("a stuck rank waits for another");
            let what = format!(
                "deadlock: waits for step {} of rank {}, which stands at step {}",
                from.step,
                from.rank,
                ranks[from.rank as usize].results.len()
            );
            return Err(fault(rank, stuck, plan.steps[stuck].chunk, what));
        }
    }
    let unordered = judge(case, &ranks, &expressions)?;
    let levels = ranks.into_iter().map(|r| r.results.into_iter().map(|(_, level)| level).collect()).collect();
    Ok(Trace { levels, unordered })
}

/// One rank, while the values move.
struct State {
    view: RankView,
    /// Result and level of each step done.
    results: Vec<(Id, u32)>,
    /// The value of each output chunk, and the step that wrote it.
    output: HashMap<Chunk, (Id, usize)>,
    /// Input places (block, part) that a call in place has overwritten by now, and in which step.
    overwritten: HashMap<(u32, u32), usize>,
}

impl State {
    fn new(view: RankView) -> State {
        State { view, results: Vec::new(), output: HashMap::new(), overwritten: HashMap::new() }
    }

    fn may_read(&self, step: usize, chunk: Chunk) -> Checked<()> {
        let place = self.view.input_block(chunk.block).map(|block| (block, chunk.part));
        match place.and_then(|place| self.overwritten.get(&place)) {
            None => Ok(()),
            Some(by) => {
                let what = format!("reads its input after step {by} has overwritten it in place");
                Err(fault(self.view.rank, step, chunk, what))
            }
        }
    }

    fn keep(&mut self, step: usize, chunk: Chunk, value: Id) -> Checked<()> {
        if let Some((_, before)) = self.output.insert(chunk, (value, step)) {
            let what = format!("writes an output that step {before} has written already");
            return Err(fault(self.view.rank, step, chunk, what));
        }
        let written = self.view.output_block(chunk.block).and_then(|b| input_under(&self.view, b));
        if let Some(block) = written {
            self.overwritten.insert((block, chunk.part), step);
        }
        Ok(())
    }
}

/// Returns the input block that lies under an output block when a call is in place.
fn input_under(v: &RankView, output: u32) -> Option<u32> {
    match v.collective {
        Collective::AllReduce | Collective::Reduce | Collective::Broadcast => Some(0),
        Collective::ReduceScatter | Collective::Scatter => Some(v.rank),
        Collective::AllGather | Collective::Gather => (output == v.rank).then_some(0),
        Collective::AlltoAll => Some(output),
        Collective::Barrier => None,
    }
}

/// Holds every output against the collective's definition.
fn judge(case: &Case<'_>, ranks: &[State], expressions: &Expressions) -> Checked<Option<PlanFault>> {
    let n = case.nranks();
    let mut unordered = None;
    // What the first rank holds of each chunk; and whether an expression has been found right before.
    let mut agreed: HashMap<Chunk, (Rank, Id)> = HashMap::new();
    for state in ranks {
        let v = &state.view;
        for block in (0..v.blocks()).filter(|&b| v.output_block(b).is_some()) {
            for chunk in (0..case.parts()).map(|part| Chunk { block, part }) {
                let Some(&(id, step)) = state.output.get(&chunk) else {
                    let what = "never writes this output";
                    return Err(Box::new(PlanFault { chunk: Some(chunk), ..*program(v.rank, what) }));
                };
                match agreed.get(&chunk) {
                    Some(&(_, other)) if other == id => continue,
                    Some(&(first, other)) => {
                        let (mine, theirs) = (expressions.formula(id), expressions.formula(other));
                        let what = format!("computes {mine} where rank {first} computes {theirs}");
                        return Err(fault(v.rank, step, chunk, what));
                    }
                    None => agreed.insert(chunk, (v.rank, id)),
                };
                let expected: Vec<Rank> = if v.collective.reduces() {
                    (0..n).collect()
                } else {
                    (0..n).filter(|&r| case.view(r).input_block(block).is_some()).collect()
                };
                let mut found = Vec::new();
                expressions.inputs(id, &mut found);
                if let Some(&(from, other)) = found.iter().find(|&&(_, c)| c != chunk) {
                    let what = format!("holds {other} of rank {from}");
                    return Err(fault(v.rank, step, chunk, what));
                }
                for &r in &expected {
                    match found.iter().filter(|&&(from, _)| from == r).count() {
                        1 => {}
                        0 => return Err(fault(v.rank, step, chunk, format!("lacks the input of rank {r}"))),
                        k => {
                            let what = format!("holds the input of rank {r} {k} times");
                            return Err(fault(v.rank, step, chunk, what));
                        }
                    }
                }
                if let Some(&(from, _)) = found.iter().find(|&&(from, _)| !expected.contains(&from)) {
                    return Err(fault(v.rank, step, chunk, format!("holds an input of rank {from}")));
                }
                if unordered.is_none() && v.collective.reduces() && !expressions.is_rank_order(id, n) {
                    let what = format!("computes {}, not one fold in rank order", expressions.formula(id));
                    unordered = Some(*fault(v.rank, step, chunk, what));
                }
            }
        }
    }
    Ok(unordered)
}
