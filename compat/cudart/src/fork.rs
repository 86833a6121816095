//! Tells a forked child from its parent: a child has none of its parent's threads, so none of its parent's streams.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);

extern "C" fn count() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Returns a number that changes in a forked child.
pub fn generation() -> u32 {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // SAFETY: the handler only adds to an atomic number, which is allowed in a forked child.
        unsafe { libc::pthread_atfork(None, None, Some(count)) };
    });
    GENERATION.load(Ordering::Relaxed)
}
