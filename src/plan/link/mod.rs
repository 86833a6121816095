//! Links one rank's plan to those of its peers: which step waits for which steps of other ranks.
//!
//! Plans are pure, so every rank can compute every other rank's program. A message therefore needs no address and no
//! envelope: the receiver knows which step of the sender makes it, and the sender knows which step of each receiver
//! uses it up. All that ranks tell each other is how far they have come.
//!
//! Levels depend on all programs. Where an algorithm declares that these are alike ([`Alike`]), one of them tells the levels
//! of all, and a rank computes its own program and at most those of its peers (`alike`). Otherwise all programs are
//! computed, one after the other, and a few bytes of each step are kept (`graph`).
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

mod alike;
mod graph;
#[cfg(all(test, not(loom)))]
mod oracle;
mod proofs;
mod steps;
mod swap;
#[cfg(all(test, not(loom)))]
mod tests;

pub use alike::Alike;
pub use swap::Swap;

use super::{Chunk, Operand, Plan, RankView};
use crate::types::{Collective, Rank};
use graph::Graph;
use proofs::Proofs;
use steps::{KEEPS, RAW, SENDS, SINGLE, StepIndex, Steps};

/// A rank's program with every dependency made explicit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    /// Parts a block is divided into.
    pub parts: u32,
    /// The steps in the order in which a wave runs them.
    pub steps: Vec<LinkedStep>,
    /// Steps of the longest program among this rank's and those of its partners. Where a sender stores into its reader's output, both find the same.
    pub longest: u64,
    /// Waves that one slice takes.
    pub levels: u32,
    /// Slots that the rank with the most sends needs for one slice.
    pub slots: u32,
    /// Slots that the rank with the most results to send needs for one slice; a rank's unchanged input is no result. Slots of results
    /// have lower numbers than slots of inputs.
    pub result_slots: u32,
    /// Slices of one send that may be under way at once.
    pub depth: u32,
    /// No rank stages anything if all buffers are shared.
    pub slotless: bool,
    /// No rank stages anything if all buffers are shared, even if the call is in place.
    pub slotless_in_place: bool,
    /// No rank stages anything if all inputs are shared and no rank's call is in place.
    pub slotless_by_inputs: bool,
    /// No rank stages its input if all inputs are shared, even if the call is in place.
    pub inputs_stay_in_place: bool,
    /// The slots that two ranks write where they have read last.
    pub swap: Swap,
}

/// Returns the steps of the longest program among a rank's and those of its partners.
fn longest_program(steps: &[LinkedStep]) -> u64 {
    let partners = steps.iter().flat_map(|step| {
        let makers = step.operands.iter().filter_map(|operand| match operand {
            OperandSource::From { place, .. } => Some(place),
            OperandSource::Own => None,
        });
        makers.chain(step.readers.iter().map(|reader| &reader.place))
    });
    partners.map(|place| place.steps.into()).fold(steps.len() as u64, u64::max)
}

/// A step that knows its partners.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    pub operands: Vec<OperandSource>,
    /// The readers of the result.
    pub readers: Vec<Reader>,
    /// This rank's slots for the result begin at `slot * depth`.
    pub slot: u32,
    /// The ways in which the result may leave this rank.
    pub egress: Egress,
    /// The fold completes the reduction: averages divide here.
    pub finish: bool,
}

/// The position of a step in its rank's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepPlace {
    /// The rank of the program.
    pub rank: Rank,
    /// Waves after the slice enters.
    pub level: u32,
    /// Position within a wave.
    pub position: u32,
    /// Steps in that program.
    pub steps: u32,
}

impl StepPlace {
    /// Returns the value of the rank's program counter, counted from the call's start, when this step is done for `slice`.
    #[inline]
    pub fn done(&self, slice: u64) -> u64 {
        (slice + self.level as u64) * self.steps as u64 + self.position as u64 + 1
    }
}

/// An operand that knows its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperandSource {
    /// The rank's own input.
    Own,
    /// A peer's result.
    From {
        /// The step that makes it.
        place: StepPlace,
        /// The ways in which the result may leave that rank.
        egress: Egress,
        /// Its slots there begin at `slot * depth`.
        slot: u32,
        /// No input has been combined yet: the reader that folds it applies the operation's map of inputs.
        raw: bool,
        /// Blocks of that rank's buffers where the chunk lies, for reading it there.
        input: Option<u32>,
        /// As above, of its output.
        output: Option<u32>,
        /// The value may be written into this rank's output by the sender itself.
        push: Push,
    },
}

