//! A thread that attends to a rank's link while no thread of the rank polls it.
//!
//! A provider may move bytes only while it is polled. A rank that sleeps in a wait, or computes between two calls, does not poll: its peers'
//! frames would stay where they are, and so would its own that the provider had no room for. The attendant sleeps on the link's
//! descriptor. When something comes it polls, and rings the rank if it sleeps.
//!
//! ```text
//!     quiet       sleeps until something comes, then polls and rings         the rank sleeps or is elsewhere
//!     beside      sleeps for [`BESIDE`], whatever comes                      the rank has polled since the last look
//! ```
//!
//! A rank that is about to sleep ends the attendant's sleep beside it, and one that posts after it was elsewhere ends the other: the
//! attendant sends what the link holds back if the rank does not poll again soon. So an idle process uses no processor, a message wakes a sleeping
//! rank at once, and a rank that polls is disturbed a thousand times a second at most.

use super::far::FarRanks;
use super::link::Link;
use crate::error::{Error, Result};
use crate::sync::prim::{AtomicBool, AtomicU32, Ordering, fence};
use crate::sys::kick::Kick;
use crate::sys::{background, cpu, fork};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the attendant leaves a link alone that the rank polls.
const BESIDE: Duration = Duration::from_millis(1);
/// Polls of a rank in which the attendant may have had no core to run on.
const POLLS: u32 = 1 << 10;
/// The stack of the thread, on which the provider's functions run.
const STACK: usize = 512 << 10;

/// The attendant of one link. It ends with this value.
pub struct Attendant {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread.
    generation: u32,
}

struct Shared {
    kick: Kick,
    stop: AtomicBool,
    /// The attendant sleeps beside a rank that polls.
    is_beside: AtomicBool,
    /// It was kicked because of a post, and has not looked since.
    is_told: AtomicBool,
    /// The link's descriptor is open.
    is_open: AtomicBool,
    /// The rank's polls since the attendant has last found it to be elsewhere.
    polls: AtomicU32,
}

impl Attendant {
    /// Starts the attendant of a link that has a descriptor.
    pub fn new(ranks: &Arc<FarRanks>) -> Result<Attendant> {
        let refused = |e| {
            Error::system(format!(
                "cannot start the thread that attends to other hosts: {e}; raise the limits of threads and open files"
            ))
        };
        let kick = Kick::new().map_err(refused)?;
        let no = || AtomicBool::new(false);
        let shared = Arc::new(Shared {
            kick,
            stop: no(),
            is_beside: no(),
            is_told: no(),
            is_open: no(),
            polls: AtomicU32::new(0),
        });
        let (its, ranks) = (shared.clone(), ranks.clone());
        let attend = move || attend(&its, &ranks);
        let thread = background::spawn_with_stack("penny-net", STACK, attend).map_err(refused)?;
        Ok(Attendant { shared, thread: Some(thread), generation: fork::generation() })
    }

    /// A thread of the rank is about to sleep.
    pub fn take_over(&self) {
        if self.shared.is_beside.load(Ordering::Relaxed) {
            self.shared.kick.kick();
        }
    }
}

impl Attendant {
    /// The rank has posted something.
    #[inline]
    pub fn note_post(&self) {
        // ORDER: either this sees that the attendant does not sleep beside the rank, or the attendant finds what was posted when it
        // polls; partner: the fence behind its sleep.
        fence(Ordering::SeqCst);
        if !self.shared.is_beside.load(Ordering::Relaxed)
            && !self.shared.is_told.load(Ordering::Relaxed)
            && !self.shared.is_told.swap(true, Ordering::Relaxed)
        {
            self.shared.kick.kick();
        }
    }
}

impl Attendant {
    /// The rank has polled. The attendant may have had no core since it opened the descriptor.
    #[inline]
    pub fn note_poll(&self, link: &dyn Link) {
        if self.shared.is_open.load(Ordering::Relaxed) {
            self.close_in_time(link);
        }
    }

    #[cold]
    fn close_in_time(&self, link: &dyn Link) {
        if self.shared.polls.fetch_add(1, Ordering::Relaxed) >= POLLS {
            self.close_descriptor(link);
        }
    }

    /// Closes the descriptor in the attendant's place, and wakes it if it sleeps there.
    fn close_descriptor(&self, link: &dyn Link) {
        self.shared.is_open.store(false, Ordering::Relaxed);
        link.close_descriptor();
        self.shared.kick.kick();
    }
}

impl Drop for Attendant {
    fn drop(&mut self) {
        // A forked child has no such thread.
        if self.generation != fork::generation() {
            return;
        }
        self.shared.stop.store(true, Ordering::Release);
        self.shared.kick.kick();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn attend(shared: &Shared, ranks: &FarRanks) {
    let mut seen = ranks.polls();
    let mut was_beside = false;
    // BOUND: `stop`, which the attendant's owner sets.
    while !shared.stop.load(Ordering::Acquire) {
        shared.is_told.store(false, Ordering::Relaxed);
        let now = ranks.polls();
        let is_polled = now != std::mem::replace(&mut seen, now);
        if is_polled && !ranks.is_asleep() {
            shared.is_beside.store(true, Ordering::Relaxed);
            // ORDER: either the rank that falls asleep sees the flag, or this sees it asleep; partner: `Doorbell::prepare`.
            fence(Ordering::SeqCst);
            if !ranks.is_asleep() {
                // What comes while it is open is dearer. A rank that posts now and then need not have it closed and opened.
                if was_beside && shared.is_open.swap(false, Ordering::Relaxed) {
                    ranks.link.close_descriptor();
                }
                was_beside = true;
                shared.kick.wait(None, Some(BESIDE));
            }
            shared.is_beside.store(false, Ordering::Relaxed);
            // ORDER: partner of `note_post`.
            fence(Ordering::SeqCst);
            continue;
        }
        was_beside = false;
        // Before the poll: what comes behind it makes the descriptor readable. If the rank closes it meanwhile, it kicks.
        let descriptor = ranks.link.open_descriptor();
        shared.polls.store(0, Ordering::Relaxed);
        shared.is_open.store(descriptor.is_some(), Ordering::Relaxed);
        ranks.poll();
        match ranks.may_sleep() {
            // A process that cannot open more files looks by itself.
            Some(most) => drop(shared.kick.wait(descriptor, Some(descriptor.map_or(BESIDE, |_| most)))),
            None => cpu::yield_now(),
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "attendant_tests.rs"]
mod tests;
