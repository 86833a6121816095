//! How a job's time on the declared machine stands.

use super::log::Journal;
use super::pace::{Clock, MOST_SLIP};
use super::participant::Participant;
use crate::fabric::PortCounters;
use crate::sync::prim::Ordering;

/// The state of a job's time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClockStats {
    /// This rank's clock.
    pub now_ps: u64,
    /// Calls and transfers priced, of all ranks.
    pub calls: u64,
    /// Hash over them and when their members were done.
    pub trace: u64,
    /// Entries that came too late to be served exactly.
    pub late: u64,
    /// Dilation, 0 with a virtual clock.
    pub dilation: f64,
    /// Lateness of this rank's calls as a share of the time asked for.
    pub slip: f64,
    /// The dilation that this host needed for this rank's calls so far.
    pub needed: f64,
    /// The sums from which both are computed: nanoseconds late, requested, worked; picoseconds on the machine.
    pub sums: [u64; 4],
}

impl ClockStats {
    /// Tells whether paced times are valid.
    pub fn valid(&self) -> bool {
        self.slip <= MOST_SLIP
    }
}

impl Participant {
    /// Returns the state of the job's time.
    pub fn clock_stats(&self) -> ClockStats {
        let header = self.clock_segment().header();
        let pacer = self.local_threads.lock().pacer;
        ClockStats {
            now_ps: self.clock_ps(),
            calls: header.calls.load(Ordering::Acquire),
            trace: header.trace.load(Ordering::Acquire),
            late: header.late.load(Ordering::Acquire),
            dilation: match self.machine().clock {
                Clock::Virtual => 0.0,
                Clock::Paced(dilation) => dilation,
            },
            slip: pacer.slip(),
            needed: pacer.needed(),
            sums: [pacer.late_ns, pacer.asked_ns, pacer.worked_ns, pacer.fabric_ps],
        }
    }

    /// Returns the traffic counters of each port.
    pub fn counters(&self) -> Vec<PortCounters> {
        Journal::new(self.clock_segment()).ports().iter().map(|port| port.counters).collect()
    }
}
