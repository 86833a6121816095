//! Collectives that the thread which queues them can make at once.
//!
//! Queuing a call, and taking it up again, takes longer than the smallest calls themselves. So a small collective on a stream that is
//! idle begins when it is queued. If its peers' data are there within a hand-off between two cores, it is over by then and nothing is
//! queued; else it goes on as the stream's first task.
//!
//! ```text
//!     one rank:      begin, poll ............................ over, or queued
//!     a group:       begin a, begin b, end a, end b           one thread has the ranks, and with them all data
//! ```
//!
//! From its begin to its end or its place in the queue such a call keeps the stream's queue locked, and has the first turn of its
//! communicator, or, if it is one of a few bytes, the communicator itself: what other threads queue comes behind it.

use super::helping::MOST_FOR_A_WAITER;
use super::queue::{Driven, HeldTasks, StreamQueue};
use super::readiness::{
    self, POLLS, came_late, end, hold, is_alone, largest, leave, moves_nothing, note, poll_for_peers,
    polls_before, polls_of, tell_failure,
};
use super::small_parts;
use super::table::{Placed, STREAMS, StreamHandle};
use super::task::Calls;
use super::transfers;
use super::turn::{CallTurns, aborted, is_worker};
use crate::comm::calls::collective::Call;
use crate::comm::calls::exchange::Directly;
use crate::comm::calls::repeat::Begun;
use crate::comm::communicator::CommCore;
use crate::comm::group::batch::Queued;
use crate::comm::group::polled::PolledBatch;
use crate::comm::group::{one_pass, one_rank};
use crate::comm::progress::is_on_machine;
use crate::comm::registry::{self, CommHandle, Entry};
use crate::error::{Error, Result};
use crate::sys::fork;
use std::sync::Arc;

/// The most calls of a group that are made at its end.
const MOST_OF_GROUP: usize = 16;
/// The most bytes of all vectors of a group's calls: one thread has them in its core's cache, and makes the calls in the time of two
/// threads, which pass them from core to core (docs/decisions/0036).
const MOST_AT_A_GROUPS_END: u64 = 128 << 10;
/// Rounds over the calls of a group, beside two for each.
const ROUNDS: usize = 8;

/// A collective that has begun, and its turn.
type UnderWay = readiness::BegunCall<Begun<'static>>;

/// Makes or begins a collective that is queued on a stream. Returns false if it has to be queued.
pub(in crate::comm) fn make_at_once(comm: CommHandle, call: &Call<'static>, stream: StreamHandle) -> bool {
    if is_worker() || is_on_machine() {
        return false;
    }
    STREAMS.with(stream, |stream| try_make(comm, call, stream).is_some()).unwrap_or(false)
}

fn try_make(comm: CommHandle, call: &Call<'static>, stream: &Arc<StreamQueue>) -> Option<()> {
    let tasks = hold(comm, stream)?;
    let left = registry::enter_if_free(comm, |c| {
        if moves_nothing(c, call) {
            return Some(None);
        }
        let small =
            |c: &mut CommCore| c.small_polled(call, POLLS).or_else(|| c.earlier_small_polled(call, POLLS));
        if let Some(made) = c.guarded(small).transpose() {
            return Some(end_small(c, call, made, stream));
        }
        let is_alone = is_alone(c, stream);
        let under_way = begin(c, call, largest(is_alone), is_alone)?;
        let poll = |c: &mut _, under_way| poll(c, call, under_way, stream);
        Some(poll_for_peers(c, call.bytes(), stream, under_way, poll))
    });
    if let Some(under_way) = left? {
        go_on_later(comm, call, stream, tasks, under_way);
    }
    Some(())
}

/// Ends a small call that was made without a turn, which one that is over leaves to the next; or takes the first turn for one that is under
/// way.
#[inline(always)]
fn end_small(
    c: &mut CommCore,
    call: &Call<'static>,
    made: Result<Directly<'static>>,
    stream: &StreamQueue,
) -> Option<UnderWay> {
    match made {
        Ok(Directly::Over(Ok(()))) => None,
        other => leave_small(c, call, other, stream),
    }
}

/// Leaves a small call that is under way to its stream, or tells why it has failed.
#[cold]
fn leave_small(
    c: &mut CommCore,
    call: &Call<'static>,
    made: Result<Directly<'static>>,
    stream: &StreamQueue,
) -> Option<UnderWay> {
    let ended = match made {
        Ok(Directly::Left(exchange)) => {
            c.is_held = true;
            // Another thread may have queued a call meanwhile. That has the first turn, and waits for this one, which holds the communicator.
            let turn = c.shared.turns.take_first().unwrap_or(CallTurns::PAST);
            return Some(UnderWay { begun: Begun::Program(exchange), turn });
        }
        Ok(Directly::Over(ended)) => ended,
        Err(defect) => Err(defect),
    };
    tell_failure(c, call.collective.name(), ended, stream);
    None
}

