//! A collective of all ranks of a communicator, whose calls one thread makes together.
//!
//! ```text
//!     input of rank 0 ---+                       +---> output of rank 0
//!     input of rank 1 ---+--- fold, by pieces ---+---> output of rank 1        all-reduce
//!     input of rank 2 ---+                       +---> output of rank 2
//! ```
//!
//! All buffers are memory of this process, and no rank can be late. So nothing is sent: one pass reads each input once and writes each
//! output once. The ranks agree where their arguments do; else, or if another call is inside one of the communicators, the calls take the
//! usual way, which also words the errors. Inputs are folded in the order of the ranks, as by the algorithms in whose place this is done, so the bits are the same
//! (docs/decisions/0077).

use super::batch::{Queued, is_heavy};
use super::shares;
use crate::comm::calls::collective::Call;
use crate::comm::communicator::CommCore;
use crate::comm::registry::{self, CommHandle, Entry, Occupant};
use crate::kernels::{self, Dest, Fold, FoldSource};
use crate::memory::view::Payload;
use crate::transport::Transport;
use crate::types::Collective;
use std::ops::Range;

/// The most ranks.
pub(in crate::comm) const MOST_RANKS: usize = 16;
/// The most bytes of all vectors together. Of more, outputs that were written around the caches are there sooner.
pub(in crate::comm) const MOST_BYTES: usize = 64 << 20;
/// The most bytes of all vectors where each rank has several cores, whose threads move more (docs/decisions/0026).
const MOST_WITH_CORES_LEFT: usize = 1 << 20;
/// The most bytes of all vectors of a group on streams that `pennyGroupEnd` makes before it returns.
pub(in crate::comm) const MOST_AT_A_GROUPS_END: usize = 2 << 20;
/// Bytes that are copied to one output after the other.
const COPIED_AT_ONCE: usize = 8 << 10;
/// Vectors of no more bytes are folded into one output and copied from there.
const SHORT: usize = 4 << 10;

/// A rank's call, and the thread inside its communicator.
struct RankCall {
    inside: Occupant,
    buffers: [Payload<'static>; 2],
}

/// Makes the calls in one pass, if their vectors have `most` bytes together at most. Returns false if it has done nothing.
pub(in crate::comm) fn make<'c>(
    calls: impl ExactSizeIterator<Item = Option<(CommHandle, &'c Call<'static>)>>,
    entry: Entry,
    most: usize,
) -> bool {
    match calls.len() {
        2 => try_make::<2>(calls, entry, most),
        3..=4 => try_make::<4>(calls, entry, most),
        5..=MOST_RANKS => try_make::<MOST_RANKS>(calls, entry, most),
        _ => None,
    }
    .is_some()
}

/// Tells whether queued calls are those of all ranks of a communicator and may be made in one pass, when all of them can be made.
pub(in crate::comm) fn are_of_all_ranks(calls: &[Queued]) -> bool {
    let [Queued::Collective(first, like), ..] = calls else { return false };
    let Ok(first) = registry::shared(*first) else { return false };
    let is_one = |call: &Queued| match call {
        Queued::Collective(comm, call) => registry::shared(*comm).is_ok_and(|comm| {
            let arguments = |call: &Call<'_>| (call.collective, call.count, call.dtype, call.op);
            arguments(call) == arguments(like)
                && !call.padded
                && comm.transport.control().is(first.transport.control())
        }),
        _ => false,
    };
    let is_its_own = |(i, call): (usize, &Queued)| calls[..i].iter().all(|other| other.comm() != call.comm());
    (2..=MOST_RANKS).contains(&calls.len())
        && is_served(like)
        && needs_all_inputs(like.collective)
        && vector(like, calls.len()).saturating_mul(calls.len()) <= most_bytes(&first.transport, calls.len())
        && calls.len() == first.transport.nranks() as usize
        && calls.iter().all(is_one)
        && calls.iter().enumerate().all(is_its_own)
}

