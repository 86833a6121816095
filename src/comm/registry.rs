//! The communicators of this process, by handle.
//!
//! Entering a communicator takes its lock without waiting: if it is taken, a second thread is in the same communicator,
//! which is reported as a misuse.

mod leaving;

use super::communicator::CommCore;
use super::joining;
pub use super::shared::CommHandle;
use super::shared::CommShared;
use super::stream::turn::{aborted, refuse_worker};
use crate::error::{Error, Result};
use crate::handle::{CommKind, Table};
use crate::sync::biased::{BiasedGuard, BiasedMutex};
use crate::sync::lock::Mutex;
use crate::sync::prim::{AtomicU64, Ordering};
use crate::sys::barrier;
use crate::sys::interrupt::Interrupted;
use crate::types::Rank;
pub(super) use leaving::{enter_when_left, remove_aborted};
use std::sync::Arc;
use std::time::Duration;

/// The place of a communicator.
#[derive(Default)]
pub(super) struct CommPlace {
    body: BiasedMutex<Option<CommCore>>,
    /// The part that other threads may access while one is inside.
    shared: Mutex<Option<Arc<CommShared>>>,
    /// Its rank and their number, in 32 bits each.
    who: AtomicU64,
    /// The last handle of this place that this process has aborted, 0 if none.
    aborted: AtomicU64,
}

/// The lock of a place whose communicator a thread is inside.
type Inside = BiasedGuard<'static, Option<CommCore>>;

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

/// What is queued keeps a communicator from being destroyed, but not from being aborted.
#[inline]
fn live_for(handle: CommHandle, entry: Entry) -> Result<&'static CommPlace> {
    live(handle).map_err(|stale| if entry == Entry::Turn { aborted() } else { stale })
}

#[cold]
fn stale(handle: CommHandle) -> Error {
    if let Some(why) = joining::refusal(handle) {
        return why;
    }
    let aborted = TABLE.place(handle).is_some_and(|place| {
        // ORDER: a hint for a sentence; the thread that has aborted sees its own store.
        handle.bits() != 0 && place.aborted.load(Ordering::Relaxed) == handle.bits()
    });
    if aborted {
        return Error::argument(
            "comm is not a live communicator: this rank has aborted it (pennyCommAbort); make a new one",
        );
    }
    handle.refusal(
        "comm",
        format_args!("comm is not a live communicator: it was destroyed already, or never created by Penny"),
    )
}

/// Remembers that this process has aborted the communicator, which is about to be [removed](remove).
pub(super) fn remember_abort(handle: CommHandle) {
    if let Some(place) = TABLE.place(handle) {
        place.aborted.store(handle.bits(), Ordering::Relaxed);
    }
}

/// Reserves a handle for a communicator that is still to be made; until [`fill`] all other functions treat it as stale.
pub(super) fn reserve() -> Result<CommHandle> {
    barrier::prepare();
    TABLE.reserve().ok_or_else(|| {
        Error::system(format!("this process has {} communicators already; destroy some", Communicators::MOST))
    })
}

/// Puts the communicator behind its reserved handle.
pub(super) fn fill(communicator: CommCore) {
    let handle = communicator.handle();
    let place = TABLE.place(handle).expect("reserved");
    let who = u64::from(communicator.rank()) << 32 | u64::from(communicator.nranks());
    // ORDER: who reads it sees that the handle before is no longer live; partner: the load in `rank_and_number`.
    place.who.store(who, Ordering::Release);
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
    /// Calls of a stream, whose turn has come.
    Turn,
}

/// Enters as the only thread inside.
#[inline(always)]
pub(super) fn enter<T>(handle: CommHandle, inside: impl FnOnce(&mut CommCore) -> Result<T>) -> Result<T> {
    enter_as(handle, Entry::Caller, inside)
}

/// Enters for a call that does not wait. `None`: another call is inside, holds the communicator or is queued.
#[inline]
pub(super) fn enter_if_free<T>(
    handle: CommHandle,
    inside: impl FnOnce(&mut CommCore) -> Option<T>,
) -> Option<T> {
    let mut body = live(handle).ok()?.body.try_lock()?;
    body.as_mut().filter(|c| c.handle() == handle && may_enter(c, Entry::Caller)).and_then(inside)
}

