//! Asks the program, while one of its threads waits in a call, whether the call shall go on.
//!
//! The library installs no signal handlers, and its waits do not end on EINTR. A program whose handlers run late (Python
//! runs them between two of its own instructions, hence not during a call) gives the thread a check. A wait calls it every
//! [`PERIOD`], on the thread that waits; a result other than 0 ends the wait. See docs/decisions/0019-interrupts.md.

use super::clock;
use crate::error::Error;
use crate::sync::prim::{AtomicBool, Ordering};
use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::time::Duration;

/// The time between two questions in a wait.
pub const PERIOD: Duration = Duration::from_millis(200);
const PERIOD_NS: u64 = PERIOD.as_nanos() as u64;

/// After a longer time without a look a new wait has begun, whose first question is a period away.
const STALE_NS: u64 = 5 * PERIOD_NS;

/// A function of the program; a result other than 0 ends the wait.
pub type Check = unsafe extern "C" fn(*mut c_void) -> c_int;

/// The source that tells whether to end a wait.
#[derive(Clone)]
enum Source {
    /// The program.
    Check(Check, *mut c_void),
    /// The callers for whom this thread of the library works.
    Stop(Arc<AtomicBool>),
}

thread_local! {
    static SOURCE: RefCell<Option<Source>> = const { RefCell::new(None) };
    /// The time of the next check; `u64::MAX` if there is nothing to check, or if the check is running.
    static NEXT_NS: Cell<u64> = const { Cell::new(u64::MAX) };
    static ASKING: Cell<bool> = const { Cell::new(false) };
}

/// The check has ended the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

impl From<Interrupted> for Error {
    fn from(_: Interrupted) -> Error {
        Error::timeout(
            "the program's interrupt check (pennySetInterruptCheck) ended the wait before its deadline; abort the \
             communicators of the call",
        )
    }
}

/// Sets the calling thread's check; `None`: it has none.
///
/// # Safety
/// `check` must be safe to call with `argument` from the calling thread until another one is set.
pub unsafe fn set(check: Option<Check>, argument: *mut c_void) {
    install(check.map(|check| Source::Check(check, argument)));
}

/// The waits of the calling thread, one of the library's own, end when `stop` is set.
pub fn follow(stop: Arc<AtomicBool>) {
    install(Some(Source::Stop(stop)));
}

fn install(source: Option<Source>) {
    let is_there = source.is_some();
    // A thread that runs its last destructors has no check any more.
    let kept = SOURCE.try_with(|own| own.replace(source)).is_ok();
    NEXT_NS.set(if is_there && kept { 0 } else { u64::MAX });
}

/// Can the waits of the calling thread be interrupted?
#[inline]
pub fn is_possible() -> bool {
    NEXT_NS.get() != u64::MAX
}

/// Tells whether the calling thread is running its check.
#[inline]
pub fn is_asking() -> bool {
    ASKING.get()
}

/// Ask, if it is time to. Every loop that waits calls this, next to its look at the clock.
#[inline]
pub fn look(now_ns: u64) -> Result<(), Interrupted> {
    if now_ns < NEXT_NS.get() { Ok(()) } else { due(now_ns) }
}

/// The same, where the caller has no use for the clock.
#[inline]
pub fn look_now() -> Result<(), Interrupted> {
    if is_possible() { look(clock::now_ns()) } else { Ok(()) }
}

#[cold]
fn due(now_ns: u64) -> Result<(), Interrupted> {
    let due_ns = NEXT_NS.replace(now_ns + PERIOD_NS);
    if now_ns - due_ns > STALE_NS {
        return Ok(());
    }
    ask()
}

/// Asks now.
pub fn ask() -> Result<(), Interrupted> {
    // The check may wait in a call itself, and may set another check.
    if ASKING.get() {
        return Ok(());
    }
    let source = SOURCE.try_with(|own| own.borrow().clone()).ok().flatten();
    let goes_on = match source {
        None => true,
        Some(Source::Stop(stop)) => !stop.load(Ordering::Relaxed),
        Some(Source::Check(check, argument)) => {
            ASKING.set(true);
            // SAFETY: the promise to `set`: this is the thread that set it, and no other has been set since.
            let answer = unsafe { check(argument) };
            ASKING.set(false);
            answer == 0
        }
    };
    if goes_on { Ok(()) } else { Err(Interrupted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn count_down(left: *mut c_void) -> c_int {
        // SAFETY: the tests below pass the address of a number that outlives the check.
        let left = unsafe { &mut *left.cast::<i32>() };
        *left -= 1;
        (*left == 0).into()
    }

    #[test]
    fn a_check_is_called_once_a_period_and_only_in_its_thread() {
        let mut left = 2i32;
        // SAFETY: the check is taken back before `left` goes.
        unsafe { set(Some(count_down), (&raw mut left).cast()) };
        let start = clock::now_ns();
        assert_eq!(look(start), Ok(()), "a wait that begins is not asked about");
        assert_eq!(look(start + PERIOD_NS - 1), Ok(()));
        std::thread::scope(|s| drop(s.spawn(|| assert_eq!(look(u64::MAX - PERIOD_NS - 1), Ok(())))));
        assert_eq!(left, 2);
        assert_eq!(look(start + PERIOD_NS), Ok(()));
        assert_eq!(left, 1);
        assert_eq!(look(start + PERIOD_NS + 1), Ok(()));
        assert_eq!(look(start + 2 * PERIOD_NS), Err(Interrupted));
        // SAFETY: no check.
        unsafe { set(None, std::ptr::null_mut()) };
        assert_eq!((look(u64::MAX - 1), left), (Ok(()), 0));
    }
}
