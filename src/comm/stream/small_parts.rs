//! Small transfers, permutations and blocks of sizes of their own that the thread which queues them can make at once.
//!
//! [`at_once`](super::at_once) does it with collectives. Here each part of a group ([`parts`](super::parts)) begins where it is queued, and
//! all parts are polled in turn: one thread that has several ranks has their data, and ranks of other processes often come within
//! these polls. What is not over then becomes the first task of its stream. Until then the streams' queues are locked, and each
//! communicator's turn is that of its part. Transfers of which one thread makes both halves are copies, of any size that
//! [`both_halves`](crate::comm::group::both_halves) takes.

use super::parts::StreamPart;
use super::parts::distinct;
use super::queue::{HeldTasks, StreamQueue};
use super::readiness::hold;
use super::table::{Placed, STREAMS, StreamHandle};
use super::task::{Advance, Calls, StreamTask};
use super::turn::is_worker;
use crate::comm::group::batch::{Batch, Queued};
use crate::comm::group::both_halves::BothHalves;
use crate::comm::progress::is_on_machine;
use crate::comm::registry::{self, CommHandle, Entry};
use crate::comm::shared::CommShared;
use crate::fabric::live::program_time::Moment;
use crate::sync::wait::Neighbours;
use std::sync::Arc;

/// The most bytes of a block: a larger one takes longer than queuing it.
const MOST: usize = 16 << 10;
/// The most calls.
const MOST_CALLS: usize = 32;
/// Polls of all parts, beside two for each.
const POLLS: usize = 8;

/// A part's turn of each of its communicators.
type Turns = Vec<(u64, Arc<CommShared>)>;

/// Takes the first turn of each communicator of a part. `None`: another call has one, or the part is of several streams.
fn take_turns(part: &StreamPart) -> Option<Turns> {
    let &(_, on) = part.first()?;
    if part.iter().any(|&(_, other)| other != on) {
        return None;
    }
    let comms: Option<Vec<_>> = part.iter().map(|(call, _)| registry::shared(call.comm()).ok()).collect();
    let mut taken = Turns::new();
    for comm in distinct(comms?) {
        match comm.turns.take_first() {
            Some(turn) => taken.push((turn, comm)),
            None => {
                give_back(taken);
                return None;
            }
        }
    }
    Some(taken)
}

/// Ends turns in which nothing was done.
fn give_back(turns: Turns) {
    turns.iter().for_each(|(turn, comm)| comm.turns.end(*turn));
}

/// Makes or begins the calls of these parts. Returns them if they have to be queued.
pub(super) fn make(parts: Vec<StreamPart>, grouped: bool) -> Result<(), Vec<StreamPart>> {
    let calls = || parts.iter().flatten().map(|(call, _)| call);
    let are_small = calls().count() <= MOST_CALLS && calls().all(is_small);
    if !are_small || is_worker() || is_on_machine() {
        return Err(parts);
    }
    let streams: Vec<_> = parts.iter().filter_map(|part| STREAMS.with(part.first()?.1, Arc::clone)).collect();
    let both = parts.iter().zip(&streams);
    let held: Option<Vec<_>> = both.map(|(part, stream)| hold(part.first()?.0.comm(), stream)).collect();
    let Some(held) = held.filter(|held| held.len() == parts.len()) else { return Err(parts) };
    let mut taken = Vec::with_capacity(parts.len());
    for part in &parts {
        match take_turns(part) {
            Some(turns) => taken.push(turns),
            None => {
                taken.into_iter().for_each(give_back);
                return Err(parts);
            }
        }
    }
    run(parts, taken, streams.iter().zip(held), grouped);
    Ok(())
}

/// Makes the transfers of a group all of whose halves are there, if all or none are on streams, which are idle. `None`: it has done
/// nothing.
pub(super) fn make_both_halves(calls: &[Placed]) -> Option<()> {
    let mut on: Vec<(StreamHandle, CommHandle)> = Vec::new();
    let [(Queued::Transfer(comm, ..), _), _, ..] = calls else { return None };
    let (rank, _) = registry::rank_and_number(*comm).ok()?;
    // A rank makes both the send and the receive of a transfer only if it sends to itself.
    let is_to_another = |(call, _): &Placed| matches!(call, Queued::Transfer(of, transfer, _) if of == comm && transfer.peer != rank as i32);
    if calls.iter().all(|(call, _)| call.comm() == *comm) && calls.iter().any(is_to_another) {
        return None;
    }
    let queued = calls.iter().filter_map(|(call, stream)| Some((call, (*stream)?)));
    for (call, stream) in queued.clone() {
        if on.iter().all(|(known, _)| *known != stream) {
            on.push((stream, call.comm()));
        }
    }
    if ![0, calls.len()].contains(&queued.count()) {
        return None;
    }
    let found = BothHalves::find(calls.iter().map(|(call, _)| call))?;
    let streams = on.iter().map(|(stream, _)| STREAMS.with(*stream, Arc::clone));
    let streams = streams.collect::<Option<Vec<_>>>()?;
    let held: Option<Vec<_>> =
        streams.iter().zip(&on).map(|(stream, (_, comm))| hold(*comm, stream)).collect();
    (held.is_some() && found.make(Entry::Caller)).then_some(())
}

/// Goes on with all parts, and leaves to its stream what is not over. `held`: the stream of each part, and its queue.
fn run<'a>(
    parts: Vec<StreamPart>,
    taken: Vec<Turns>,
    held: impl Iterator<Item = (&'a Arc<StreamQueue>, HeldTasks<'a>)>,
    grouped: bool,
) {
    // Peers that need this core come no sooner.
    let is_in_vain = taken.len() == 1 && taken[0].iter().any(|(_, comm)| comm.transport.are_on_this_core());
    let polls = if is_in_vain { 1 } else { POLLS + 2 * taken.len() };
    let begin = |((part, turns), (stream, tasks)): ((StreamPart, Turns), _)| {
        let calls = part.into_iter().map(|(call, _)| call).collect();
        let batch = Batch { calls, grouped };
        let calls = Calls::begun(batch.name(), batch.polled(Entry::Turn), turns, 0);
        (stream, tasks, Some(calls))
    };
    let mut under_way: Vec<(&Arc<StreamQueue>, HeldTasks<'_>, _)> =
        parts.into_iter().zip(taken).zip(held).map(begin).collect();
    // BOUND: `POLLS` and the parts.
    for _ in 0..polls {
        for (stream, _, calls) in &mut under_way {
            calls.take_if(|calls| {
                calls.go_on(&stream.failures, &mut Moment::default(), false) == Advance::Over
            });
        }
        if under_way.iter().all(|(.., calls)| calls.is_none()) {
            break;
        }
    }
    for (stream, tasks, calls) in under_way {
        if let Some(calls) = calls {
            stream.push_behind(tasks, StreamTask::Calls(calls));
        }
    }
}

fn is_small(call: &Queued) -> bool {
    !matches!(call, Queued::Collective(..) | Queued::Scaled(..)) && call.bytes() <= MOST
}