fn try_make<'c, const N: usize>(
    calls: impl ExactSizeIterator<Item = Option<(CommHandle, &'c Call<'static>)>>,
    entry: Entry,
    most: usize,
) -> Option<()> {
    let n = calls.len();
    let (mut collective, mut bytes) = (None, 0);
    let mut ranks: [Option<RankCall>; N] = std::array::from_fn(|_| None);
    for call in calls {
        let (comm, call) = call?;
        (collective, bytes) = (Some(call.collective), vector(call, n));
        if !is_served(call) || bytes.saturating_mul(n) > most {
            return None;
        }
        let mut inside = registry::go_inside_if_free(comm, entry)?;
        let c = inside.get_mut()?;
        let (buffers, _) = c.like_an_earlier(call)?;
        if c.nranks() as usize != n {
            return None;
        }
        let place = ranks.get_mut(c.rank() as usize).filter(|place| place.is_none())?;
        *place = Some(RankCall { inside, buffers });
    }
    let ranks: [&RankCall; N] = {
        let first = ranks[0].as_ref()?;
        std::array::from_fn(|rank| ranks[rank].as_ref().unwrap_or(first))
    };
    let first = ranks[0].inside.get()?;
    let known = first.repeat.as_ref()?;
    let are_alike = ranks[..n].iter().all(|rank| rank.inside.get().is_some_and(|c| agrees(c, first)));
    let is_vast = bytes.saturating_mul(n) > most_bytes(&first.transport, n);
    if !are_alike || is_vast || !known.recipe.one_pass || !are_apart(&ranks[..n]) {
        return None;
    }
    let buffers: [[Payload<'static>; 2]; N] = ranks.map(|rank| rank.buffers);
    let (fold, count, size) = (known.recipe.fold, known.count, known.size);
    let pass = Pass {
        collective: collective?,
        fold,
        root: known.root as usize,
        buffers: &buffers[..n],
        count,
        size,
    };
    let helpers =
        if is_heavy(bytes, bytes.saturating_mul(n)) { first.transport.threads_for_group(n) } else { None };
    match helpers {
        Some(helpers) => shares::run(helpers, pass.elements(), size, &|elements| pass.run_part(elements)),
        None => pass.run(),
    }
    for rank in &ranks[..n] {
        let c = rank.inside.get()?;
        c.transport.control().counters(c.rank()).unnumbered_call(pass.collective as usize, known.bytes);
    }
    Some(())
}

/// Returns the most bytes of all vectors of the ranks of one thread.
pub(super) fn most_bytes(transport: &Transport, ranks: usize) -> usize {
    if transport.cores_here() as usize > ranks { MOST_WITH_CORES_LEFT } else { MOST_BYTES }
}

/// Returns the blocks of the longest vector of a collective among `n` ranks.
fn blocks(collective: Collective, n: usize) -> usize {
    let n = n as u32;
    collective.blocks_in(0, n, 0).max(collective.blocks_out(0, n, 0)) as usize
}

/// Returns the bytes of the longest vector of a call among `n` ranks.
fn vector(call: &Call<'_>, n: usize) -> usize {
    call.count.saturating_mul(call.dtype.size()).saturating_mul(blocks(call.collective, n))
}

/// Tells whether a rank is of the same communicator as another and makes the same call.
fn agrees(c: &CommCore, other: &CommCore) -> bool {
    let recipe = |c: &CommCore| c.repeat.as_ref().map(|repeat| repeat.recipe.mine);
    recipe(c) == recipe(other)
        && c.late_mismatch.is_none()
        && !c.transport.has_far()
        && c.transport.control().is(other.transport.control())
}

/// Tells whether no rank's output shares memory with another rank's buffers.
fn are_apart(ranks: &[&RankCall]) -> bool {
    ranks.iter().enumerate().all(|(i, rank)| {
        let others = ranks.iter().enumerate().filter(|(j, _)| *j != i);
        others.flat_map(|(_, other)| other.buffers).all(|buffer| !rank.buffers[1].overlaps(buffer))
    })
}

/// Tells whether a call is one that is made in one pass.
fn is_served(call: &Call<'_>) -> bool {
    use Collective::{AllGather, AllReduce, Broadcast, Reduce, ReduceScatter};
    !call.padded && matches!(call.collective, AllReduce | Reduce | ReduceScatter | AllGather | Broadcast)
}

/// Tells whether no rank is done before the input of every rank is there.
fn needs_all_inputs(collective: Collective) -> bool {
    matches!(collective, Collective::AllReduce | Collective::ReduceScatter | Collective::AllGather)
}

/// What is to be done, for any thread.
struct Pass<'a> {
    collective: Collective,
    /// The reduction, for those that reduce.
    fold: Option<Fold>,
    root: usize,
    /// Input and output of each rank.
    buffers: &'a [[Payload<'static>; 2]],
    /// Elements of a block.
    count: usize,
    /// Bytes of an element.
    size: usize,
}

