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

/// The number of sleeping ranks: the only word that a poster reads.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Sleepers(AtomicU32);

impl Sleepers {
    /// Calls after the store that others may be waiting for. True if some rank has to be rung.
    #[inline]
    pub fn after_post(&self) -> bool {
        // ORDER: fence (A) of the module's drawing; partner: `Doorbell::prepare`.
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) != 0
    }
}

impl Doorbell {
    /// Announces sleep. Afterwards look at the data once more; sleep only if it is still not there.
    pub fn prepare(&self, sleepers: &Sleepers) -> u32 {
        sleepers.0.fetch_add(1, Ordering::Relaxed);
        self.asleep.fetch_add(1, Ordering::Relaxed);
        let ticket = self.rings.load(Ordering::Relaxed);
        // ORDER: fence (B) of the module's drawing; partner: `Sleepers::after_post`.
        fence(Ordering::SeqCst);
        ticket
    }

    /// Takes the announcement back.
    pub fn finish(&self, sleepers: &Sleepers) {
        self.asleep.fetch_sub(1, Ordering::Relaxed);
        sleepers.0.fetch_sub(1, Ordering::Relaxed);
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
