//! Whether a queue is in the list of those that have something in them.
//!
//! A thread that queues work lists the queue unless it is listed; a thread that walks the list takes idle queues out. Nothing
//! may be queued in a queue that is not in the list, or those who look through it never come to it:
//!
//! ```text
//!     queue                                   look through the list
//!     queued += 1
//!     listed ? done                           listed = false
//!     listed = true, push                     nothing queued ? take it out
//!                                             listed ? take it out: who has listed it pushes it, too
//!                                             listed = true, it stays
//! ```
//!
//! Both sides exchange the flag. Of the two exchanges that meet, one comes first: either the queuer finds the flag cleared and
//! pushes the queue itself, or the one who looks has cleared it after the queuer's exchange, and sees what was queued before it.

use super::prim::model::{AtomicU32, Ordering};

/// The flag of one queue (see the head of this file).
#[derive(Default)]
pub struct Listed(AtomicU32);

impl Listed {
    /// After something was queued: must the queue be pushed onto the list?
    #[inline]
    pub fn must_push(&self) -> bool {
        // ORDER: publishes what was queued, or sees that the flag was cleared; partner: `may_stay`.
        self.0.swap(1, Ordering::AcqRel) == 0
    }

    /// While the list is locked: may the queue stay in it?
    #[inline]
    pub fn may_stay(&self, is_idle: impl FnOnce() -> bool) -> bool {
        // ORDER: partner of `must_push`.
        self.0.swap(0, Ordering::AcqRel);
        !is_idle() && self.must_push()
    }
}

#[cfg(all(loom, test))]
mod model {
    use crate::sync::listed::*;
    use loom::sync::{Arc, Mutex};

    /// A queue, and how often it is in the list.
    #[derive(Default)]
    struct Queue {
        queued: AtomicU32,
        taken: AtomicU32,
        listed: Listed,
        entries: Mutex<u32>,
    }

    impl Queue {
        fn queue(&self) {
            self.queued.fetch_add(1, Ordering::Release);
            if self.listed.must_push() {
                *self.entries.lock().unwrap() += 1;
            }
        }

        /// `cleared`: how the flag is cleared; [`Listed::may_stay`] takes `AcqRel`.
        fn look(&self, cleared: Ordering) {
            let mut entries = self.entries.lock().unwrap();
            let idle = || self.queued.load(Ordering::Acquire) == self.taken.load(Ordering::Relaxed);
            for _ in 0..*entries {
                let stays = match cleared {
                    Ordering::AcqRel => self.listed.may_stay(idle),
                    weaker => {
                        self.listed.0.swap(0, weaker);
                        !idle() && self.listed.must_push()
                    }
                };
                if !stays {
                    *entries -= 1;
                }
            }
        }
    }

    fn queued_while_another_looks(cleared: Ordering) {
        loom::model(move || {
            let queue = Arc::new(Queue::default());
            queue.queue();
            queue.taken.store(1, Ordering::Relaxed);
            let theirs = queue.clone();
            let other = loom::thread::spawn(move || theirs.queue());
            queue.look(cleared);
            other.join().unwrap();
            queue.look(cleared);
            assert_eq!(*queue.entries.lock().unwrap(), 1);
        });
    }

    #[test]
    fn a_queue_with_something_in_it_is_in_the_list_once() {
        queued_while_another_looks(Ordering::AcqRel);
    }

    #[test]
    #[should_panic]
    fn model_mutant_a_flag_cleared_without_acquire_is_caught() {
        queued_while_another_looks(Ordering::Release);
    }
}
