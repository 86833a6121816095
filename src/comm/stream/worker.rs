//! A stream's worker thread.

use super::Stream;
use super::event::Point;
use super::turn;
use crate::comm::group::batch::Batch;
use crate::comm::registry::{Entry, poison_as};
use crate::comm::shared::CommShared;
use crate::error::{Error, Result};
use crate::sync::wait::give_way;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A task in a stream's queue.
pub(super) enum StreamTask {
    /// Make calls when their turns on their communicators have come.
    Calls(Calls),
    /// An event is recorded: it tells how it went so far.
    Record(Arc<Point>),
    /// A point that only streams wait for.
    Pass(Arc<Point>),
    /// Wait for what another stream does.
    Await(Arc<Point>),
    /// Call a function of the program.
    Call(Box<dyn FnOnce() + Send>),
    /// The last task of a stream.
    End,
}

/// Calls and what they have to do with others.
pub(super) struct Calls {
    pub batch: Batch,
    /// Its turn on each communicator.
    pub turns: Vec<(u64, Arc<CommShared>)>,
    /// The group's other streams.
    pub others: Vec<Arc<Stream>>,
    /// The point that reports the completion and the outcome of the calls to these streams and to all waiting threads.
    pub over: Arc<Point>,
}

/// Do what is queued until the end comes.
pub(super) fn work(stream: &Stream) {
    turn::become_worker();
    give_way();
    // BOUND: the job that ends it.
    loop {
        let (job, number) = stream.next();
        let is_end = matches!(job, StreamTask::End);
        let recorded = if let StreamTask::Record(point) = &job { Some(point.clone()) } else { None };
        if let Err(error) = carry_out(stream, job) {
            stream.failed(&error);
        }
        // A program that has synchronized with the stream finds the event over, and one that has synchronized with the event
        // finds the stream idle.
        stream.done.raise(number);
        if let Some(point) = recorded {
            point.release();
        }
        if is_end {
            return;
        }
    }
}

fn carry_out(stream: &Stream, job: StreamTask) -> Result<()> {
    match job {
        StreamTask::Calls(calls) => return make(calls),
        StreamTask::Record(point) => point.decide(stream.failures.lock().unrecorded.take()),
        StreamTask::Pass(point) => point.pass(None),
        StreamTask::Await(point) => point.reach(),
        StreamTask::Call(function) => catch_unwind(AssertUnwindSafe(function))
            .map_err(|_| Error::internal("a function that a stream has called panicked"))?,
        StreamTask::End => {}
    }
    Ok(())
}

fn make(Calls { batch, turns, others, over }: Calls) -> Result<()> {
    let comms: Vec<_> = turns.iter().map(|(_, comm)| comm.clone()).collect();
    let come = turns.iter().try_for_each(|(turn, comm)| comm.turns.await_turn(*turn));
    let name = batch.name();
    let ended = come.map_err(|e| on_stream(name, e)).and_then(|()| run(batch, Entry::Worker, &comms));
    if let Err(error) = &ended {
        others.iter().for_each(|other| other.failed(error));
    }
    turns.iter().for_each(|(turn, comm)| comm.turns.end(*turn));
    over.pass(ended.clone().err());
    ended
}

/// Makes calls, and tells their communicators if they fail.
pub(super) fn run(batch: Batch, entry: Entry, comms: &[Arc<CommShared>]) -> Result<()> {
    let name = batch.name();
    let ended = catch_unwind(AssertUnwindSafe(|| batch.run(entry)))
        .unwrap_or_else(|panic| Err(defect(&*panic, entry, comms)))
        .map_err(|e| on_stream(name, e));
    if let Err(error) = &ended {
        comms.iter().for_each(|comm| comm.turns.failed(error));
    }
    ended
}

fn on_stream(name: &str, error: Error) -> Error {
    Error { message: format!("{name} on a stream: {}", error.message), ..error }
}

/// Breaks the communicators of a call that has panicked.
fn defect(panic: &(dyn Any + Send), entry: Entry, comms: &[Arc<CommShared>]) -> Error {
    let error = Error::panicked(panic);
    comms.iter().for_each(|comm| poison_as(comm.handle, entry, &error.message));
    error
}
