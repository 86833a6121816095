//! Ranks that take their time from the engine while they move real bytes.
//!
//! ```text
//!     rank 0 --post--> [ticket] \                                 / exit 41 us --> clock of rank 0
//!     rank 1 --post--> [ticket]  > the last to post runs the engine
//!     rank 2 --post--> [ticket] /                                 \ exit 43 us --> clock of rank 2
//!          '-- then moves its bytes, un-paced, and looks for its exit only at the end
//! ```
//!
//! Before a rank moves a byte of a call it posts the call and its start time by its own clock. When all ranks wait, so
//! that none can post anything earlier, the rank that posted last runs the engine and writes the time at which each
//! member is done. The result therefore depends on the ranks' calls only, never on the scheduling by this host.
//!
//! - A call takes part when all its members have posted it, a transfer when both of its ends have, as in a rendezvous.
//! - One call alone is run to its end. Where several are in progress the engine stops [`WINDOW_PS`] after the first rank
//!   is done, because that rank may post again. A post that comes later is served at its time if that changes nothing that a rank
//!   was told (`known.rs`).
//! - A put or a pause takes part alone, and a rank may wait for another's store (`one_sided.rs`).
//! - A rank waits when all of its threads that have called on the machine wait (`presence.rs`), or are blocked in their own
//!   program until one of those goes on (`bystanders.rs`). A thread that stays outside of calls does not hold the clock for
//!   ever.
//! - If all ranks wait, no call is in progress and no thread can act, that is a deadlock; the report names which rank
//!   waits for which (`verdict.rs`).
//!
//! Where the ranks run on several hosts, each host has a clock segment, and that of rank 0 runs the engine (`hosts.rs`).
//!
//! The state of the world between two runs is the ports and a log of the calls under way (`log.rs`); every
//! process can run the engine, and none has to.

mod bystanders;
mod drive;
mod estimates;
mod host_inbox;
mod host_messages;
mod host_news;
mod hosts;
mod known;
mod log;
mod one_sided;
mod pace;
mod presence;
mod process_ranks;
pub mod program_time;
mod report;
mod runner;
pub mod sentence;
mod spec;
mod threads;
mod verdict;

pub use clock_stats::ClockStats;
pub use host_news::HostNews;
pub use one_sided::Delivery;
pub use pace::Clock;
pub use participant::{Participant, PendingCall};
pub use placement::Placement;
use presence::{GRACE_NS, parse_grace};
#[cfg(feature = "internals")]
pub use snapshot::{RankClock, Snapshot};
pub use spec::{CallSpec, Post, What};
pub use threads::Activity;

use crate::error::{Error, Result};
use crate::topology::{Network, open};
use std::sync::Arc;

/// The time for which the engine continues after the first rank is done, where several calls are in progress.
pub const WINDOW_PS: u64 = 1_000_000;

/// A declared machine whose time ranks are to take.
#[derive(Clone)]
pub struct Machine {
    /// The network of the machine.
    pub network: Arc<Network>,
    /// The name by which it was declared: a preset with arguments, or a file.
    pub spec: String,
    /// The clock: virtual or paced.
    pub clock: Clock,
    /// The longest time that a thread outside of calls may hold the clock while others wait; 0: no limit.
    pub grace_ns: u64,
}

impl Machine {
    /// Opens the machine of `PENNY_FABRIC` with the clock of `PENNY_FABRIC_CLOCK`. `None`: no machine is declared.
    pub fn declared(spec: Option<&str>, clock: Option<&str>) -> Result<Option<Machine>> {
        let Some(spec) = spec else {
            return match clock {
                None => Ok(None),
                Some(clock) => Err(Error::argument(format!(
                    "PENNY_FABRIC_CLOCK is `{clock}`, but PENNY_FABRIC is not set; declare a machine, such as dgx-h100:nodes=2"
                ))),
            };
        };
        let clock = clock.map_or(Ok(Clock::Virtual), Clock::parse)?;
        Ok(Some(Machine { network: Arc::new(open(spec)?), spec: spec.to_owned(), clock, grace_ns: GRACE_NS }))
    }

    /// Tells whether two ranks mean the same: machine and clock. Not 0.
    pub fn word(&self) -> u64 {
        let dilation = match self.clock {
            Clock::Virtual => 0,
            Clock::Paced(dilation) => dilation.to_bits(),
        };
        (self.network.hash() ^ dilation.wrapping_mul(0x9e37_79b9_7f4a_7c15)).max(1)
    }

    /// Returns the machine with the value of `PENNY_FABRIC_GRACE`, if that is set.
    pub fn with_grace(self, grace: Option<&str>) -> Result<Machine> {
        Ok(Machine { grace_ns: grace.map_or(Ok(self.grace_ns), parse_grace)?, ..self })
    }
}

pub mod clock_segment;
mod clock_stats;
mod local_threads;
mod participant;
mod placement;
pub mod polls;
#[cfg(any(test, feature = "internals"))]
#[cfg_attr(not(feature = "internals"), allow(dead_code))] // What it tells is for `penny top`.
mod snapshot;
#[cfg(test)]
mod tests;
