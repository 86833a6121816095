//! The table behind handles: index and generation, so that a stale or made-up one is recognised.
//!
//! A slot is never freed, only used again under the next generation; so a look at any index is safe, and ten thousand
//! communicators one after another cost the memory of one. Entering a communicator takes its lock without waiting:
//! whoever finds it taken is a second thread in the same communicator, which is a misuse that we name.

use super::communicator::Communicator;
use super::shared::Shared;
use crate::error::{Error, Result};
use crate::sync::prim::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};

/// Names one communicator of this process. Never 0. Bits 0..16 index, 16..64 generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(pub u64);

#[derive(Default)]
struct Slot {
    /// The live handle, 0 if none.
    handle: AtomicU64,
    body: Mutex<Option<Communicator>>,
    /// What other threads may see while one is inside.
    shared: Mutex<Option<Arc<Shared>>>,
}

const CHUNK: usize = 64;
const CHUNKS: usize = 1024;

static TABLE: [OnceLock<Box<[Slot; CHUNK]>>; CHUNKS] = [const { OnceLock::new() }; CHUNKS];
static FREE: Mutex<Free> = Mutex::new(Free { list: Vec::new(), fresh: 0 });

/// Indices and their last generation, ready to be used again.
struct Free {
    list: Vec<(usize, u64)>,
    fresh: usize,
}

fn slot(index: usize) -> Option<&'static Slot> {
    TABLE.get(index / CHUNK)?.get().map(|chunk| &chunk[index % CHUNK])
}

/// Is there a communicator behind the handle?
#[inline]
pub(super) fn is_live(handle: Handle) -> bool {
    live(handle).is_ok()
}

#[inline]
fn live(handle: Handle) -> Result<&'static Slot> {
    slot((handle.0 & 0xffff) as usize)
        .filter(|s| handle.0 != 0 && s.handle.load(Ordering::Acquire) == handle.0)
        .ok_or_else(stale)
}

#[cold]
fn stale() -> Error {
    Error::argument("comm is not a live communicator: it was destroyed already, or never created by Penny")
}

fn ignore_poison<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(|e| e.into_inner())
}

/// A handle whose communicator is still to be made; until [`fill`] it is stale to everybody else.
pub(super) fn reserve() -> Result<Handle> {
    let (index, generation) = {
        let mut free = ignore_poison(&FREE);
        match free.list.pop() {
            Some(reused) => reused,
            None if free.fresh < CHUNK * CHUNKS => {
                free.fresh += 1;
                (free.fresh - 1, 0)
            }
            None => {
                return Err(Error::system(format!(
                    "this process has {} communicators already; destroy some",
                    CHUNK * CHUNKS
                )));
            }
        }
    };
    TABLE[index / CHUNK].get_or_init(|| Box::new(std::array::from_fn(|_| Slot::default())));
    Ok(Handle((generation + 1) << 16 | index as u64))
}

/// Put the communicator behind its reserved handle.
pub(super) fn fill(communicator: Communicator) {
    let handle = communicator.handle();
    let slot = slot((handle.0 & 0xffff) as usize).expect("reserved");
    *ignore_poison(&slot.shared) = Some(communicator.shared.clone());
    *ignore_poison(&slot.body) = Some(communicator);
    slot.handle.store(handle.0, Ordering::Release);
}

/// Give a handle back: it was reserved and not filled, or its communicator has been removed.
pub(super) fn release(handle: Handle) {
    ignore_poison(&FREE).list.push(((handle.0 & 0xffff) as usize, handle.0 >> 16));
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
pub(super) fn enter<T>(handle: Handle, inside: impl FnOnce(&mut Communicator) -> Result<T>) -> Result<T> {
    enter_as(handle, Entry::Caller, inside)
}

/// The same, for whoever it is.
#[inline]
pub(super) fn enter_as<T>(
    handle: Handle,
    entry: Entry,
    inside: impl FnOnce(&mut Communicator) -> Result<T>,
) -> Result<T> {
    let slot = live(handle)?;
    // BOUND: it is tried again only after calls that were queued before have ended.
    loop {
        let mut body = match slot.body.try_lock() {
            Ok(body) => body,
            Err(TryLockError::Poisoned(e)) => e.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let shared = shared(handle)?;
                if entry == Entry::Worker || shared.turns.are_over() {
                    return Err(occupied());
                }
                shared.refuse_forked()?;
                shared.turns.await_all()?;
                continue;
            }
        };
        match body.as_mut() {
            // The handle may have been destroyed, and even given out again, between the look and the lock.
            Some(communicator) if communicator.handle() == handle => {
                if entry == Entry::Worker || communicator.shared.turns.are_over() {
                    return inside(communicator);
                }
                let shared = communicator.shared.clone();
                drop(body);
                shared.refuse_forked()?;
                shared.turns.await_all()?;
            }
            _ => return Err(stale()),
        }
    }
}

#[cold]
fn occupied() -> Error {
    Error::usage(
        "another thread is inside a call on this communicator; one thread at a time, or one communicator a thread",
    )
}

/// What any thread may see at any time.
pub(super) fn shared(handle: Handle) -> Result<Arc<Shared>> {
    let slot = live(handle)?;
    ignore_poison(&slot.shared).clone().filter(|s| s.handle == handle).ok_or_else(stale)
}

/// Take a communicator out. Waits for a thread that is inside, so whoever aborts must have made it leave.
pub(super) fn remove(handle: Handle) -> Result<Communicator> {
    let slot = live(handle)?;
    let mut body = ignore_poison(&slot.body);
    if body.as_ref().is_none_or(|c| c.handle() != handle) {
        return Err(stale());
    }
    let taken = body.take().ok_or_else(stale)?;
    *ignore_poison(&slot.shared) = None;
    slot.handle.store(0, Ordering::Release);
    drop(body);
    release(handle);
    Ok(taken)
}
