//! What linking knows of every step, in a few bytes each: its level, its marks, how many inputs its result holds.
//!
//! ```text
//!     programs that differ       rank 0 | rank 1   | rank 2        one range of the columns for each rank
//!     programs that are alike    ranks 0, 1 and 2                  one range for all of them
//! ```

use super::StepPlace;
use crate::plan::{Operand, Step};
use crate::types::Rank;
use std::ops::Range;

/// The result is an input that nothing has been combined with.
pub(super) const RAW: u8 = 1;
/// The own input is an operand.
pub(super) const OWN: u8 = 2;
/// There is one operand.
pub(super) const SINGLE: u8 = 4;
/// The result is kept in the output.
pub(super) const KEEPS: u8 = 8;
/// The result is passed on.
pub(super) const SENDS: u8 = 16;

/// Steps whose passing on is counted at a time.
const STRIDE: usize = 64;

/// Numbers of steps that pass on a result, or the rank's own input unchanged.
#[derive(Clone, Copy, Default)]
struct Sends {
    results: u32,
    inputs: u32,
}

impl Sends {
    fn of(marks: &[u8]) -> Sends {
        marks.iter().filter(|&&marks| marks & SENDS != 0).fold(Sends::default(), |sends, &marks| {
            match passes_input(marks) {
                true => Sends { inputs: sends.inputs + 1, ..sends },
                false => Sends { results: sends.results + 1, ..sends },
            }
        })
    }

    fn plus(self, other: Sends) -> Sends {
        Sends { results: self.results + other.results, inputs: self.inputs + other.inputs }
    }

    fn without(self, other: Sends) -> Sends {
        Sends { results: self.results - other.results, inputs: self.inputs - other.inputs }
    }
}

/// Tells whether a step with these marks passes on the rank's own input unchanged.
fn passes_input(marks: u8) -> bool {
    marks & (OWN | SINGLE) == OWN | SINGLE
}

/// The index of a step in the program of a rank.
pub(super) type StepIndex = (Rank, u32);

/// The columns.
#[derive(Default)]
pub(super) struct Steps {
    /// The range of each rank, or of all ranks alike.
    pub(super) ranges: Vec<Range<u32>>,
    pub(super) level: Vec<u16>,
    pub(super) marks: Vec<u8>,
    pub(super) inputs: Vec<u16>,
    /// What is passed on before each stride.
    sent: Vec<Sends>,
}

/// Returns the marks of a step that can be seen from the step alone.
pub(super) fn marks(step: &Step) -> u8 {
    let mark = |yes: bool, bit: u8| if yes { bit } else { 0 };
    mark(step.operands.contains(&Operand::Own), OWN)
        | mark(step.operands.len() == 1, SINGLE)
        | mark(step.keep, KEEPS)
        | mark(!step.to.is_empty(), SENDS)
}

impl Steps {
    /// Returns the columns' range of a rank.
    pub(super) fn range(&self, rank: Rank) -> Range<usize> {
        let range = &self.ranges[if self.ranges.len() == 1 { 0 } else { rank as usize }];
        range.start as usize..range.end as usize
    }

    /// Returns the index of a step in the columns.
    pub(super) fn id(&self, (rank, index): StepIndex) -> usize {
        self.range(rank).start + index as usize
    }

    /// Returns the step that stands there, where every rank has a range of its own.
    pub(super) fn at(&self, id: u32) -> StepIndex {
        let rank = self.ranges.partition_point(|range| range.end <= id);
        (rank as Rank, id - self.ranges[rank].start)
    }

    /// Tells whether the mark is set.
    pub(super) fn is(&self, at: StepIndex, mark: u8) -> bool {
        self.marks[self.id(at)] & mark != 0
    }

    /// Is the result the rank's own input as it is?
    pub(super) fn forwards_own(&self, at: StepIndex) -> bool {
        passes_input(self.marks[self.id(at)])
    }

