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

mod graph;

use super::{Chunk, Plan, View};
use crate::types::Rank;
use graph::Graph;

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
