//! Finds all messages and their order for programs that need not resemble each other.
//!
//! The programs are asked for one after the other and not held: of each step a few bytes remain, of each message four.
//! The steps are numbered through all ranks.

use super::Ties;
use super::proofs::Proofs;
use super::steps::{Steps, marks};
use crate::plan::{Operand, Plan, RankView};
use crate::types::Rank;

/// All steps and messages.
pub(super) struct Graph {
    pub(super) steps: Steps,
    /// The number of each step's operands that come from peers.
    arity: Vec<u16>,
    /// The steps that make them, in the order of the operands.
    makers: Vec<u32>,
    /// The proofs about calls in place, if the programs are few and short enough for them.
    pub(super) proofs: Option<Proofs>,
}

/// Messages as they are found in the programs, before the two ends of each are brought together.
#[derive(Default)]
struct Messages {
    /// The receiver and the step of each send, in the order of the programs.
    to: Vec<u16>,
    sent_by: Vec<u32>,
    /// The sender of each operand, in the order of the programs.
    from: Vec<u16>,
}

impl Graph {
    /// Match, order and place the steps of all programs. An error says what does not fit. `most` limits the proofs.
    pub(super) fn new(
        view: &RankView,
        program: &dyn Fn(&RankView) -> Plan,
        most: usize,
    ) -> Result<Graph, String> {
        let mut steps = Steps::default();
        let (mut arity, mut messages) = (Vec::new(), Messages::default());
        let mut held = Some(Vec::new());
        for rank in 0..view.nranks {
            let plan = program(&view.of(rank));
            messages.add(&plan, steps.marks.len() as u32, &mut arity, view.nranks)?;
            let first = steps.marks.len();
            steps.marks.extend(plan.steps.iter().map(marks));
            steps.ranges.push(first as u32..steps.marks.len() as u32);
            held = held.filter(|_| Proofs::fit(steps.marks.len(), view.nranks, most));
            if let Some(held) = &mut held {
                held.push(plan);
            }
        }
        steps.count_sends();
        let makers = messages.matched(&steps, &arity)?;
        let mut graph = Graph { steps, arity, makers, proofs: None };
        let mut proofs = held.map(|plans| Proofs::new(plans, graph.steps.marks.len()));
        graph.run(&mut proofs)?;
        if let Some(proofs) = &mut proofs {
            proofs.find_readers(graph.messages().map(|(reader, maker)| (reader, graph.steps.at(maker))));
        }
        graph.proofs = proofs;
        Ok(graph)
    }

    /// Runs all programs in the order of their dependencies.
    fn run(&mut self, proofs: &mut Option<Proofs>) -> Result<(), String> {
        let ranks = self.steps.ranges.len();
        let total = self.steps.marks.len();
        self.steps.level = vec![0; total];
        self.steps.inputs = vec![0; total];
        // By rank: the step that is next, and where its operands' makers begin.
        let mut next: Vec<u32> = self.steps.ranges.iter().map(|range| range.start).collect();
        let mut operand: Vec<u32> = Vec::with_capacity(ranks);
        let mut before = 0;
        for range in &self.steps.ranges {
            operand.push(before);
            before += self.arity[range.start as usize..range.end as usize]
                .iter()
                .map(|&a| u32::from(a))
                .sum::<u32>();
        }
        let mut ran = vec![false; total];
        let mut done = 0;
        while done < total {
            let before = done;
            for rank in 0..ranks {
                let range = self.steps.ranges[rank].clone();
                while next[rank] < range.end {
                    let id = next[rank] as usize;
                    let makers = operand[rank] as usize..operand[rank] as usize + self.arity[id] as usize;
                    let makers = &self.makers[makers];
                    if makers.iter().any(|&maker| !ran[maker as usize]) {
                        break;
                    }
                    self.steps.find(id, range.start as usize, makers)?;
                    if let Some(proofs) = proofs {
                        proofs.ran(&self.steps, (rank as Rank, id as u32 - range.start), makers);
                    }
                    ran[id] = true;
                    operand[rank] += u32::from(self.arity[id]);
                    next[rank] += 1;
                    done += 1;
                }
            }
            if done == before {
                return Err(format!("the plans deadlock: {done} of {total} steps can run"));
            }
        }
        Ok(())
    }