/// A reader of a step's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    /// The step that reads it.
    pub place: StepPlace,
    /// May it be written into that rank's output directly?
    pub push: Push,
    /// The block of that rank's output where it belongs.
    pub output: Option<u32>,
}

/// The ways in which a result may leave its rank other than by a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Egress {
    /// The result is the rank's untouched input, and readers may take it from there.
    pub from_input: bool,
    /// `from_input` holds even if the call is in place: nothing overwrites the input before all readers have read it.
    pub from_input_in_place: bool,
    /// The result is kept in the rank's output, and readers may take it from there.
    pub from_output: bool,
}

/// Whether a sender may store a result straight into a reader's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Push {
    /// The reader does nothing but keep it.
    pub allowed: bool,
    /// This holds even if the reader's call is in place: by then no rank needs the input that is overwritten.
    pub in_place: bool,
    /// The sender stores it also where the reader could take it from the sender's buffers: one rank is sent the data of all, and alone
    /// would copy them one after the other (docs/decisions/0102).
    pub preferred: bool,
}

/// The route of a value in one particular call.
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

/// The facts that a rank announces about its buffers when it arrives.
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
    let may_push = reader
        .is_some_and(|reader| push.allowed && reader.output_shared && (!reader.in_place || push.in_place));
    if may_push && push.preferred {
        return Route::Push;
    }
    if egress.from_input && sender.input_shared && (!sender.in_place || egress.from_input_in_place) {
        return Route::Input;
    }
    if may_push {
        return Route::Push;
    }
    if egress.from_output && sender.output_shared { Route::Output } else { Route::Slot }
}

/// Links the program of the view's rank. `program` gives the program of any rank; all together must have passed the checker,
/// and be alike as declared.
pub fn link(view: &RankView, alike: Alike, program: &dyn Fn(&RankView) -> Plan) -> Result<Linked, String> {
    link_with(view, alike, program, proofs::MOST)
}

/// As [`link`]; calls in place are looked at where there are no more than `most` steps in all.
fn link_with(
    view: &RankView,
    alike: Alike,
    program: &dyn Fn(&RankView) -> Plan,
    most: usize,
) -> Result<Linked, String> {
    let plan = program(view);
    let few = Proofs::fit(plan.steps.len() * view.nranks as usize, view.nranks, most);
    if alike != Alike::No && !few {
        let (steps, ties) = alike::find(view, alike, &plan, program)?;
        let gap = ties.widest_gap(&steps);
        return Ok(Linking { view, plan: &plan, steps: &steps, ties: &ties, proofs: None }.linked(gap));
    }
    Ok(of_graph(view, &plan, &Graph::new(view, program, most)?))
}

/// Returns the program of the view's rank with what the graph of all programs tells.
fn of_graph(view: &RankView, plan: &Plan, graph: &Graph) -> Linked {
    let (steps, ties, proofs) = (&graph.steps, &graph.ties(view.rank), graph.proofs.as_ref());
    let linked = Linking { view, plan, steps, ties, proofs }.linked(graph.widest_gap());
    Linked { swap: Swap::of(graph, view.nranks), ..linked }
}

/// The ties of one rank's program to its peers, by step.
struct Ties {
    /// The steps that make the operands which come from peers, in their order.
    makers: Vec<Vec<StepIndex>>,
    /// The steps that take the result, in the order of their ranks.
    readers: Vec<Vec<StepIndex>>,
}

impl Ties {
    /// Levels between the two ends of a message, at most, where the programs of all ranks are alike.
    fn widest_gap(&self, steps: &Steps) -> u32 {
        let level = |index: u32| u32::from(steps.level[index as usize]);
        let gaps = (0..)
            .zip(&self.makers)
            .flat_map(|(index, makers)| makers.iter().map(move |&(_, maker)| level(index) - level(maker)));
        gaps.max().unwrap_or(0)
    }
}

