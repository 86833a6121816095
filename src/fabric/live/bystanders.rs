//! What threads do outside of calls, as the kernel tells: the waiting threads of their process look, since nobody else can.
//!
//! ```text
//!     main      makes communicators   join(A) ...............................   barrier
//!     thread A                        all_reduce =====                  ends
//!                                          '-- looks: main is in a wait for a thread of its own process: BLOCKED
//! ```
//!
//! A thread that waits for others of its process, without a time limit, can only go on when one of them does something. The
//! clock need not wait for it where that is none, or one that is counted. So who looks counts a thread out if
//!
//! - it joins a thread that has called on the machine too, which counts by itself until it has ended, or
//! - each other thread of the process is counted, waits in a call, or is blocked as well: all at one moment, because each is
//!   looked at twice and has not run in between.
//!
//! A thread that acts without being counted may be about to wake it: one that has never called, one that moves the bytes of its
//! call, or the one that runs the engine.
//!
//! Threads that wait for streams or events are blocked, whether they sleep or poll (`polls.rs`). Streams' threads that have nothing to do are
//! woken by those alone that queue calls: where all these wait, no thread that has never called matters.
//!
//! A thread that could have woken another looks again before it waits itself, or is counted out. A thread that ends may wake others as
//! well, so it counts until the kernel has let go of it. Everything else that a thread may wait for (a time, a file, another
//! process) may come about at any moment; such a thread holds the clock, for as long as the grace period lasts.

use super::clock_segment::{BLOCKED, INSIDE, LEAVING, NOBODY, PRESENT, ThreadLine};
use super::participant::Participant;
use super::polls;
use super::presence::is_counted;
use super::threads::{KnownThread, is_idle, is_watched, known};
use crate::sync::prim::Ordering;
use crate::sys::process::{self, Doing};
use crate::sys::{clock, keeper};
use std::collections::{BTreeMap, BTreeSet};

/// The first look at threads outside of calls, after one has gone back to its program.
const FIRST_LOOK_NS: u64 = 50_000;
/// The longest interval between two looks at the other threads; it grows while nothing changes.
const RARE_LOOK_NS: u64 = 20_000_000;
/// The number of a thread that polls, in place of how often it has run.
const POLLS: u64 = u64::MAX;
/// In unit tests there are always threads of the harness and of other tests, which act. So there a thread counts as blocked, too, when it
/// has been outside of calls for so long.
#[cfg(test)]
const PATIENCE_NS: u64 = 1_000_000_000;

/// How a thread with a presence stands that is not in its own program for all that its line says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It may go on when it is woken by any thread of its process; the number changes when it has run.
    Blocked(u64),
    /// It goes on when the engine serves it at another rank, which counts it, or when a thread ends that counts until then.
    Awaits,
    Ended,
    Acts,
}

fn tid_of(line: &ThreadLine) -> u32 {
    line.tid.load(Ordering::Acquire)
}

/// The threads with a line in this state about which the kernel can be asked.
fn threads_in(state: u32, lines: &[&ThreadLine]) -> BTreeSet<u32> {
    lines.iter().filter(|line| line.now() == state && is_watched(line)).map(|line| tid_of(line)).collect()
}

impl Participant {
    /// Notes that a thread has returned to its program, where it may soon wait for another one.
    pub(super) fn look_soon(&self) {
        self.process_ranks.look_every_ns.store(FIRST_LOOK_NS, Ordering::Relaxed);
        self.process_ranks.next_look_ns.store(clock::now_ns() + FIRST_LOOK_NS, Ordering::Relaxed);
    }

    /// Looks at the other threads of this process. Every waiting thread calls it from time to time.
    pub fn watch_own(&self) {
        let ranks = &*self.process_ranks;
        let now_ns = clock::now_ns();
        if now_ns < ranks.next_look_ns.load(Ordering::Relaxed) {
            return;
        }
        let Some(notes) = ranks.notes.try_lock() else { return };
        let every_ns = ranks.look_every_ns.load(Ordering::Relaxed);
        ranks.next_look_ns.store(now_ns + every_ns, Ordering::Relaxed);
        ranks.look_every_ns.store((every_ns * 2).clamp(FIRST_LOOK_NS, RARE_LOOK_NS), Ordering::Relaxed);
        if self.clock_segment().header().running.load(Ordering::Acquire) > 0 {
            self.look_at_threads();
        } else if every_ns >= RARE_LOOK_NS {
            self.consider_verdict(notes, now_ns);
        }
    }

    /// Counts threads out that wait outside of calls. The caller holds what has been seen.
    pub(super) fn look_at_threads(&self) {
        let lines = self.process_ranks.lines(self.clock_segment());
        let mut ending = false;
        for line in lines.iter().filter(|line| line.now() == LEAVING && is_watched(line)) {
            let ended = process::has_ended(tid_of(line));
            if ended {
                self.look_at_woken();
                if line.turns(LEAVING, NOBODY) {
                    self.rest();
                }
            }
            ending |= !ended;
        }
        if ending {
            // It may still wake another.
            self.look_soon();
            return;
        }
        for tid in threads_in(PRESENT, &lines) {
            let its: Vec<&ThreadLine> = lines.iter().filter(|line| tid_of(line) == tid).copied().collect();
            let to = match self.standing(tid, &its) {
                Standing::Acts => continue,
                // Where the C library did not tell of its end.
                Standing::Ended => NOBODY,
                Standing::Blocked(_) | Standing::Awaits => BLOCKED,
            };
            // They are counted until the end of this.
            let turned: Vec<&ThreadLine> =
                its.iter().filter(|line| line.turns(PRESENT, to)).copied().collect();
            let keeps = match self.standing(tid, &its) {
                Standing::Acts => true,
                Standing::Blocked(number) => {
                    // Other threads are looked at between two looks at this one.
                    let acts = self.may_be_woken(tid, &lines) && !self.is_out_of_patience(&its);
                    acts || self.standing(tid, &its) != Standing::Blocked(number)
                }
                Standing::Awaits | Standing::Ended => false,
            };
            self.look_at_woken();
            for line in turned {
                // If it has called meanwhile, it has counted itself in.
                if !(keeps && line.turns(to, PRESENT)) {
                    self.rest();
                }
            }
        }
    }