/// Goes on with what is queued before a group on its streams, in turn: ranks of one thread wait for one another. `None`: not all of it is
/// over.
fn catch_up_together(calls: &[Placed], streams: &[Option<Arc<StreamQueue>>]) -> Option<()> {
    if is_core_needed(calls) {
        return None;
    }
    let queues = || streams.iter().flatten().map(|stream| &**stream);
    if queues().any(|stream| stream.help.is_heavy()) && !are_on_all_cores(calls) {
        return None;
    }
    // BOUND: `ROUNDS` and the streams, or `MOST_POLLS`. Where there are heavy calls, threads are on all cores.
    for _ in 0..polls_before(queues(), ROUNDS + 2 * streams.len(), || true)? {
        let mut are_idle = true;
        for stream in streams {
            let stream = stream.as_ref()?;
            if stream.generation != fork::generation() {
                return None;
            }
            match stream.catch_up(POLLS as u64) {
                Driven::Idle => {}
                Driven::Pending => are_idle = false,
                _ => return None,
            }
        }
        if are_idle {
            return Some(());
        }
    }
    streams.iter().flatten().find_map(|stream| came_late(stream))
}

/// Tells whether a rank that none of these calls is of needs this core: polling for it keeps it from coming.
fn is_core_needed(calls: &[Placed]) -> bool {
    let comms = || calls.iter().filter_map(|(call, _)| registry::shared(call.comm()).ok());
    comms().any(|comm| {
        let control = comm.transport.control();
        let is_here = |rank| {
            comms().any(|other| other.transport.rank() == rank && other.transport.control().is(control))
        };
        comm.transport.is_on_this_core(|rank| !is_here(rank))
    })
}

/// Makes or begins the transfers of a group, or its collectives. Those of one communicator and stream are made one after the other, until one
/// has to be queued. Those that are each of another communicator and on another idle stream begin together: one thread has several ranks,
/// whose data come when all of them have begun. Takes out of the list what need not be queued.
pub(in crate::comm) fn make_group_at_once(calls: &mut Vec<Placed>) {
    if is_worker() || is_on_machine() {
        return;
    }
    if transfers::make_transfers_at_once(calls, true) || small_parts::make_both_halves(calls).is_some() {
        calls.clear();
        return;
    }
    if let Some((comm, Some(stream))) = one_rank::of_collectives(calls) {
        let made = one_rank::collectives(calls).take_while(|call| make_at_once(comm, call, stream)).count();
        calls.drain(..made);
        return;
    }
    if calls.len() > MOST_OF_GROUP || !are_apart(calls) {
        return;
    }
    match calls.len() {
        0 | 1 => {}
        2 => make_group::<2>(calls),
        3..=4 => make_group::<4>(calls),
        _ => make_group::<MOST_OF_GROUP>(calls),
    }
}

