//! Times Penny and bare counterparts, which Penny cannot beat, in turns: a busy machine slows both.
//!
//! ```text
//!     rounds      one round: Penny, then its bare counterpart, then Penny's next ...; quartile against quartile
//!     bare        words of shared memory, and stores that bypass the caches
//! ```

pub mod bare;
pub mod rounds;

use std::fmt;

use serde::{Deserialize, Serialize};

/// A line of the table: a time of Penny's and the times of its counterparts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// What was measured.
    pub measure: String,
    /// Bytes that each operation moves.
    pub bytes: usize,
    /// The time of an operation.
    pub time: Time,
    /// The same operation without Penny.
    pub beside: Vec<Beside>,
}

/// Nanoseconds per operation, over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Time {
    /// The median of the rounds.
    pub median_ns: f64,
    /// The lower quartile of the rounds.
    pub quartile_ns: f64,
}

/// A bare counterpart.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Beside {
    /// The counterpart's name.
    pub name: String,
    /// The counterpart's time.
    pub time: Time,
    /// Penny's lower quartile divided by this one's.
    pub ratio: f64,
}

impl Row {
    /// Returns the heading of a table whose lines have `counterparts` counterparts.
    pub fn head(counterparts: usize) -> String {
        let pair = format!("   {:<9} {:>12} {:>6}", "beside", "quartile", "ratio").repeat(counterparts);
        let titles = |a, b, c, d, e, f| format!("# {a:<24} {b:>10} {c:>12} {d:>12} {e:>9} {f:>9}");
        format!(
            "#\n{}{pair}\n{}",
            titles("measure", "size", "median", "quartile", "rate", "bandwidth"),
            titles("", "(B)", "(ns)", "(ns)", "(M/s)", "(GB/s)"),
        )
    }

    /// Makes a line of the table from `times`, of which the first is Penny's.
    pub fn new(measure: &str, bytes: usize, times: &[(&str, Time)]) -> Row {
        let (_, time) = times[0];
        let beside = |&(name, other): &(&str, Time)| Beside {
            name: name.to_owned(),
            time: other,
            ratio: time.quartile_ns / other.quartile_ns,
        };
        Row { measure: measure.to_owned(), bytes, time, beside: times[1..].iter().map(beside).collect() }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Time { median_ns, quartile_ns } = self.time;
        write!(f, "{:<26} {:>10} {median_ns:>12.1} {quartile_ns:>12.1}", self.measure, self.bytes)?;
        write!(f, " {:>9.2} {:>9.2}", 1e3 / quartile_ns, self.bytes as f64 / quartile_ns)?;
        for Beside { name, time, ratio } in &self.beside {
            write!(f, "   {name:<9} {:>12.1} {ratio:>6.2}", time.quartile_ns)?;
        }
        Ok(())
    }
}
