//! A port as events of links need it.

use crate::fabric::PortCounters;
use crate::fabric::engine::port::Backlog;

/// A port, or all that are alike: a line of the cache.
#[derive(Default)]
#[repr(align(64))]
pub struct PortGroup {
    pub free_ps: u64,
    pub bytes: u64,
    pub messages: u64,
    pub busy_ps: u64,
    pub waiting: Backlog,
}

const _: () = assert!(size_of::<PortGroup>() == 64);

impl PortGroup {
    /// As in the general engine.
    #[inline]
    pub fn count(&mut self, now_ps: u64, start_ps: u64, end_ps: u64, bytes: u64) {
        if start_ps > now_ps {
            self.waiting.join(now_ps, start_ps);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.messages += 1;
        self.busy_ps = self.busy_ps.saturating_add(end_ps - start_ps);
    }

    pub fn counters(&self) -> PortCounters {
        let PortGroup { bytes, messages, busy_ps, .. } = *self;
        let queue_high = self.waiting.most();
        PortCounters { bytes, messages, busy_ps, queue_high, ..PortCounters::default() }
    }
}