/// The same for a group of at most `N` calls.
fn make_group<const N: usize>(calls: &mut Vec<Placed>) {
    let streams: [Option<Arc<StreamQueue>>; N] =
        std::array::from_fn(|i| STREAMS.with(calls.get(i)?.1?, Arc::clone));
    let hold = || -> [Option<HeldTasks<'_>>; N] { std::array::from_fn(|i| streams[i].as_ref()?.hold_idle()) };
    let are_held = |tasks: &[Option<_>; N]| tasks[..calls.len()].iter().all(Option::is_some);
    let mut tasks = hold();
    if !are_held(&tasks) {
        drop(tasks);
        if catch_up_together(calls, &streams[..calls.len()]).is_none() {
            return;
        }
        tasks = hold();
        if !are_held(&tasks) {
            return;
        }
    }
    if one_pass::make(collectives(calls), Entry::Caller, one_pass::MOST_AT_A_GROUPS_END) {
        calls.clear();
        return;
    }
    let most = most_of_group(calls);
    let mut is_begun = [false; N];
    let mut left: [Option<UnderWay>; N] = std::array::from_fn(|i| {
        let (Queued::Collective(comm, call), _) = calls.get(i)? else { return None };
        registry::enter_if_free(*comm, |c| {
            let is_over = moves_nothing(c, call);
            let under_way = if is_over { None } else { begin(c, call, most, true) };
            is_begun[i] = is_over || under_way.is_some();
            under_way
        })
    });
    let mut poll_all = |rounds| {
        (0..rounds).any(|_| {
            for (i, (call, _)) in calls.iter().enumerate() {
                if let (Queued::Collective(comm, call), Some(stream)) = (call, &streams[i])
                    && let Some(under_way) = left[i].take()
                {
                    let poll = |c: &mut CommCore| Ok(poll(c, call, under_way, stream));
                    left[i] = registry::resume(*comm, poll).unwrap_or_else(|error| {
                        stream.failures.add(&error);
                        None
                    });
                }
            }
            left.iter().all(Option::is_none)
        })
    };
    // BOUND: where the ranks are all here, each round takes each of them one step further; and `MOST_POLLS`.
    if !poll_all(ROUNDS + 2 * calls.len())
        && let Some(stream) = &streams[0]
        && !is_core_needed(calls)
    {
        let bytes = calls.iter().map(|(call, _)| call.bytes()).max().unwrap_or(0);
        note(bytes, stream, poll_all(polls_of(bytes, stream)));
    }
    for (i, (call, _)) in calls.iter().enumerate() {
        if let (Queued::Collective(comm, call), Some(stream)) = (call, &streams[i])
            && let (Some(tasks), Some(under_way)) = (tasks[i].take(), left[i].take())
        {
            go_on_later(*comm, call, stream, tasks, under_way);
        }
    }
    let mut begun = is_begun.iter();
    calls.retain(|_| begun.next() != Some(&true));
}

/// Returns the bytes of the largest vector of a group that is made at its end.
fn most_of_group(calls: &[Placed]) -> u64 {
    let most = MOST_AT_A_GROUPS_END / calls.len() as u64;
    let is_larger = calls.iter().any(|(call, _)| call.bytes() as u64 > most);
    if is_larger && are_on_all_cores(calls) { MOST_FOR_A_WAITER } else { most }
}

/// Tells whether threads that have as many ranks as this group keep all cores busy: no further one could help with large calls.
fn are_on_all_cores(calls: &[Placed]) -> bool {
    calls.iter().all(|(call, _)| {
        registry::shared(call.comm()).is_ok_and(|comm| comm.transport.fill_cores(calls.len()))
    })
}

/// Returns the collectives among calls.
fn collectives(calls: &[Placed]) -> impl ExactSizeIterator<Item = Option<(CommHandle, &Call<'static>)>> {
    calls.iter().map(|(call, _)| match call {
        Queued::Collective(comm, call) => Some((*comm, call)),
        _ => None,
    })
}

/// Tells whether each call is of a communicator and on a stream of its own.
fn are_apart(calls: &[Placed]) -> bool {
    calls.iter().enumerate().all(|(i, (call, on))| {
        calls[..i].iter().all(|(other, other_on)| other.comm() != call.comm() && other_on != on)
    })
}

/// Begins a call. `None`: it cannot be prepared (`prepare.rs`), or is too large, or needs a program where `programs` is not set.
fn begin(c: &mut CommCore, call: &Call<'static>, most: u64, programs: bool) -> Option<UnderWay> {
    readiness::begin(c, |c| c.enter_polled(call, most, programs))
}

/// Goes on with a call as far as it comes without waiting. `None`: it is over, and its stream has been told of a failure.
fn poll(c: &mut CommCore, call: &Call<'_>, under_way: UnderWay, stream: &StreamQueue) -> Option<UnderWay> {
    let UnderWay { begun, turn } = under_way;
    let ended = match c.guarded(|c| step(c, begun)) {
        Ok(Directly::Left(exchange)) => return Some(UnderWay { begun: Begun::Program(exchange), turn }),
        Ok(Directly::Over(ended)) => ended,
        Err(defect) => Err(defect),
    };
    end(c, call.collective.name(), ended, turn, stream);
    None
}

fn step(c: &mut CommCore, begun: Begun<'static>) -> Directly<'static> {
    match begun {
        Begun::Entered(entered) => c.end_entered(entered).unwrap_or_else(|| {
            Directly::Over(Err(Error::internal("the communicator has forgotten a call that was entered")))
        }),
        Begun::Program(mut exchange) => match c.poll_collective(&mut exchange) {
            Err(error) if error.is_pending() => Directly::Left(exchange),
            ended => Directly::Over(ended),
        },
    }
}

/// Leaves a call that has begun to the stream.
fn go_on_later(
    comm: CommHandle,
    call: &Call<'static>,
    stream: &Arc<StreamQueue>,
    tasks: HeldTasks<'_>,
    under_way: UnderWay,
) {
    let Begun::Program(exchange) = under_way.begun else {
        return stream.failures.add(&aborted());
    };
    let batch = PolledBatch::under_way(comm, *call, *exchange);
    let calls = |turns| Calls::begun(call.collective.name(), batch, turns, call.bytes());
    leave(stream, tasks, comm, under_way.turn, calls);
}
