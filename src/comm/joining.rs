//! Ranks that join in the background because their `blocking` is 0: a thread of the library joins, and the program asks for the
//! communicator's state until it is no longer "in progress".
//!
//! ```text
//!     begin ---> under way --- all have come ---> (not here any more: the handle is of a live communicator)
//!                    |
//!                    '-------- it failed, or was aborted ---> failed, until the program destroys or aborts it
//! ```

use super::shared::CommHandle;
use crate::error::{Code, Error, Result};
use crate::sync::lock::{Condvar, Mutex};
use crate::sys::fork;
use std::time::Duration;

/// A rank whose handle is not of a live communicator yet.
struct Entry {
    handle: CommHandle,
    /// What it is made from.
    parent: Option<CommHandle>,
    state: State,
    /// The process that joins.
    generation: u32,
}

enum State {
    UnderWay { aborted: bool },
    Failed(Error),
}

static JOINING: Mutex<Vec<Entry>> = Mutex::new(Vec::new());
static ENDED: Condvar = Condvar::new();

/// How often a thread looks that waits for the end of an attempt.
const PERIOD: Duration = Duration::from_millis(10);

fn find(all: &mut [Entry], handle: CommHandle) -> Option<&mut Entry> {
    all.iter_mut().find(|entry| entry.handle == handle)
}

/// Notes that a rank begins to join.
pub(super) fn begin(handle: CommHandle, parent: Option<CommHandle>) {
    let state = State::UnderWay { aborted: false };
    JOINING.lock().push(Entry { handle, parent, state, generation: fork::generation() });
}

/// Notes how that ended. The handle of one that has joined is of a live communicator by now.
pub(super) fn end(handle: CommHandle, joined: &Result<()>) {
    let mut all = JOINING.lock();
    match joined {
        Ok(()) => all.retain(|entry| entry.handle != handle),
        Err(e) => find(&mut all, handle).into_iter().for_each(|entry| entry.state = State::Failed(e.clone())),
    }
    ENDED.notify_all();
}

/// Returns the state of a rank that joins or could not; `None`: it is neither.
pub(super) fn state(handle: CommHandle) -> Option<Code> {
    let mut all = JOINING.lock();
    let entry = find(&mut all, handle)?;
    Some(match &entry.state {
        _ if entry.generation != fork::generation() => Code::InvalidUsage,
        State::UnderWay { .. } => Code::InProgress,
        State::Failed(e) => e.code,
    })
}

/// Tells whether a communicator that is made from this one joins in the background.
pub(super) fn is_parent(parent: CommHandle) -> bool {
    JOINING.lock().iter().any(|entry| {
        entry.parent == Some(parent)
            && matches!(entry.state, State::UnderWay { .. })
            && entry.generation == fork::generation()
    })
}

/// Returns why a handle takes no calls, if it is that of a rank that joins or could not.
pub(super) fn refusal(handle: CommHandle) -> Option<Error> {
    let mut all = JOINING.lock();
    let entry = find(&mut all, handle)?;
    Some(match &entry.state {
        _ if entry.generation != fork::generation() => {
            Error::usage("this process was forked while the communicator was joined; make a new one here")
        }
        State::UnderWay { .. } => Error::usage(
            "the communicator is still being joined (its blocking is 0); call pennyCommGetAsyncError until the state is not \
             pennyInProgress",
        ),
        State::Failed(e) => Error::new(e.code, format!("the communicator could not be joined: {e}")),
    })
}

/// Fails if the program has aborted the attempt. `None`: the rank does not join in the background.
pub(super) fn check(handle: Option<CommHandle>) -> Result<()> {
    let aborted = |handle| {
        let mut all = JOINING.lock();
        find(&mut all, handle).is_some_and(|entry| matches!(entry.state, State::UnderWay { aborted: true }))
    };
    match handle {
        Some(handle) if aborted(handle) => {
            Err(Error::remote("the rank's program aborted the communicator while it joined"))
        }
        _ => Ok(()),
    }
}

/// Destroys what could not join. `None`: the handle is of no such rank. An attempt that is under way is not ended.
pub(super) fn destroy(handle: CommHandle) -> Option<Result<()>> {
    let mut all = JOINING.lock();
    match find(&mut all, handle)?.state {
        State::UnderWay { .. } => Some(Err(Error::usage(
            "the communicator is still being joined (its blocking is 0); pennyCommAbort ends that, or call \
             pennyCommGetAsyncError until the state is not pennyInProgress",
        ))),
        State::Failed(_) => {
            all.retain(|entry| entry.handle != handle);
            Some(Ok(()))
        }
    }
}

/// Ends the attempt of a rank that joins, and waits for that. Returns false where the handle is of no such rank, or of one that
/// has joined meanwhile.
pub(super) fn abort(handle: CommHandle) -> bool {
    let mut all = JOINING.lock();
    // BOUND: who joins looks for the abort now and then.
    loop {
        match find(&mut all, handle) {
            None => return false,
            Some(Entry { generation, .. }) if *generation != fork::generation() => break,
            Some(Entry { state: State::Failed(_), .. }) => break,
            Some(Entry { state: State::UnderWay { aborted }, .. }) => *aborted = true,
        }
        all = ENDED.wait_timeout(all, PERIOD);
    }
    all.retain(|entry| entry.handle != handle);
    true
}
