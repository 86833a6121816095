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

impl Handle {
    /// Its place in its table.
    #[inline]
    pub(super) fn index(self) -> usize {
        (self.0 & 0xffff) as usize
    }
}

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
static NUMBERS: Numbers = Numbers::up_to(CHUNK * CHUNKS);

/// The handles of one table. No two that are taken have the same index, and none is ever given twice.
pub(super) struct Numbers {
    most: usize,
    unused: Mutex<Unused>,
}

struct Unused {
    /// Given back, under the generation that it had.
    again: Vec<Handle>,
    /// Indices below this one have been used.
    fresh: usize,
}

impl Numbers {
    /// For a table with so many places.
    pub const fn up_to(most: usize) -> Numbers {
        assert!(most <= 1 << 16, "an index has 16 bits");
        Numbers { most, unused: Mutex::new(Unused { again: Vec::new(), fresh: 0 }) }
    }

    /// One that nobody has. `None`: the table is full.
    pub fn take(&self) -> Option<Handle> {
        let mut unused = ignore_poison(&self.unused);
        if let Some(last) = unused.again.pop() {
            return Some(Handle(last.0 + (1 << 16)));
        }
        let index = unused.fresh;
        (index < self.most).then(|| {
            unused.fresh += 1;
            Handle(1 << 16 | index as u64)
        })
    }

    /// By whoever took it, when nobody finds anything behind it any more.
    pub fn give_back(&self, handle: Handle) {
        ignore_poison(&self.unused).again.push(handle);
    }
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
    slot(handle.index())
        .filter(|s| handle.0 != 0 && s.handle.load(Ordering::Acquire) == handle.0)
        .ok_or_else(stale)
}

#[cold]
fn stale() -> Error {
    Error::argument("comm is not a live communicator: it was destroyed already, or never created by Penny")
}

pub(super) fn ignore_poison<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(|e| e.into_inner())
}

/// A handle whose communicator is still to be made; until [`fill`] it is stale to everybody else.
pub(super) fn reserve() -> Result<Handle> {
    let handle = NUMBERS.take().ok_or_else(|| {
        Error::system(format!("this process has {} communicators already; destroy some", CHUNK * CHUNKS))
    })?;
    TABLE[handle.index() / CHUNK].get_or_init(|| Box::new(std::array::from_fn(|_| Slot::default())));
    Ok(handle)
}

/// Put the communicator behind its reserved handle.
pub(super) fn fill(communicator: Communicator) {
    let handle = communicator.handle();
    let slot = slot(handle.index()).expect("reserved");
    *ignore_poison(&slot.shared) = Some(communicator.shared.clone());
    *ignore_poison(&slot.body) = Some(communicator);
    slot.handle.store(handle.0, Ordering::Release);
}

/// Give a handle back: it was reserved and not filled, or its communicator has been removed.
pub(super) fn release(handle: Handle) {
    NUMBERS.give_back(handle);
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
fn after_turns(slot: &'static Slot, handle: Handle) -> Result<MutexGuard<'static, Option<Communicator>>> {
    let shared = shared(handle)?;
    shared.refuse_forked()?;
    // BOUND: it is tried again only after more calls were queued.
    loop {
        let taken = shared.turns.taken();
        shared.turns.await_all()?;
        match slot.body.try_lock() {
            Ok(body) => return Ok(body),
            Err(TryLockError::Poisoned(e)) => return Ok(e.into_inner()),
            // No worker is inside between its turns.
            Err(TryLockError::WouldBlock) if shared.turns.taken() == taken => return Err(occupied()),
            Err(TryLockError::WouldBlock) => {}
        }
    }
}

/// Do something inside.
#[inline]
fn occupy<T>(
    body: &mut Option<Communicator>,
    handle: Handle,
    inside: impl FnOnce(&mut Communicator) -> Result<T>,
) -> Result<T> {
    match body.as_mut() {
        // The handle may have been destroyed, and even given out again, between the look and the lock.
        Some(communicator) if communicator.handle() == handle => inside(communicator),
        _ => Err(stale()),
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

/// The communicators of this process that have calls queued or under way on streams.
pub(super) fn busy_on_streams() -> Vec<Arc<Shared>> {
    let slots = TABLE.iter().filter_map(OnceLock::get).flat_map(|chunk| chunk.iter());
    slots.filter_map(|s| ignore_poison(&s.shared).clone()).filter(|s| !s.turns.are_over()).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_number_is_never_given_twice_and_its_place_has_one_owner() {
        let numbers = Numbers::up_to(3);
        let mut ever = BTreeSet::new();
        for _ in 0..100 {
            let taken: Vec<Handle> = std::iter::from_fn(|| numbers.take()).collect();
            let places: BTreeSet<usize> = taken.iter().map(|handle| handle.index()).collect();
            assert_eq!(places, BTreeSet::from([0, 1, 2]));
            assert!(taken.iter().all(|handle| handle.0 != 0 && ever.insert(handle.0)), "{taken:?}");
            taken.into_iter().for_each(|handle| numbers.give_back(handle));
        }
    }

    #[test]
    fn threads_that_take_numbers_and_give_them_back_have_places_apart() {
        let numbers = Numbers::up_to(4);
        let owners = [const { AtomicU64::new(0) }; 4];
        std::thread::scope(|scope| {
            for me in 1..=4 {
                let (numbers, owners) = (&numbers, &owners);
                scope.spawn(move || {
                    for _ in 0..1000 {
                        let handle = numbers.take().expect("as many places as threads");
                        assert_eq!(owners[handle.index()].swap(me, Ordering::Relaxed), 0);
                        assert_eq!(owners[handle.index()].swap(0, Ordering::Relaxed), me);
                        numbers.give_back(handle);
                    }
                });
            }
        });
    }
}
