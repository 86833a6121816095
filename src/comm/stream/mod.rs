//! Streams: queues of calls, each with a worker thread that makes them in order.
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
//! Arguments are checked when a call is queued; whatever fails later is told three times: by the next event of the stream
//! (`event.rs`), by the next [`stream_synchronize`], and by the communicator's state. Calls queued behind a failure still
//! run: their communicator decides whether they can succeed, and its other ranks wait for them.
//!
//! One thread of the process queues at a time. The queues and each communicator's turns therefore have one order, and no
//! cycle of waiting streams can arise.

mod event;
pub(super) mod turn;
mod worker;

pub use event::{EventHandle, event_create, event_destroy, event_elapsed_ms, event_query, event_synchronize};
pub(super) use turn::refuse_worker;

use super::group::batch::Batch;
use super::registry::{self, Entry, unless_interrupted};
use crate::error::{Code, Error, Result};
use crate::handle::{self, Objects, Remembered, StreamKind};
use crate::sync::event_count::EventCount;
use crate::sync::lock::Mutex;
use crate::sync::prim::{AtomicBool, AtomicU64, Ordering};
use crate::sys::{background, fork};
use event::Point;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;
use turn::is_worker;
use worker::{Calls, StreamTask};

/// Names a stream of this process.
pub type StreamHandle = handle::Handle<StreamKind>;

struct Stream {
    jobs: Mutex<VecDeque<StreamTask>>,
    /// Jobs that have been queued.
    queued: EventCount,
    /// Jobs that are over.
    done: EventCount,
    failures: Mutex<Failures>,
    /// Its end is queued, and nothing can be queued behind that. Changes while [`QUEUING`] is held.
    ended: AtomicBool,
    worker: Mutex<Option<JoinHandle<()>>>,
    /// The process that made it: a forked child has no worker.
    generation: u32,
}

/// The first failures that were not reported yet.
#[derive(Default)]
struct Failures {
    /// Since the last synchronisation.
    unsynchronized: Option<Error>,
    /// Since the last event.
    unrecorded: Option<Error>,
}

thread_local! {
    static LAST: Remembered<StreamKind, Stream> = const { RefCell::new(None) };
}
static STREAMS: Objects<StreamKind, Stream> = Objects::new(&LAST);

/// Bytes of a worker's stack: functions of the program run there, too.
const STACK: usize = 8 << 20;

/// Held while something is queued; see the head of this file.
static QUEUING: Mutex<()> = Mutex::new(());

impl Stream {
    /// Checks that calls may be queued. The caller holds [`QUEUING`].
    fn is_open(&self) -> Result<()> {
        if self.ended.load(Ordering::Relaxed) { Err(Error::argument(NOT_LIVE)) } else { Ok(()) }
    }

    /// Queues a job, if it [is open](Self::is_open). The caller holds [`QUEUING`].
    fn push(&self, job: StreamTask) {
        let mut jobs = self.jobs.lock();
        jobs.push_back(job);
        self.queued.raise(self.queued.get() + 1);
    }

    /// Returns the next job, and its number; waits until there is one.
    fn next(&self) -> (StreamTask, u64) {
        let number = self.done.get() + 1;
        self.queued.reach(number);
        let job = self.jobs.lock().pop_front().expect("as many jobs as were counted");
        (job, number)
    }

    /// Waits until everything is over that has been queued so far.
    fn settle(&self) -> Result<()> {
        unless_interrupted(self.done.reach_unless_interrupted(self.queued.get()))
    }

    /// Returns the first failure that no synchronisation has reported.
    fn untold(&self) -> Result<()> {
        self.failures.lock().unsynchronized.take().map_or(Ok(()), Err)
    }

    fn is_idle(&self) -> bool {
        self.done.get() == self.queued.get()
    }

    fn failed(&self, error: &Error) {
        let mut failures = self.failures.lock();
        failures.unsynchronized.get_or_insert_with(|| error.clone());
        failures.unrecorded.get_or_insert_with(|| error.clone());
    }
}

fn find(stream: StreamHandle) -> Result<Arc<Stream>> {
    let found = STREAMS.get(stream).ok_or_else(|| stream.refusal("stream", format_args!("{NOT_LIVE}")))?;
    refuse_forked(found.generation, "stream")?;
    Ok(found)
}

const NOT_LIVE: &str = "stream is not a live stream: it was destroyed already, or never created by pennyStreamCreate; pass \
                        NULL to run the call here";

/// Refuses streams in a forked child, which has none of its parent's workers.
fn refuse_forked(generation: u32, what: &str) -> Result<()> {
    if generation == fork::generation() {
        return Ok(());
    }
    Err(Error::usage(format!(
        "this process was forked from the one that made the {what}, whose threads it lacks; make a new one here"
    )))
}

/// Checks that the stream exists, for a call that is queued later.
pub(super) fn check(stream: StreamHandle) -> Result<()> {
    find(stream).map(drop)
}

