//! When a deadlock is one: all wait, nothing is under way, and no rank has a thread that could still act.
//!
//! ```text
//!     epoch        `wanted`: changes with every wait that may have made something possible
//!     certificate  1 + epoch: this rank has seen all of its process's threads in waits that nobody outside can end
//! ```
//!
//! Each rank answers for itself, because only its own process may ask the kernel about its threads. It looks twice: if
//! each thread was blocked both times, and has not run in between, all were at one moment; and so it remains until one of
//! its calls is served, which changes the epoch. When the certificates of all ranks bear the current epoch, nothing can
//! happen any more, however long one waits.
//!
//! A process may have threads that have never called on the machine, and are not blocked. Any of them may call yet, so there is no
//! verdict while one is like that: the calls end at their deadline, whose sentence names it.

use super::clock_segment::{AWAY, BLOCKED, POSTED};
use super::participant::Participant;
#[cfg(test)]
use super::presence::GRACE_NS;
use super::report;
use super::threads::{PARKED, is_known, is_watched};
use crate::error::Error;
use crate::sync::prim::Ordering;
use crate::sys::process::{self, Doing};

/// The time for which all ranks must stand still before a deadlock is reported, so that other failures are reported
/// first.
const STANDSTILL_NS: u64 = 300_000_000;

/// The observations of a rank about its threads in an epoch.
#[derive(Default)]
pub(super) struct Notes {
    epoch: u64,
    since_ns: u64,
    seen: Option<u64>,
}

/// A rank's threads as the kernel tells.
enum Stillness {
    /// A thread may act.
    None,
    /// All threads are blocked; the number changes when one has run.
    Blocked(u64),
    /// Threads with a presence are blocked; others may act.
    Strangers,
}

impl Participant {
    /// Records that no thread of this rank runs; reports a deadlock if all ranks have done so.
    pub(super) fn consider_verdict(&self, now_ns: u64) {
        let header = self.clock_segment().header();
        let epoch = header.wanted.load(Ordering::Acquire);
        if !self.stuck() {
            return;
        }
        let Some(mut notes) = self.notes.try_lock() else { return };
        if notes.epoch != epoch || notes.since_ns == 0 {
            *notes = Notes { epoch, since_ns: now_ns, seen: None };
        }
        let stood_ns = now_ns.saturating_sub(notes.since_ns);
        let certain = match self.stillness() {
            Stillness::None => return,
            Stillness::Blocked(seen) => notes.seen.replace(seen) == Some(seen) && stood_ns >= STANDSTILL_NS,
            Stillness::Strangers => {
                notes.seen = None;
                self.patience_for_strangers().is_some_and(|patience_ns| stood_ns >= patience_ns)
            }
        };
        if !certain {
            return;
        }
        self.clock_segment().place(self.place()).certificate.store(epoch + 1, Ordering::Release);
        let there = |&place: &u32| self.clock_segment().place(place).left.load(Ordering::Acquire) == 0;
        let certified =
            |place| self.clock_segment().place(place).certificate.load(Ordering::Acquire) == epoch + 1;
        if (0..self.clock_segment().places()).filter(there).all(certified) {
            drop(notes);
            self.as_runner(|| {
                if header.wanted.load(Ordering::Acquire) == epoch && self.stuck() && self.check().is_ok() {
                    // What the others wait for in vain may be because of a rank that died.
                    let dead = (0..self.clock_segment().places())
                        .find(|&place| self.clock_segment().place(place).died());
                    let why = || Error::usage(report::deadlock(self.clock_segment()));
                    self.halt(&dead.map_or_else(why, |place| self.death(place)));
                }
            });
        }
    }

    /// Returns the time for which threads without a presence are waited for; `None`: no limit.
    #[cfg(not(test))]
    fn patience_for_strangers(&self) -> Option<u64> {
        None
    }

    /// A unit test's process has threads of the harness and of other tests, which are not blocked and never call.
    #[cfg(test)]
    fn patience_for_strangers(&self) -> Option<u64> {
        let expected = |place| {
            let line = self.clock_segment().place(place);
            line.left.load(Ordering::Acquire) == 0 && line.outside.load(Ordering::Acquire) > 0
        };
        match self.machine().grace_ns {
            0 if (0..self.clock_segment().places()).any(expected) => None,
            grace_ns => Some(grace_ns.max(GRACE_NS)),
        }
    }

    /// Tells whether a rank waits and no thread is left that could post the missing call.
    fn stuck(&self) -> bool {
        let clock_segment = self.clock_segment();
        let posted = |place| {
            clock_segment.used_tickets(place).iter().any(|t| t.state.load(Ordering::Acquire) == POSTED)
        };
        let waits = |place| posted(place) || clock_segment.awaits(place);
        let away = |place| {
            clock_segment.place(place).left.load(Ordering::Acquire) == 0
                && clock_segment.threads(place).iter().any(|thread| thread.now() == AWAY)
        };
        // Who takes its posts back counts as running before it does.
        (0..clock_segment.places()).any(waits)
            && !(0..clock_segment.places()).any(away)
            && clock_segment.header().running.load(Ordering::Acquire) == 0
    }

    /// Tells whether a thread of this process has never called on a machine.
    fn is_strange(&self, tid: u32) -> bool {
        let own = self.clock_segment().threads(self.place());
        !own.iter().any(|line| line.tid.load(Ordering::Acquire) == tid) && !is_known(tid)
    }

    /// Describes what all wait for, where only threads that have never called on the machine could end that.
    pub(super) fn suspicion(&self) -> Option<String> {
        const NAMED: usize = 4;
        if !self.stuck() {
            return None;
        }
        let may_call = |tid: &u32| self.is_strange(*tid) && process::doing(*tid) == Doing::Other;
        let here: Vec<String> = process::threads()
            .into_iter()
            .filter(may_call)
            .take(NAMED)
            .map(|tid| format!("{tid} ({})", process::thread_name(tid)))
            .collect();
        let who = match here.is_empty() {
            true => "a thread of another rank that has not called there yet".to_owned(),
            false => format!("a thread of this process that has not called there yet: {}", here.join(", ")),
        };
        Some(format!("{}; only {who}, could end this", report::deadlock(self.clock_segment())))
    }

    /// Tells whether a thread of this rank's process can act although none counts as running.
    fn stillness(&self) -> Stillness {
        let mut seen = 0u64;
        let mut note = |tid: u32| {
            let switches = process::switches(tid)?;
            seen =
                (seen ^ u64::from(tid) << 40 ^ switches).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
            Some(())
        };
        let own = self.clock_segment().threads(self.place());
        for line in own.iter().filter(|line| line.now() == BLOCKED && is_watched(line)) {
            let tid = line.tid.load(Ordering::Acquire);
            if process::doing(tid) != Doing::Blocked || note(tid).is_none() {
                self.count_unblocked(line);
                return Stillness::None;
            }
        }
        let threads = process::threads();
        let mut strangers =
            threads.is_empty() || own.iter().any(|line| line.tid.load(Ordering::Acquire) == PARKED);
        for tid in threads.into_iter().filter(|&tid| self.is_strange(tid)) {
            match process::doing(tid) {
                Doing::Blocked => strangers |= note(tid).is_none(),
                Doing::Ended => {}
                Doing::Other => strangers = true,
            }
        }
        if strangers { Stillness::Strangers } else { Stillness::Blocked(seen) }
    }
}
