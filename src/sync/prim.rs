//! The one import of atomics, so that loom can take their place (`RUSTFLAGS="--cfg loom"`).

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, compiler_fence, fence};
#[cfg(loom)]
pub use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, compiler_fence, fence};

/// What the model checker can see: the protocols in this folder are written over it.
#[cfg(not(loom))]
pub mod model {
    pub use super::{AtomicU32, AtomicU64, Ordering, fence};
    pub use std::sync::{Condvar, Mutex};
}
/// What the model checker can see: the protocols in this folder are written over it.
#[cfg(loom)]
pub mod model {
    pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
    pub use loom::sync::{Condvar, Mutex};
}

/// A full barrier directly behind an exchange (or an addition, and so on) of the same thread: on x86-64 that is one itself.
#[inline]
pub fn fence_behind_exchange() {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    compiler_fence(Ordering::SeqCst);
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    model::fence(Ordering::SeqCst);
}

/// Tells the core that this is a spin loop.
#[inline]
pub fn pause() {
    core::hint::spin_loop();
}
