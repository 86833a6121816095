//! Streams: queues of calls that are made in order, beside what their program does.
//!
//! ```text
//!     caller                     stream A                         stream B
//!     all_reduce(c, A)  ----->   all_reduce: turn 0 of c
//!     record(e, A)      ----->   e := done, and how it went
//!     wait_event(B, e)  ----->                                    until e is done
//!     broadcast(c, B)   ----->                                    broadcast: turn 1 of c, after turn 0 (`turn.rs`)
//!     synchronize(B)    <-------------------------------------    done
//! ```
//!
//! Calls are polled (`group/polled.rs`), so any thread can take them up: one that waits for a stream, an event or a queued
//! call makes what is queued itself (`queue.rs`). A stream's worker thread (`worker.rs`) does where nobody waits.
//!
//! Arguments are checked when a call is queued; whatever fails later is told three times: by the next event of the stream
//! (`event.rs`), by the next [`stream_synchronize`], and by the communicator's state. Calls queued behind a failure still
//! run: their communicator decides whether they can succeed, and its other ranks wait for them.
//!
//! One thread of the process queues at a time. The queues and each communicator's turns therefore have one order, and no
//! cycle of waiting streams can arise. A call that is made at once (`at_once.rs`) is the first on its stream and of its communicator,
//! and keeps both until it is over or queued.

mod at_once;
mod event;
mod failures;
mod helping;
mod parts;
mod queue;
mod readiness;
mod small_parts;
pub(super) mod table;
mod task;
mod transfers;
pub(super) mod turn;
mod worker;

pub(super) use at_once::{make_at_once, make_group_at_once};
pub use event::{EventHandle, event_create, event_destroy, event_elapsed_ms, event_query, event_synchronize};
pub use table::StreamHandle;
pub(super) use table::{Placed, check};
pub(super) use transfers::make_transfers_at_once;
pub(super) use turn::refuse_worker;

use super::group::batch::{Batch, HEAVY};
use super::group::one_pass;
use super::progress::{self, Drivable, drive_polled, note_in_vain, note_over};
use super::recorder;
use super::registry;
use super::shared::CommShared;
use crate::error::{Error, Result};
use crate::fabric::live::polls;
use crate::fabric::live::program_time::{self, Moment};
use crate::sync::lock::Mutex;
use crate::sync::prim::{AtomicU64, Ordering};
use crate::sys::{background, fork};
use event::Point;
use queue::StreamQueue;
use std::sync::Arc;
use table::{STREAMS, find};
use task::{Awaited, Calls, StreamTask, Timed};
use turn::is_worker;

/// Bytes of a worker's stack: functions of the program run there, too.
const STACK: usize = 8 << 20;

/// Held while something is queued; see the head of this file.
static QUEUING: Mutex<()> = Mutex::new(());

/// Make a stream, whose worker thread runs until [`stream_destroy`].
pub fn stream_create() -> Result<StreamHandle> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    fork::watch();
    let stream = Arc::new(StreamQueue::new(fork::generation()));
    let theirs = stream.clone();
    let name = format!("penny-strm-{}", MADE.fetch_add(1, Ordering::Relaxed) % 1000);
    let thread = background::spawn_with_stack(&name, STACK, move || worker::work(&theirs));
    let thread = thread.map_err(|e| Error::system(format!("no thread for a stream ({e}); destroy some")))?;
    *stream.worker.lock() = Some(thread);
    let inserted = STREAMS.insert(stream.clone());
    inserted.ok_or_else(|| {
        end(&stream);
        Error::system("this process has as many streams as it can have; destroy some")
    })
}

/// Ends a stream when all work queued on it has completed; returns its first failure that was not reported yet.
pub fn stream_destroy(stream: StreamHandle) -> Result<()> {
    refuse_worker()?;
    let _recorded = recorder::record(|d| d.synchronize(stream.bits()));
    let found = find(stream)?;
    let mut interrupted = Ok(());
    // BOUND: what is queued. An interruption ends the calls that wait for other ranks, but not the wait for the worker, which
    // uses their buffers.
    while let Err(error) = found.settle() {
        interrupted = Err(error);
    }
    // Whoever comes second finds it gone.
    STREAMS
        .remove(stream)
        .ok_or_else(|| Error::argument("stream was destroyed by another thread just now"))?;
    end(&found);
    interrupted.and(found.failures.untold())
}