/// All that a linked program is made of.
struct Linking<'a> {
    view: &'a RankView,
    plan: &'a Plan,
    steps: &'a Steps,
    ties: &'a Ties,
    proofs: Option<&'a Proofs>,
}

impl Linking<'_> {
    fn linked(&self, gap: u32) -> Linked {
        let rank = self.view.rank;
        let mut order: Vec<u32> = (0..self.plan.steps.len() as u32).collect();
        order.sort_by_key(|&index| std::cmp::Reverse(self.steps.level[self.steps.id((rank, index))]));
        let from_input_in_place = |id| {
            let of_all = self.proofs.is_some();
            of_all && self.outlives(self.steps.at(id as u32))
        };
        let (slots, result_slots) = self.steps.slots();
        let steps: Vec<LinkedStep> = order.into_iter().map(|index| self.step(index)).collect();
        Linked {
            parts: self.plan.parts,
            longest: longest_program(&steps),
            steps,
            levels: self.steps.levels(),
            slots,
            result_slots,
            // Sender and reader are never in one wave, and the reader of the last slice is a wave behind.
            depth: (gap + 1).max(2),
            slotless: self.steps.slotless(|_| true),
            slotless_in_place: self.steps.slotless(from_input_in_place),
            slotless_by_inputs: self.steps.slotless_by_inputs(),
            inputs_stay_in_place: self.steps.inputs_stay(from_input_in_place),
            swap: Swap::Nothing,
        }
    }

    fn step(&self, index: u32) -> LinkedStep {
        let (step, at) = (&self.plan.steps[index as usize], (self.view.rank, index));
        let mut makers = self.ties.makers[index as usize].iter();
        let operands = step.operands.iter().map(|operand| match (operand, makers.as_slice().first()) {
            (Operand::From(_), Some(&maker)) => {
                makers.next();
                self.source(maker, at, step.chunk)
            }
            _ => OperandSource::Own,
        });
        let operands = operands.collect();
        let readers = self.ties.readers[index as usize].iter().map(|&reader| Reader {
            place: self.steps.place(reader),
            push: self.push(at, reader, step.chunk),
            output: self.view.of(reader.0).output_block(step.chunk.block),
        });
        LinkedStep {
            chunk: step.chunk,
            input: self.view.input_block(step.chunk.block),
            keep: if step.keep { self.view.output_block(step.chunk.block) } else { None },
            level: u32::from(self.steps.level[self.steps.id(at)]),
            operands,
            readers: readers.collect(),
            slot: self.steps.slot(at),
            egress: self.egress(at),
            finish: self.view.collective.reduces()
                && u32::from(self.steps.inputs[self.steps.id(at)]) == self.view.nranks
                && (step.operands.len() > 1 || self.view.nranks == 1),
        }
    }

    fn source(&self, maker: StepIndex, reader: StepIndex, chunk: Chunk) -> OperandSource {
        let there = self.view.of(maker.0);
        OperandSource::From {
            place: self.steps.place(maker),
            egress: self.egress(maker),
            slot: self.steps.slot(maker),
            raw: self.steps.is(maker, RAW),
            input: there.input_block(chunk.block),
            output: there.output_block(chunk.block),
            push: self.push(maker, reader, chunk),
        }
    }

    fn egress(&self, at: StepIndex) -> Egress {
        let from_input = self.steps.forwards_own(at);
        Egress {
            from_input,
            from_input_in_place: from_input && self.outlives(at),
            from_output: self.steps.is(at, KEEPS),
        }
    }

    fn outlives(&self, at: StepIndex) -> bool {
        self.proofs.is_some_and(|proofs| proofs.input_outlives_its_readers(self.view, at))
    }

    fn push(&self, maker: StepIndex, reader: StepIndex, chunk: Chunk) -> Push {
        let allowed =
            self.steps.is(reader, KEEPS) && self.steps.is(reader, SINGLE) && !self.steps.is(reader, SENDS);
        let in_place = match self.proofs {
            Some(proofs) => allowed && proofs.push_waits_for_input(self.view, maker, reader.0, chunk),
            None => allowed && proofs::input_under(&self.view.of(reader.0), chunk).is_none(),
        };
        Push { allowed, in_place, preferred: self.view.collective == Collective::Gather }
    }
}
