//! The linker in its plainest form, to hold the others against: all programs, every table in full, n squared of each.

use super::{Egress, Linked, LinkedStep, OperandSource, Push, Reader, StepPlace, Swap};
use crate::plan::{Chunk, Operand, Plan, RankView};
use crate::types::{Collective, Rank};

/// Returns the linked programs of these ranks. `most`: steps in all for which calls in place are looked at.
pub(super) fn link(
    plans: &[Plan],
    view: &RankView,
    most: usize,
    ranks: impl Iterator<Item = Rank>,
) -> Result<Vec<Linked>, String> {
    let graph = OracleGraph::new(plans, view, most)?;
    let (slotless, slotless_in_place) = (graph.slotless(false), graph.slotless(true));
    let slotless_by_inputs = graph.slotless_by_inputs();
    let inputs_stay_in_place = graph.inputs_stay_in_place();
    let OracleGraph { levels, slots, result_slots, depth, .. } = graph;
    let linked = ranks.map(|rank| {
        let mut order: Vec<usize> = (0..plans[rank as usize].steps.len()).collect();
        order.sort_by_key(|&i| graph.found[rank as usize][i].position);
        let steps = order.into_iter().map(|index| graph.linked_step(rank, index)).collect();
        let parts = plans[rank as usize].parts;
        let met = plans[rank as usize].steps.iter().flat_map(|step| {
            let makers = step.operands.iter().filter_map(|operand| match *operand {
                Operand::From(peer) => Some(peer),
                Operand::Own => None,
            });
            makers.chain(step.to.iter().copied())
        });
        let longest = met.chain([rank]).map(|met| plans[met as usize].steps.len() as u64).max().unwrap_or(0);
        Linked {
            parts,
            longest,
            steps,
            levels,
            slots,
            result_slots,
            depth,
            slotless,
            slotless_in_place,
            slotless_by_inputs,
            inputs_stay_in_place,
            // Looked at by tests of its own.
            swap: Swap::Nothing,
        }
    });
    Ok(linked.collect())
}

/// Index of a step in the program of a rank.
type StepIndex = usize;

/// Everything about one step that linking finds out.
#[derive(Clone)]
pub(super) struct Found {
    level: u32,
    pub(super) position: u32,
    slot: u32,
    raw: bool,
    inputs: u32,
    /// Matching step of each operand that comes from a peer.
    makers: Vec<Option<(Rank, StepIndex)>>,
    /// Matching step of each entry of `to`.
    readers: Vec<(Rank, StepIndex)>,
}

/// The programs of all ranks and what ties them.
pub(super) struct OracleGraph<'a> {
    plans: &'a [Plan],
    view: &'a RankView,
    pub(super) found: Vec<Vec<Found>>,
    /// clocks[r][i][q]: steps of rank q that are over when step i of rank r runs; empty when there are too many.
    clocks: Vec<Vec<Vec<u32>>>,
    pub(super) levels: u32,
    pub(super) slots: u32,
    result_slots: u32,
    pub(super) depth: u32,
}

