//! Ranks that join in the background because their `blocking` is 0: a thread of the library joins, and the program asks for the
//! communicator's state until it is no longer "in progress".
//!
//! ```text
//!     waiting ---> under way --- all have come ---> (not here any more: the handle is of a live communicator)
//!        |             '-------- it failed, or was aborted ---> failed, until the program destroys or aborts it
//!        '--- it was aborted ---> without a handle; the other ranks are told when its turn comes
//! ```
//!
//! While children join, their parent takes no calls of the program (`registry::hold_for_children`). Children of one parent that were
//! begun together join in their order.

use super::shared::CommHandle;
use crate::error::{Code, Error, Result};
use crate::sync::lock::{Condvar, Mutex};
use crate::sync::prim::{AtomicBool, Ordering};
use crate::sys::fork::{KEPT, PerFork};
use crate::sys::interrupt;
use crate::sys::progress_hook::WaitHook;
use std::sync::Arc;
use std::time::Duration;

/// A rank whose handle is not of a live communicator yet.
struct Entry {
    ticket: u64,
    /// `None`: a child that the rank is not in, or whose program has aborted it.
    handle: Option<CommHandle>,
    /// The communicator that it is made from.
    parent: Option<CommHandle>,
    state: State,
    /// The program has aborted the attempt. While it is under way, this interrupts the thread's waits.
    aborted: Arc<AtomicBool>,
}

enum State {
    /// Others that were begun together with it come first.
    Waiting,
    UnderWay,
    Failed(Error),
}

impl State {
    fn is_over(&self) -> bool {
        matches!(self, State::Failed(_))
    }
}

#[derive(Default)]
struct Joining {
    entries: Vec<Entry>,
    tickets: u64,
}

impl Joining {
    fn of(&mut self, handle: CommHandle) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.handle == Some(handle))
    }
    fn entry(&mut self, ticket: JoinTicket) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.ticket == ticket.0)
    }
    fn remove(&mut self, handle: CommHandle) {
        self.entries.retain(|entry| entry.handle != Some(handle));
    }
}

static JOINING: PerFork<Mutex<Joining>> =
    PerFork::new([const { Mutex::new(Joining { entries: Vec::new(), tickets: 0 }) }; KEPT]);
static ENDED: Condvar = Condvar::new();

/// The time between two looks of a thread that waits for the end of an attempt.
const PERIOD: Duration = Duration::from_millis(10);

/// Names an attempt to join.
#[derive(Clone, Copy)]
pub(super) struct JoinTicket(u64);

/// Lists a rank that is going to join. `waits`: others come first.
pub(super) fn list(handle: Option<CommHandle>, parent: Option<CommHandle>, waits: bool) -> JoinTicket {
    let mut all = JOINING.own().lock();
    all.tickets += 1;
    let ticket = all.tickets;
    let state = if waits { State::Waiting } else { State::UnderWay };
    all.entries.push(Entry { ticket, handle, parent, state, aborted: Arc::default() });
    JoinTicket(ticket)
}

/// Notes that the rank begins to join, on this thread, whose waits an abort interrupts. Fails if its program has aborted that
/// meanwhile.
pub(super) fn begin(ticket: JoinTicket) -> Result<()> {
    let mut all = JOINING.own().lock();
    let entry = all.entry(ticket).ok_or_else(|| Error::internal("a rank joins that is not listed"))?;
    match entry.state {
        State::Waiting if entry.aborted.load(Ordering::Relaxed) => Err(aborted()),
        _ => {
            entry.state = State::UnderWay;
            interrupt::follow(entry.aborted.clone());
            Ok(())
        }
    }
}

/// Notes how that ended. The handle of one that has joined is of a live communicator by now.
pub(super) fn end(ticket: JoinTicket, joined: &Result<()>) {
    let mut all = JOINING.own().lock();
    match (joined, all.entry(ticket)) {
        (Err(e), Some(entry)) if entry.handle.is_some() => entry.state = State::Failed(e.clone()),
        _ => all.entries.retain(|entry| entry.ticket != ticket.0),
    }
    ENDED.notify_all();
}

/// Returns the state of a rank that joins or could not; `None`: it is neither.
pub(super) fn state(handle: CommHandle) -> Option<Code> {
    let known = JOINING.own().lock().of(handle).map(|entry| match &entry.state {
        State::Waiting | State::UnderWay => Code::InProgress,
        State::Failed(e) => e.code,
    });
    known.or_else(|| is_parents(handle).then_some(Code::InvalidUsage))
}

/// Tells whether it was joined when this process was forked, as far as that can be told.
fn is_parents(handle: CommHandle) -> bool {
    let parents = JOINING.parents().and_then(|parents| parents.try_lock());
    parents.is_some_and(|mut parents| parents.of(handle).is_some())
}

/// Tells whether a communicator that is made from this one joins in the background.
pub(super) fn is_parent(parent: CommHandle) -> bool {
    let all = JOINING.own().lock();
    all.entries.iter().any(|entry| entry.parent == Some(parent) && !entry.state.is_over())
}

/// Returns why a handle takes no calls, if it is that of a rank that joins or could not.
pub(super) fn refusal(handle: CommHandle) -> Option<Error> {
    let known = JOINING.own().lock().of(handle).map(|entry| match &entry.state {
        State::Waiting | State::UnderWay => Error::usage(
            "the communicator is still being joined (its blocking is 0); call pennyCommGetAsyncError until the state is not \
             pennyInProgress",
        ),
        State::Failed(e) => Error::new(e.code, format!("the communicator could not be joined: {e}")),
    });
    let forked =
        || Error::usage("this process was forked while the communicator was joined; make a new one here");
    known.or_else(|| is_parents(handle).then(forked))
}

/// Fails if the program has aborted the attempt of this rank, if it joins in the background.
pub(super) fn check(handle: CommHandle) -> Result<()> {
    let mut all = JOINING.own().lock();
    let is_aborted = all.of(handle).is_some_and(|entry| entry.aborted.load(Ordering::Relaxed));
    if is_aborted { Err(aborted()) } else { Ok(()) }
}

fn aborted() -> Error {
    Error::remote("the rank's program aborted the communicator while it joined")
}

/// Destroys what could not join. `None`: the handle is of no such rank. An attempt that is under way is not ended.
pub(super) fn destroy(handle: CommHandle) -> Option<Result<()>> {
    let mut all = JOINING.own().lock();
    match all.of(handle)?.state {
        State::Waiting | State::UnderWay => Some(Err(Error::usage(
            "the communicator is still being joined (its blocking is 0); pennyCommAbort ends that, or call \
             pennyCommGetAsyncError until the state is not pennyInProgress",
        ))),
        State::Failed(_) => {
            all.remove(handle);
            Some(Ok(()))
        }
    }
}

/// Ends the attempt of a rank that joins, and waits for that. Returns false where the handle is of no such rank, or of one that
/// has joined meanwhile.
pub(super) fn abort(handle: CommHandle) -> bool {
    let mut hook = WaitHook::default();
    let mut all = JOINING.own().lock();
    // BOUND: who joins looks for the abort now and then.
    loop {
        let Some(entry) = all.of(handle) else { return false };
        entry.aborted.store(true, Ordering::Relaxed);
        match entry.state {
            State::UnderWay => {}
            State::Failed(_) => break,
            State::Waiting => {
                entry.handle = None;
                return true;
            }
        }
        drop(all);
        let pause = hook.shorten(PERIOD);
        all = ENDED.wait_timeout(JOINING.own().lock(), pause);
    }
    all.remove(handle);
    true
}
