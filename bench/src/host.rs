//! The machine on which a table was measured, and when: without them a number says little.

use std::time::SystemTime;

use penny::internals::sys::cpu;
use serde::{Deserialize, Serialize};

/// Rank 0's host at the time of the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// The processor's name.
    pub processor: String,
    /// Cores of the host.
    pub cores: usize,
    /// The cores on which rank 0 may run, such as `0-3,8`.
    pub rank_0: String,
    /// The kernel's release.
    pub kernel: String,
    /// The time at which the table was begun, in UTC.
    pub date: String,
}

impl Host {
    /// Returns this host at this moment.
    pub fn now() -> Host {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Host {
            processor: cpu::model(),
            cores: cpu::online_cores().unwrap_or(0),
            rank_0: cpu::names_of_usable(),
            kernel: kernel.trim().to_owned(),
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        }
    }

    /// Returns the host's line in the head of a table.
    pub fn text(&self) -> String {
        let Host { processor, cores, rank_0, kernel, date } = self;
        let s = if rank_0.parse::<u32>().is_ok() { "" } else { "s" };
        format!("# host: {processor}, {cores} cores, Linux {kernel}; rank 0 on core{s} {rank_0}; {date}")
    }
}

/// Returns how often the kernel has given this thread's core to another thread; a sleep does not count, nor a yield that nobody took.
pub fn lost_cores() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let number = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    number.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}