impl<'a> OracleGraph<'a> {
    /// Match, order and place everything. An error says what does not fit.
    pub(super) fn new(plans: &'a [Plan], view: &'a RankView, most: usize) -> Result<OracleGraph<'a>, String> {
        let n = plans.len();
        let mut found: Vec<Vec<Found>> = plans.iter().map(|p| vec![Found::blank(); p.steps.len()]).collect();
        match_messages(plans, &mut found)?;
        let clocks = run(plans, &mut found, most)?;
        let mut graph =
            OracleGraph { plans, view, found, clocks, levels: 1, slots: 0, result_slots: 0, depth: 2 };
        for r in 0..n {
            graph.place(r);
        }
        for sender in graph.found.iter().flatten() {
            for &(q, j) in &sender.readers {
                graph.depth = graph.depth.max(graph.found[q as usize][j].level - sender.level + 1);
            }
        }
        Ok(graph)
    }

    /// Positions within a wave (higher levels first, program order within a level) and slots in program order, those of results first.
    fn place(&mut self, r: usize) {
        let found = &mut self.found[r];
        let mut order: Vec<usize> = (0..found.len()).collect();
        order.sort_by_key(|&i| (std::cmp::Reverse(found[i].level), i));
        for (position, &i) in order.iter().enumerate() {
            found[i].position = position as u32;
            self.levels = self.levels.max(found[i].level + 1);
        }
        let mut slots = 0;
        for of_inputs in [false, true] {
            for (f, step) in found.iter_mut().zip(&self.plans[r].steps) {
                if !f.readers.is_empty() && (step.operands == [Operand::Own]) == of_inputs {
                    f.slot = slots;
                    slots += 1;
                }
            }
            if !of_inputs {
                self.result_slots = self.result_slots.max(slots);
            }
        }
        self.slots = self.slots.max(slots);
    }

    /// Does every value of every rank travel without a slot when all buffers are shared?
    pub(super) fn slotless(&self, in_place: bool) -> bool {
        (0..self.plans.len() as Rank).all(|r| {
            (0..self.plans[r as usize].steps.len()).all(|i| {
                let f = &self.found[r as usize][i];
                if f.readers.is_empty() {
                    return true;
                }
                let egress = self.egress(r, i);
                egress.from_output || egress.from_input && (!in_place || egress.from_input_in_place)
            })
        })
    }

    /// Tells whether no rank stages its input if the call is in place.
    fn inputs_stay_in_place(&self) -> bool {
        (0..self.plans.len() as Rank).all(|r| {
            (0..self.plans[r as usize].steps.len()).all(|i| {
                let egress = self.egress(r, i);
                self.found[r as usize][i].readers.is_empty()
                    || !egress.from_input
                    || egress.from_input_in_place
            })
        })
    }

    /// Does every value of every rank travel from its input?
    pub(super) fn slotless_by_inputs(&self) -> bool {
        (0..self.plans.len() as Rank).all(|r| {
            (0..self.plans[r as usize].steps.len())
                .all(|i| self.found[r as usize][i].readers.is_empty() || self.egress(r, i).from_input)
        })
    }

    fn at(&self, rank: Rank) -> RankView {
        self.view.of(rank)
    }

    fn place_of(&self, rank: Rank, index: StepIndex) -> StepPlace {
        let f = &self.found[rank as usize][index];
        StepPlace {
            rank,
            level: f.level,
            position: f.position,
            steps: self.plans[rank as usize].steps.len() as u32,
        }
    }

    /// Returns a step of a rank with its partners.
    pub(super) fn linked_step(&self, rank: Rank, index: StepIndex) -> LinkedStep {
        let step = &self.plans[rank as usize].steps[index];
        let f = &self.found[rank as usize][index];
        let here = self.at(rank);
        let operands = step
            .operands
            .iter()
            .zip(&f.makers)
            .map(|(operand, maker)| match (operand, maker) {
                (Operand::From(_), &Some((p, k))) => OperandSource::From {
                    place: self.place_of(p, k),
                    egress: self.egress(p, k),
                    slot: self.found[p as usize][k].slot,
                    raw: self.found[p as usize][k].raw,
                    input: self.at(p).input_block(step.chunk.block),
                    output: self.at(p).output_block(step.chunk.block),
                    push: self.push((p, k), (rank, index)),
                },
                _ => OperandSource::Own,
            })
            .collect();
        let readers = f
            .readers
            .iter()
            .map(|&(q, j)| Reader {
                place: self.place_of(q, j),
                push: self.push((rank, index), (q, j)),
                output: self.at(q).output_block(step.chunk.block),
            })
            .collect();
        LinkedStep {
            chunk: step.chunk,
            input: here.input_block(step.chunk.block),
            keep: if step.keep { here.output_block(step.chunk.block) } else { None },
            level: f.level,
            operands,
            readers,
            slot: f.slot,
            egress: self.egress(rank, index),
            finish: self.view.collective.reduces()
                && f.inputs == self.view.nranks
                && (step.operands.len() > 1 || self.view.nranks == 1),
        }
    }

    fn egress(&self, rank: Rank, index: StepIndex) -> Egress {
        let step = &self.plans[rank as usize].steps[index];
        let from_input = step.operands == [Operand::Own];
        Egress {
            from_input,
            from_input_in_place: from_input && self.input_outlives_its_readers(rank, index),
            from_output: step.keep,
        }
    }

    /// In place, chunk `c` of rank p's input is the same memory as its output's chunk `alias`. Is it overwritten only
    /// after every reader of the send `(p, k)` has read it?
    fn input_outlives_its_readers(&self, p: Rank, k: StepIndex) -> bool {
        if self.clocks.is_empty() {
            return false;
        }
        let chunk = self.plans[p as usize].steps[k].chunk;
        let writers = self.overwriters(p, chunk);
        writers.iter().all(|&m| {
            m == k
                || self.found[p as usize][k]
                    .readers
                    .iter()
                    .all(|&(r, j)| self.clocks[p as usize][m][r as usize] > j as u32)
        })
    }

    /// Steps of rank p that keep a chunk where, in place, chunk `c` of its input lies.
    fn overwriters(&self, p: Rank, c: Chunk) -> Vec<StepIndex> {
        let here = self.at(p);
        let Some(block) = here.input_block(c.block) else { return Vec::new() };
        let steps = &self.plans[p as usize].steps;
        (0..steps.len())
            .filter(|&i| {
                let s = &steps[i];
                s.keep
                    && s.chunk.part == c.part
                    && here
                        .output_block(s.chunk.block)
                        .is_some_and(|o| in_place_input(&here, o) == Some(block))
            })
            .collect()
    }

    fn push(&self, (p, k): (Rank, StepIndex), (q, j): (Rank, StepIndex)) -> Push {
        let reader = &self.plans[q as usize].steps[j];
        let allowed = reader.keep && reader.operands.len() == 1 && reader.to.is_empty();
        let in_place = allowed && self.push_waits_for_input(p, k, q, reader.chunk);
        Push { allowed, in_place, preferred: self.view.collective == Collective::Gather }
    }

    /// May step `(p, k)` overwrite, at rank q, the input that shares its memory with q's output chunk `c`? Only if
    /// every use of that input is over by then, or is step `(p, k)` itself, which reads an element before it writes it.
    fn push_waits_for_input(&self, p: Rank, k: StepIndex, q: Rank, c: Chunk) -> bool {
        let there = self.at(q);
        let Some(input) = there.output_block(c.block).and_then(|o| in_place_input(&there, o)) else {
            return true;
        };
        if self.clocks.is_empty() {
            return false;
        }
        let clock = &self.clocks[p as usize][k];
        let over = |r: Rank, i: StepIndex| (r, i) == (p, k) || clock[r as usize] > i as u32;
        self.plans[q as usize].steps.iter().enumerate().all(|(i, s)| {
            let uses = s.operands.contains(&Operand::Own)
                && s.chunk.part == c.part
                && there.input_block(s.chunk.block) == Some(input);
            !uses || (over(q, i) && self.found[q as usize][i].readers.iter().all(|&(r, j)| over(r, j)))
        })
    }
}

