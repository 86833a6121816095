//! The communicators of this process, by handle.
//!
//! Entering a communicator takes its lock without waiting:
//! whoever finds it taken is a second thread in the same communicator, which is a misuse that we name.

use super::communicator::CommCore;
use super::shared::CommShared;
use super::stream::turn::refuse_worker;
use crate::error::{Error, Result};
use crate::handle::{CommKind, Table};
use crate::sys::interrupt::Interrupted;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

pub use super::shared::CommHandle;

/// Where a communicator is.
#[derive(Default)]
pub(super) struct Place {
    body: Mutex<Option<CommCore>>,
    /// What other threads may see while one is inside.
    shared: Mutex<Option<Arc<CommShared>>>,
}

type Communicators = Table<CommKind, Place, 1024>;

static TABLE: Communicators = Table::new();

/// Is there a communicator behind the handle?
#[inline]
pub(super) fn is_live(handle: CommHandle) -> bool {
    live(handle).is_ok()
}

#[inline]
fn live(handle: CommHandle) -> Result<&'static Place> {
    TABLE.live(handle).ok_or_else(|| stale(handle))
}

#[cold]
fn stale(handle: CommHandle) -> Error {
    handle.refusal(
        "comm",
        format_args!("comm is not a live communicator: it was destroyed already, or never created by Penny"),
    )
}

pub(super) fn ignore_poison<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(|e| e.into_inner())
}

/// A handle whose communicator is still to be made; until [`fill`] it is stale to everybody else.
pub(super) fn reserve() -> Result<CommHandle> {
    TABLE.reserve().ok_or_else(|| {
        Error::system(format!("this process has {} communicators already; destroy some", Communicators::MOST))
    })
}

/// Put the communicator behind its reserved handle.
pub(super) fn fill(communicator: CommCore) {
    let handle = communicator.handle();
    let place = TABLE.place(handle).expect("reserved");
    *ignore_poison(&place.shared) = Some(communicator.shared.clone());
    *ignore_poison(&place.body) = Some(communicator);
    TABLE.open(handle);
}

/// Give a handle back: it was reserved and not filled, or its communicator has been removed.
pub(super) fn release(handle: CommHandle) {
    TABLE.release(handle);
}

/// Who enters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// A thread of the program: what it has queued on streams comes first.
    Caller,
    /// A stream's worker, whose turn has come.
    Worker,
}

/// Be the one thread inside.
#[inline]
pub(super) fn enter<T>(handle: CommHandle, inside: impl FnOnce(&mut CommCore) -> Result<T>) -> Result<T> {
    enter_as(handle, Entry::Caller, inside)
}

/// The same, for whoever it is.
#[inline]
pub(super) fn enter_as<T>(
    handle: CommHandle,
    entry: Entry,
    inside: impl FnOnce(&mut CommCore) -> Result<T>,
) -> Result<T> {
    let slot = live(handle)?;
    if entry == Entry::Worker {
        // Its turn has come; a thread that is inside has come without one, and before it.
        return occupy(&mut ignore_poison(&slot.body), handle, inside);
    }
    let body = match slot.body.try_lock() {
        Ok(body) => Some(body),
        Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    };
    match body {
        Some(mut body) if body.as_ref().is_none_or(|c| c.shared.turns.are_over()) => {
            occupy(&mut body, handle, inside)
        }
        found => {
            drop(found);
            occupy(&mut *after_turns(slot, handle)?, handle, inside)
        }
    }
}

/// Be inside when the calls are over that were queued on streams.
#[cold]
fn after_turns(slot: &'static Place, handle: CommHandle) -> Result<MutexGuard<'static, Option<CommCore>>> {
    let shared = shared(handle)?;
    shared.refuse_forked()?;
    // BOUND: it is tried again only after more calls were queued.
    loop {
        let taken = shared.turns.taken();
        await_turns(&shared)?;
        match slot.body.try_lock() {
            Ok(body) => return Ok(body),
            Err(TryLockError::Poisoned(e)) => return Ok(e.into_inner()),
            // No worker is inside between its turns.
            Err(TryLockError::WouldBlock) if shared.turns.taken() == taken => return Err(occupied()),
            Err(TryLockError::WouldBlock) => {}
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

/// What any thread may see at any time.
pub(super) fn shared(handle: CommHandle) -> Result<Arc<CommShared>> {
    let slot = live(handle)?;
    ignore_poison(&slot.shared).clone().filter(|s| s.handle == handle).ok_or_else(|| stale(handle))
}

/// The communicators of this process that have calls queued or under way on streams.
pub(super) fn busy_on_streams() -> Vec<Arc<CommShared>> {
    let shared = |(_, place): (CommHandle, &Place)| ignore_poison(&place.shared).clone();
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
    let mut body = ignore_poison(&slot.body);
    if body.as_ref().is_none_or(|c| c.handle() != handle) {
        return Err(stale(handle));
    }
    let taken = body.take().ok_or_else(|| stale(handle))?;
    *ignore_poison(&slot.shared) = None;
    TABLE.close(handle);
    drop(body);
    release(handle);
    Ok(taken)
}
