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

/// Tells the core that this is a spin loop.
#[inline]
pub fn pause() {
    core::hint::spin_loop();
}
