//! A number that only goes up, and threads of one process that wait for it.
//!
//! A thread that raises the count pays one exchange, which is a full barrier on x86-64 and has a fence behind it elsewhere, and one load if no thread sleeps. The two sides meet as in `doorbell.rs`:
//!
//! ```text
//!     raise                            reach
//!     value = max(value, to) (Release) waiting += 1
//!     full barrier             (A)     fence(SeqCst)                       (B)
//!     waiting == 0 ? done              under the lock: value there ? done, else sleep
//!     wake all, under the lock
//! ```
//!
//! Of (A) and (B) one comes first in the single order of full barriers, so either the one side sees the value or the other
//! sees the sleeper. A waiter that was seen sleeps or still holds the lock, so no wake is lost.

use super::prim::fence_behind_exchange;
use super::prim::model::{AtomicU32, AtomicU64, Condvar, Mutex, Ordering, fence};
#[cfg(loom)]
use crate::sys::interrupt::Interrupted;
#[cfg(not(loom))]
use crate::sys::{
    cpu,
    interrupt::{self, Interrupted},
};
use std::time::Duration;

/// A counter for which threads can wait (see the head of this file).
#[derive(Default)]
pub struct EventCount {
    value: AtomicU64,
    waiting: AtomicU32,
    lock: Mutex<()>,
    raised: Condvar,
}

/// Looks before sleeping, with a yield after each: the thread that raises it may need this core.
#[cfg(not(loom))]
const YIELDS: u32 = 64;

impl EventCount {
    /// Returns the current value; everything done before it was raised to that value is visible.
    #[inline]
    pub fn get(&self) -> u64 {
        // ORDER: partner of the exchange in `raise`.
        self.value.load(Ordering::Acquire)
    }

    /// Raise it, unless it is that much already.
    pub fn raise(&self, to: u64) {
        // ORDER: publishes what was done before; partner: `get`.
        self.value.fetch_max(to, Ordering::Release);
        // ORDER: fence (A) of the file's drawing; partner: `sleep`.
        fence_behind_exchange();
        if self.waiting.load(Ordering::Relaxed) != 0 {
            // A waiter that was seen and does not sleep yet holds the lock until it does.
            drop(self.lock.lock());
            self.raised.notify_all();
        }
    }

    /// Waits until the count is at least `value`. Nothing else ends the wait, so the events must come within a bounded time.
    pub fn reach(&self, value: u64) {
        #[cfg(not(loom))]
        if self.comes_soon(value) {
            return;
        }
        self.sleep(value);
    }

    #[cfg(not(loom))]
    fn comes_soon(&self, value: u64) -> bool {
        // BOUND: `YIELDS` looks.
        (0..YIELDS).any(|_| {
            let is_there = self.get() >= value;
            if !is_there {
                cpu::yield_now();
            }
            is_there
        })
    }

    /// Waits until the count is at least `value`, unless the calling thread's interrupt check ends the wait. A thread without one
    /// waits without a time limit, which declared machines take for waiting.
    #[cfg(not(loom))]
    pub fn reach_unless_interrupted(&self, value: u64) -> Result<(), Interrupted> {
        if !interrupt::is_possible() {
            self.reach(value);
            return Ok(());
        }
        // BOUND: the count is raised, or the check ends it.
        while self.get() < value && !self.comes_soon(value) {
            self.reach_within(value, interrupt::PERIOD);
            if self.get() < value {
                interrupt::ask()?;
            }
        }
        Ok(())
    }

    /// Under the model no thread has an interrupt check.
    #[cfg(loom)]
    pub fn reach_unless_interrupted(&self, value: u64) -> Result<(), Interrupted> {
        self.reach(value);
        Ok(())
    }

    /// Sleeps until the count is at least `value`, at most for `most`.
    #[cfg(not(loom))]
    pub fn reach_within(&self, value: u64, most: Duration) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // ORDER: fence (B) of the file's drawing; partner: `raise`.
        fence(Ordering::SeqCst);
        let held = self.lock.lock().unwrap_or_else(|e| e.into_inner());
        if self.get() < value {
            drop(self.raised.wait_timeout(held, most));
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// The model has no clock.
    #[cfg(loom)]
    pub fn reach_within(&self, value: u64, _most: Duration) {
        self.sleep(value);
    }

    fn sleep(&self, value: u64) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // ORDER: fence (B) of the file's drawing; partner: `raise`.
        fence(Ordering::SeqCst);
        let mut held = self.lock.lock().unwrap_or_else(|e| e.into_inner());
        // BOUND: the count is raised.
        while self.get() < value {
            held = self.raised.wait(held).unwrap_or_else(|e| e.into_inner());
        }
        drop(held);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(all(loom, test))]
mod model {
    use crate::sync::event_count::*;
    use loom::sync::Arc;

    #[test]
    fn who_waits_for_a_count_is_woken_by_it() {
        loom::model(|| {
            let count = Arc::new(EventCount::default());
            let theirs = count.clone();
            let waiter = loom::thread::spawn(move || {
                theirs.reach(2);
                theirs.get()
            });
            count.raise(1);
            count.raise(2);
            assert_eq!(waiter.join().unwrap(), 2);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::sync::event_count::*;
    use std::sync::Arc;

    #[test]
    fn threads_that_follow_each_other_all_come_through() {
        let counts: Arc<[EventCount; 3]> = Arc::default();
        let threads: Vec<_> = (0..3)
            .map(|me| {
                let counts = counts.clone();
                std::thread::spawn(move || {
                    for round in 1..=2000 {
                        counts[me].raise(round);
                        counts[(me + 1) % 3].reach(round);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("it came through"));
        assert!(counts.iter().all(|count| count.get() == 2000));
    }
}
