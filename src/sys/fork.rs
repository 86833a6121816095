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

/// How many forks lie between the process that called [`watch`] and this one.
#[inline]
pub fn generation() -> u32 {
    FORKS.load(Ordering::Relaxed)
}
