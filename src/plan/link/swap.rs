//! Whether two ranks write their slots where they have read last (docs/decisions/0076).

use super::graph::Graph;
use super::steps::SENDS;
use super::{StepIndex, Ties};
use crate::types::Rank;

/// Which slots of a program of two ranks take each other's places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Swap {
    /// None: each slot lies in its maker's memory.
    #[default]
    Nothing,
    /// Those of inputs: each rank sends its own to the other, which takes it one wave later, and nothing else. They lie in the maker's and
    /// in the reader's memory by turns.
    Inputs,
    /// Those of results: each rank sends its own input, the other makes one result of it a wave later, and sends that back. The result is
    /// written over the input.
    Results,
}

/// What a rank sends: the steps whose results, and whose unchanged input, go to the other rank, if it is one each at most.
struct Sent {
    input: Option<StepIndex>,
    result: Option<StepIndex>,
}

impl Swap {
    /// Returns whose memory a slot of `maker` takes, and which slot there. `results`: slots of results of each rank, which have the first
    /// numbers; `round`: how often its places have been used before.
    #[inline]
    pub fn place(self, results: u32, maker: Rank, slot: u32, round: u64) -> (Rank, u32) {
        match self {
            Swap::Inputs => (maker ^ (round % 2) as Rank, slot),
            // There is one result, and behind it one input.
            Swap::Results if slot < results => (maker ^ 1, results),
            Swap::Nothing | Swap::Results => (maker, slot),
        }
    }

    /// Returns what the programs of all ranks allow. Where they have too many steps for proofs, they are not asked.
    pub(super) fn of(graph: &Graph, nranks: u32) -> Swap {
        let all = || [0, 1].map(|rank| graph.ties(rank));
        let is_asked = nranks == 2 && graph.proofs.is_some();
        if is_asked { Swap::of_two(graph, &all()).unwrap_or_default() } else { Swap::Nothing }
    }

    fn of_two(graph: &Graph, ties: &[Ties; 2]) -> Option<Swap> {
        let sent = [sent(graph, 0)?, sent(graph, 1)?];
        let level = |at: StepIndex| graph.steps.level[graph.steps.id(at)];
        // The one reader of what a step sends, if that runs a wave later.
        let reader = |at: StepIndex| match ties[at.0 as usize].readers[at.1 as usize][..] {
            [only] if only.0 != at.0 && level(only) == level(at) + 1 => Some(only),
            _ => None,
        };
        let inputs = [sent[0].input?, sent[1].input?];
        if inputs.iter().any(|&input| level(input) != 0) {
            return None;
        }
        let readers = [reader(inputs[0])?, reader(inputs[1])?];
        match [sent[0].result, sent[1].result] {
            [None, None] => Some(Swap::Inputs),
            // Each is made of the other rank's input, and of nothing else that comes from there.
            [Some(first), Some(second)] if readers == [second, first] => {
                let from_one = |at: StepIndex| ties[at.0 as usize].makers[at.1 as usize].len() == 1;
                let each = |at: StepIndex| from_one(at) && reader(at).is_some();
                (each(first) && each(second)).then_some(Swap::Results)
            }
            _ => None,
        }
    }
}