fn end(stream: &Arc<StreamQueue>) {
    {
        let _order = QUEUING.lock();
        stream.ended.store(true, Ordering::Relaxed);
        stream.push(StreamTask::End);
    }
    let worker = stream.worker.lock().take();
    if let Some(worker) = worker {
        stream.is_worker_only.store(true, Ordering::Relaxed);
        worker.thread().unpark();
        let _ = worker.join();
    }
}

/// Returns the time that a stream has reached, and its first failure that no synchronisation has told.
fn outcome(stream: &Arc<StreamQueue>) -> (Moment, Result<()>) {
    (stream.reached(), stream.failures.untold())
}

/// Does something with a stream if it is idle; `None`: it has to be looked at more closely.
fn if_idle<T>(stream: StreamHandle, act: impl FnOnce(&Arc<StreamQueue>) -> T) -> Option<T> {
    let is_idle = |stream: &Arc<StreamQueue>| stream.is_idle() && stream.generation == fork::generation();
    STREAMS.with(stream, |stream| is_idle(stream).then(|| act(stream)))?
}

/// Waits until everything is over that has been queued on a stream; its first failure that no synchronisation has told.
pub fn stream_synchronize(stream: Option<StreamHandle>) -> Result<()> {
    let Some(stream) = stream else { return Ok(()) };
    refuse_worker()?;
    let _recorded = recorder::record(|d| d.synchronize(stream.bits()));
    let (reached, outcome) = match if_idle(stream, outcome) {
        Some(found) => found,
        None => {
            let stream = find(stream)?;
            stream.settle()?;
            outcome(&stream)
        }
    };
    program_time::know(reached);
    outcome
}

/// Tests without waiting: an error of code `InProgress` if work has not completed.
pub fn stream_query(stream: Option<StreamHandle>) -> Result<()> {
    let Some(handle) = stream else { return Ok(()) };
    let is_over = |stream: &Arc<StreamQueue>| {
        note_over(stream);
        outcome(stream)
    };
    let (reached, outcome) = match if_idle(handle, is_over) {
        Some(found) => found,
        None => {
            let stream = find(handle)?;
            if !stream.is_idle() {
                drive_polled(&*stream);
            }
            if !stream.is_idle() {
                note_in_vain(&stream, |stream| stream.is_idle());
                return Err(Error::pending());
            }
            is_over(&stream)
        }
    };
    program_time::find(reached);
    let _recorded = recorder::record(|d| d.synchronize(handle.bits()));
    outcome
}

/// Records an event on a stream: it reports the completion and the outcome of all work queued so far.
pub fn event_record(event: EventHandle, stream: Option<StreamHandle>) -> Result<()> {
    let _recorded = recorder::record(|d| d.event(event.bits(), stream.map_or(0, StreamHandle::bits)));
    let event = event::find(event)?;
    let Some(stream) = stream.map(find).transpose()? else {
        event.record().pass(program_time::known(), None);
        return Ok(());
    };
    let _order = QUEUING.lock();
    stream.is_open()?;
    stream.push(StreamTask::Record(event.record(), program_time::queue()));
    Ok(())
}

/// Makes work that is queued on a stream from now on wait for an event as it is recorded now; without a stream the caller
/// waits.
pub fn stream_wait_event(stream: Option<StreamHandle>, event: EventHandle) -> Result<()> {
    let _recorded = recorder::record(|d| d.await_event(event.bits(), stream.map_or(0, StreamHandle::bits)));
    let event = event::find(event)?;
    let stream = stream.map(find).transpose()?;
    let Some(point) = event.point() else { return Ok(()) };
    let Some(stream) = stream else {
        refuse_worker()?;
        return point.await_passed();
    };
    let _order = QUEUING.lock();
    stream.is_open()?;
    stream.push(StreamTask::Await(point, Awaited::Event));
    Ok(())
}

