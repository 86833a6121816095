//! The smallest messages: one exchange, no program.
//!
//! Every rank writes its input behind (or into) its arrival line; every rank then computes its own output from the
//! lines it needs. One synchronisation in all, nothing before it and nothing after. It is `one_shot`'s plan written
//! out by hand, for all collectives alike; the tests hold both against the definition of each collective.
//!
//! Inputs that peers can reach need no copy once they are large enough: see [`borrowed`].

use super::small_vec::SmallVec;
use super::{PeerProgress, PreparedCall, borrowed, part, zero_tail};
use crate::error::Result;
use crate::kernels::{self, Dest, FoldSource, hints};
use crate::memory::control::arrivals::BEHIND;
use crate::memory::control::largest_payload;
use crate::memory::view::Payload;
use crate::transport::arrival::Offer;
use crate::transport::pace::Pace;
use crate::transport::single_copy::SingleCopy;
use crate::transport::{Scope, Transport};
use crate::types::{Collective, Rank};
use std::ops::Range;

/// The largest product of payload and ranks where every rank reads all payloads: beyond, ranks divide the work.
const READ_BY_ALL: usize = 128 << 10;

/// Tells whether the data of a call come with the arrivals: whether they fit, and no program is faster (docs/decisions/0032).
/// `single_copy`: whether ranks read each other's private buffers.
pub fn fits(collective: Collective, nranks: u32, block_bytes: usize, single_copy: SingleCopy) -> bool {
    if single_copy.precedes_arrivals(collective, nranks, block_bytes) {
        return false;
    }
    let n = nranks as usize;
    let largest = largest_payload(n);
    let (blocks, most) = match collective {
        Collective::Barrier => (0, largest),
        Collective::AlltoAll | Collective::Scatter => (n, largest),
        Collective::ReduceScatter => (n, (READ_BY_ALL / n).clamp(largest.min(8 << 10), largest)),
        _ => (1, largest),
    };
    blocks.checked_mul(block_bytes).is_some_and(|bytes| bytes <= most)
}

/// Payloads that a rank moves towards the shared cache where all ranks read them: smaller ones are in the arrival line; of larger
/// ones the processor foresees the next lines, and where only some read, the others would wait for nothing.
pub(super) const DEMOTED: std::ops::RangeInclusive<usize> = 65..=1 << 10;

/// The outcome of a direct call: complete, or a program divides the work among ranks that offer their buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectOutcome {
    /// The output is complete. Who has offered its input [waits](super::borrowed::await_readers) for those that read it.
    Done,
    /// A rank of an all-reduce offered its buffers instead of a copy.
    NeedsProgram,
}

/// Enters a call when its arrival line is free. `packed`: the input, where the offer says so, goes with the arrival.
#[inline(always)]
pub fn enter(
    t: &Transport,
    scope: &mut Scope,
    peers: &mut PeerProgress,
    job: &PreparedCall<'_>,
    packed: bool,
) -> Result<()> {
    let has_payload = packed && job.offer.payload && !job.input.is_empty();
    let lends = has_payload && may_lend(t, scope, job);
    t.complete_far_before(scope)?;
    t.control().reserve_arrivals(scope.seq)?;
    scope.arrival_may_wait = packed && t.has_far() && !job.collective.everybody() && {
        // Those that send data hear of this rank's arrivals before they have gone as far ahead as they may.
        let blocks = if job.collective == Collective::Scatter { t.nranks() as usize } else { 1 };
        !scope.seq.is_multiple_of((t.calls_ahead(blocks * job.count * job.size) / 2).max(1))
    };
    let mutual = job.collective.everybody();
    peers.await_place(if has_payload { job.input.bytes() } else { 0 }, mutual, t, scope)?;
    if lends {
        t.arrive_lending(scope, &job.offer, job.input, |rank| read_by(rank, job));
        return Ok(());
    }
    if has_payload {
        let bytes = job.input.bytes();
        let payload = t.payload_of(t.rank(), scope.seq, bytes, mutual);
        match bytes < hints::LEAST_AROUND {
            true => hints::copy_over(payload, job.input, bytes),
            false => {
                let lately = t.read_lately(payload, scope.seq, peers.done, mutual);
                pack([payload, lately], t, job, &mut peers.pace);
            }
        }
        die_point!(10 "arrival_payload");
    }
    t.arrive(scope, &job.offer, job.input.bytes(), |rank| !read_by(rank, job).is_empty());
    let bytes = job.input.bytes();
    if has_payload && mutual && DEMOTED.contains(&bytes) && hints::limits().demotes {
        hints::demote(t.payload_of(t.rank(), scope.seq, bytes, mutual));
    }
    if packed {
        let written = if mutual && is_block_alone(t, job) { job.count * job.size } else { bytes };
        let leaves = bytes >= hints::LEAST_AROUND && peers.pace.leaves_lines(bytes)
            || !mutual && peers.is_busy_with(bytes, scope.seq);
        t.prepare_next_arrival(scope.seq, if leaves || !job.offer.payload { 0 } else { written }, mutual);
    }
    Ok(())
}