/// A thread that is inside a communicator.
pub(super) struct Occupant(Inside);

impl Occupant {
    /// Returns the communicator.
    #[inline]
    pub fn get(&self) -> Option<&CommCore> {
        self.0.as_ref()
    }
    /// Returns it to be changed.
    #[inline]
    pub fn get_mut(&mut self) -> Option<&mut CommCore> {
        self.0.as_mut()
    }
}

/// Goes inside for a call that does not wait, until what is returned is dropped. `None`: as in [`enter_if_free`]; what is queued stands
/// in the way of a thread of the program only.
#[inline]
pub(super) fn go_inside_if_free(handle: CommHandle, entry: Entry) -> Option<Occupant> {
    let body = live(handle).ok()?.body.try_lock()?;
    body.as_ref().is_some_and(|c| c.handle() == handle && may_enter(c, entry)).then_some(Occupant(body))
}

/// The pause between two looks at a communicator that polled calls hold.
const HELD_PAUSE: Duration = Duration::from_micros(50);

/// Enters for the given kind of caller.
#[inline(always)]
pub(super) fn enter_as<T>(
    handle: CommHandle,
    entry: Entry,
    inside: impl FnOnce(&mut CommCore) -> Result<T>,
) -> Result<T> {
    let slot = live_for(handle, entry)?;
    let mut body = match slot.body.try_lock() {
        Some(body) if body.as_ref().is_none_or(|c| may_enter(c, entry)) => body,
        taken => {
            drop(taken);
            enter_when_free(slot, handle, entry)?
        }
    };
    occupy(&mut body, handle, inside)
}

/// Enters once no other calls are under way, or stand in the way of a thread of the program.
#[cold]
fn enter_when_free(slot: &'static CommPlace, handle: CommHandle, entry: Entry) -> Result<Inside> {
    match entry {
        Entry::Turn => Ok(when_let_go(slot)),
        Entry::Caller => after_turns(slot, handle),
    }
}

/// Tells whether a caller of this kind may enter: no polled calls hold the communicator, and a thread of the program comes after all that is
/// queued.
#[inline(always)]
fn may_enter(c: &CommCore, entry: Entry) -> bool {
    !c.is_held && (entry == Entry::Turn || c.shared.turns.are_over())
}

/// Enters the communicator once no polled calls hold it any more. It is a stream's turn, and a thread that is inside, or
/// holds the communicator, has come without a turn, and before.
fn when_let_go(slot: &'static CommPlace) -> Inside {
    // BOUND: calls that are polled end by their deadlines.
    loop {
        let body = slot.body.lock();
        if body.as_ref().is_none_or(|c| !c.is_held) {
            return body;
        }
        drop(body);
        std::thread::sleep(HELD_PAUSE);
    }
}

/// Enters for calls that are polled, which hold the communicator until [`resume`] lets it go. [`Error::pending`]: they have to come
/// again, because other calls are inside or, for a thread of the program, are queued.
pub(super) fn hold(handle: CommHandle, entry: Entry) -> Result<()> {
    let slot = live_for(handle, entry)?;
    let try_hold = || {
        let is_free = |body: &Inside| body.as_ref().is_none_or(|c| may_enter(c, entry));
        let mut body = slot.body.try_lock().filter(is_free)?;
        Some(occupy(&mut body, handle, |c| {
            c.is_held = true;
            Ok(())
        }))
    };
    if let Some(held) = try_hold() {
        return held;
    }
    if entry == Entry::Caller {
        if shared(handle)?.turns.are_over() {
            // Calls on streams leave the communicator before their turns are over: another thread of the program is inside.
            return try_hold().unwrap_or_else(|| Err(occupied(handle)));
        }
        refuse_worker()?;
    }
    Err(Error::pending())
}

/// Holds the communicator for children that join in the background. What is queued on streams comes first.
pub(super) fn hold_for_children(handle: CommHandle) -> Result<()> {
    enter(handle, |c| {
        c.usable()?;
        c.is_held = true;
        Ok(())
    })
}

/// Ends that.
pub(super) fn let_go(handle: CommHandle) {
    let _ = resume(handle, |c| {
        c.is_held = false;
        Ok(())
    });
}

