//! A stream's worker thread, which makes what is queued where no thread of the program waits for it.
//!
//! A program that queues a call and waits for it at once makes the call itself, and has no use for a second thread that wakes
//! at each call. So the worker has two states:
//!
//! ```text
//!     eager         sleeps until something is queued, and makes it at once        ---- three times others were faster --->
//!     backed off    looks periodically, and idles when nothing is queued          <--- something was left undone -----
//! ```
//!
//! Where the program's own thread needs the only core, a worker that has backed off leaves large calls to it for longer: it goes on with
//! them at each look, and does not wait for their peers (docs/decisions/0106).

use super::helping::help;
use super::queue::{Driven, StreamQueue};
use super::turn;
use crate::comm::progress::{Drivable, NAP, is_on_machine};
use crate::sync::prim::Ordering;
use crate::sync::wait::give_way;
use crate::sys::waiting::NotedWait;
use std::thread;
use std::time::Duration;

/// Number of times in a row that other threads did what was queued, after which the worker backs off.
const BACK_OFF_AFTER: u32 = 3;
/// The pause between two looks, from the first to the longest.
const FIRST_PAUSE: Duration = Duration::from_micros(250);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);
/// The pause where the program's thread needs the only core and large calls are queued, and how long these may stand still there.
const PAUSE_WITHOUT_CORE: Duration = Duration::from_millis(4);
const STANDS_WITHOUT_CORE: Duration = Duration::from_millis(20);
/// Looks in a row at which nothing has changed, after which the worker idles until something is queued.
const IDLE_LOOKS: u32 = 50;
/// Threads that drive a task less often between two looks leave it to the worker.
const DRIVES_TO_LEAVE_IT: u64 = 4;
/// A thread that has driven a task so often waits for it, and does not merely ask for its state.
const DRIVES_TO_TAKE_OVER: u64 = 16;

/// Does what is queued until the end comes.
pub(super) fn work(stream: &StreamQueue) {
    turn::become_worker();
    give_way();
    let mut faster = 0;
    // BOUND: the task that ends it.
    loop {
        if faster >= BACK_OFF_AFTER && !is_on_machine() {
            stream.help.can_come(true);
            let driven = back_off(stream);
            stream.help.can_come(false);
            if driven == Some(Driven::Ended) {
                return;
            }
            faster = 0;
        }
        let others = stream.driven_by_others.load(Ordering::Relaxed);
        {
            let _idle = NotedWait::idle();
            stream.queued.reach(stream.done.get() + 1);
        }
        match make(stream) {
            Driven::Ended => return,
            // Another thread has taken it up.
            Driven::Pending => faster = BACK_OFF_AFTER,
            _ if stream.driven_by_others.load(Ordering::Relaxed) != others => faster += 1,
            _ => faster = 0,
        }
    }
}

/// Looks periodically, until something is left undone or nothing is queued any more. Returns how far it came where it has helped last.
fn back_off(stream: &StreamQueue) -> Option<Driven> {
    let mut driven = None;
    let look = || (stream.done.get(), stream.queued.get(), stream.driven_by_others.load(Ordering::Relaxed));
    let (mut pause, mut unchanged, mut before) = (FIRST_PAUSE, 0, look());
    let mut stood = Duration::ZERO;
    // BOUND: `IDLE_LOOKS` looks in a row at which nothing has changed, or `STANDS_WITHOUT_CORE` without progress of the program.
    while unchanged < IDLE_LOOKS && !stream.is_worker_only.load(Ordering::Relaxed) {
        if stream.help.lacks_core() {
            pause = PAUSE_WITHOUT_CORE;
        }
        thread::park_timeout(pause);
        if stream.help.is_called() {
            driven = Some(help(stream));
            if driven == Some(Driven::Ended) {
                break;
            }
            (unchanged, before) = (0, look());
            continue;
        }
        let now = look();
        let stands = now.0 == before.0;
        if stands && is_in_place(stream) {
            unchanged += 1;
            if unchanged == IDLE_LOOKS {
                // The thread in the call wakes this one when the call is over.
                stream.done.reach(now.0 + 1);
                (unchanged, pause) = (0, FIRST_PAUSE);
            }
            continue;
        }
        if stands && now.0 < now.1 && now.2 < before.2 + DRIVES_TO_LEAVE_IT {
            stood += pause;
            if stood >= most_stood(stream) {
                break;
            }
            if stream.drive(0) == Driven::Ended {
                return Some(Driven::Ended);
            }
            // What this look has made is not the program's progress.
            (unchanged, before) = (0, look());
            continue;
        }
        stood = Duration::ZERO;
        unchanged = if now == before { unchanged + 1 } else { 0 };
        pause = (pause * 2).min(LONGEST_PAUSE);
        before = now;
    }
    driven
}

/// Returns for how long the program may go on with nothing of a stream before a worker that has backed off makes what is queued.
fn most_stood(stream: &StreamQueue) -> Duration {
    if stream.help.lacks_core() { STANDS_WITHOUT_CORE } else { Duration::ZERO }
}

fn is_in_place(stream: &StreamQueue) -> bool {
    stream.is_in_place.load(Ordering::Relaxed)
}

/// Makes what is queued, waiting where it has to; `Pending` if another thread has taken it up meanwhile.
fn make(stream: &StreamQueue) -> Driven {
    let is_left = |driven| matches!(driven, Driven::Pending | Driven::Busy);
    let others = stream.driven_by_others.load(Ordering::Relaxed);
    let mut driven = stream.drive(0);
    // BOUND: each task ends.
    while is_left(driven) {
        let is_taken_up = || {
            !is_on_machine()
                && (stream.driven_by_others.load(Ordering::Relaxed) > others + DRIVES_TO_TAKE_OVER
                    || is_in_place(stream))
        };
        let poll = || {
            driven = stream.drive(0);
            !is_left(driven) || is_taken_up()
        };
        match stream.awaits() {
            // No thread of the library is interrupted.
            Some(awaits) => {
                let most = if is_on_machine() { Duration::MAX } else { NAP };
                let _ = awaits.wait(most, poll);
            }
            // What another thread was at is over.
            None => driven = stream.drive(0),
        }
        if is_left(driven) && is_taken_up() {
            return Driven::Pending;
        }
    }
    stream.is_worker_only.store(false, Ordering::Relaxed);
    driven
}
