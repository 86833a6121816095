//! A stream's worker thread, which makes what is queued where no thread of the program waits for it.
//!
//! A program that queues a call and waits for it at once makes the call itself, and has no use for a second thread that wakes
//! at each call. So the worker is of two minds:
//!
//! ```text
//!     alone       sleeps until something is queued, and makes it at once          ---- three times others were faster --->
//!     attended    looks now and then, and sleeps soundly when nothing comes       <--- something was left undone -----
//! ```

use super::queue::{Driven, StreamQueue};
use super::turn;
use crate::comm::progress::{Drivable, NAP, is_on_machine};
use crate::sync::prim::Ordering;
use crate::sync::wait::give_way;
use std::thread;
use std::time::Duration;

/// So many times in a row others did what was queued before the worker looks only now and then.
const FASTER: u32 = 3;
/// The pause between two looks, from the first to the longest.
const FIRST_PAUSE: Duration = Duration::from_micros(250);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);
/// Looks at a stream that stands still before the worker sleeps soundly.
const VAIN_LOOKS: u32 = 50;
/// Who goes on with a task less often between two looks leaves it to the worker.
const SELDOM: u64 = 4;
/// A thread that goes on with a task so often is at it, and does not merely ask.
const A_FEW: u64 = 16;

/// Does what is queued until the end comes.
pub(super) fn work(stream: &StreamQueue) {
    turn::become_worker();
    give_way();
    let mut faster = 0;
    // BOUND: the task that ends it.
    loop {
        if faster >= FASTER && !is_on_machine() {
            attend(stream);
            faster = 0;
        }
        let others = stream.driven_by_others.load(Ordering::Relaxed);
        stream.queued.reach(stream.done.get() + 1);
        match make(stream) {
            Driven::Ended => return,
            // Another thread has taken it up.
            Driven::Pending => faster = FASTER,
            _ if stream.driven_by_others.load(Ordering::Relaxed) != others => faster += 1,
            _ => faster = 0,
        }
    }
}

/// Looks now and then, until something is left undone or nothing comes any more.
fn attend(stream: &StreamQueue) {
    let look = || (stream.done.get(), stream.queued.get(), stream.driven_by_others.load(Ordering::Relaxed));
    let (mut pause, mut vain, mut before) = (FIRST_PAUSE, 0, look());
    // BOUND: `VAIN_LOOKS` looks in a row at which nothing has changed.
    while vain < VAIN_LOOKS && !stream.is_workers.load(Ordering::Relaxed) {
        thread::park_timeout(pause);
        let now = look();
        let stands = now.0 == before.0;
        if stands && is_in_place(stream) {
            vain += 1;
            if vain == VAIN_LOOKS {
                // The thread in the call wakes this one when the call is over.
                stream.done.reach(now.0 + 1);
                (vain, pause) = (0, FIRST_PAUSE);
            }
            continue;
        }
        if stands && now.0 < now.1 && now.2 < before.2 + SELDOM {
            return;
        }
        vain = if now == before { vain + 1 } else { 0 };
        pause = (pause * 2).min(LONGEST_PAUSE);
        before = now;
    }
}

fn is_in_place(stream: &StreamQueue) -> bool {
    stream.is_in_place.load(Ordering::Relaxed)
}

/// Makes what is queued, waiting where it has to; `Pending` if another thread has taken it up meanwhile.
fn make(stream: &StreamQueue) -> Driven {
    let is_left = |driven| matches!(driven, Driven::Pending | Driven::Taken);
    let others = stream.driven_by_others.load(Ordering::Relaxed);
    let mut driven = stream.drive(0);
    // BOUND: each task ends.
    while is_left(driven) {
        let is_taken_up = || {
            !is_on_machine()
                && (stream.driven_by_others.load(Ordering::Relaxed) > others + A_FEW || is_in_place(stream))
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
    stream.is_workers.store(false, Ordering::Relaxed);
    driven
}
