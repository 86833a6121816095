//! A function of the program that a waiting thread calls again and again, so that another library makes progress meanwhile.
//!
//! An MPI library moves what it has begun only while some thread is inside one of its functions. A rank that has begun a send
//! there and then waits for its peers here would hold up a peer that waits for that send there. With a hook that calls
//! `MPI_Test` or the like, it does not. The hook is called on the thread that has set it, in waits that last, and once more
//! when such a wait ends; the thread does not sleep meanwhile.

use super::callback;
use std::cell::Cell;
use std::ffi::c_void;
use std::time::Duration;

/// A function of the program.
pub type Hook = unsafe extern "C" fn(*mut c_void);

/// Yields between two calls of the hook.
const YIELDS_A_CALL: u32 = 16;
/// The time between two calls while ranks join.
const SHORT: Duration = Duration::from_micros(50);

thread_local! {
    static HOOK: Cell<Option<(Hook, *mut c_void)>> = const { Cell::new(None) };
}

/// Sets the calling thread's hook; `None`: it has none.
///
/// # Safety
/// `hook` must be safe to call with `argument` from the calling thread until another one is set.
pub unsafe fn set(hook: Option<Hook>, argument: *mut c_void) {
    HOOK.set(hook.map(|hook| (hook, argument)));
}

/// Tells whether the calling thread has a hook.
pub fn is_set() -> bool {
    HOOK.get().is_some()
}

/// The calls of the hook in one wait.
#[derive(Default)]
pub struct WaitHook {
    yields: u32,
}

impl WaitHook {
    /// Calls the hook if it is time to, where the wait would yield or sleep. Returns whether there is one: then the wait does not
    /// sleep.
    #[inline]
    pub fn look(&mut self) -> bool {
        HOOK.get().is_some_and(|hook| self.due(hook))
    }

    /// Does the same where the wait would sleep outside of the library's own waits; returns the time to sleep.
    pub fn shorten(&mut self, pause: Duration) -> Duration {
        self.yields = self.yields.next_multiple_of(YIELDS_A_CALL);
        if self.look() { pause.min(SHORT) } else { pause }
    }

    #[cold]
    fn due(&mut self, hook: (Hook, *mut c_void)) -> bool {
        if callback::is_inside() {
            return false;
        }
        if self.yields.is_multiple_of(YIELDS_A_CALL) {
            call(hook);
        }
        self.yields = self.yields.wrapping_add(1);
        true
    }
}

impl Drop for WaitHook {
    /// What has come since the last call is taken up before the thread computes again.
    #[inline]
    fn drop(&mut self) {
        if self.yields > 0
            && let Some(hook) = HOOK.get()
        {
            call(hook);
        }
    }
}

fn call((hook, argument): (Hook, *mut c_void)) {
    let _inside = callback::enter("a progress hook (pennySetProgress)");
    // SAFETY: the promise to `set`: this is the thread that set it, and no other has been set since.
    unsafe { hook(argument) };
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sys::callback::refuse_inside;

    unsafe extern "C" fn count(calls: *mut c_void) {
        // SAFETY: the test below passes the address of a number that outlives the hook.
        unsafe { *calls.cast::<u32>() += 1 };
        assert!(refuse_inside().unwrap_err().message.contains("pennySetProgress"));
    }

    #[test]
    fn a_hook_is_called_every_16th_time_and_once_at_the_end() {
        let mut calls = 0u32;
        // SAFETY: the hook is taken back before `calls` goes.
        unsafe { set(Some(count), (&raw mut calls).cast()) };
        drop(WaitHook::default());
        assert_eq!(calls, 0, "a wait that does not last has no calls");
        let mut wait = WaitHook::default();
        assert!((0..33).all(|_| wait.look()));
        assert_eq!(calls, 3);
        drop(wait);
        assert_eq!(calls, 4);
        assert!(std::thread::spawn(|| !WaitHook::default().look()).join().unwrap());
        refuse_inside().unwrap();
        // SAFETY: no hook.
        unsafe { set(None, std::ptr::null_mut()) };
        assert!(!WaitHook::default().look());
    }
}