/// Returns the input block that shares its memory with output block `output` when a call is in place.
fn in_place_input(view: &RankView, output: u32) -> Option<u32> {
    match view.collective {
        Collective::AllReduce | Collective::Reduce | Collective::Broadcast => Some(0),
        Collective::ReduceScatter => Some(view.rank),
        Collective::AllGather => (output == view.rank).then_some(0),
        Collective::AlltoAll => Some(output),
        Collective::Gather => (output == view.root).then_some(0),
        Collective::Scatter => Some(view.root),
        Collective::Barrier => None,
    }
}

impl Found {
    fn blank() -> Found {
        Found {
            level: 0,
            position: 0,
            slot: 0,
            raw: false,
            inputs: 0,
            makers: Vec::new(),
            readers: Vec::new(),
        }
    }
}

/// The k-th send from p to r meets the k-th operand `From(p)` of r.
fn match_messages(plans: &[Plan], found: &mut [Vec<Found>]) -> Result<(), String> {
    let n = plans.len();
    let mut sends: Vec<std::collections::VecDeque<StepIndex>> = vec![Default::default(); n * n];
    for (p, plan) in plans.iter().enumerate() {
        for (i, step) in plan.steps.iter().enumerate() {
            for &r in &step.to {
                sends.get_mut(p * n + r as usize).ok_or("a send to a rank outside")?.push_back(i);
            }
        }
    }
    for (r, plan) in plans.iter().enumerate() {
        for (j, step) in plan.steps.iter().enumerate() {
            for operand in &step.operands {
                let maker = match *operand {
                    Operand::Own => None,
                    Operand::From(p) => {
                        let queue =
                            sends.get_mut(p as usize * n + r).ok_or("a receive from a rank outside")?;
                        let i = queue
                            .pop_front()
                            .ok_or_else(|| format!("rank {r} step {j}: nothing comes from rank {p}"))?;
                        found[p as usize][i].readers.push((r as Rank, j));
                        Some((p, i))
                    }
                };
                found[r][j].makers.push(maker);
            }
        }
    }
    if sends.iter().all(|queue| queue.is_empty()) {
        Ok(())
    } else {
        Err("a message is never received".into())
    }
}