    /// Counts threads again that the calling thread may have woken before it waits, or that others may wake whom it has woken.
    pub(super) fn look_at_woken(&self) {
        let lines = self.process_ranks.lines(self.clock_segment());
        let mut strangers = None;
        for tid in threads_in(BLOCKED, &lines) {
            let its: Vec<&ThreadLine> = lines.iter().filter(|line| tid_of(line) == tid).copied().collect();
            let woken = match self.standing(tid, &its) {
                Standing::Acts | Standing::Ended => true,
                Standing::Awaits => false,
                Standing::Blocked(_) if self.is_woken_by_none(tid) => false,
                Standing::Blocked(_) => *strangers.get_or_insert_with(|| self.has_strangers_that_act()),
            };
            if woken {
                its.iter().filter(|line| line.now() == BLOCKED).for_each(|line| self.count_unblocked(line));
                self.look_soon();
            }
        }
    }

    /// Looks at a thread that has these lines.
    fn standing(&self, tid: u32, its: &[&ThreadLine]) -> Standing {
        let known = known();
        let is_here =
            |tid: u32| known.get(&tid).is_some_and(|thread| thread.is_of(self.process_ranks.number));
        let thread = known.get(&tid);
        // The calling thread looks during its wait, or just before it.
        let waits = tid == process::tid() || thread.is_some_and(|thread| thread.note.waits().is_some());
        let is_in_call = || its.iter().any(|line| line.now() == INSIDE);
        if waits && (is_in_call() || thread.is_some_and(KnownThread::is_on_errand)) {
            return Standing::Awaits;
        }
        if polls::waits(tid) {
            return Standing::Blocked(POLLS);
        }
        match process::doing(tid) {
            Doing::Joins(other) if is_here(other) => Standing::Awaits,
            Doing::Blocked | Doing::Joins(_) => {
                process::switches(tid).map_or(Standing::Acts, Standing::Blocked)
            }
            Doing::Ended => Standing::Ended,
            Doing::Other => Standing::Acts,
        }
    }

    /// Tells whether a thread that is not counted acts, and may wake a blocked one.
    fn may_be_woken(&self, blocked: u32, lines: &[&ThreadLine]) -> bool {
        let runner = self.clock_segment().header().runner.load(Ordering::Acquire);
        if self.process_ranks.places().iter().any(|place| place + 1 == runner) {
            return true;
        }
        if self.is_woken_by_none(blocked) {
            return false;
        }
        let counts = |tid: u32| lines.iter().any(|line| tid_of(line) == tid && is_counted(line.now()));
        !are_asleep(|tid, _| tid == blocked || counts(tid))
    }

    /// Tells whether a blocked thread waits for streams, or is a stream's and all threads that could give it something to do wait.
    fn is_woken_by_none(&self, blocked: u32) -> bool {
        let known = known();
        let waits_in_call = |tid: u32| {
            let lines = self.process_ranks.lines(self.clock_segment());
            known.get(&tid).is_some_and(|thread| thread.note.waits().is_some())
                && lines.iter().any(|line| tid_of(line) == tid && line.now() == INSIDE)
        };
        let waits = |&tid: &u32| polls::waits(tid) || waits_in_call(tid) || process::has_ended(tid);
        polls::waits(blocked)
            || (is_idle(&known, blocked) && self.process_ranks.all_callers().iter().all(waits))
    }

    /// Tells whether a thread acts that has no presence here.
    fn has_strangers_that_act(&self) -> bool {
        let is_here = |thread: Option<&KnownThread>| {
            thread.is_some_and(|thread| thread.is_of(self.process_ranks.number))
        };
        !cfg!(test) && !are_asleep(|_, thread| is_here(thread))
    }

    #[cfg(not(test))]
    fn is_out_of_patience(&self, _its: &[&ThreadLine]) -> bool {
        false
    }

    #[cfg(test)]
    fn is_out_of_patience(&self, its: &[&ThreadLine]) -> bool {
        let since_ns = its.iter().map(|line| line.since_ns.load(Ordering::Relaxed)).max().unwrap_or(0);
        clock::now_ns().saturating_sub(since_ns) > PATIENCE_NS
    }
}

/// Tells whether all threads of this process, but the calling one and those that are left out, waited at one moment: in calls, or for
/// each other.
fn are_asleep(leaves_out: impl Fn(u32, Option<&KnownThread>) -> bool) -> bool {
    let look = || {
        let (me, known) = (process::tid(), known());
        let threads = keeper::other_threads();
        let mut asleep = BTreeMap::new();
        for &tid in threads.iter().filter(|&&tid| tid != me && !leaves_out(tid, known.get(&tid))) {
            if known.get(&tid).is_some_and(|thread| thread.note.waits().is_some()) || polls::waits(tid) {
                continue;
            }
            match process::doing(tid) {
                Doing::Blocked | Doing::Joins(_) => asleep.insert(tid, process::switches(tid)?),
                Doing::Ended => None,
                Doing::Other => return None,
            };
        }
        (!threads.is_empty()).then_some(asleep)
    };
    look().is_some_and(|first| first.is_empty() || look().is_some_and(|second| first == second))
}
