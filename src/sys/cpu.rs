//! How many cores this process may use, and giving one up.

/// Cores in this process's affinity mask.
pub fn usable_cores() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// Lets another thread run on this core.
#[inline]
pub fn yield_now() {
    std::thread::yield_now();
}