/// Queues a call of a function on a stream; without a stream the function is called at once.
pub fn stream_host_function(
    stream: Option<StreamHandle>,
    function: impl FnOnce() + Send + 'static,
) -> Result<()> {
    let Some(stream) = stream else {
        function();
        return Ok(());
    };
    let stream = find(stream)?;
    let _order = QUEUING.lock();
    stream.is_open()?;
    stream.push(StreamTask::Call(Some(Box::new(function))));
    Ok(())
}

/// Queues checked calls, each on its stream, those that have nothing to do with each other apart from each other ([`parts`]). Calls of a part
/// are queued on the first of its streams: they begin when all of its streams have reached this point, and all continue when they
/// have completed. If a stream is `None` all calls are one part, and the caller waits for it and gets the outcome.
///
/// On a declared machine the caller runs them at once, unless a stream is still busy: the program's thread declares what it
/// computes, in the order of its calls. A thread that calls for other ranks of the machine as well must go on to queue their
/// calls, which this one waits for, so there the stream's own thread makes them.
pub(super) fn queue(batch: Batch, streams: &[Option<StreamHandle>]) -> Result<()> {
    assert_eq!(batch.calls.len(), streams.len(), "each call has its stream");
    if let Err(half) = batch.check_own() {
        // An argument that is wrong by itself comes first.
        return Err(streams.iter().flatten().try_for_each(|stream| check(*stream)).err().unwrap_or(half));
    }
    if let ([call], &[Some(stream)]) = (&batch.calls[..], streams) {
        let comm = registry::shared(call.comm())?;
        if !comm.timing.is_declared() {
            return queue_one(batch, stream, comm);
        }
    }
    if batch.calls.len() > 1 && !streams.contains(&None) {
        return queue_parts(batch, streams);
    }
    queue_part(batch, streams, true)
}

fn queue_parts(batch: Batch, streams: &[Option<StreamHandle>]) -> Result<()> {
    // All of the group is queued, or nothing.
    streams.iter().flatten().try_for_each(|stream| find(*stream)?.is_open())?;
    batch.calls.iter().try_for_each(|call| registry::shared(call.comm())?.refuse_queuing())?;
    let is_timed = batch.is_timed();
    if !is_timed && one_pass::are_of_all_ranks(&batch.calls) && !parts::repeats(streams) {
        // What each rank waits for, all of them wait for.
        return queue_part(batch, streams, true);
    }
    let grouped = batch.grouped;
    let calls = batch.calls.into_iter().zip(streams).filter_map(|(call, stream)| Some((call, (*stream)?)));
    let parts = parts::parts(calls.collect(), |comm| registry::shared(comm).ok()?.timing.key());
    let parts = match is_timed {
        true => parts,
        false => match small_parts::make(parts, grouped) {
            Ok(()) => return Ok(()),
            Err(parts) => parts,
        },
    };
    let heavy = !is_timed && parts.len() > 1 && parts.iter().flatten().any(|(call, _)| call.bytes() >= HEAVY);
    let others: Vec<StreamHandle> = match heavy {
        true => parts.iter().skip(1).flatten().map(|(_, on)| *on).collect(),
        false => Vec::new(),
    };
    let is_whole = parts.len() == 1;
    for part in parts {
        let (calls, streams): (Vec<_>, Vec<_>) = part.into_iter().map(|(call, on)| (call, Some(on))).unzip();
        let batch = Batch { calls, grouped };
        match (&batch.calls[..], &streams[..]) {
            ([call], &[Some(stream)]) if !is_timed => {
                let comm = registry::shared(call.comm())?;
                queue_one(batch, stream, comm)?;
            }
            _ => queue_part(batch, &streams, is_whole)?,
        }
    }
    // One thread has queued for several ranks, and goes on to queue: a second may make what is queued.
    progress::call_help_of(others.iter().filter_map(|on| Some(find(*on).ok()? as Arc<dyn Drivable>)));
    Ok(())
}

