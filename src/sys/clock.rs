//! Monotonic time.

use std::time::Duration;

/// Nanoseconds of the machine's monotonic clock: the same for all its processes.
#[inline]
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local, and this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds of the same clock as the last tick of the system has left it, some milliseconds ago at most. Reading it costs next to
/// nothing.
#[inline]
pub fn coarse_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local, and this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps until a time of [`now_ns`]: the last tenth of a millisecond in short sleeps, so that it is met closely.
pub fn sleep_until(at_ns: u64) {
    const CLOSE_NS: u64 = 100_000;
    // BOUND: the time comes.
    loop {
        match at_ns.checked_sub(now_ns()) {
            None | Some(0) => return,
            Some(left) if left > CLOSE_NS => std::thread::sleep(Duration::from_nanos(left - CLOSE_NS)),
            Some(_) => std::thread::yield_now(),
        }
    }
}

/// Nanoseconds for which the calling thread has run on a core.
pub fn thread_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local, and this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
