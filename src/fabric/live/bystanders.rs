//! What a rank's threads do outside of calls, as the kernel tells: its waiting threads look, since nobody else can.
//!
//! ```text
//!     main      makes communicators   join(A) ...............................   barrier
//!     thread A                        all_reduce =====                  ends
//!                                          '-- looks: main is in a wait for a thread of its own process: BLOCKED
//! ```
//!
//! A thread that waits for others of its process, without a time limit, can only go on when one of them does something; so
//! the clock need not wait for it while these are in calls. Whoever could have woken it looks again before it waits
//! itself: the thread that has run is the one that comes to wait. A thread that ends may wake others as well, so it counts
//! until the kernel has let go of it. Everything else that a thread may wait for (a time, a file, another process) may
//! come about at any moment; such a thread holds the clock, for as long as the grace period lasts.

use super::clock_segment::{BLOCKED, LEAVING, NOBODY, PRESENT, ThreadLine};
use super::participant::Participant;
use super::threads::is_watched;
use crate::sync::prim::Ordering;
use crate::sys::clock;
use crate::sys::process::{self, Doing};

/// The first look at threads outside of calls, after one has gone back to its program.
const FIRST_LOOK_NS: u64 = 50_000;
/// The longest interval between two looks at the other threads; it grows while nothing changes.
const RARE_LOOK_NS: u64 = 20_000_000;

fn doing(line: &ThreadLine) -> Doing {
    process::doing(line.tid.load(Ordering::Acquire))
}

impl Participant {
    /// Notes that a thread has returned to its program, where it may soon wait for another one.
    pub(super) fn look_soon(&self) {
        self.look_every_ns.store(FIRST_LOOK_NS, Ordering::Relaxed);
        self.next_look_ns.store(clock::now_ns() + FIRST_LOOK_NS, Ordering::Relaxed);
    }

    /// Looks at the other threads of this rank. Every waiting thread of the rank calls it from time to time.
    pub fn watch_own(&self) {
        let now_ns = clock::now_ns();
        let next_ns = self.next_look_ns.load(Ordering::Relaxed);
        if now_ns < next_ns {
            return;
        }
        let every_ns = self.look_every_ns.load(Ordering::Relaxed);
        let mine = self.next_look_ns.compare_exchange(
            next_ns,
            now_ns + every_ns,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if mine.is_err() {
            return;
        }
        self.look_every_ns.store((every_ns * 2).clamp(FIRST_LOOK_NS, RARE_LOOK_NS), Ordering::Relaxed);
        if self.clock_segment().header().running.load(Ordering::Acquire) > 0 {
            self.look_at_threads();
        } else if every_ns >= RARE_LOOK_NS {
            self.consider_verdict(now_ns);
        }
    }

    fn look_at_threads(&self) {
        let lines = self.clock_segment().threads(self.place());
        let mut ending = false;
        for line in lines.iter().filter(|line| line.now() == LEAVING && is_watched(line)) {
            let ended = process::has_ended(line.tid.load(Ordering::Acquire));
            if ended && line.turns(LEAVING, NOBODY) {
                self.rest();
            }
            ending |= !ended;
        }
        if ending {
            // It may still wake another.
            self.look_soon();
            return;
        }
        for line in lines.iter().filter(|line| line.now() == PRESENT && is_watched(line)) {
            match doing(line) {
                Doing::Blocked => {
                    self.count_blocked(line, || doing(line) == Doing::Blocked);
                }
                // Where the C library did not tell of its end.
                Doing::Ended if line.turns(PRESENT, NOBODY) => self.rest(),
                Doing::Ended | Doing::Other => {}
            }
        }
    }

    /// Counts threads again that the calling thread may have woken before it waits.
    pub(super) fn look_at_woken(&self) {
        let lines = self.clock_segment().threads(self.place());
        for line in lines.iter().filter(|line| line.now() == BLOCKED && is_watched(line)) {
            if doing(line) != Doing::Blocked {
                self.count_unblocked(line);
                self.look_soon();
            }
        }
    }
}
