//! Monotonic time.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Nanoseconds since this process first asked.
#[inline]
pub fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Sleep until a time of [`now_ns`]: the last tenth of a millisecond in short sleeps, so that it is met closely.
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
