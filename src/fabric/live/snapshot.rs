//! A job's clock segment as a process outside of the job sees it.
//!
//! ```text
//!     ranks --> [ clock segment ] <-- Snapshot: the machine's text, clocks, traffic of each port; writes nothing
//! ```

use super::clock_segment::ClockSegment;
use super::log::Journal;
use super::sentence::read_text;
use crate::fabric::PortState;
use crate::sync::prim::Ordering;

/// A snapshot of the clock segment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The machine as it was declared, cut to fit.
    pub spec: String,
    /// Its hash.
    pub network: u64,
    /// The ranks' clocks.
    pub clocks: Vec<RankClock>,
    /// Calls and transfers priced.
    pub calls: u64,
    /// Entries that came too late to be served exactly.
    pub late: u64,
    /// Calls are under way whose share is not in `ports` yet.
    pub under_way: bool,
    /// The reason for which no call can end any more.
    pub halted: Option<String>,
    /// The ports when last nothing was under way.
    pub ports: Vec<PortState>,
}

/// One rank's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankClock {
    /// The time at which its last call was done, in picoseconds, plus the time declared since.
    pub clock_ps: u64,
    /// Its process, by the number that it has where it lives; 0: it has not come.
    pub pid: u32,
    /// Whether it has left.
    pub left: bool,
}

/// Looks between two of which the ports may be written anew.
const LOOKS: u32 = 1000;

impl Snapshot {
    /// Reads a clock segment.
    pub fn of(clock_segment: &ClockSegment) -> Snapshot {
        let (header, journal) = (clock_segment.header(), Journal::new(clock_segment));
        let clock = |place| {
            let line = clock_segment.place(place);
            RankClock {
                clock_ps: line.clock_ps.load(Ordering::Acquire),
                pid: line.pid.load(Ordering::Acquire),
                left: line.left.load(Ordering::Acquire) != 0,
            }
        };
        let halted = header.deadlock.load(Ordering::Acquire) != 0;
        // The clocks after the ports: what a port was busy lies within the time that they tell.
        let ports = settled_ports(&journal);
        Snapshot {
            spec: read_text(&header.spec),
            network: header.network.load(Ordering::Relaxed),
            under_way: journal.len() > 0,
            ports,
            clocks: (0..clock_segment.places()).map(clock).collect(),
            calls: header.calls.load(Ordering::Acquire),
            late: header.late.load(Ordering::Acquire),
            halted: halted.then(|| read_text(&header.sentence)),
        }
    }

    /// Returns the earliest and the latest clock of the ranks that are there; of all that have come if none is left.
    pub fn span_ps(&self) -> (u64, u64) {
        let there = self.clocks.iter().any(|rank| rank.pid != 0 && !rank.left);
        let counted = self.clocks.iter().filter(|rank| rank.pid != 0 && (!there || !rank.left));
        let clocks = counted.map(|rank| rank.clock_ps);
        (clocks.clone().min().unwrap_or(0), clocks.max().unwrap_or(0))
    }
}

/// Returns all ports at one moment, unless ranks run the engine too often for a look in between.
fn settled_ports(journal: &Journal<'_>) -> Vec<PortState> {
    let at = || (journal.epoch(), journal.clock_segment.header().runner.load(Ordering::Acquire));
    let mut ports = Vec::new();
    for _ in 0..LOOKS {
        let before = at();
        ports = journal.ports();
        if before.1 == 0 && at() == before {
            break;
        }
    }
    ports
}

#[cfg(test)]
mod tests {
    use crate::fabric::PortCounters;
    use crate::fabric::live::sentence::write_text;
    use crate::fabric::live::snapshot::*;

    #[test]
    fn a_glance_tells_what_the_ranks_wrote() {
        let clock_segment = ClockSegment::create(3, 2).unwrap();
        write_text(&clock_segment.header().spec, "dgx-h100:nodes=2");
        for (place, (clock_ps, left)) in [(700, 0), (900, 0), (5000, 1)].into_iter().enumerate() {
            let line = clock_segment.place(place as u32);
            line.pid.store(1, Ordering::Relaxed);
            line.clock_ps.store(clock_ps, Ordering::Relaxed);
            line.left.store(left, Ordering::Relaxed);
        }
        let counters =
            PortCounters { bytes: 64, messages: 2, busy_ps: 300, queue_high: 1, ..PortCounters::default() };
        let ports = [PortState { free_ps: 800, counters }, PortState::default()];
        Journal::new(&clock_segment).begin(&ports);
        let seen = Snapshot::of(&clock_segment);
        assert_eq!((seen.spec.as_str(), seen.span_ps()), ("dgx-h100:nodes=2", (700, 900)));
        assert_eq!(
            seen.ports.iter().map(|port| port.counters).collect::<Vec<_>>(),
            [counters, PortCounters::default()]
        );
        assert!(!seen.under_way && seen.halted.is_none());
        clock_segment.header().logged.store(7, Ordering::Relaxed);
        clock_segment.header().deadlock.store(1, Ordering::Relaxed);
        write_text(&clock_segment.header().sentence, "deadlock");
        let seen = Snapshot::of(&clock_segment);
        assert!(seen.under_way && seen.halted.as_deref() == Some("deadlock"));
    }
}
