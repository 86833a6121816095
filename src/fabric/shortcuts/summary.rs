//! What a call takes, by classes of ranks and ports that are alike.

use crate::fabric::{CallTimes, PortCounters};
use crate::topology::PortId;
use crate::types::Rank;

/// A priced call: as [`CallTimes`], but what is alike is there once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Ranks.
    pub nranks: u32,
    /// Messages' moves and ranks' entries, of all ranks.
    pub events: u64,
    /// The end times of the ranks of each class; rank r is of class `r % exit_ps.len()`.
    exit_ps: Vec<u64>,
    /// For each port of the network, its class; past the end of `counters` for ports that nothing passed.
    port_class: Vec<u32>,
    counters: Vec<PortCounters>,
}

/// The method by which a price was computed. All methods give the same price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// The method.
    pub means: Means,
    /// Ranks.
    pub nranks: u32,
    /// Ranks that were simulated and stand for all.
    pub simulated: u32,
    /// Periods that were added up instead of simulated.
    pub periods: u64,
}

/// A method that follows the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// The general engine, from lists of steps.
    Steps,
    /// Events, of programs that need no list.
    Events,
    /// Round by round.
    Sweep,
}

impl Used {
    /// The general engine, all ranks.
    pub fn steps(nranks: u32) -> Used {
        Used { means: Means::Steps, nranks, simulated: nranks, periods: 0 }
    }
}

impl Summary {
    pub(super) fn new(
        nranks: u32,
        events: u64,
        exit_ps: Vec<u64>,
        port_class: Vec<u32>,
        counters: Vec<PortCounters>,
    ) -> Summary {
        Summary { nranks, events, exit_ps, port_class, counters }
    }

    /// Returns the end time of a rank.
    pub fn exit_ps(&self, rank: Rank) -> u64 {
        self.exit_ps[rank as usize % self.exit_ps.len()]
    }

    /// Returns the end time of the last rank.
    pub fn last_ps(&self) -> u64 {
        self.exit_ps.iter().copied().max().unwrap_or(0)
    }

    /// Returns how long the busiest port is taken.
    pub fn busiest_ps(&self) -> u64 {
        self.counters.iter().map(|port| port.busy_ps).max().unwrap_or(0)
    }

    /// Ranks that may differ from each other: the first of each class.
    pub fn classes(&self) -> u32 {
        self.exit_ps.len() as u32
    }

    /// Returns the traffic of a port of the network.
    pub fn counters(&self, port: PortId) -> PortCounters {
        let class = self.port_class.get(port as usize);
        class.and_then(|&class| self.counters.get(class as usize)).copied().unwrap_or_default()
    }
}

impl From<CallTimes> for Summary {
    fn from(outcome: CallTimes) -> Summary {
        let ports = outcome.counters.len() as u32;
        Summary {
            nranks: outcome.exit_ps.len() as u32,
            events: outcome.events,
            exit_ps: outcome.exit_ps,
            port_class: (0..ports).collect(),
            counters: outcome.counters,
        }
    }
}

impl std::fmt::Display for Used {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.means {
            Means::Steps => "steps",
            Means::Events => "events",
            Means::Sweep => "sweep",
        })?;
        if self.simulated < self.nranks {
            write!(f, "+quotient({})", self.simulated)?;
        }
        if self.periods > 0 {
            write!(f, "+periodic({})", self.periods)?;
        }
        Ok(())
    }
}
