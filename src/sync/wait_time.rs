//! How long a rank has waited, for processes that look on (`penny top`).

use super::prim::{AtomicU64, Ordering};
use crate::sys::clock;

/// The time for which a rank has waited. Waits of several threads at once count once.
#[repr(C, align(16))]
#[derive(Default)]
pub struct WaitTime {
    /// When the present wait began, by the host's clock in nanoseconds; 0: none is under way.
    pub since_ns: AtomicU64,
    /// The time of all waits that are over.
    pub total_ns: AtomicU64,
}

/// A wait that is counted until this is dropped.
pub struct CountedWait<'a> {
    time: &'a WaitTime,
    since_ns: u64,
}

impl WaitTime {
    /// Begins to count. `None`: another thread's wait is counted.
    pub fn begin(&self, now_ns: u64) -> Option<CountedWait<'_>> {
        let order = Ordering::Relaxed;
        self.since_ns.compare_exchange(0, now_ns, order, order).ok()?;
        Some(CountedWait { time: self, since_ns: now_ns })
    }
}

impl Drop for CountedWait<'_> {
    fn drop(&mut self) {
        let waited = clock::now_ns().saturating_sub(self.since_ns);
        self.time.total_ns.fetch_add(waited, Ordering::Relaxed);
        self.time.since_ns.store(0, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn waits_at_once_count_once() {
        let time = WaitTime::default();
        let now = clock::now_ns();
        let first = time.begin(now - 5_000).unwrap();
        assert!(time.begin(now).is_none());
        drop(first);
        let total = time.total_ns.load(Ordering::Relaxed);
        assert!(total >= 5_000 && time.since_ns.load(Ordering::Relaxed) == 0, "{total}");
        drop(time.begin(clock::now_ns()));
        assert!(time.total_ns.load(Ordering::Relaxed) >= total);
    }
}