    /// Every message: the step that takes it, and the one that makes it.
    fn messages(&self) -> impl Iterator<Item = ((Rank, u32), u32)> + '_ {
        let mut makers = self.makers.iter();
        (0..)
            .zip(&self.steps.ranges)
            .flat_map(|(rank, range)| range.clone().map(move |id| (rank, id, id - range.start)))
            .flat_map(move |(rank, id, index)| {
                let of_step: &[u32] = &makers.as_slice()[..self.arity[id as usize] as usize];
                if !of_step.is_empty() {
                    makers.nth(of_step.len() - 1);
                }
                of_step.iter().map(move |&maker| ((rank, index), maker))
            })
    }

    /// Returns the ties of a rank to its peers.
    pub(super) fn ties(&self, rank: Rank) -> Ties {
        let own = self.steps.range(rank);
        let mut ties = Ties { makers: vec![Vec::new(); own.len()], readers: vec![Vec::new(); own.len()] };
        for (reader, maker) in self.messages() {
            if own.contains(&(maker as usize)) {
                ties.readers[maker as usize - own.start].push(reader);
            }
            if reader.0 == rank {
                ties.makers[reader.1 as usize].push(self.steps.at(maker));
            }
        }
        ties
    }

    /// Levels between the two ends of the message for which they are most.
    pub(super) fn widest_gap(&self) -> u32 {
        let level = |id: usize| u32::from(self.steps.level[id]);
        self.messages()
            .map(|(reader, maker)| level(self.steps.id(reader)) - level(maker as usize))
            .max()
            .unwrap_or(0)
    }
}

impl Messages {
    /// Adds the steps of the next rank's program, of which the first gets the number `first`.
    fn add(&mut self, plan: &Plan, first: u32, arity: &mut Vec<u16>, nranks: u32) -> Result<(), String> {
        for (id, step) in (first..).zip(&plan.steps) {
            for &to in &step.to {
                if to >= nranks {
                    return Err("a send to a rank outside".into());
                }
                self.to.push(to as u16);
                self.sent_by.push(id);
            }
            let before = self.from.len();
            for operand in &step.operands {
                if let Operand::From(from) = *operand {
                    if from >= nranks {
                        return Err("a receive from a rank outside".into());
                    }
                    self.from.push(from as u16);
                }
            }
            arity.push(
                u16::try_from(self.from.len() - before)
                    .map_err(|_| "a step takes more than 65535 operands")?,
            );
        }
        Ok(())
    }

    /// The k-th send from p to r meets the k-th operand `From(p)` of r: the maker of each operand.
    fn matched(self, steps: &Steps, arity: &[u16]) -> Result<Vec<u32>, String> {
        let Messages { to, sent_by, from } = self;
        let n = steps.ranges.len();
        // Sends by receiver; of one receiver, by sender, because the programs were read rank by rank.
        let mut begin = vec![0u32; n + 1];
        for &to in &to {
            begin[to as usize + 1] += 1;
        }
        for rank in 0..n {
            begin[rank + 1] += begin[rank];
        }
        let mut fill = begin.clone();
        let mut sends = vec![0u32; to.len()];
        for (&to, &id) in to.iter().zip(&sent_by) {
            sends[fill[to as usize] as usize] = id;
            fill[to as usize] += 1;
        }
        drop((to, sent_by));
        let mut makers = Vec::with_capacity(from.len());
        let mut from = from.into_iter();
        // By sender: its first message to the receiver in question that is not taken yet, and the end of all of them.
        let mut queue = vec![0u32..0u32; n];
        for (receiver, range) in steps.ranges.iter().enumerate() {
            let mut at = begin[receiver];
            for (sender, steps) in steps.ranges.iter().enumerate() {
                let first = at;
                while at < begin[receiver + 1] && sends[at as usize] < steps.end {
                    at += 1;
                }
                queue[sender] = first..at;
            }
            for id in range.clone() {
                for sender in from.by_ref().take(arity[id as usize] as usize) {
                    let index = queue[sender as usize].next().ok_or_else(|| {
                        format!("rank {receiver} step {}: nothing comes from rank {sender}", id - range.start)
                    })?;
                    makers.push(sends[index as usize]);
                }
            }
            if queue.iter().any(|left| !left.is_empty()) {
                return Err("a message is never received".into());
            }
        }
        Ok(makers)
    }
}
