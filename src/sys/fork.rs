//! Notices that this process is a forked child.
//!
//! A child inherits the mappings but not the keeper thread, so its communicators must refuse to work. Comparing PIDs
//! costs a system call each time; a handler that the C library runs in the child costs one load.

use crate::sync::prim::{AtomicU32, Ordering};
use std::sync::Once;

static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Starts counting. Idempotent.
pub fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler only increments a static counter, which is async-signal-safe.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// Returns the number of forks between the process that called [`watch`] and this one.
#[inline]
pub fn generation() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Forks after which a value of [`PerFork`] is used again.
pub const KEPT: usize = 8;

/// A value for each process in a line of forks. A forked child has its own, because a thread of its parent may have held the lock
/// of the parent's when the process was forked.
pub struct PerFork<T>([T; KEPT]);

impl<T> PerFork<T> {
    /// Makes them from one value each.
    pub const fn new(each: [T; KEPT]) -> PerFork<T> {
        PerFork(each)
    }

    /// Returns this process's own.
    pub fn own(&self) -> &T {
        &self.0[generation() as usize % KEPT]
    }

    /// Returns that of the process that this one was forked from; `None`: it was not forked.
    pub fn parents(&self) -> Option<&T> {
        Some(&self.0[generation().checked_sub(1)? as usize % KEPT])
    }
}