/// Runs all programs in dependency order: levels, raw values, inputs folded, and clocks.
fn run(plans: &[Plan], found: &mut [Vec<Found>], most: usize) -> Result<Vec<Vec<Vec<u32>>>, String> {
    let n = plans.len();
    let total: usize = plans.iter().map(|p| p.steps.len()).sum();
    let clocked = total * n <= most * 64 && total <= most;
    let mut clocks: Vec<Vec<Vec<u32>>> = vec![Vec::new(); if clocked { n } else { 0 }];
    let mut next = vec![0usize; n];
    let mut done = 0;
    while done < total {
        let before = done;
        for r in 0..n {
            while next[r] < plans[r].steps.len() {
                let j = next[r];
                let makers = found[r][j].makers.clone();
                if makers.iter().flatten().any(|&(p, i)| next[p as usize] <= i) {
                    break;
                }
                let previous = if j > 0 { found[r][j - 1].level } else { 0 };
                let level = makers.iter().flatten().map(|&(p, i)| found[p as usize][i].level + 1).max();
                found[r][j].level = previous.max(level.unwrap_or(0));
                found[r][j].inputs =
                    makers.iter().map(|m| m.map_or(1, |(p, i)| found[p as usize][i].inputs)).sum();
                found[r][j].raw =
                    makers.len() == 1 && makers[0].is_none_or(|(p, i)| found[p as usize][i].raw);
                if clocked {
                    let mut clock = clocks[r].last().cloned().unwrap_or_else(|| vec![0; n]);
                    for &(p, i) in makers.iter().flatten() {
                        for (c, o) in clock.iter_mut().zip(&clocks[p as usize][i]) {
                            *c = (*c).max(*o);
                        }
                        clock[p as usize] = clock[p as usize].max(i as u32 + 1);
                    }
                    clock[r] = j as u32;
                    clocks[r].push(clock);
                }
                next[r] += 1;
                done += 1;
            }
        }
        if done == before {
            return Err(format!("the plans deadlock: {} of {total} steps can run", done));
        }
    }
    Ok(clocks)
}
