//! A hint to the processor's cache.

/// Asks for the cache line of something that will soon be read, and waits for nothing.
#[inline]
pub fn fetch<T>(what: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which every x86-64 has.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(what).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = what;
}