/// Returns what a rank sends; `None`: more than one input or result.
fn sent(graph: &Graph, rank: Rank) -> Option<Sent> {
    let mut sent = Sent { input: None, result: None };
    let steps = 0..graph.steps.range(rank).len() as u32;
    for at in steps.map(|index| (rank, index)).filter(|&at| graph.steps.is(at, SENDS)) {
        let place = if graph.steps.forwards_own(at) { &mut sent.input } else { &mut sent.result };
        if place.replace(at).is_some() {
            return None;
        }
    }
    Some(sent)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::algorithms::{self, ALL};
    use crate::plan::RankView;
    use crate::plan::link::{Linked, LinkedStep, OperandSource, Reader, link};
    use crate::types::Collective;
    use std::collections::HashMap;

    /// The linked programs of two ranks by every algorithm that serves the collective.
    fn programs(collective: Collective) -> impl Iterator<Item = (&'static str, [Linked; 2])> {
        let able = move |rank| RankView::flat(collective, rank, 2, 0);
        ALL.iter().filter(move |a| a.serves.contains(&collective) && a.refuses(&able(0)).is_none()).map(
            move |a| {
                let linked = |rank| {
                    let (view, program) = (able(rank), |view: &RankView| algorithms::plan(a, view));
                    link(&view, algorithms::alike(a, &view), &program).expect("it links")
                };
                (a.name, [0, 1].map(linked))
            },
        )
    }

    fn swap(collective: Collective, name: &str) -> Swap {
        let (_, linked) = programs(collective).find(|(other, _)| *other == name).expect("it serves that");
        linked[0].swap
    }

    #[test]
    fn what_two_ranks_swap_follows_from_what_they_send() {
        for (collective, name, expected) in [
            (Collective::AllReduce, "two_shot", Swap::Results),
            (Collective::AllReduce, "ring", Swap::Results),
            (Collective::AllReduce, "one_shot", Swap::Inputs),
            (Collective::AllReduce, "tree", Swap::Results),
            (Collective::ReduceScatter, "two_shot", Swap::Inputs),
            (Collective::AllGather, "two_shot", Swap::Inputs),
            (Collective::AlltoAll, "pairwise", Swap::Inputs),
            (Collective::Reduce, "two_shot", Swap::Nothing),
            (Collective::Broadcast, "two_shot", Swap::Nothing),
            (Collective::Gather, "one_shot", Swap::Nothing),
        ] {
            assert_eq!(swap(collective, name), expected, "{collective} by {name}");
        }
    }

    /// One rank of the model: the steps of its program, wave by wave.
    struct Model<'a> {
        linked: &'a Linked,
        next: usize,
        counter: u64,
    }

    const SLICES: u64 = 9;

    impl<'a> Model<'a> {
        /// The next step, its slice, and the counter that tells of it.
        fn step(&self) -> Option<(&'a LinkedStep, Option<u64>, u64)> {
            let steps = self.linked.steps.len();
            let (wave, position) = ((self.next / steps) as u64, self.next % steps);
            let step = &self.linked.steps[position];
            let slice = wave.checked_sub(u64::from(step.level)).filter(|&slice| slice < SLICES);
            (wave < SLICES + u64::from(self.linked.levels) - 1).then_some((step, slice, self.next as u64 + 1))
        }
    }

    /// The contents of the staging memory. Key: owner of the memory, slot, index below `depth`. Value: maker of the data, its slot, the slice.
    type Memory = HashMap<(Rank, u32, u64), (Rank, u32, u64)>;

    /// Runs both programs, each step when all that it waits for is there, in an order that follows from the seed. Each input or result is
    /// staged or not, as ranks with private and shared buffers do. Returns whether each reader found what it was to read.
    fn runs(name: &str, linked: &[Linked; 2], seed: u64, first_round: u64) -> Result<(), String> {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut draw = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        let depth = u64::from(linked[0].depth);
        let is_staged: [[bool; 2]; 2] = [[0, 1].map(|_| draw() % 4 > 0), [0, 1].map(|_| draw() % 4 > 0)];
        let stages = |maker: Rank, slot: u32| {
            let kind = (slot < linked[0].result_slots) as usize;
            is_staged[maker as usize][kind]
        };
        let place = |maker: Rank, slot: u32, slice: u64| {
            let round = first_round + slice / depth;
            let (owner, slot) = linked[0].swap.place(linked[0].result_slots, maker, slot, round);
            (owner, slot, slice % depth)
        };
        let mut memory = Memory::new();
        let mut ranks = [0, 1].map(|rank: usize| Model { linked: &linked[rank], next: 0, counter: 0 });
        while ranks.iter().any(|rank| rank.step().is_some()) {
            let me = (draw() % 2) as usize;
            let (counter_there, rank) = (ranks[1 - me].counter, &mut ranks[me]);
            let Some((step, slice, counter)) = rank.step() else { continue };
            let Some(slice) = slice else {
                rank.next += 1;
                continue;
            };
            let sent = |operand: &OperandSource| match operand {
                OperandSource::Own => None,
                OperandSource::From { place, slot, .. } => Some((place.done(slice), *slot)),
            };
            let is_there =
                |operand: &OperandSource| sent(operand).is_none_or(|(done, _)| counter_there >= done);
            let is_read =
                |reader: &Reader| slice < depth || counter_there >= reader.place.done(slice - depth);
            if !step.operands.iter().all(is_there) {
                continue;
            }
            let writes = !step.readers.is_empty() && stages(me as Rank, step.slot);
            if writes && !step.readers.iter().all(is_read) {
                continue;
            }
            for (_, slot) in step.operands.iter().filter_map(sent) {
                let maker = 1 - me as Rank;
                if stages(maker, slot)
                    && memory.get(&place(maker, slot, slice)) != Some(&(maker, slot, slice))
                {
                    return Err(format!("{name}: rank {me} lost slot {slot} of slice {slice}, seed {seed}"));
                }
            }
            if writes {
                memory.insert(place(me as Rank, step.slot, slice), (me as Rank, step.slot, slice));
            }
            rank.next += 1;
            rank.counter = counter;
        }
        Ok(())
    }

    #[test]
    fn no_slot_is_overwritten_before_it_is_read_in_whatever_order_two_ranks_run() {
        for &collective in Collective::ALL {
            for (name, linked) in programs(collective) {
                assert_eq!(linked[0].swap, linked[1].swap, "{collective} by {name}");
                for seed in 1..400 {
                    let found = runs(name, &linked, seed, seed % 2);
                    assert_eq!(found, Ok(()), "{collective}");
                }
            }
        }
    }
}
