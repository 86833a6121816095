//! Functions of the program that run within a call, and the refusal of Penny's functions inside of them.

use crate::error::{Error, Result};
use crate::sync::prim::{AtomicU32, Ordering};
use std::cell::Cell;

thread_local! {
    static INSIDE: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Threads that are inside: where there are none, no call needs to look at its thread's own mark.
static THREADS: AtomicU32 = AtomicU32::new(0);

/// The mark of a thread that is inside a function of the program, until it is dropped.
pub struct Inside(());

/// Marks the calling thread as inside a function of the program. `name`: what a refusal calls that function.
pub fn enter(name: &'static str) -> Inside {
    THREADS.fetch_add(1, Ordering::Relaxed);
    INSIDE.set(Some(name));
    Inside(())
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(None);
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells whether the calling thread is inside a function of the program.
pub fn is_inside() -> bool {
    INSIDE.get().is_some()
}

/// Refuses a call that a function of the program makes while it runs within another call.
#[inline]
pub fn refuse_inside() -> Result<()> {
    if THREADS.load(Ordering::Relaxed) == 0 { Ok(()) } else { refuse() }
}

#[cold]
fn refuse() -> Result<()> {
    INSIDE.get().map_or(Ok(()), |name| {
        Err(Error::usage(format!(
            "{name} may not call Penny: the thread is inside another call already; call it after that call has returned"
        )))
    })
}
