//! When a deadlock is one: all wait, nothing is under way, and no rank has a thread that could still act.
//!
//! ```text
//!     epoch        `wanted`: changes with every wait that may have made something possible
//!     certificate  epoch and round: no thread of this rank's process can act, and none has acted since the round before
//! ```
//!
//! Each process answers for its own ranks, because only it may ask the kernel about its threads. It looks again and again: a thread is
//! blocked and has not run since the last look, or it is in the same wait as then. If that holds of all its threads, the process was
//! quiet from one look to the next, and its ranks certify the first round.
//!
//! ```text
//!     process 0    .... quiet, 1 .......... sees 1 of all ........ looks: still quiet, 2 ......... sees 2 of all: deadlock
//!     process 1    .................... quiet, 1 .... sees 1 of all ....... looks: still quiet, 2 ................
//!                                            '-- all were quiet here, and have looked for what ends their waits since
//! ```
//!
//! When a process has seen the first certificates of all, each waiting thread must look once more, in vain, for everything that ends its
//! wait. Then its ranks certify the second round. So there was a moment at which all waited, and what had been done before it did
//! not end any wait: nothing can happen any more, neither a call nor another failure, however long one waits. A process that
//! has not been quiet after all begins a new epoch.
//!
//! A process may have threads that have never called on the machine, and are not blocked. Any of them may call yet, so there is no
//! verdict while one is like that: the calls end at their deadline, whose sentence names it.

use super::clock_segment::{AWAY, BLOCKED, INSIDE, POSTED, PRESENT};
use super::participant::Participant;
#[cfg(test)]
use super::presence::GRACE_NS;
use super::report;
use super::threads::known;
use crate::error::Error;
use crate::sync::lock::MutexGuard;
use crate::sync::prim::Ordering;
use crate::sys::keeper;
use crate::sys::process::{self, Doing};
use std::collections::BTreeMap;

/// The rounds of certificates.
const ROUNDS: u64 = 2;

/// What a process has seen of its threads in an epoch.
#[derive(Default)]
pub(super) struct Notes {
    epoch: u64,
    #[cfg(test)]
    since_ns: u64,
    /// The round that its ranks have certified; 0: none.
    round: u64,
    /// The threads at the last look from which on they were quiet.
    seen: Option<Threads>,
    /// All ranks had certified the round before that look.
    all_have: bool,
}

/// Threads that cannot act: each with what changes when it does, and how often it has looked for the end of its wait.
type Threads = BTreeMap<u32, (u64, Option<u64>)>;

/// A process's threads as the kernel and their notes tell.
enum Stillness {
    /// A thread acts.
    None,
    /// All threads of its ranks wait or are blocked.
    Quiet(Threads),
    /// They do; others may act.
    Strangers,
}

/// Have all threads stayed in their waits, and looked in vain for what ends them?
fn stayed(before: &Threads, now: &Threads) -> Option<bool> {
    let alike = before.len() == now.len()
        && before.iter().zip(now).all(|((t, (a, _)), (u, (b, _)))| (t, a) == (u, b));
    // One look may have begun before.
    let looked = |(then, now): (Option<u64>, Option<u64>)| now.is_none_or(|now| now >= then.unwrap_or(0) + 2);
    alike.then(|| before.values().zip(now.values()).all(|((_, then), (_, now))| looked((*then, *now))))
}

fn certificate(epoch: u64, round: u64) -> u64 {
    (epoch + 1) * (ROUNDS + 1) + round
}

impl Participant {
    /// Records that no thread of this process acts; reports a deadlock if all have done so.
    pub(super) fn consider_verdict(&self, mut notes: MutexGuard<'_, Notes>, now_ns: u64) {
        let header = self.clock_segment().header();
        let epoch = header.wanted.load(Ordering::Acquire);
        if !self.stuck() {
            return;
        }
        if notes.epoch != epoch {
            *notes = Notes { epoch, ..Notes::default() };
        }
        #[cfg(test)]
        if notes.since_ns == 0 {
            notes.since_ns = now_ns;
        }
        let all_have = notes.round > 0 && self.all_have(certificate(epoch, notes.round));
        let round = match (self.stillness(), notes.seen.take()) {
            (Stillness::Strangers, _) if self.is_out_of_patience_with_strangers(&notes, now_ns) => ROUNDS,
            (Stillness::None | Stillness::Strangers, _) => return self.was_not_quiet(&notes),
            (Stillness::Quiet(now), Some(before)) => match stayed(&before, &now) {
                None => {
                    notes.seen = Some(now);
                    return self.was_not_quiet(&notes);
                }
                // The certificates of all were there before the last look, and that is long enough ago.
                Some(true) if notes.all_have || notes.round == 0 => {
                    notes.all_have = false;
                    notes.seen = Some(now);
                    (notes.round + 1).min(ROUNDS)
                }
                _ if all_have && !notes.all_have => {
                    notes.all_have = true;
                    notes.seen = Some(now);
                    notes.round
                }
                _ => {
                    notes.seen = Some(before);
                    notes.round
                }
            },
            (Stillness::Quiet(now), None) => {
                notes.seen = Some(now);
                return;
            }
        };
        notes.round = round;
        if round == 0 {
            return;
        }
        for &place in self.process_ranks.places().iter() {
            self.clock_segment().place(place).certificate.store(certificate(epoch, round), Ordering::Release);
        }
        drop(notes);
        if self.all_have(certificate(epoch, ROUNDS)) {
            self.as_runner(|| {
                if header.wanted.load(Ordering::Acquire) == epoch && self.stuck() && self.check().is_ok() {
                    // What the others wait for in vain may be because of a rank that died.
                    let dead = (0..self.clock_segment().places())
                        .find(|&place| self.clock_segment().place(place).died());
                    let why = || Error::usage(report::deadlock(self.clock_segment()));
                    self.halt(&dead.map_or_else(why, |place| self.death(self.first_dead(place))));
                }
            });
        }
    }