/// Tells whether the input is sent from where it lies: no rank of this host reads it.
#[inline]
fn may_lend(t: &Transport, scope: &Scope, job: &PreparedCall<'_>) -> bool {
    !job.input.is_empty() && t.has_far_only() && t.lends(scope)
}

/// Returns the part of the input that a rank reads.
fn read_by(rank: Rank, job: &PreparedCall<'_>) -> Range<usize> {
    let (block, bytes) = (job.count * job.size, job.input.bytes());
    match job.collective {
        divided if is_divided(divided) => {
            let begin = (rank as usize * block).min(bytes);
            begin..(begin + block).min(bytes)
        }
        Collective::Reduce | Collective::Gather if rank != job.root => 0..0,
        _ => 0..bytes,
    }
}

/// Bytes of a block from which on it is worth a second copy to leave the rank's own block out.
const OWN_BLOCK: usize = 1 << 10;

/// Tells whether the payload is the other rank's block alone: where two ranks write what they have read, both use the same lines.
#[inline]
fn is_block_alone(t: &Transport, job: &PreparedCall<'_>) -> bool {
    t.swaps()
        && matches!(job.collective, Collective::AlltoAll | Collective::ReduceScatter)
        && job.count * job.size >= OWN_BLOCK
        && input_bytes(job, t.nranks()) >= hints::LEAST_AROUND
}

/// Copies the input to the payload, without the rank's own block where no other rank reads that. `lately`: a payload that all have read.
fn pack([payload, lately]: [Payload<'_>; 2], t: &Transport, job: &PreparedCall<'_>, pace: &mut Pace) {
    let (me, block, bytes) = (t.rank(), job.count * job.size, job.input.bytes());
    let (alone, swapped) = (is_block_alone(t, job), t.swaps() && job.collective.everybody());
    let mut copy = |at: usize, part: usize| {
        let place = if alone { 0 } else { at };
        let (to, from) = (payload.part(place, part), job.input.part(at, part));
        match pace.non_temporal(lately.part(place, part), swapped) {
            true => kernels::copy(to, from, true),
            false => hints::copy_over(to, from, bytes),
        }
        pace.written();
    };
    if !is_divided(job.collective) || block < OWN_BLOCK {
        return copy(0, bytes);
    }
    let own = (me as usize * block).min(bytes)..((me as usize + 1) * block).min(bytes);
    // An empty part would count as a copy.
    if own.start > 0 {
        copy(0, own.start);
    }
    if own.end < bytes {
        copy(own.end, bytes - own.end);
    }
}

/// Takes the peers' payloads. The rank has arrived already.
#[inline(always)]
pub fn run(
    t: &Transport,
    scope: &mut Scope,
    peers: &mut PeerProgress,
    job: &PreparedCall<'_>,
) -> Result<DirectOutcome> {
    let (me, n) = (t.rank(), t.nranks());
    scope.arrival_is_all = true;
    let (needs_all, is_root) = (job.collective.everybody(), me == job.root);
    let has_lent = job.offer.payload && t.stays_lent(job.input.bytes()) && may_lend(t, scope, job);
    let block = job.count * job.size;
    // The peers' arrivals are under way: meanwhile the own block can be copied. A call that is polled would copy it again each time.
    let early =
        matches!(job.collective, Collective::AllGather | Collective::AlltoAll) && scope.polls.is_none();
    if early {
        let at = if job.collective == Collective::AlltoAll { me as usize * block } else { 0 };
        kernels::copy(job.output.part(me as usize * block, block), job.input.part(at, block), false);
    }
    let all_packed = match job.collective {
        Collective::Reduce | Collective::Gather if !is_root => true,
        Collective::Broadcast | Collective::Scatter if is_root => true,
        Collective::Broadcast => {
            ask_ahead(t, scope, peers, job.root, block);
            t.meet_payload(job.root, scope, block, false)?.payload
        }
        Collective::Scatter => {
            ask_ahead(t, scope, peers, job.root, n as usize * block);
            t.meet(job.root, scope)?.payload
        }
        _ => {
            let mut all_packed = true;
            for r in 0..n {
                if r == me {
                    continue;
                }
                if !needs_all {
                    ask_ahead(t, scope, peers, r, job.input.bytes());
                }
                all_packed &= t.meet_payload(r, scope, job.input.bytes(), needs_all)?.payload;
            }
            all_packed
        }
    };
    if job.collective == Collective::AllReduce && !(all_packed && job.offer.payload) {
        if has_lent {
            t.settle_lent(scope)?;
        }
        return Ok(DirectOutcome::NeedsProgram);
    }
    die_point!(16 "arrival_all");
    if has_lent {
        // The output may be the input.
        t.settle_lent(scope)?;
    }
    match all_packed {
        true => take(t, job, early, |r| {
            if r == me { read_of(job.input, t, job) } else { payload_from(r, t, scope, job) }
        }),
        false => borrowed::take(t, scope, job, early)?,
    }
    die_point!(17 "direct_done");
    t.flush_far();
    if needs_all {
        peers.have_met(scope.seq);
    }
    Ok(DirectOutcome::Done)
}

/// Makes the rank's output. `from`: what it reads of the input of a rank; `early`: the own block is in its place.
#[inline(always)]
pub(super) fn take<'v>(
    t: &Transport,
    job: &PreparedCall<'_>,
    early: bool,
    from: impl Fn(Rank) -> Payload<'v>,
) {
    let (me, n) = (t.rank(), t.nranks());
    let others = || (0..n).filter(|&r| r != me || !early);
    match job.collective {
        Collective::AllReduce => fold(job, n, job.output, job.count, from),
        Collective::Reduce if me == job.root => fold(job, n, job.output, job.count, from),
        Collective::ReduceScatter => {
            let valid = job.elements_in(me);
            fold(job, n, job.output.part(0, valid * job.size), valid, from);
            if job.limit != usize::MAX {
                zero_tail(me, job);
            }
        }
        Collective::Gather if me == job.root => gather(job, 0..n, from),
        // In place, the own block is where it belongs; the others' copies do not depend on our buffer any more.
        Collective::AllGather | Collective::AlltoAll => gather(job, others(), from),
        Collective::Broadcast | Collective::Scatter => kernels::copy(job.output, from(job.root), false),
        Collective::Barrier | Collective::Reduce | Collective::Gather => {}
    }
}

