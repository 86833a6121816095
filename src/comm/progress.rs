//! Progress by waiting threads: a thread that waits for queued work runs the work itself.
//!
//! What can be gone on with is [`Drivable`] work, which is listed here while there is some. One thread at a time goes on with
//! it, only as long as it need not wait, so threads take turns. A thread that waits drives what it waits for, and where that
//! is not enough, all that is listed: what is queued in one place may wait for what is queued in another.

use crate::fabric::live::{Participant, polls};
use crate::sync::event_count::EventCount;
use crate::sync::listed::Listed;
use crate::sync::lock::Mutex;
use crate::sync::prim::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::wait::{self, Neighbours};
use crate::sys::cpu;
use crate::sys::fork::{KEPT, PerFork};
use crate::sys::interrupt::{self, Interrupted};
use crate::transport::Transport;
use std::cell::Cell;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Work that any thread can go on with.
pub(super) trait Drivable: Send + Sync {
    /// Goes on as far as can be done without waiting. Returns whether something may have changed. `in_place_until`: the number of
    /// tasks for which the thread may wait in place, because it waits for no others.
    fn go_on(&self, in_place_until: u64) -> bool;
    /// Returns what it waits for now; `None`: nothing is under way.
    fn awaits(&self) -> Option<Awaits>;
    /// Tells whether nothing is queued.
    fn is_idle(&self) -> bool;
    /// A thread waits for it.
    fn attend(&self, thread: u64);
    /// The number of threads that wait for it now; for this module alone.
    fn waiting(&self) -> &AtomicU32;
    /// Tells whether a thread of its own has come to help.
    fn is_helped(&self) -> bool;
    /// Tells whether a thread of the program has gone on with it since the last time that one has asked.
    fn has_gone_on(&self) -> bool;
    /// Calls a thread of its own for help, if it has more to do than `thread`, which waits for something else as well, can do alone.
    /// Returns whether it has.
    fn call_help(&self, thread: u64) -> bool;
    /// Whether it is listed; for this module alone.
    fn listed(&self) -> &Listed;
}

/// The thing that queued work waits for.
pub(super) enum Awaits {
    /// Other ranks, which ring this rank's doorbell. If some of them cannot ring it, the duration is the longest sleep.
    Ranks(Arc<Transport>, Option<Duration>),
    /// Other threads. The function sleeps until they may have come, at most for the given time. It returns false if they have come
    /// already.
    Threads(Box<dyn Fn(Duration) -> bool>),
    /// A thread that goes on with it just now.
    Present,
}

/// The longest sleep of a thread that goes on with queued work: another may do what it waits for.
pub(super) const NAP: Duration = Duration::from_millis(1);

type Work = Mutex<Vec<Arc<dyn Drivable>>>;

/// The work that is listed.
static BUSY: PerFork<Work> = PerFork::new([const { Mutex::new(Vec::new()) }; KEPT]);

static ON_MACHINE: AtomicBool = AtomicBool::new(false);

/// This process has a communicator of a rank on a declared machine. Its clock stands while a thread waits with a time limit, so from now
/// on each stream's own thread makes what is queued there, and all others wait without a limit.
pub(super) fn note_machine(rank: &Arc<Participant>) {
    ON_MACHINE.store(true, Ordering::Relaxed);
    polls::note_rank(rank);
}

/// Tells whether only the streams' own threads go on with what is queued.
pub(super) fn is_on_machine() -> bool {
    ON_MACHINE.load(Ordering::Relaxed)
}

/// Lists work; something has been queued.
pub(super) fn list<Q: Drivable + 'static>(work: &Arc<Q>) {
    if work.listed().must_push() {
        BUSY.own().lock().push(work.clone());
    }
}

/// Returns what is listed, but one.
fn busy(but: Option<&dyn Drivable>) -> Vec<Arc<dyn Drivable>> {
    let mut busy = BUSY.own().lock();
    busy.retain(|work| work.listed().may_stay(|| work.is_idle()));
    let is_other =
        |work: &&Arc<dyn Drivable>| but.is_none_or(|but| !std::ptr::addr_eq(but, Arc::as_ptr(work)));
    busy.iter().filter(is_other).cloned().collect()
}

/// Returns what is listed but one, and what no thread goes on with now: none waits for it, and none has come to help.
fn left_alone(but: Option<&dyn Drivable>) -> Vec<Arc<dyn Drivable>> {
    let mut busy = busy(but);
    busy.retain(|work| work.waiting().load(Ordering::Relaxed) == 0 && !work.is_helped());
    busy
}

/// A thread that waits for work.
struct Waiting<'a>(&'a dyn Drivable);

impl Waiting<'_> {
    fn begin(work: &dyn Drivable) -> Waiting<'_> {
        work.waiting().fetch_add(1, Ordering::Relaxed);
        Waiting(work)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting().fetch_sub(1, Ordering::Relaxed);
    }
}

/// Goes on with all that is listed, once.
pub(super) fn drive_once() {
    if !is_on_machine() {
        for work in busy(None) {
            work.go_on(0);
        }
    }
}

/// Goes on with what a thread asks for in a poll, once; at the first of some polls in a row that find it not to be over, with all
/// that is listed, because that may have to be done before.
pub(super) fn drive_polled(target: &dyn Drivable) {
    if is_on_machine() {
        return;
    }
    target.go_on(0);
    if let Some(Awaits::Ranks(transport, _)) = target.awaits()
        && !transport.are_on_this_core()
    {
        // BOUND: `HAND_OFFS`.
        for _ in 0..HAND_OFFS {
            if target.go_on(0) {
                break;
            }
        }
    }
    if !target.is_idle() && IN_VAIN.get().is_multiple_of(POLLS_A_LOOK) {
        let others = busy(Some(target));
        call_help(target, &others);
        // A thread that polls for something goes on with it itself.
        for work in others.iter().filter(|work| !work.has_gone_on()) {
            work.go_on(0);
        }
    }
}