impl Pass<'_> {
    /// Returns the elements of all blocks: one after the other, they are what is to be divided.
    fn elements(&self) -> usize {
        self.count * blocks(self.collective, self.buffers.len())
    }

    /// Makes it on this thread.
    fn run(&self) {
        match (self.collective, &self.fold) {
            (Collective::AllReduce, Some(fold)) if self.count * self.size <= SHORT => {
                let [first, others @ ..] = self.buffers else { return };
                let sources = self.sources(0..self.count);
                fold.fold(&sources[..self.buffers.len()], &[Dest::cached(first[1])], self.count, true);
                others.iter().for_each(|[_, output]| kernels::copy(*output, first[1], false));
            }
            _ => self.run_part(0..self.elements()),
        }
    }

    /// Returns these elements of each rank's input.
    fn sources(&self, elements: Range<usize>) -> [FoldSource<'static>; MOST_RANKS] {
        let mut sources = [FoldSource { view: Payload::EMPTY, raw: true }; MOST_RANKS];
        for (source, [input, _]) in sources.iter_mut().zip(self.buffers) {
            source.view = self.part(*input, &elements);
        }
        sources
    }

    fn part(&self, view: Payload<'static>, elements: &Range<usize>) -> Payload<'static> {
        view.part(elements.start * self.size, elements.len() * self.size)
    }

    /// Makes these elements of all blocks.
    fn run_part(&self, elements: Range<usize>) {
        let mut begin = elements.start;
        while begin < elements.end {
            let block = begin / self.count;
            let end = elements.end.min((block + 1) * self.count);
            self.run_in_block(block, begin - block * self.count..end - block * self.count);
            begin = end;
        }
    }

    /// Makes these elements of one block.
    fn run_in_block(&self, block: usize, elements: Range<usize>) {
        let n = self.buffers.len();
        let in_vector = elements.start + block * self.count..elements.end + block * self.count;
        let outputs = |elements: &Range<usize>| {
            let mut dests = [Dest::cached(Payload::EMPTY); MOST_RANKS];
            for (dest, [_, output]) in dests.iter_mut().zip(self.buffers) {
                dest.view = self.part(*output, elements);
            }
            dests
        };
        let fold = |elements: Range<usize>, dests: &[Dest<'_>]| {
            let Some(fold) = &self.fold else { return };
            let count = elements.len();
            fold.fold(&self.sources(elements)[..n], dests, count, true);
        };
        match self.collective {
            Collective::AllReduce => fold(elements.clone(), &outputs(&elements)[..n]),
            Collective::Reduce => {
                let output = self.part(self.buffers[self.root][1], &elements);
                fold(elements, &[Dest::cached(output)]);
            }
            Collective::ReduceScatter => {
                fold(in_vector, &[Dest::cached(self.part(self.buffers[block][1], &elements))]);
            }
            Collective::AllGather => self.copy_to_all(block, elements, block * self.count),
            _ => self.copy_to_all(self.root, elements, 0),
        }
    }

    /// Copies elements of a rank's input to all outputs, there `further_on` elements behind; by pieces, which stay in the first cache.
    fn copy_to_all(&self, rank: usize, elements: Range<usize>, further_on: usize) {
        let step = (COPIED_AT_ONCE / self.size).max(1);
        for begin in elements.clone().step_by(step) {
            let piece = begin..elements.end.min(begin + step);
            let there = piece.start + further_on..piece.end + further_on;
            let from = self.part(self.buffers[rank][0], &piece);
            for [_, output] in self.buffers {
                kernels::copy(self.part(*output, &there), from, false);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "one_pass_tests.rs"]
mod tests;
