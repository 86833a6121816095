//! A function that is lent to one other thread by one cache line.
//!
//! ```text
//!     owner                                     helper
//!     IDLE -> WRITING, body, LENT    ------->   LENT -> TAKEN, calls the body, IDLE
//!     does its own part
//!     LENT -> IDLE: nobody has come;  or waits while it is TAKEN
//! ```
//!
//! What the body borrows is valid until the owner has taken it back. The word decides: a helper that comes later finds the function
//! taken back, or another one. [`Lent`](super::lent) is the same for any number of threads, by several lines.
//!
//! A helper that has nothing to do sleeps. It says so and looks once more, and the owner lends and looks whether the helper sleeps; of
//! the fences between, one comes first in the order of all, so one of the two sees the other.

use super::lent::LentBody;
use super::lock::Mutex;
use super::prim::model::{AtomicU32, AtomicU64, Ordering, fence};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

const IDLE: u64 = 0;
const WRITING: u64 = 1;
const LENT: u64 = 2;
const TAKEN: u64 = 3;
/// Nothing is lent any more.
const CLOSED: u64 = 4;

/// Where an owner lays a function, and one helper finds it.
#[derive(Default)]
#[repr(align(128))]
pub struct Desk {
    word: AtomicU64,
    /// The address of the owner's reference to the body.
    body: AtomicU64,
    /// The helper sleeps, or is about to.
    asleep: AtomicU32,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// How the owner waits while the helper is at the function: called again and again.
pub type Wait<'a> = &'a dyn Fn();

impl Desk {
    /// Lends a function until [`take_back`](Self::take_back). Returns whether the helper has to be woken; `None`: another has lent one
    /// just now, or the desk is closed.
    ///
    /// # Safety
    /// The owner must take it back before `body` ends.
    pub unsafe fn lend(&self, body: &LentBody<'_>) -> Option<bool> {
        // ORDER: what the last helper has done is seen before another begins; partner: the last line of `run_lent`.
        self.word.compare_exchange(IDLE, WRITING, Ordering::Acquire, Ordering::Relaxed).ok()?;
        self.body.store(std::ptr::from_ref(body).expose_provenance() as u64, Ordering::Relaxed);
        // ORDER: publishes the body; partner: the exchange in `run_lent`.
        self.word.store(LENT, Ordering::Release);
        // ORDER: with the fence in `falls_asleep`; see the head of this file.
        fence(Ordering::SeqCst);
        Some(self.asleep.load(Ordering::Relaxed) != 0)
    }

    /// Takes a function back that this thread has lent. Returns the panic of the helper, if it panicked.
    pub fn take_back(&self, wait: Wait<'_>) -> Option<Box<dyn Any + Send>> {
        if self.word.compare_exchange(LENT, IDLE, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return None;
        }
        // ORDER: partner of the last line of `run_lent`.
        // BOUND: the function's own end.
        while self.word.load(Ordering::Acquire) == TAKEN {
            wait();
        }
        self.panic.lock().take()
    }

    /// Calls the function that is lent with this number, if one is. Returns whether it did. Does not panic.
    pub fn run_lent(&self, number: u32) -> bool {
        // ORDER: partner of the store in `lend`.
        let is_taken = self.word.load(Ordering::Relaxed) == LENT
            && self.word.compare_exchange(LENT, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if !is_taken {
            return false;
        }
        let body =
            std::ptr::with_exposed_provenance::<LentBody<'_>>(self.body.load(Ordering::Relaxed) as usize);
        // SAFETY: the owner waits in `take_back` while the word is TAKEN, and the body lives until then.
        let body = unsafe { *body };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(number))) {
            self.panic.lock().get_or_insert(panic);
        }
        // ORDER: publishes what the function has done; partners: `take_back`, `lend`.
        self.word.store(IDLE, Ordering::Release);
        true
    }

    /// The helper is about to sleep. Returns false if there is something to do.
    pub fn falls_asleep(&self) -> bool {
        self.asleep.store(1, Ordering::Relaxed);
        // ORDER: with the fence in `lend`.
        fence(Ordering::SeqCst);
        matches!(self.word.load(Ordering::Relaxed), IDLE | WRITING | TAKEN)
    }

    /// The helper is awake.
    pub fn wakes_up(&self) {
        self.asleep.store(0, Ordering::Relaxed);
    }

    /// Lends nothing any more, once what is lent was taken back. Returns false if it has to be tried again.
    pub fn close(&self) -> bool {
        let closed = self.word.compare_exchange(IDLE, CLOSED, Ordering::Relaxed, Ordering::Relaxed);
        // ORDER: with the fence in `falls_asleep`, as in `lend`.
        fence(Ordering::SeqCst);
        matches!(closed, Ok(_) | Err(CLOSED))
    }

    /// Is nothing lent any more?
    pub fn is_closed(&self) -> bool {
        self.word.load(Ordering::Relaxed) == CLOSED
    }
}

#[cfg(all(loom, test))]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    /// A value that loom watches.
    struct Watched(UnsafeCell<u32>);
    // SAFETY: loom reports every access that is not ordered.
    unsafe impl Sync for Watched {}

    impl Watched {
        fn add(&self) {
            // SAFETY: as above.
            self.0.with_mut(|place| unsafe { *place += 1 });
        }
    }

    #[test]
    fn a_helper_is_done_or_finds_nothing_when_the_function_is_taken_back() {
        loom::model(|| {
            let desk = Arc::<Desk>::default();
            let theirs = desk.clone();
            let helper = loom::thread::spawn(move || [theirs.run_lent(1), theirs.run_lent(1)]);
            let value = Watched(UnsafeCell::new(0));
            let add = |_| value.add();
            for _ in 0..2 {
                let body: LentBody<'_> = &add;
                // SAFETY: it is taken back below.
                assert!(unsafe { desk.lend(&body) }.is_some());
                desk.take_back(&|| loom::thread::yield_now());
                value.add();
            }
            let times = helper.join().unwrap().into_iter().filter(|ran| *ran).count() as u32;
            // SAFETY: no other thread has it any more.
            value.0.with(|place| assert_eq!(unsafe { *place }, 2 + times));
        });
    }

    #[test]
    fn a_helper_that_sleeps_is_woken_or_has_seen_the_function() {
        loom::model(|| {
            let desk = Arc::<Desk>::default();
            let theirs = desk.clone();
            let helper = loom::thread::spawn(move || theirs.falls_asleep());
            let nothing = |_| {};
            let body: LentBody<'_> = &nothing;
            // SAFETY: it is taken back below.
            let must_wake = unsafe { desk.lend(&body) }.unwrap();
            assert!(!helper.join().unwrap() || must_wake);
            desk.take_back(&|| ());
        });
    }
}