    /// Finds level, inputs and rawness of a step from those of the steps that its operands come from, all of which have been
    /// found, as those of the step before it have. An error names no step: the caller knows which.
    pub(super) fn find(&mut self, id: usize, first: usize, makers: &[u32]) -> Result<(), String> {
        let mut level = if id > first { u32::from(self.level[id - 1]) } else { 0 };
        let mut inputs = u32::from(self.marks[id] & OWN != 0);
        for &maker in makers {
            level = level.max(u32::from(self.level[maker as usize]) + 1);
            inputs += u32::from(self.inputs[maker as usize]);
        }
        let raw = self.marks[id] & SINGLE != 0
            && makers.first().is_none_or(|&maker| self.marks[maker as usize] & RAW != 0);
        self.level[id] = u16::try_from(level).map_err(|_| "a value takes more than 65535 hops")?;
        self.inputs[id] = inputs.min(u32::from(u16::MAX)) as u16;
        self.marks[id] |= if raw { RAW } else { 0 };
        Ok(())
    }

    /// Counts what is passed on, so that [`Steps::slot`] can tell; when all marks are there.
    pub(super) fn count_sends(&mut self) {
        let mut sent = Sends::default();
        self.sent = Vec::with_capacity(self.marks.len().div_ceil(STRIDE) + 1);
        for stride in self.marks.chunks(STRIDE) {
            self.sent.push(sent);
            sent = sent.plus(Sends::of(stride));
        }
        self.sent.push(sent);
    }

    fn sent_before(&self, id: usize) -> Sends {
        let stride = id / STRIDE;
        let before = self.sent.get(stride).copied().unwrap_or_default();
        before.plus(Sends::of(&self.marks[stride * STRIDE..id]))
    }

    /// Which of its rank's slots a step has that passes its result on; else 0. Results come first: inputs need none where peers reach
    /// them.
    pub(super) fn slot(&self, at: StepIndex) -> u32 {
        if !self.is(at, SENDS) {
            return 0;
        }
        let range = self.range(at.0);
        let first = self.sent_before(range.start);
        let before = self.sent_before(self.id(at)).without(first);
        match self.forwards_own(at) {
            true => self.sent_before(range.end).without(first).results + before.inputs,
            false => before.results,
        }
    }

    /// Where a step stands within a wave: higher levels first, then the program's order. Levels never fall along a program,
    /// so the steps of one level follow each other.
    pub(super) fn place(&self, at: StepIndex) -> StepPlace {
        let (rank, index) = at;
        let levels = &self.level[self.range(rank)];
        let level = levels[index as usize];
        let lower = levels.partition_point(|&other| other < level) as u32;
        let not_higher = levels.partition_point(|&other| other <= level) as u32;
        let steps = levels.len() as u32;
        StepPlace { rank, level: u32::from(level), position: steps - not_higher + index - lower, steps }
    }

    /// Waves that a slice takes.
    pub(super) fn levels(&self) -> u32 {
        self.level.iter().map(|&level| u32::from(level) + 1).max().unwrap_or(1)
    }

    /// Slots of the rank that passes on most, and of the one that passes on most results.
    pub(super) fn slots(&self) -> (u32, u32) {
        let sends = self.ranges.iter().map(|r| Sends::of(&self.marks[r.start as usize..r.end as usize]));
        sends.fold((0, 0), |(all, results), sends| {
            (all.max(sends.results + sends.inputs), results.max(sends.results))
        })
    }

    /// Tells whether peers take every unchanged input from where it lies; `from_input` tells whether they may take that of a step.
    pub(super) fn inputs_stay(&self, mut from_input: impl FnMut(usize) -> bool) -> bool {
        self.marks
            .iter()
            .enumerate()
            .all(|(id, &marks)| marks & SENDS == 0 || !passes_input(marks) || from_input(id))
    }

    /// Does every result leave its rank from the output, or from the input where `from_input` says that it may?
    pub(super) fn slotless(&self, mut from_input: impl FnMut(usize) -> bool) -> bool {
        self.marks.iter().enumerate().all(|(id, &marks)| {
            marks & SENDS == 0 || marks & KEEPS != 0 || passes_input(marks) && from_input(id)
        })
    }

    /// Does every result that leaves its rank lie in the input?
    pub(super) fn slotless_by_inputs(&self) -> bool {
        self.marks.iter().all(|&marks| marks & SENDS == 0 || passes_input(marks))
    }
}