/// Queues a part of a group. `is_whole`: it is all of it; otherwise other parts, for which this one may wait, are queued after it.
fn queue_part(batch: Batch, streams: &[Option<StreamHandle>], is_whole: bool) -> Result<()> {
    let waits = streams.contains(&None);
    if waits {
        refuse_worker()?;
    }
    let found = |stream: &Option<StreamHandle>| stream.map(find).transpose();
    let of_call = streams.iter().map(found).collect::<Result<Vec<_>>>()?;
    let comms = batch.calls.iter().map(|call| registry::shared(call.comm())).collect::<Result<Vec<_>>>()?;
    let streams = parts::distinct(of_call.iter().flatten().cloned().collect());
    let timed = |stream: &Arc<StreamQueue>| {
        let is_its = |of: &&Option<Arc<StreamQueue>>| of.as_ref().is_some_and(|of| Arc::ptr_eq(of, stream));
        Timed::of(of_call.iter().zip(&comms).filter(|(of, _)| is_its(of)).map(|(_, comm)| comm.clone()))
    };
    let Some((first, others)) = streams.split_first() else {
        return Err(Error::internal("calls were queued on no stream"));
    };
    let all = parts::distinct(comms.clone());
    all.iter().try_for_each(|comm| comm.refuse_queuing())?;
    let may_wait = |comm: &Arc<CommShared>| comm.timing.is_declared() && !comm.timing.is_one_of_several();
    // Calls of several ranks show it, too.
    let is_one_rank = all.iter().all(|comm| comm.timing.key() == all[0].timing.key());
    let in_place = is_whole
        && is_one_rank
        && all.iter().any(may_wait)
        && !is_worker()
        && streams.iter().all(|stream| stream.is_idle());
    if !is_worker() {
        all.iter().filter_map(|comm| comm.timing.participant()).for_each(|rank| rank.note_caller());
        polls::act();
        polls::come_back();
    }
    if in_place {
        let timed: Vec<Timed> = streams.iter().map(timed).collect();
        let known = program_time::queue();
        for (stream, timed) in streams.iter().zip(&timed) {
            timed.begin_after(known.later(stream.reached()));
        }
        let ended = task::run(batch, &all);
        for (stream, timed) in streams.iter().zip(&timed) {
            stream.reach(timed.moment());
        }
        if let Err(error) = &ended {
            streams.iter().for_each(|stream| stream.failures.add(error));
        }
        if !waits {
            return Ok(());
        }
        all.iter().for_each(|comm| program_time::know(comm.timing.moment()));
        return ended;
    }
    let over = Arc::new(Point::default());
    {
        let _order = QUEUING.lock();
        streams.iter().try_for_each(|stream| stream.is_open())?;
        let known = program_time::queue();
        for other in others {
            let come = Arc::new(Point::default());
            other.push(StreamTask::Pass(come.clone(), timed(other), known));
            first.push(StreamTask::Await(come, Awaited::Streams));
        }
        let failures = others.iter().map(|other| other.failures.clone()).collect();
        let turns = all.into_iter().map(|comm| (comm.turns.take(), comm)).collect();
        let calls = Calls::new(batch, turns, failures, Some(over.clone()), timed(first));
        first.push(StreamTask::Calls(calls));
        for other in others {
            other.push(StreamTask::Await(over.clone(), Awaited::Group(timed(other))));
        }
    }
    if waits {
        over.await_passed()?;
        comms.iter().for_each(|comm| program_time::know(comm.timing.moment()));
        return over.outcome();
    }
    Ok(())
}

/// Queues one call on one stream, for which nobody but that stream waits: the common case.
fn queue_one(batch: Batch, stream: StreamHandle, comm: Arc<CommShared>) -> Result<()> {
    let stream = find(stream)?;
    comm.refuse_queuing()?;
    let _order = QUEUING.lock();
    stream.is_open()?;
    let timed = Timed::of(std::iter::once(comm.clone()));
    let turns = vec![(comm.turns.take(), comm)];
    stream.push(StreamTask::Calls(Calls::new(batch, turns, Vec::new(), None, timed)));
    Ok(())
}
