//! What calls in place may do without a slot, proved by what is over when: for programs that are few and short.
//!
//! In place, an input's memory is an output's too. A reader may take an input where it lies, and a sender may store a result
//! in a reader's output, if no rank needs the overwritten input any more by then.

use super::steps::{StepIndex, Steps};
use crate::plan::{Chunk, Operand, Plan, RankView};
use crate::types::{Collective, Rank};

/// Steps in all, beyond which nothing is proved and calls in place are staged.
pub(super) const MOST: usize = 20_000;
/// Numbers in all clocks, for each step that may be.
const RANKS_AT_MOST: usize = 64;

/// All programs, and when what is over.
pub(super) struct Proofs {
    plans: Vec<Plan>,
    /// For each step and rank, how many steps of that rank are over when the step runs.
    clocks: Vec<u32>,
    /// For each step, the steps that take its result.
    readers: Vec<Vec<StepIndex>>,
    /// The number of each rank's first step.
    first: Vec<usize>,
}

impl Proofs {
    /// Tells whether `steps` steps are few enough for proofs. `most` is [`MOST`], except in tests.
    pub(super) fn fit(steps: usize, nranks: u32, most: usize) -> bool {
        steps <= most && steps * nranks as usize <= most * RANKS_AT_MOST
    }

    pub(super) fn new(plans: Vec<Plan>, steps: usize) -> Proofs {
        let mut first = Vec::with_capacity(plans.len());
        let mut before = 0;
        for plan in &plans {
            first.push(before);
            before += plan.steps.len();
        }
        Proofs { clocks: vec![0; steps * plans.len()], readers: vec![Vec::new(); steps], first, plans }
    }

    fn id(&self, (rank, index): StepIndex) -> usize {
        self.first[rank as usize] + index as usize
    }

    /// Steps of `rank` that are over when the step runs.
    fn over(&self, at: StepIndex, rank: Rank) -> u32 {
        self.clocks[self.id(at) * self.plans.len() + rank as usize]
    }

    /// A step has run, after the makers of its operands.
    pub(super) fn ran(&mut self, steps: &Steps, at: StepIndex, makers: &[u32]) {
        let n = self.plans.len();
        let id = self.id(at);
        if at.1 > 0 {
            self.clocks.copy_within((id - 1) * n..id * n, id * n);
        }
        for &maker in makers {
            let maker = maker as usize;
            let (low, high) = self.clocks.split_at_mut(maker.max(id) * n);
            let (clock, other) = if maker < id {
                (&mut high[..n], &low[maker * n..(maker + 1) * n])
            } else {
                (&mut low[id * n..(id + 1) * n], &high[..n])
            };
            for (over, other) in clock.iter_mut().zip(other) {
                *over = (*over).max(*other);
            }
            let (rank, index) = steps.at(maker as u32);
            clock[rank as usize] = clock[rank as usize].max(index + 1);
        }
        self.clocks[id * n + at.0 as usize] = at.1;
    }

    /// All messages: reader and maker.
    pub(super) fn find_readers(&mut self, messages: impl Iterator<Item = (StepIndex, StepIndex)>) {
        for (reader, maker) in messages {
            let id = self.id(maker);
            self.readers[id].push(reader);
        }
    }

    /// In place, the input that the step passes on is the memory of an output chunk. Is it overwritten only after every
    /// reader has read it?
    pub(super) fn input_outlives_its_readers(&self, view: &RankView, at: StepIndex) -> bool {
        let (rank, index) = at;
        let here = view.of(rank);
        let steps = &self.plans[rank as usize].steps;
        let chunk = steps[index as usize].chunk;
        let Some(block) = here.input_block(chunk.block) else { return true };
        (0..).zip(steps).all(|(writer, step)| {
            let overwrites = step.keep
                && step.chunk.part == chunk.part
                && here
                    .output_block(step.chunk.block)
                    .is_some_and(|output| in_place_input(&here, output) == Some(block));
            !overwrites
                || writer == index
                || self.readers[self.id(at)].iter().all(|&(q, j)| self.over((rank, writer), q) > j)
        })
    }

    /// May the step overwrite, at rank q, the input that shares its memory with q's output chunk `c`? Only if every use of
    /// that input is over by then, or is the step itself, which reads an element before it writes it.
    pub(super) fn push_waits_for_input(&self, view: &RankView, maker: StepIndex, q: Rank, c: Chunk) -> bool {
        let there = view.of(q);
        let Some(input) = input_under(&there, c) else { return true };
        let over = |at: StepIndex| at == maker || self.over(maker, at.0) > at.1;
        (0..).zip(&self.plans[q as usize].steps).all(|(i, step)| {
            let uses = step.operands.contains(&Operand::Own)
                && step.chunk.part == c.part
                && there.input_block(step.chunk.block) == Some(input);
            !uses || (over((q, i)) && self.readers[self.id((q, i))].iter().all(|&reader| over(reader)))
        })
    }
}

/// Returns the input block whose memory is overwritten in place when the view's rank keeps a chunk.
pub(super) fn input_under(view: &RankView, chunk: Chunk) -> Option<u32> {
    view.output_block(chunk.block).and_then(|output| in_place_input(view, output))
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
