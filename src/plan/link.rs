//! Links the plans of all ranks into what one rank needs to run its own: who waits for which step of whom.
//!
//! Plans are pure, so every rank can compute every other rank's program. A message therefore needs no address and no
//! envelope: the receiver knows which step of the sender makes it, and the sender knows which step of each receiver
//! uses it up. All that ranks tell each other is how far they have come.
//!
//! **Waves.** A long message is cut into slices, and each slice runs the same steps. To overlap them, step i of slice s
//! runs in wave `s + level(i)`, where the level grows by one at each hop a value takes. Within a wave higher levels
//! run first, so values leave the pipeline before new ones enter:
//!
//! ```text
//!     two_shot, slices 0..3      wave 0   wave 1   wave 2   wave 3   wave 4
//!     level 0: send inputs       s0       s1       s2
//!     level 1: fold, pass on              s0       s1       s2
//!     level 2: take results                        s0       s1       s2
//! ```
//!
//! A step's place in this order is its **position**; `wave * steps + position + 1` is what the rank's program counter
//! shows when the step is done. No step of a wave depends on another of the same wave, and a slot that holds the
//! slices of `depth` waves, one more than the widest gap between a sender's and a reader's level, never deadlocks.

use super::{Chunk, Operand, Plan, View};
use crate::types::{Collective, Rank};

/// A rank's program with every dependency made explicit.
#[derive(Clone, Debug)]
pub struct Linked {
    /// Parts a block is divided into.
    pub parts: u32,
    /// The steps in the order in which a wave runs them.
    pub steps: Vec<LinkedStep>,
    /// Waves that one slice takes.
    pub levels: u32,
    /// Slots that the rank with the most sends needs for one slice.
    pub slots: u32,
    /// Slices of one send that may be under way at once.
    pub depth: u32,
    /// No rank stages anything if all buffers are shared.
    pub slotless: bool,
    /// That holds even if the call is in place.
    pub slotless_in_place: bool,
}

/// A step that knows its partners.
#[derive(Clone, Debug)]
pub struct LinkedStep {
    /// The piece of the vector.
    pub chunk: Chunk,
    /// Where the chunk lies in this rank's input, if it has it: the block.
    pub input: Option<u32>,
    /// Where the result is kept: the block of this rank's output.
    pub keep: Option<u32>,
    /// Waves after the slice enters until this step runs.
    pub level: u32,
    /// Fold order.
    pub operands: Vec<Source>,
    /// Who reads the result.
    pub readers: Vec<Reader>,
    /// This rank's slots for the result begin at `slot * depth`.
    pub slot: u32,
    /// How the result may leave this rank.
    pub egress: Egress,
    /// No input has been combined yet: the operation's map of inputs still has to be applied by who folds it.
    pub raw: bool,
    /// The fold completes the reduction: averages divide here.
    pub finish: bool,
}

/// Where a step of some rank stands in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Whose program.
    pub rank: Rank,
    /// Waves after the slice enters.
    pub level: u32,
    /// Position within a wave.
    pub position: u32,
    /// Steps in that program.
    pub steps: u32,
}

impl Place {
    /// What the rank's program counter shows, counted from the call's start, when this step is done for `slice`.
    #[inline]
    pub fn done(&self, slice: u64) -> u64 {
        (slice + self.level as u64) * self.steps as u64 + self.position as u64 + 1
    }
}

/// An operand that knows its origin.
#[derive(Clone, Debug)]
pub enum Source {
    /// The rank's own input.
    Own,
    /// A peer's result.
    From {
        /// The step that makes it.
        place: Place,
        /// How it leaves that rank.
        egress: Egress,
        /// Its slots there begin at `slot * depth`.
        slot: u32,
        /// See [`LinkedStep::raw`].
        raw: bool,
        /// Blocks of that rank's buffers where the chunk lies, for reading it there.
        input: Option<u32>,
        /// As above, of its output.
        output: Option<u32>,
        /// The value may be written into this rank's output by the sender itself.
        push: Push,
    },
}

/// Who reads a step's result.
#[derive(Clone, Debug)]
pub struct Reader {
    /// The step that reads it.
    pub place: Place,
    /// May it be written into that rank's output directly?
    pub push: Push,
    /// The block of that rank's output where it belongs.
    pub output: Option<u32>,
}

/// How a result may leave its rank, beyond being staged in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Egress {
    /// It is the rank's untouched input: readers may take it from there.
    pub from_input: bool,
    /// That holds even if the call is in place: nothing overwrites the input before all have read it.
    pub from_input_in_place: bool,
    /// It is kept in the rank's output: readers may take it from there.
    pub from_output: bool,
}

/// Whether a sender may store a result straight into a reader's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Push {
    /// The reader does nothing but keep it.
    pub allowed: bool,
    /// That holds even if the reader's call is in place: by then nobody needs the input that it overwrites.
    pub in_place: bool,
}

/// How a value travels in one particular call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Staged in a slot of the sender.
    Slot,
    /// Read from the sender's input.
    Input,
    /// Read from the sender's output.
    Output,
    /// Written into the reader's output by the sender.
    Push,
}

/// What a rank says of its buffers when it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Buffers {
    /// The input lies where peers can read it.
    pub input_shared: bool,
    /// The output lies where peers can read and write it.
    pub output_shared: bool,
    /// Input and output overlap as the collective allows.
    pub in_place: bool,
}

