//! The communicators of this process, by handle.
//!
//! Entering a communicator takes its lock without waiting: if it is taken, a second thread is in the same communicator,
//! which is reported as a misuse.

use super::communicator::CommCore;
use super::shared::CommShared;
use super::stream::turn::refuse_worker;
use crate::error::{Error, Result};
use crate::handle::{CommKind, Table};
use crate::sync::lock::{Mutex, MutexGuard};
use crate::sys::interrupt::Interrupted;
use std::sync::Arc;

pub use super::shared::CommHandle;

/// The place of a communicator.
#[derive(Default)]
pub(super) struct CommPlace {
    body: Mutex<Option<CommCore>>,
    /// The part that other threads may access while one is inside.
    shared: Mutex<Option<Arc<CommShared>>>,
}

type Communicators = Table<CommKind, CommPlace, 1024>;

static TABLE: Communicators = Table::new();

/// Tells whether the handle is of a live communicator.
#[inline]
pub(super) fn is_live(handle: CommHandle) -> bool {
    live(handle).is_ok()
}

#[inline]
fn live(handle: CommHandle) -> Result<&'static CommPlace> {
    TABLE.live(handle).ok_or_else(|| stale(handle))
}

#[cold]
fn stale(handle: CommHandle) -> Error {
    handle.refusal(
        "comm",
        format_args!("comm is not a live communicator: it was destroyed already, or never created by Penny"),
    )
}

/// Reserves a handle for a communicator that is still to be made; until [`fill`] all other functions treat it as stale.
pub(super) fn reserve() -> Result<CommHandle> {
    TABLE.reserve().ok_or_else(|| {
        Error::system(format!("this process has {} communicators already; destroy some", Communicators::MOST))
    })
}

/// Puts the communicator behind its reserved handle.
pub(super) fn fill(communicator: CommCore) {
    let handle = communicator.handle();
    let place = TABLE.place(handle).expect("reserved");
    *place.shared.lock() = Some(communicator.shared.clone());
    *place.body.lock() = Some(communicator);
    TABLE.open(handle);
}

/// Gives a handle back: it was reserved and not filled, or its communicator has been removed.
pub(super) fn release(handle: CommHandle) {
    TABLE.release(handle);
}

/// The kind of caller that enters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// A thread of the program: what it has queued on streams comes first.
    Caller,
    /// A stream's worker, whose turn has come.
    Worker,
}

/// Enters as the only thread inside.
#[inline]
pub(super) fn enter<T>(handle: CommHandle, inside: impl FnOnce(&mut CommCore) -> Result<T>) -> Result<T> {
    enter_as(handle, Entry::Caller, inside)
}

/// Enters for the given kind of caller.
#[inline]
pub(super) fn enter_as<T>(
    handle: CommHandle,
    entry: Entry,
    inside: impl FnOnce(&mut CommCore) -> Result<T>,
) -> Result<T> {
    let slot = live(handle)?;
    if entry == Entry::Worker {
        // Its turn has come; a thread that is inside has come without one, and before it.
        return occupy(&mut slot.body.lock(), handle, inside);
    }
    match slot.body.try_lock() {
        Some(mut body) if body.as_ref().is_none_or(|c| c.shared.turns.are_over()) => {
            occupy(&mut body, handle, inside)
        }
        found => {
            drop(found);
            occupy(&mut *after_turns(slot, handle)?, handle, inside)
        }
    }
}

/// Is inside when the calls are over that were queued on streams.
#[cold]
fn after_turns(
    slot: &'static CommPlace,
    handle: CommHandle,
) -> Result<MutexGuard<'static, Option<CommCore>>> {
    let shared = shared(handle)?;
    shared.refuse_forked()?;
    // BOUND: it is tried again only after more calls were queued.
    loop {
        let taken = shared.turns.taken();
        await_turns(&shared)?;
        match slot.body.try_lock() {
            Some(body) => return Ok(body),
            // No worker is inside between its turns.
            None if shared.turns.taken() == taken => return Err(occupied()),
            None => {}
        }
    }
}

/// Wait for the calls of a communicator that are queued on streams now.
pub(super) fn await_turns(shared: &CommShared) -> Result<()> {
    if shared.turns.are_over() {
        return Ok(());
    }
    refuse_worker()?;
    unless_interrupted(shared.turns.await_all())
}

/// A thread of the program that waits for streams was interrupted: the calls on streams end, too, or what it waits for would
/// still be under way when its program goes on.
pub(super) fn unless_interrupted(waited: Result<(), Interrupted>) -> Result<()> {
    waited.map_err(|interrupted| {
        busy_on_streams().iter().for_each(|comm| comm.abort());
        interrupted.into()
    })
}

/// Do something inside.
#[inline]
fn occupy<T>(
    body: &mut Option<CommCore>,
    handle: CommHandle,
    inside: impl FnOnce(&mut CommCore) -> Result<T>,
) -> Result<T> {
    match body.as_mut() {
        // The handle may have been destroyed, and even given out again, between the look and the lock.
        Some(communicator) if communicator.handle() == handle => inside(communicator),
        _ => Err(stale(handle)),
    }
}

#[cold]
fn occupied() -> Error {
    Error::usage(
        "another thread is inside a call on this communicator; one thread at a time, or one communicator a thread",
    )
}

/// Returns the part that any thread may access at any time.
pub(super) fn shared(handle: CommHandle) -> Result<Arc<CommShared>> {
    let slot = live(handle)?;
    slot.shared.lock().clone().filter(|s| s.handle == handle).ok_or_else(|| stale(handle))
}

/// Returns the communicators of this process that have calls queued or under way on streams.
pub(super) fn busy_on_streams() -> Vec<Arc<CommShared>> {
    let shared = |(_, place): (CommHandle, &CommPlace)| place.shared.lock().clone();
    TABLE.all().filter_map(shared).filter(|shared| !shared.turns.are_over()).collect()
}

/// Break the communicator after a panic in one of its calls.
pub(super) fn poison_as(comm: CommHandle, entry: Entry, message: &str) {
    let _ = enter_as(comm, entry, |c| {
        c.break_with(&Error::internal(message));
        Ok(())
    });
}

/// Take a communicator out. Waits for a thread that is inside, so whoever aborts must have made it leave.
pub(super) fn remove(handle: CommHandle) -> Result<CommCore> {
    let slot = live(handle)?;
    let mut body = slot.body.lock();
    if body.as_ref().is_none_or(|c| c.handle() != handle) {
        return Err(stale(handle));
    }
    let taken = body.take().ok_or_else(|| stale(handle))?;
    *slot.shared.lock() = None;
    TABLE.close(handle);
    drop(body);
    release(handle);
    Ok(taken)
}
