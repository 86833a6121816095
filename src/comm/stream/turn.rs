//! The order of one communicator's calls on streams.
//!
//! A communicator's calls are made in the order in which they were queued, on whichever streams, because that is the order
//! in which all its ranks make them. Each takes a number when it is queued, and its stream waits until all before it are
//! over. A call that is made without a stream waits for those that are queued. An abort ends all turns at once.

use crate::comm::progress::drive_until;
use crate::error::{Error, Result};
use crate::fabric::live::program_time;
use crate::sync::event_count::EventCount;
use crate::sync::lock::Mutex;
use crate::sync::prim::{AtomicU64, Ordering};
use crate::sys::fork;
use crate::sys::interrupt::Interrupted;
use std::cell::Cell;
use std::time::Duration;

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Is this thread some stream's worker?
pub(super) fn is_worker() -> bool {
    IS_WORKER.get()
}

/// From now on this thread is a stream's worker.
pub(super) fn become_worker() {
    IS_WORKER.set(true);
    program_time::work_apart();
}

/// Does something as a thread of the program would do it, which is no stream's worker.
pub(super) fn as_no_worker<T>(act: impl FnOnce() -> T) -> T {
    let was = IS_WORKER.replace(false);
    let done = act();
    IS_WORKER.set(was);
    done
}

/// An error on the worker threads themselves, which would wait for their own end.
pub(in crate::comm) fn refuse_worker() -> Result<()> {
    if is_worker() {
        return Err(Error::usage(
            "a function that a stream has called may not wait for streams, nor for calls that are queued on them; wait in \
             another thread",
        ));
    }
    Ok(())
}

/// Refuses streams and events in a forked child, which has none of its parent's workers.
pub(super) fn refuse_forked(generation: u32, what: &str) -> Result<()> {
    if generation == fork::generation() {
        return Ok(());
    }
    Err(Error::usage(format!(
        "this process was forked from the one that made the {what}, whose threads it lacks; make a new one here"
    )))
}

/// The error of a call whose communicator was aborted before it began.
pub(in crate::comm) fn aborted() -> Error {
    Error::remote("the communicator was aborted while the call was queued")
}

/// `CallTurns::over` after an abort.
const ABORTED: u64 = u64::MAX;

/// The turns of a communicator's calls over its streams (see the head of this file), from 1 on.
#[derive(Default)]
pub(in crate::comm) struct CallTurns {
    /// Turns that have been taken.
    taken: AtomicU64,
    /// Turns that are over.
    over: EventCount,
    /// The first failure.
    failure: Mutex<Option<Error>>,
}

impl CallTurns {
    /// A turn that is over, for a call that has begun before it could take one.
    pub(super) const PAST: u64 = 0;

    /// Takes the next turn.
    pub(super) fn take(&self) -> u64 {
        self.taken.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Takes the next turn, if all before it are over.
    pub(super) fn take_first(&self) -> Option<u64> {
        let taken = self.taken.load(Ordering::Relaxed);
        let is_first = taken <= self.over.get()
            && self.taken.compare_exchange(taken, taken + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        is_first.then_some(taken + 1)
    }

    /// Tells whether a turn has come: what is before it is over, or there are no turns any more.
    pub(super) fn has_come(&self, turn: u64) -> bool {
        self.over.get().saturating_add(1) >= turn
    }

    /// Ends a turn.
    pub(super) fn end(&self, turn: u64) {
        self.over.raise(turn);
    }

    /// Records the failure of a call on a stream.
    pub(in crate::comm) fn failed(&self, error: &Error) {
        self.failure.lock().get_or_insert_with(|| error.clone());
    }

    /// No turn is waited for any more.
    pub(in crate::comm) fn abort(&self) {
        self.over.raise(ABORTED);
    }

    /// Turns that have been taken so far.
    pub(in crate::comm) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Tells whether no call is queued.
    #[inline]
    pub(in crate::comm) fn are_over(&self) -> bool {
        // Whoever has queued something sees it; that another thread just does so is no order.
        self.taken.load(Ordering::Relaxed) <= self.over.get()
    }

    /// Waits until the first `turns` turns are over, and goes on with what is queued meanwhile.
    pub(in crate::comm) fn await_over(&self, turns: u64) -> Result<(), Interrupted> {
        drive_until(None, &self.over, turns)
    }

    /// Sleeps until a turn has come, or for `most`. Returns false if it has come already.
    pub(super) fn sleep(&self, turn: u64, most: Duration) -> bool {
        let is_awaited = !self.has_come(turn);
        if is_awaited {
            self.over.reach_within(turn - 1, most);
        }
        is_awaited
    }

    /// The first failure of a call on a stream.
    pub(in crate::comm) fn failure(&self) -> Option<Error> {
        self.failure.lock().clone()
    }
}