/// The one rule by which sender and reader agree on the route without talking.
#[inline]
pub fn route(egress: Egress, push: Push, sender: Buffers, reader: Option<Buffers>) -> Route {
    if egress.from_input && sender.input_shared && (!sender.in_place || egress.from_input_in_place) {
        return Route::Input;
    }
    if let Some(reader) = reader
        && push.allowed
        && reader.output_shared
        && (!reader.in_place || push.in_place)
    {
        return Route::Push;
    }
    if egress.from_output && sender.output_shared { Route::Output } else { Route::Slot }
}

/// Beyond this many steps in all, the proofs for in-place zero-copy are not attempted and such calls are staged.
const CLOCKED: usize = 20_000;

/// Index of a step in the program of a rank.
type StepIndex = usize;

/// Everything about one step that linking finds out.
#[derive(Clone)]
struct Found {
    level: u32,
    position: u32,
    slot: u32,
    raw: bool,
    inputs: u32,
    /// Matching step of each operand that comes from a peer.
    makers: Vec<Option<(Rank, StepIndex)>>,
    /// Matching step of each entry of `to`.
    readers: Vec<(Rank, StepIndex)>,
}

/// Link `rank`'s program. `plans` holds all ranks' plans of one collective; they must have passed the checker.
pub fn link(plans: &[Plan], view: &View) -> Result<Linked, String> {
    let graph = Graph::new(plans, view)?;
    let rank = view.rank;
    let plan = &plans[rank as usize];
    let mut steps: Vec<LinkedStep> =
        (0..plan.steps.len()).map(|index| graph.linked_step(rank, index)).collect();
    let mut order: Vec<usize> = (0..steps.len()).collect();
    order.sort_by_key(|&i| graph.found[rank as usize][i].position);
    let mut taken: Vec<Option<LinkedStep>> = steps.drain(..).map(Some).collect();
    let steps = order.into_iter().map(|i| taken[i].take().expect("each once")).collect();
    let (slotless, slotless_in_place) = (graph.slotless(false), graph.slotless(true));
    let Graph { levels, slots, depth, .. } = graph;
    Ok(Linked { parts: plan.parts, steps, levels, slots, depth, slotless, slotless_in_place })
}

struct Graph<'a> {
    plans: &'a [Plan],
    view: &'a View,
    found: Vec<Vec<Found>>,
    /// clocks[r][i][q]: steps of rank q that are over when step i of rank r runs; empty when there are too many.
    clocks: Vec<Vec<Vec<u32>>>,
    levels: u32,
    slots: u32,
    depth: u32,
}

impl<'a> Graph<'a> {
    fn new(plans: &'a [Plan], view: &'a View) -> Result<Graph<'a>, String> {
        let n = plans.len();
        let mut found: Vec<Vec<Found>> = plans.iter().map(|p| vec![Found::blank(); p.steps.len()]).collect();
        match_messages(plans, &mut found)?;
        let clocks = run(plans, &mut found)?;
        let mut graph = Graph { plans, view, found, clocks, levels: 1, slots: 0, depth: 2 };
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

    /// Positions within a wave (higher levels first, program order within a level) and slots in program order.
    fn place(&mut self, r: usize) {
        let found = &mut self.found[r];
        let mut order: Vec<usize> = (0..found.len()).collect();
        order.sort_by_key(|&i| (std::cmp::Reverse(found[i].level), i));
        for (position, &i) in order.iter().enumerate() {
            found[i].position = position as u32;
            self.levels = self.levels.max(found[i].level + 1);
        }
        let mut slots = 0;
        for f in found.iter_mut().filter(|f| !f.readers.is_empty()) {
            f.slot = slots;
            slots += 1;
        }
        self.slots = self.slots.max(slots);
    }

    /// Does every value of every rank travel without a slot when all buffers are shared?
    fn slotless(&self, in_place: bool) -> bool {
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

    fn at(&self, rank: Rank) -> View {
        View { rank, ..self.view.clone() }
    }

    fn place_of(&self, rank: Rank, index: StepIndex) -> Place {
        let f = &self.found[rank as usize][index];
        Place {
            rank,
            level: f.level,
            position: f.position,
            steps: self.plans[rank as usize].steps.len() as u32,
        }
    }

    fn linked_step(&self, rank: Rank, index: StepIndex) -> LinkedStep {
        let step = &self.plans[rank as usize].steps[index];
        let f = &self.found[rank as usize][index];
        let here = self.at(rank);
        let operands = step
            .operands
            .iter()
            .zip(&f.makers)
            .map(|(operand, maker)| match (operand, maker) {
                (Operand::From(_), &Some((p, k))) => Source::From {
                    place: self.place_of(p, k),
                    egress: self.egress(p, k),
                    slot: self.found[p as usize][k].slot,
                    raw: self.found[p as usize][k].raw,
                    input: self.at(p).input_block(step.chunk.block),
                    output: self.at(p).output_block(step.chunk.block),
                    push: self.push((p, k), (rank, index)),
                },
                _ => Source::Own,
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
            raw: f.raw,
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
        Push { allowed, in_place: allowed && self.push_waits_for_input(p, k, q, reader.chunk) }
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

/// The input block that shares its memory with output block `output` when a call is in place.
fn in_place_input(view: &View, output: u32) -> Option<u32> {
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

/// Run all programs in dependency order: levels, raw values, inputs folded, and clocks.
fn run(plans: &[Plan], found: &mut [Vec<Found>]) -> Result<Vec<Vec<Vec<u32>>>, String> {
    let n = plans.len();
    let total: usize = plans.iter().map(|p| p.steps.len()).sum();
    let clocked = total * n <= CLOCKED * 64 && total <= CLOCKED;
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
