//! A stream's worker thread.

use super::super::batch::Batch;
use super::super::poison_as;
use super::super::registry::Entry;
use super::super::shared::Shared;
use super::event::Event;
use super::{Stream, lock};
use crate::error::{Error, Result};
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Something that a stream does when it comes to it.
pub(super) enum Job {
    /// Make calls when their turns on their communicators have come.
    Calls { batch: Batch, turns: Vec<(u64, Arc<Shared>)> },
    /// Tell how it went so far.
    Record { event: Arc<Event>, number: u64 },
    /// Wait for what another stream does.
    Await { event: Arc<Event>, number: u64 },
    /// Call a function of the program.
    Call(Box<dyn FnOnce() + Send>),
    /// Nothing comes after it.
    End,
}

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Is this thread some stream's worker?
pub(super) fn is_worker() -> bool {
    IS_WORKER.get()
}

/// Do what is queued until the end comes.
pub(super) fn work(stream: &Stream) {
    IS_WORKER.set(true);
    // BOUND: the job that ends it.
    loop {
        let (job, number) = stream.next();
        let is_end = matches!(job, Job::End);
        if let Err(error) = carry_out(stream, job) {
            stream.failed(&error);
        }
        stream.done.raise(number);
        if is_end {
            return;
        }
    }
}

fn carry_out(stream: &Stream, job: Job) -> Result<()> {
    match job {
        Job::Calls { batch, turns } => {
            turns.iter().for_each(|(turn, comm)| comm.turns.await_turn(*turn));
            let name = batch.name();
            let ended = catch_unwind(AssertUnwindSafe(|| batch.run(Entry::Worker)))
                .unwrap_or_else(|panic| Err(defect(&*panic, &turns)))
                .map_err(|e| Error { message: format!("{name} on a stream: {}", e.message), ..e });
            turns.iter().for_each(|(turn, comm)| comm.turns.end(*turn, ended.as_ref().err()));
            ended
        }
        Job::Record { event, number } => {
            event.complete(number, lock(&stream.failures).unrecorded.take());
            Ok(())
        }
        Job::Await { event, number } => {
            event.reach(number);
            Ok(())
        }
        Job::Call(function) => catch_unwind(AssertUnwindSafe(function))
            .map_err(|_| Error::internal("a function that a stream has called panicked")),
        Job::End => Ok(()),
    }
}

/// A panic in a call ends its communicators.
fn defect(panic: &(dyn Any + Send), turns: &[(u64, Arc<Shared>)]) -> Error {
    let said = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    let error = Error::internal(format!(
        "a defect in Penny, please report it: {}",
        said.unwrap_or("a panic without words")
    ));
    turns.iter().for_each(|(_, comm)| poison_as(comm.handle, Entry::Worker, &error.message));
    error
}
