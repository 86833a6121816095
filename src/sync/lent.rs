//! A function that one thread lends to others for a while.
//!
//! ```text
//!     lender                              others
//!     during: makes it, hands it out  ->  call: begun += 1, taken back ? nothing : body
//!             does its own part                 over += 1
//!     takes it back, waits until begun == over
//! ```
//!
//! A call that begins before the function is taken back is waited for; a later one does nothing. So what the function borrows is
//! valid whenever it runs, however late and on whichever thread. The word that tells the two apart lives as long as any thread
//! holds the `Arc`.

use super::event_count::EventCount;
use super::lock::Mutex;
use super::prim::model::{AtomicU64, Ordering};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// The function that is lent. Its argument is a number.
pub type LentBody<'a> = &'a (dyn Fn(u32) + Sync);

/// A function that other threads may call until its owner takes it back.
pub struct Lent {
    /// Borrowed by [`during`](Lent::during), until it returns.
    body: LentBody<'static>,
    /// Calls that have begun, and [`TAKEN_BACK`].
    begun: AtomicU64,
    /// Calls that are over.
    over: AtomicU64,
    /// The same, for the owner to wait for.
    returned: EventCount,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// In `begun`: no call runs the function any more.
const TAKEN_BACK: u64 = 1 << 63;

impl Lent {
    /// Lends `body` to the threads that `lend` gives it to, until `lend` has returned and the calls that have begun are over. A
    /// panic in a call goes on here.
    pub fn during<R>(body: LentBody<'_>, lend: impl FnOnce(&Arc<Lent>) -> R) -> R {
        // SAFETY: the function runs only in calls that begin before it is taken back, and those are over when `back` is gone,
        // which is before this function is left, also by a panic.
        let body = unsafe { std::mem::transmute::<LentBody<'_>, LentBody<'static>>(body) };
        let lent = Arc::new(Lent {
            body,
            begun: AtomicU64::new(0),
            over: AtomicU64::new(0),
            returned: EventCount::default(),
            panic: Mutex::default(),
        });
        let back = TakesBack(&lent);
        let result = lend(&lent);
        drop(back);
        let panic = lent.panic.lock().take();
        panic.map_or(result, |panic| resume_unwind(panic))
    }

    /// Calls the function, unless it was taken back. Does not panic.
    pub fn call(&self, number: u32) {
        // The order of the changes of this one word decides whether the call or the taking back came first.
        if self.begun.fetch_add(1, Ordering::Relaxed) & TAKEN_BACK != 0 {
            return;
        }
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (self.body)(number))) {
            self.panic.lock().get_or_insert(panic);
        }
        // ORDER: passes on what this call and those before it have done; partner: the same line, and `get` in `take_back`.
        let over = self.over.fetch_add(1, Ordering::AcqRel) + 1;
        self.returned.raise(over);
    }

    fn take_back(&self) {
        let begun = self.begun.fetch_or(TAKEN_BACK, Ordering::Relaxed);
        // BOUND: the function's own end: it does not wait.
        self.returned.reach(begun);
    }
}

/// Takes a function back when it is dropped.
struct TakesBack<'a>(&'a Lent);

impl Drop for TakesBack<'_> {
    fn drop(&mut self) {
        self.0.take_back();
    }
}

#[cfg(all(loom, test))]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;

    /// A value that loom watches.
    struct Watched(UnsafeCell<u32>);
    // SAFETY: loom reports every access that is not ordered.
    unsafe impl Sync for Watched {}

    #[test]
    fn a_call_is_over_or_does_nothing_when_the_function_is_taken_back() {
        loom::model(|| {
            let value = Watched(UnsafeCell::new(0));
            let add = |_| {
                let value = &value;
                // SAFETY: as above; one other thread calls, once.
                value.0.with_mut(|place| unsafe { *place += 1 });
            };
            let other = Lent::during(&add, |lent| {
                let lent = lent.clone();
                loom::thread::spawn(move || lent.call(0))
            });
            // SAFETY: as above.
            value.0.with_mut(|place| unsafe { *place += 1 });
            other.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::prim::AtomicU32;

    #[test]
    fn calls_run_the_function_until_it_is_taken_back_and_do_nothing_later() {
        let calls = AtomicU32::new(0);
        let count = |by| {
            calls.fetch_add(by, Ordering::Relaxed);
        };
        let late = Lent::during(&count, |lent| {
            lent.call(1);
            std::thread::scope(|scope| {
                (0..4).for_each(|_| drop(scope.spawn(|| lent.call(10))));
            });
            lent.clone()
        });
        assert_eq!(calls.load(Ordering::Relaxed), 41);
        late.call(100);
        assert_eq!(calls.load(Ordering::Relaxed), 41);
    }

    #[test]
    fn who_takes_it_back_waits_for_the_calls_that_have_begun() {
        let (tell, told) = std::sync::mpsc::sync_channel(0);
        let (let_go, held) = std::sync::mpsc::sync_channel::<()>(0);
        let (tell, held, ended) = (Mutex::new(tell), Mutex::new(held), AtomicU32::new(0));
        let slow = |_| {
            tell.lock().send(()).unwrap();
            held.lock().recv().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
            ended.store(1, Ordering::Relaxed);
        };
        let other = Lent::during(&slow, |lent| {
            let theirs = lent.clone();
            let other = std::thread::spawn(move || theirs.call(0));
            told.recv().unwrap();
            let_go.send(()).unwrap();
            other
        });
        assert_eq!(ended.load(Ordering::Relaxed), 1);
        other.join().unwrap();
    }

    #[test]
    fn a_panic_in_another_thread_goes_on_in_the_owner() {
        let panics = |_: u32| panic!("planted");
        let panic = std::panic::catch_unwind(|| {
            Lent::during(&panics, |lent| {
                let lent = lent.clone();
                std::thread::spawn(move || lent.call(0)).join().unwrap();
            });
        });
        assert_eq!(*panic.unwrap_err().downcast_ref::<&str>().unwrap(), "planted");
    }
}