/// Make a stream, whose worker thread runs until [`stream_destroy`].
pub fn stream_create() -> Result<StreamHandle> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    fork::watch();
    let stream = Arc::new(Stream {
        jobs: Mutex::default(),
        queued: EventCount::default(),
        done: EventCount::default(),
        failures: Mutex::default(),
        ended: AtomicBool::new(false),
        worker: Mutex::default(),
        generation: fork::generation(),
    });
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
    interrupted.and(found.untold())
}

fn end(stream: &Stream) {
    {
        let _order = QUEUING.lock();
        stream.ended.store(true, Ordering::Relaxed);
        stream.push(StreamTask::End);
    }
    if let Some(worker) = stream.worker.lock().take() {
        let _ = worker.join();
    }
}

/// Waits until everything is over that has been queued on a stream; its first failure that no synchronisation has told.
pub fn stream_synchronize(stream: Option<StreamHandle>) -> Result<()> {
    let Some(stream) = stream else { return Ok(()) };
    refuse_worker()?;
    let stream = find(stream)?;
    stream.settle()?;
    stream.untold()
}

/// Tests without waiting: an error of code `InProgress` if work has not completed.
pub fn stream_query(stream: Option<StreamHandle>) -> Result<()> {
    let Some(stream) = stream else { return Ok(()) };
    let stream = find(stream)?;
    if stream.done.get() < stream.queued.get() {
        return Err(in_progress());
    }
    stream.untold()
}

fn in_progress() -> Error {
    Error::new(Code::InProgress, String::new())
}

/// Records an event on a stream: it reports the completion and the outcome of all work queued so far.
pub fn event_record(event: EventHandle, stream: Option<StreamHandle>) -> Result<()> {
    let event = event::find(event)?;
    let Some(stream) = stream.map(find).transpose()? else {
        event.record().pass(None);
        return Ok(());
    };
    let _order = QUEUING.lock();
    stream.is_open()?;
    stream.push(StreamTask::Record(event.record()));
    Ok(())
}

/// Makes work that is queued on a stream from now on wait for an event as it is recorded now; without a stream the caller
/// waits.
pub fn stream_wait_event(stream: Option<StreamHandle>, event: EventHandle) -> Result<()> {
    let event = event::find(event)?;
    let stream = stream.map(find).transpose()?;
    let Some(point) = event.point() else { return Ok(()) };
    let Some(stream) = stream else {
        refuse_worker()?;
        return point.reach_from_outside();
    };
    let _order = QUEUING.lock();
    stream.is_open()?;
    stream.push(StreamTask::Await(point));
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
    stream.push(StreamTask::Call(Box::new(function)));
    Ok(())
}

/// Queues checked calls on the first of these streams. They begin when all streams have reached this point, and all
/// streams continue when they have completed. If one is `None` the caller waits for that, too, and gets the outcome.
///
/// On a declared machine the caller runs them at once, unless a stream is still busy: an unexpected thread would hold the
/// clock there, or let it advance too early.
pub(super) fn queue(batch: Batch, streams: &[Option<StreamHandle>]) -> Result<()> {
    let waits = streams.contains(&None);
    if waits {
        refuse_worker()?;
    }
    let streams = streams.iter().flatten().map(|stream| find(*stream)).collect::<Result<Vec<_>>>()?;
    let streams = distinct(streams);
    let Some((first, others)) = streams.split_first() else {
        return Err(Error::internal("calls were queued on no stream"));
    };
    let comms = batch.calls.iter().map(|call| registry::shared(call.comm())).collect::<Result<Vec<_>>>()?;
    let comms = distinct(comms);
    comms.iter().try_for_each(|comm| comm.refuse_forked())?;
    let on_machine = comms.iter().any(|comm| comm.timing.is_declared());
    if on_machine && !is_worker() && streams.iter().all(|stream| stream.is_idle()) {
        let ended = worker::run(batch, Entry::Caller, &comms);
        if let Err(error) = &ended {
            streams.iter().for_each(|stream| stream.failed(error));
        }
        return if waits { ended } else { Ok(()) };
    }
    let over = Arc::new(Point::default());
    {
        let _order = QUEUING.lock();
        streams.iter().try_for_each(|stream| stream.is_open())?;
        for other in others {
            let come = Arc::new(Point::default());
            other.push(StreamTask::Pass(come.clone()));
            first.push(StreamTask::Await(come));
        }
        let turns = comms.into_iter().map(|comm| (comm.turns.take(), comm)).collect();
        first.push(StreamTask::Calls(Calls { batch, turns, others: others.to_vec(), over: over.clone() }));
        others.iter().for_each(|other| other.push(StreamTask::Await(over.clone())));
    }
    if waits {
        over.reach_from_outside()?;
        return over.outcome();
    }
    Ok(())
}

/// Removes duplicates and keeps the order of first occurrence.
fn distinct<T>(all: Vec<Arc<T>>) -> Vec<Arc<T>> {
    let mut once: Vec<Arc<T>> = Vec::new();
    for one in all {
        if !once.iter().any(|known| Arc::ptr_eq(known, &one)) {
            once.push(one);
        }
    }
    once
}