    /// Have all ranks that are there certified so much?
    fn all_have(&self, certificate: u64) -> bool {
        let place = |place| self.clock_segment().place(place);
        let there = |&rank: &u32| place(rank).left.load(Ordering::Acquire) == 0;
        let has = |rank| place(rank).certificate.load(Ordering::Acquire) >= certificate;
        (0..self.clock_segment().places()).filter(there).all(has)
    }

    /// A thread has acted: what its process has certified holds no more, nor what others have because of it.
    fn was_not_quiet(&self, notes: &Notes) {
        if notes.round > 0 {
            self.clock_segment().header().wanted.fetch_add(1, Ordering::AcqRel);
        }
    }

    #[cfg(not(test))]
    fn is_out_of_patience_with_strangers(&self, _notes: &Notes, _now_ns: u64) -> bool {
        false
    }

    /// A unit test's process has threads of the harness and of other tests, which are not blocked and never call.
    #[cfg(test)]
    fn is_out_of_patience_with_strangers(&self, notes: &Notes, now_ns: u64) -> bool {
        let expected = |place| {
            let line = self.clock_segment().place(place);
            line.left.load(Ordering::Acquire) == 0 && line.outside.load(Ordering::Acquire) > 0
        };
        let stood_ns = now_ns.saturating_sub(notes.since_ns);
        match self.machine().grace_ns {
            0 if (0..self.clock_segment().places()).any(expected) => false,
            grace_ns => stood_ns >= grace_ns.max(GRACE_NS),
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

    /// Describes what all wait for, where only threads that have never called on the machine could end that.
    pub(super) fn suspicion(&self) -> Option<String> {
        const NAMED: usize = 4;
        if !self.stuck() {
            return None;
        }
        let known = known();
        let may_call = |tid: &u32| {
            let is_here = known.get(tid).is_some_and(|thread| thread.is_of(self.process_ranks.number));
            !is_here && process::doing(*tid) == Doing::Other
        };
        let here: Vec<String> = keeper::other_threads()
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

    /// Looks at the threads of this process while no presence counts as running.
    fn stillness(&self) -> Stillness {
        let known = known();
        let (mut quiet, mut strangers) = (Threads::new(), false);
        let threads = keeper::other_threads();
        for &tid in &threads {
            let thread = known.get(&tid);
            let is_here = thread.is_some_and(|thread| thread.is_of(self.process_ranks.number));
            let waits = thread.and_then(|thread| match tid == process::tid() {
                true => thread.note.own_wait(),
                false => thread.note.waits(),
            });
            if let Some(waits) = waits.filter(|_| is_here) {
                quiet.insert(tid, (waits.turn, waits.looks));
                continue;
            }
            match process::doing(tid) {
                // What another machine's engine serves may call here next.
                _ if waits.is_some() => strangers = true,
                Doing::Ended => {}
                doing => match process::switches(tid).filter(|_| doing != Doing::Other) {
                    Some(switches) => drop(quiet.insert(tid, (switches, None))),
                    None if self.is_counted_as_waiting(tid) => return Stillness::None,
                    None => strangers = true,
                },
            }
        }
        if strangers || threads.is_empty() { Stillness::Strangers } else { Stillness::Quiet(quiet) }
    }

    /// Tells whether a thread that acts counts as if it did not. If it counts as blocked, it is counted again.
    fn is_counted_as_waiting(&self, tid: u32) -> bool {
        let lines = self.process_ranks.lines(self.clock_segment());
        let its = || lines.iter().filter(|line| line.tid.load(Ordering::Acquire) == tid);
        its().filter(|line| line.now() == BLOCKED).for_each(|line| self.count_unblocked(line));
        its().any(|line| matches!(line.now(), PRESENT | INSIDE))
    }
}
