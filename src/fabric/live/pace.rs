//! The paced clock: calls return no earlier than on the declared machine, slowed down by a factor.
//!
//! ```text
//!     wall clock    anchor --------- entry ~~~~~~~~~~~ target = anchor + dilation * (exit - anchor's time)
//!     fabric time   anchor's time -- entry ----------- exit
//! ```
//!
//! Time that a program spends between its calls moves the anchor: it is the program's own. What a call returns late
//! is the slip; above [`MOST_SLIP`] of the time asked for, the run does not say what it claims to say.

use crate::error::{Error, Result};

/// Share of the paced time by which calls may be late.
pub const MOST_SLIP: f64 = 0.01;

/// The use of the declared machine's time by a communicator's calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clock {
    /// The time is reported, and no call waits for it.
    Virtual,
    /// Calls take the time multiplied by this factor.
    Paced(f64),
}

impl Clock {
    /// Parses `virtual` or `paced:1000`.
    pub fn parse(text: &str) -> Result<Clock> {
        let wrong = || {
            Error::argument(format!(
                "PENNY_FABRIC_CLOCK is `{text}`; it takes virtual, or paced:D with D times slower than the machine, such as paced:1000"
            ))
        };
        match text.split_once(':') {
            None if text == "virtual" => Ok(Clock::Virtual),
            Some(("paced", dilation)) => {
                let dilation: f64 = dilation.parse().map_err(|_| wrong())?;
                let sound = dilation.is_finite() && (1e-3..=1e12).contains(&dilation);
                sound.then_some(Clock::Paced(dilation)).ok_or_else(wrong)
            }
            _ => Err(wrong()),
        }
    }
}

impl std::fmt::Display for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Clock::Virtual => write!(f, "virtual"),
            Clock::Paced(dilation) => write!(f, "paced:{dilation}"),
        }
    }
}

/// A rank's record of wall time against fabric time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    /// Wall time and fabric time that belong together.
    anchor: Option<(u64, u64)>,
    /// The lateness of all calls.
    pub late_ns: u64,
    /// The requested duration of all calls.
    pub asked_ns: u64,
    /// The duration of the work of all calls.
    pub worked_ns: u64,
    /// The time of all calls on the machine.
    pub fabric_ps: u64,
}

impl Pacer {
    /// Records the begin of a call: its wall time and its fabric time.
    pub fn enter(&mut self, wall_ns: u64, entry_ps: u64, dilation: f64) {
        let due = self.due(entry_ps, dilation);
        if due.is_none_or(|due| wall_ns > due) {
            self.anchor = Some((wall_ns, entry_ps));
        }
    }

    /// Returns the wall time at which a fabric time is due.
    pub fn due(&self, at_ps: u64, dilation: f64) -> Option<u64> {
        let (wall_ns, then_ps) = self.anchor?;
        Some(wall_ns.saturating_add((at_ps.saturating_sub(then_ps) as f64 * 1e-3 * dilation) as u64))
    }

    /// Records a call that was done after `worked_ns` and returned `late_ns` late.
    pub fn leave(&mut self, entry_ps: u64, exit_ps: u64, worked_ns: u64, late_ns: u64, dilation: f64) {
        let fabric_ps = exit_ps.saturating_sub(entry_ps);
        self.late_ns = self.late_ns.saturating_add(late_ns);
        self.asked_ns = self.asked_ns.saturating_add((fabric_ps as f64 * 1e-3 * dilation) as u64);
        self.worked_ns = self.worked_ns.saturating_add(worked_ns);
        self.fabric_ps = self.fabric_ps.saturating_add(fabric_ps);
    }

    /// Returns the lateness of calls as a share of their requested time.
    pub fn slip(&self) -> f64 {
        if self.asked_ns == 0 { 0.0 } else { self.late_ns as f64 / self.asked_ns as f64 }
    }

    /// Returns the factor by which this host moves the bytes slower than the machine.
    pub fn needed(&self) -> f64 {
        if self.fabric_ps == 0 { 0.0 } else { self.worked_ns as f64 * 1e3 / self.fabric_ps as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_a_word_or_a_dilation() {
        assert_eq!(Clock::parse("virtual").unwrap(), Clock::Virtual);
        assert_eq!(Clock::parse("paced:1000").unwrap(), Clock::Paced(1000.0));
        for wrong in ["", "paced", "paced:", "paced:0", "paced:-3", "paced:inf", "real", "virtual:3"] {
            let sentence = Clock::parse(wrong).unwrap_err().message.clone();
            assert!(sentence.contains("paced:1000"), "{sentence}");
        }
    }

    #[test]
    fn time_between_calls_is_not_slip_and_time_within_is() {
        let mut pacer = Pacer::default();
        pacer.enter(1_000_000, 0, 1000.0);
        assert_eq!(pacer.due(5_000, 1000.0), Some(1_005_000), "5 ns, a thousand times slower");
        pacer.leave(0, 5_000, 3_000, 50, 1000.0);
        pacer.enter(9_000_000, 5_000, 1000.0);
        assert_eq!(pacer.due(6_000, 1000.0), Some(9_001_000), "the program took its time");
        pacer.leave(5_000, 6_000, 900, 10, 1000.0);
        assert_eq!((pacer.late_ns, pacer.asked_ns), (60, 6_000));
        assert_eq!(pacer.slip(), 0.01);
        assert_eq!(pacer.needed(), 650.0);
    }
}