/// Notes who waits for `target`, and calls help for one of the `others`, if it has much to do.
fn call_help(target: &dyn Drivable, others: &[Arc<dyn Drivable>]) {
    target.attend(THREAD.with(|number| *number));
    call_help_of(others.iter().cloned());
}

/// Calls help for one of these, if it has much to do and the calling thread alone waits for it.
pub(super) fn call_help_of(mut others: impl Iterator<Item = Arc<dyn Drivable>>) {
    let thread = THREAD.with(|number| *number);
    others.any(|work| work.call_help(thread));
}

/// Goes on with all that is listed but one. Returns whether something of it is over.
pub(super) fn drive_others(but: &dyn Drivable) -> bool {
    let mut is_over = false;
    for work in busy(Some(but)) {
        work.go_on(0);
        is_over |= work.is_idle();
    }
    is_over
}

/// The number of the next thread that waits for queued work.
static NEXT_THREAD: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// A number of this thread.
    static THREAD: u64 = NEXT_THREAD.fetch_add(1, Ordering::Relaxed);
    /// Polls of this thread in a row that have found what it asks for not to be over.
    static IN_VAIN: Cell<u32> = const { Cell::new(0) };
}

/// Polls in a row after which a thread lets others run at each further one, wherever they are.
const POLLS_BEFORE_YIELD: u32 = 256;

/// Looks of one poll at work that waits for ranks on other cores: each takes as long as a hand-off between two cores.
const HAND_OFFS: u32 = 16;

/// Polls in a row of which one looks at all that is listed: threads that poll for work of their own would get in each other's way.
const POLLS_A_LOOK: u32 = 4;

/// Notes that a thread that polls is told that something is over.
pub(super) fn note_over<T>(thing: &Arc<T>) {
    polls::told_over(thing);
    IN_VAIN.set(0);
}

/// Notes that a thread polls for something in vain, and lets the threads and ranks run that it polls for, if they need its core. `is_over`
/// tells whether it is over meanwhile.
pub(super) fn note_in_vain<T: Send + Sync + 'static>(thing: &Arc<T>, is_over: fn(&T) -> bool) {
    if is_on_machine() {
        polls::asked_in_vain(thing, is_over);
    }
    let polls = IN_VAIN.get().saturating_add(1);
    IN_VAIN.set(polls);
    if polls > POLLS_BEFORE_YIELD || (polls % POLLS_A_LOOK == 2 && is_core_needed()) {
        cpu::yield_now();
    }
}

/// Tells whether what is listed waits for threads that are not at it, or for ranks of which one runs on this core.
fn is_core_needed() -> bool {
    busy(None).iter().any(|work| match work.awaits() {
        Some(Awaits::Ranks(transport, _)) => transport.are_on_this_core(),
        Some(Awaits::Threads(_)) => true,
        Some(Awaits::Present) | None => false,
    })
}

/// Notes on a declared machine that the calling thread waits until something is over.
pub(super) fn note_wait<T: Send + Sync + 'static>(
    thing: &Arc<T>,
    is_over: impl Fn(&T) -> bool + Send + Sync + 'static,
) -> Option<polls::Sleep> {
    is_on_machine().then(|| polls::Sleep::begin(thing, is_over))
}

/// Waits until `count` has come to a value, and goes on with what is queued meanwhile: with `target`, whose count of finished
/// tasks it is, and where that is not enough, with all that is listed and that no other thread waits for.
pub(super) fn drive_until(
    target: Option<&dyn Drivable>,
    count: &EventCount,
    value: u64,
) -> Result<(), Interrupted> {
    if is_on_machine() {
        return count.reach_unless_interrupted(value);
    }
    let ready = || count.get() >= value;
    let _waiting = target.map(Waiting::begin);
    // A call in place would end with the interruption instead of being told of it by the wait.
    let may_wait = !interrupt::is_possible();
    let poll = || {
        if ready() {
            return true;
        }
        let others = left_alone(target);
        if let (Some(target), false) = (target, others.is_empty()) {
            call_help(target, &others);
        }
        let in_place_until = if may_wait && others.is_empty() { value } else { 0 };
        if target.is_some_and(|target| target.go_on(in_place_until) && ready()) {
            return true;
        }
        others.iter().any(|work| work.go_on(0) && ready()) || ready()
    };
    if poll() {
        return Ok(());
    }
    let any = || busy(None).iter().find_map(|work| work.awaits());
    match target.map_or_else(any, Drivable::awaits) {
        // What is under way may be something else by the time that the thread sleeps.
        Some(Awaits::Ranks(transport, nap)) => transport.wait_polling(nap.unwrap_or(NAP).min(NAP), poll),
        _ => wait::for_threads(poll, || {
            count.reach_within(value, NAP);
            true
        }),
    }
}

impl Awaits {
    /// A thread that does not say when it is done.
    pub fn a_thread() -> Awaits {
        Awaits::Threads(Box::new(|most| {
            thread::sleep(most.min(NAP));
            true
        }))
    }

    /// Waits until `ready`, which what is awaited may bring about, or until threads that are awaited have come. `most`: the longest
    /// sleep of a wait for threads.
    pub fn wait(self, most: Duration, ready: impl FnMut() -> bool) -> Result<(), Interrupted> {
        match self {
            Awaits::Ranks(transport, nap) => transport.wait_polling(nap.unwrap_or(wait::NAP), ready),
            Awaits::Threads(sleep) => wait::for_threads(ready, || sleep(most)),
            Awaits::Present => Awaits::a_thread().wait(most, ready),
        }
    }
}