/// Tells whether each rank reads its own block of an input.
const fn is_divided(collective: Collective) -> bool {
    matches!(collective, Collective::AlltoAll | Collective::Scatter | Collective::ReduceScatter)
}

/// Returns what a rank reads of a whole input.
#[inline]
pub(super) fn read_of<'v>(input: Payload<'v>, t: &Transport, job: &PreparedCall<'_>) -> Payload<'v> {
    match is_divided(job.collective) {
        true => part(input, t.rank() as usize * job.count * job.size, job.elements_in(t.rank()) * job.size),
        false => input,
    }
}

/// Returns what this rank reads of the payload of another one's arrival.
#[inline(always)]
pub(super) fn payload_from<'v>(
    r: Rank,
    t: &'v Transport,
    scope: &Scope,
    job: &PreparedCall<'_>,
) -> Payload<'v> {
    let payload = t.payload_of(r, scope.seq, input_bytes(job, t.nranks()), job.collective.everybody());
    match is_block_alone(t, job) {
        true => payload.part(0, job.elements_in(t.rank()) * job.size),
        false => read_of(payload, t, job),
    }
}

/// Asks for the lines of the call after the next of a rank that was found to run ahead, call after call: they are written already.
#[inline(always)]
fn ask_ahead(t: &Transport, scope: &Scope, peers: &mut PeerProgress, rank: Rank, bytes: usize) {
    if peers.is_far_ahead(t.has_arrived(rank, scope.seq)) && bytes <= BEHIND {
        t.ask_for_arrival(rank, scope.seq + 2, bytes);
    }
}

/// Returns the bytes of the input of a rank that has one; padded inputs may end early.
pub(super) fn input_bytes(job: &PreparedCall<'_>, nranks: u32) -> usize {
    let blocks = job.collective.blocks_in(job.root, nranks, job.root);
    job.limit.min(blocks as usize * job.count) * job.size
}

#[inline(always)]
fn fold<'v>(
    job: &PreparedCall<'_>,
    n: u32,
    dest: Payload<'_>,
    count: usize,
    from: impl Fn(Rank) -> Payload<'v>,
) {
    let Some(fold) = job.fold else { return };
    let source = |r| FoldSource { view: from(r), raw: true };
    let dest = Dest::cached(dest);
    if n == 2 {
        return fold.fold_two(source(0), source(1), dest, count, true);
    }
    let mut sources = SmallVec::new(FoldSource { view: Payload::EMPTY, raw: true });
    (0..n).for_each(|r| sources.push(source(r)));
    fold.fold(sources.as_slice(), &[dest], count, true);
}

#[inline(always)]
fn gather<'v>(job: &PreparedCall<'_>, ranks: impl Iterator<Item = Rank>, from: impl Fn(Rank) -> Payload<'v>) {
    let block = job.count * job.size;
    for r in ranks {
        kernels::copy(job.output.part(r as usize * block, block), from(r), false);
    }
}

/// The offer of a rank with private buffers in a direct call.
pub const PACKED: Offer = Offer { payload: true, input: None, output: None, in_place: false, private: false };