/// Enters for calls that hold the communicator.
pub(super) fn resume<T>(handle: CommHandle, inside: impl FnOnce(&mut CommCore) -> Result<T>) -> Result<T> {
    let gone = |_| Error::remote("the communicator was aborted while the call was under way; make a new one");
    let place = live(handle).map_err(gone)?;
    let mut body = place.body.lock();
    match body.as_mut().filter(|c| c.handle() == handle) {
        Some(communicator) => inside(communicator),
        None => Err(gone(stale(handle))),
    }
}

/// Enters the communicator once the calls that were queued on streams are over.
#[cold]
fn after_turns(slot: &'static CommPlace, handle: CommHandle) -> Result<Inside> {
    let shared = shared(handle)?;
    shared.refuse_forked()?;
    // BOUND: it is tried again only after more calls were queued.
    loop {
        let taken = shared.turns.taken();
        await_turns(&shared)?;
        match slot.body.try_lock() {
            Some(body) if body.as_ref().is_none_or(|c| !c.is_held) => return Ok(body),
            // Between its turns a stream has no thread inside.
            _ if shared.turns.taken() == taken => return Err(occupied(handle)),
            _ => {}
        }
    }
}

/// Wait for the calls of a communicator that are queued on streams now.
pub(super) fn await_turns(shared: &CommShared) -> Result<()> {
    if shared.turns.are_over() {
        return Ok(());
    }
    refuse_worker()?;
    unless_interrupted(shared.turns.await_over(shared.turns.taken()))
}

/// A thread of the program that waits for streams was interrupted: the calls on streams end, too, or what it waits for would
/// still be under way when its program goes on.
pub(super) fn unless_interrupted(waited: Result<(), Interrupted>) -> Result<()> {
    waited.map_err(|interrupted| {
        busy_on_streams().iter().for_each(|comm| comm.abort());
        interrupted.into()
    })
}

/// Runs `inside` in the communicator.
#[inline(always)]
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
fn occupied(handle: CommHandle) -> Error {
    if joining::is_parent(handle) {
        return Error::usage(
            "a communicator is being made from this one (its blocking is 0); call pennyCommGetAsyncError until the state is not \
             pennyInProgress",
        );
    }
    Error::usage(
        "another thread is inside a call on this communicator; one thread at a time, or one communicator a thread",
    )
}

/// Returns the part that any thread may access at any time.
pub(super) fn shared(handle: CommHandle) -> Result<Arc<CommShared>> {
    let slot = live(handle)?;
    slot.shared.lock().clone().filter(|s| s.handle == handle).ok_or_else(|| stale(handle))
}

/// Returns its rank here, and how many ranks it has.
pub(super) fn rank_and_number(handle: CommHandle) -> Result<(Rank, u32)> {
    let who = live(handle)?.who.load(Ordering::Acquire);
    // By now another may have its place.
    live(handle).map(|_| ((who >> 32) as Rank, who as u32))
}

/// Returns the communicators of this process that have calls queued or under way on streams.
pub(super) fn busy_on_streams() -> Vec<Arc<CommShared>> {
    let shared = |(_, place): (CommHandle, &CommPlace)| place.shared.lock().clone();
    TABLE.all().filter_map(shared).filter(|shared| !shared.turns.are_over()).collect()
}

/// Breaks the communicator after a panic in one of its calls.
pub(super) fn poison(handle: CommHandle, message: &str) {
    let Ok(place) = live(handle) else { return };
    // Where another thread is inside for longer than a look, the panic was not in a call on this communicator.
    let look = |at| {
        if at > 0 {
            std::thread::sleep(HELD_PAUSE);
        }
        place.body.try_lock()
    };
    let Some(mut body) = (0..4).find_map(look) else { return };
    let _ = occupy(&mut body, handle, |c| {
        c.is_held = false;
        c.break_with(&Error::internal(message));
        Ok(())
    });
}

/// Takes a communicator out that no thread is inside.
pub(super) fn remove(handle: CommHandle) -> Result<CommCore> {
    let slot = live(handle)?;
    take_out(slot, slot.body.lock(), handle)
}

fn take_out(slot: &CommPlace, mut body: Inside, handle: CommHandle) -> Result<CommCore> {
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
