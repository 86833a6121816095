//! Waking a rank that sleeps.
//!
//! Posting must stay cheap when no rank sleeps, which is nearly always: one fence and one load of a line that
//! everybody only reads. The two sides meet like this:
//!
//! ```text
//!     poster                           sleeper
//!     store data (Release)             sleepers += 1; asleep += 1; ticket = rings
//!     fence(SeqCst)            (A)     fence(SeqCst)                       (B)
//!     sleepers == 0 ? done             data there ? do not sleep
//!     asleep ? rings += 1, wake        futex_wait(rings == ticket)
//! ```
//!
//! Of (A) and (B) one comes first in the single order of SeqCst fences, so either the poster sees the sleeper or the
//! sleeper sees the data: no wake is lost. A sleeper also looks up by itself every few milliseconds, because a peer
//! that was killed rings no bell.
//!
//! Posts are many and sleeps are few, so where the system lets the sleeper put a fence into all posters ([`Sleepers::spare_posters`]),
//! (A) is left out and (B) is that one: a poster has passed it before its store, and sees the sleeper, or after it, and the sleeper
//! sees the data (docs/decisions/0091).

use super::prim::compiler_fence;
use super::prim::model::{AtomicU32, Ordering, fence};

/// The doorbell of one rank.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Doorbell {
    /// The number of rings; the futex word.
    rings: AtomicU32,
    /// The number of the owner's threads that sleep or are about to.
    asleep: AtomicU32,
}

/// The number of sleeping ranks, and how they and posters meet: the only word that a poster reads.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Sleepers(AtomicU32);

/// The bit of [`Sleepers`] that says that posters need no fence.
const SPARED: u32 = 1 << 31;

impl Sleepers {
    /// Lets posters do without a fence: from now on those that are about to sleep put one into all processes that [admit] it. All that post have to.
    ///
    /// [admit]: crate::sys::membarrier::admit
    pub fn spare_posters(&self) {
        self.0.fetch_or(SPARED, Ordering::Relaxed);
    }

    /// Takes that back, for a poster that cannot admit it.
    pub fn spare_no_poster(&self) {
        self.0.fetch_and(!SPARED, Ordering::Relaxed);
    }

    /// Tells whether posters do without a fence.
    pub fn are_posters_spared(&self) -> bool {
        self.0.load(Ordering::Relaxed) & SPARED != 0
    }

    /// Calls after the store that others may be waiting for. True if some rank has to be rung.
    #[inline]
    pub fn after_post(&self) -> bool {
        // ORDER: the processor may still load before it stores, which a sleeper's fence puts right.
        compiler_fence(Ordering::SeqCst);
        let word = self.0.load(Ordering::Relaxed);
        if word & SPARED != 0 {
            return word != SPARED;
        }
        // ORDER: fence (A) of the module's drawing; partner: `Doorbell::prepare`.
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) & !SPARED != 0
    }

    /// Calls before a sleeper looks once more.
    fn fence(&self) {
        // ORDER: fence (B) of the module's drawing; partner: `Sleepers::after_post`.
        fence(Ordering::SeqCst);
        #[cfg(not(loom))]
        if self.are_posters_spared() && !crate::sys::membarrier::fence_others() {
            // Forbidden since. Who has posted without a fence so far is seen by the next look of those that sleep.
            self.spare_no_poster();
        }
    }
}

impl Doorbell {
    /// Announces sleep. Afterwards look at the data once more; sleep only if it is still not there.
    pub fn prepare(&self, sleepers: &Sleepers) -> u32 {
        sleepers.0.fetch_add(1, Ordering::Relaxed);
        self.asleep.fetch_add(1, Ordering::Relaxed);
        let ticket = self.rings.load(Ordering::Relaxed);
        sleepers.fence();
        ticket
    }

    /// Takes the announcement back.
    pub fn finish(&self, sleepers: &Sleepers) {
        self.asleep.fetch_sub(1, Ordering::Relaxed);
        sleepers.0.fetch_sub(1, Ordering::Relaxed);
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

    /// Either the sleeper sees the post or the poster sees the sleeper.
    #[test]
    fn no_wake_is_lost() {
        loom::model(|| {
            let shared = Arc::new((Doorbell::default(), Sleepers::default(), AtomicU64::new(0)));
            let theirs = shared.clone();
            let poster = loom::thread::spawn(move || {
                let (doorbell, sleepers, data) = &*theirs;
                data.store(1, Ordering::Release);
                sleepers.after_post() && doorbell.strike()
            });
            let (doorbell, sleepers, data) = &*shared;
            let ticket = doorbell.prepare(sleepers);
            let sees_data = data.load(Ordering::Acquire) == 1;
            let would_sleep = !sees_data;
            let rung = poster.join().unwrap();
            let woken = doorbell.rings.load(Ordering::Relaxed) != ticket;
            assert!(!would_sleep || (rung && woken), "a sleeper that nobody rings");
            doorbell.finish(sleepers);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::prim::pause;
    use crate::sys::{cpu, membarrier};
    use std::sync::atomic::AtomicBool;

    /// A post and a look before sleep, at the same time, again and again. Returns how often neither saw the other.
    fn lost_wakes(sleepers: &Sleepers, rounds: u32) -> usize {
        let (doorbell, data) = (Doorbell::default(), AtomicU32::new(0));
        let (begun, posted) = (AtomicU32::new(0), AtomicU32::new(0));
        let rung = AtomicBool::new(false);
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
                for round in 1..=rounds {
                    until(&begun, round);
                    // Its line is at hand, and that of the data is not: a load that comes after the store may be early.
                    let _ = sleepers.are_posters_spared();
                    data.store(round, Ordering::Release);
                    rung.store(sleepers.after_post(), Ordering::Relaxed);
                    posted.store(round, Ordering::Release);
                }
            });
            let is_lost = |&round: &u32| {
                let _ = data.load(Ordering::Acquire);
                begun.store(round, Ordering::Release);
                // Now a little earlier than the post, now a little later.
                (0..round % 32).for_each(|_| pause());
                doorbell.prepare(sleepers);
                let sees = data.load(Ordering::Acquire) == round;
                until(&posted, round);
                doorbell.finish(sleepers);
                !sees && !rung.load(Ordering::Relaxed)
            };
            (1..=rounds).filter(is_lost).count()
        })
    }

    #[test]
    fn no_wake_is_lost_where_posters_have_no_fence() {
        let sleepers = Sleepers::default();
        if membarrier::admit() {
            sleepers.spare_posters();
        }
        assert_eq!(lost_wakes(&sleepers, 100_000), 0);
    }

    #[test]
    fn a_poster_has_a_fence_again_when_one_of_them_cannot_do_without() {
        let sleepers = Sleepers::default();
        assert!(!sleepers.are_posters_spared() && !sleepers.after_post());
        sleepers.spare_posters();
        assert!(sleepers.are_posters_spared() && !sleepers.after_post(), "nobody sleeps");
        let doorbell = Doorbell::default();
        doorbell.prepare(&sleepers);
        assert!(sleepers.after_post());
        sleepers.spare_no_poster();
        assert!(!sleepers.are_posters_spared() && sleepers.after_post());
        doorbell.finish(&sleepers);
        assert!(!sleepers.after_post());
    }
}
