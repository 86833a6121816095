//! Waking a rank that sleeps.
//!
//! Posting must stay cheap when no rank sleeps, which is nearly always: one load of a line that everybody only reads. The two sides
//! meet like this:
//!
//! ```text
//!     poster                           sleeper
//!     store data (Release)             sleepers += 1; asleep += 1; fence(SeqCst)
//!     sleepers == 0 ? done             ticket = rings; data there ? do not sleep
//!     asleep ? rings += 1, wake        futex_wait(rings == ticket), for SETTLED at first
//!                                      ticket = rings; data there ? do not sleep
//!                                      futex_wait(rings == ticket)
//! ```
//!
//! The poster has no fence, so its processor may load `sleepers` before the store of the data is out of its store buffer: then neither
//! sees the other at first. The store is out within a microsecond or a few, and the sleeper looks again after `SETTLED`, still announced, before it
//! sleeps for long: who posts from its announcement on rings, and what was posted before is there by then (docs/decisions/0094).
//! A sleeper also looks up by itself every few milliseconds, because a peer that was killed rings no bell.

use super::prim::compiler_fence;
use super::prim::model::{AtomicU32, Ordering, fence};
use std::time::Duration;

/// The doorbell of one rank.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Doorbell {
    /// The number of rings; the futex word.
    rings: AtomicU32,
    /// The number of the owner's threads that sleep or are about to.
    asleep: AtomicU32,
}

/// The number of sleeping ranks: the only word that a poster reads.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Sleepers(AtomicU32);

/// A sleeper whose bell has not rung looks for the second time after this: much longer than a store takes to leave its processor's store buffer.
pub(super) const SETTLED: Duration = Duration::from_micros(200);

impl Sleepers {
    /// Calls after the store that others may be waiting for. True if some rank has to be rung.
    #[inline]
    pub fn after_post(&self) -> bool {
        // ORDER: the processor may still load before it stores; see the head of this file.
        compiler_fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) != 0
    }
}

/// A sleeper's announcement, which lasts until this is dropped.
pub struct Announced<'a> {
    doorbell: &'a Doorbell,
    sleepers: &'a Sleepers,
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        self.doorbell.asleep.fetch_sub(1, Ordering::Relaxed);
        self.sleepers.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Doorbell {
    /// Announces sleep. Afterwards take a [ticket](Doorbell::ticket) and look at the data once more; sleep only if it is still not there.
    pub fn announce<'a>(&'a self, sleepers: &'a Sleepers) -> Announced<'a> {
        sleepers.0.fetch_add(1, Ordering::Relaxed);
        self.asleep.fetch_add(1, Ordering::Relaxed);
        // ORDER: who posts from now on sees the announcement.
        fence(Ordering::SeqCst);
        Announced { doorbell: self, sleepers }
    }

    /// Returns what the futex word must hold for a sleep to begin.
    pub fn ticket(&self) -> u32 {
        self.rings.load(Ordering::Acquire)
    }

    /// Tells whether the bell has rung since `ticket` was taken.
    pub fn has_rung_since(&self, ticket: u32) -> bool {
        self.rings.load(Ordering::Relaxed) != ticket
    }

    /// Tells whether a thread of the owner sleeps or is about to.
    pub fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Relaxed) != 0
    }

    /// Bump the word if the owner sleeps. True if the futex has to be woken.
    pub fn strike(&self) -> bool {
        let asleep = self.asleep.load(Ordering::Relaxed) != 0;
        if asleep {
            self.rings.fetch_add(1, Ordering::Release);
        }
        asleep
    }

    /// Returns the word to sleep on.
    #[cfg(not(loom))]
    pub(super) fn word(&self) -> &AtomicU32 {
        &self.rings
    }

    /// Wakes the owner if it sleeps.
    #[cfg(not(loom))]
    pub fn ring(&self) {
        if self.strike() {
            crate::sys::futex::wake_all(&self.rings);
        }
    }
}

#[cfg(all(loom, test))]
mod model {
    use crate::sync::doorbell::*;
    use crate::sync::prim::model::AtomicU64;
    use loom::sync::Arc;

    /// A sleeper that the poster sees is rung after its ticket, or its look sees the post.
    #[test]
    fn who_has_announced_sleep_is_rung() {
        loom::model(|| {
            let shared = Arc::new((Doorbell::default(), Sleepers::default(), AtomicU64::new(0)));
            let (doorbell, sleepers, data) = &*shared;
            let announced = doorbell.announce(sleepers);
            let theirs = shared.clone();
            let poster = loom::thread::spawn(move || {
                let (doorbell, sleepers, data) = &*theirs;
                data.store(1, Ordering::Release);
                sleepers.after_post() && doorbell.strike()
            });
            let ticket = doorbell.ticket();
            let sees_data = data.load(Ordering::Acquire) == 1;
            assert!(poster.join().unwrap(), "it was announced before");
            assert!(sees_data || doorbell.has_rung_since(ticket), "a sleeper that nobody rings");
            drop(announced);
            assert!(!sleepers.after_post() && !doorbell.is_asleep());
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::prim::pause;
    use crate::sys::{cpu, futex};
    use std::sync::atomic::AtomicBool;

    /// The lines that a poster has to fetch, one after the other, before its post can leave the store buffer.
    type Lines = [[AtomicU32; 16]; 32];

    /// A post and a sleeper's first looks, at the same time, again and again.
    #[test]
    fn who_misses_a_post_without_a_ring_sees_it_when_stores_have_settled() {
        const ROUNDS: u32 = 20_000;
        let (sleepers, doorbell, data) = (Sleepers::default(), Doorbell::default(), AtomicU32::new(0));
        let (begun, posted) = (AtomicU32::new(0), AtomicU32::new(0));
        let (rung, lines) = (AtomicBool::new(false), Lines::default());
        let write_lines = |round| lines.iter().for_each(|line| line[0].store(round, Ordering::Relaxed));
        let mut lost = 0;
        let until = |word: &AtomicU32, round| {
            let mut looks = 0u32;
            // BOUND: the other thread comes to that round.
            while word.load(Ordering::Acquire) != round {
                looks += 1;
                if looks.is_multiple_of(1000) { cpu::yield_now() } else { pause() }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    until(&begun, round);
                    // That line is at hand, and the others are not: a load that comes after the store may be early.
                    let _ = sleepers.after_post();
                    write_lines(round);
                    data.store(round, Ordering::Release);
                    let is_asleep = sleepers.after_post();
                    if is_asleep {
                        doorbell.ring();
                    }
                    rung.store(is_asleep, Ordering::Relaxed);
                    posted.store(round, Ordering::Release);
                }
            });
            for round in 1..=ROUNDS {
                write_lines(round);
                begun.store(round, Ordering::Release);
                // Now a little earlier than the post, now a little later.
                (0..round % 64).for_each(|_| pause());
                let announced = doorbell.announce(&sleepers);
                let ticket = doorbell.ticket();
                let mut sees = data.load(Ordering::Acquire) == round;
                if !sees {
                    futex::wait(doorbell.word(), ticket, SETTLED);
                    sees = data.load(Ordering::Acquire) == round;
                }
                until(&posted, round);
                lost += u32::from(!sees && !rung.load(Ordering::Relaxed));
                drop(announced);
            }
        });
        assert_eq!(lost, 0);
    }
}
