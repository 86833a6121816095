//! What a caller may set when it makes a communicator, and what the environment says where the caller does not.

use crate::env;
use crate::error::{Error, Result};
use crate::fabric::live::Machine;
#[cfg(feature = "internals")]
use crate::log;
use crate::memory::control::{Layout, StagingKind};
#[cfg(feature = "internals")]
use crate::memory::heap;
#[cfg(feature = "internals")]
use crate::onesided::Races;
use crate::planner::select::Selection;
use crate::sys::parallel_function::ParallelFunction;
#[cfg(feature = "internals")]
use crate::sys::shm;
use crate::transport::threads::ThreadSettings;

/// The settings that a caller may pass when it makes a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The functions that make a communicator wait until it is made; otherwise a thread of the library joins.
    pub blocking: bool,
    /// Deadline of every blocking call; `None`: `PENNY_TIMEOUT`, else 10 minutes; `Some(0)`: none.
    pub timeout_ms: Option<u64>,
    /// A name for the sentences of failures; empty: none.
    pub name: String,
    /// Algorithms; `None`: `PENNY_ALGO`.
    pub algo: Option<String>,
    /// The declared machine; `None`: `PENNY_FABRIC`.
    pub fabric: Option<String>,
    /// The clock of that machine; `None`: `PENNY_FABRIC_CLOCK`.
    pub fabric_clock: Option<String>,
    /// The longest time that a thread outside of any call may hold the machine's clock; `None`: `PENNY_FABRIC_GRACE`.
    pub fabric_grace: Option<String>,
    /// Threads of this rank that share a large copy; `None`: `PENNY_THREADS`, else by the cores that are this rank's alone.
    pub threads: Option<u32>,
    /// The program's own way to run a loop in its threads; `None`: an OpenMP runtime that is there, else helper threads.
    pub parallel_for: Option<ParallelFunction>,
    /// Whether private buffers are read through the kernel; `None`: `PENNY_SINGLE_COPY`, else where that is quick.
    pub single_copy: Option<bool>,
    /// The bytes from which on peers read and write shared buffers where they lie; `None`: `PENNY_ZERO_COPY_FROM`, else where that is quick.
    pub zero_copy_from: Option<usize>,
    /// Why a setting that the caller passed is wrong: the ranks that would wait for this one are told.
    pub refused: Option<Error>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            blocking: true,
            timeout_ms: None,
            name: String::new(),
            algo: None,
            fabric: None,
            fabric_clock: None,
            fabric_grace: None,
            threads: None,
            parallel_for: None,
            single_copy: None,
            // Tests take the ways of every processor.
            zero_copy_from: if cfg!(test) { Some(0) } else { None },
            refused: None,
        }
    }
}

/// Deadline where nothing else is said.
const TIMEOUT_MS: u64 = 600_000;

/// The settings of one communicator, read once.
pub(super) struct Settings {
    /// 0: none.
    pub timeout_ns: u64,
    pub selection: Selection,
    /// Bytes a rank; `None`: by the number of ranks.
    pub staging: Option<usize>,
    pub spins: Option<u32>,
    /// Are private buffers read through the kernel? `None`: where that is quick.
    pub single_copy: Option<bool>,
    /// The bytes from which on peers read and write shared buffers where they lie; `None`: where that is quick.
    pub zero_copy_from: Option<usize>,
    pub threads: ThreadSettings,
    /// The declared machine whose time is told.
    pub machine: Option<Machine>,
}

/// The most threads of a rank: none has more cores.
pub const MOST_THREADS: u32 = 4096;

/// The least staging memory of a rank that a program can ask for: a page.
const LEAST_STAGING: usize = 4 << 10;

/// The most, also of what a peer may announce, so that a faulty one cannot make this process map more.
pub(super) const MOST_STAGING: u64 = 1 << 32;

/// Checks the settings of the environment, for a launcher that would hear of them from each rank. `algo`: in place of `PENNY_ALGO`.
#[cfg(feature = "internals")]
pub fn check_environment(algo: Option<String>) -> Result<()> {
    Settings::read(&Config { algo, ..Config::default() }, false)?;
    heap::limit_bytes()?;
    shm::asked_for()?;
    Races::are_asked_for()?;
    log::check()
}

/// Words an error about a variable as one about the setting that was given in its place.
fn of_setting(e: Error, variable: &str, setting: &str) -> Error {
    e.with_message(e.message.replacen(variable, setting, 1))
}

impl Settings {
    /// Returns the staging bytes of each rank, at most [`MOST_STAGING`]. Algorithms for declared machines have a channel for every
    /// NIC, and slots for each.
    pub fn staging_bytes(&self, nranks: u32, on_machine: bool, kind: StagingKind) -> u64 {
        let least = if on_machine { 256 << 10 } else { 0 };
        let default = || Layout::usual_staging(nranks, kind).max(least);
        (self.staging.unwrap_or_else(default) as u64).min(MOST_STAGING)
    }

    /// `stands`: it is known where the ranks stand, and no machine is looked up.
    pub fn read(config: &Config, stands: bool) -> Result<Settings> {
        if let Some(refused) = &config.refused {
            return Err(refused.clone());
        }
        let timeout_ms = match config.timeout_ms {
            Some(ms) => ms,
            None => match env::get("PENNY_TIMEOUT") {
                Some(text) => seconds_to_ms(&text)
                    .ok_or_else(|| wrong("PENNY_TIMEOUT", &text, "seconds, 0 for none"))?,
                None => TIMEOUT_MS,
            },
        };
        let (algo, reproducible) = (given(&config.algo, "PENNY_ALGO"), env::get("PENNY_REPRODUCIBLE"));
        Ok(Settings {
            timeout_ns: timeout_ms.saturating_mul(1_000_000),
            selection: Selection::parse(algo.as_deref(), reproducible.as_deref())
                .and_then(|selection| selection.with_options(env::get("PENNY_OPTIONS").as_deref()))
                .map_err(|e| if config.algo.is_some() { of_setting(e, "PENNY_ALGO", "algo") } else { e })?,
            staging: number("PENNY_STAGING", staging, "bytes from 4K to 4G such as 262144 or 1M")?,
            spins: number("PENNY_SPIN", |text| text.parse().ok(), "a number of polls")?,
            single_copy: match config.single_copy {
                None => number("PENNY_SINGLE_COPY", zero_or_one, "0 or 1")?,
                own => own,
            },
            zero_copy_from: match config.zero_copy_from {
                None => number("PENNY_ZERO_COPY_FROM", env::parse_bytes, "bytes such as 65536 or 64K")?,
                own => own,
            },
            threads: ThreadSettings {
                threads: match config.threads {
                    None => number("PENNY_THREADS", threads, "a number of threads from 1 to 4096")?,
                    Some(own) if !(1..=MOST_THREADS).contains(&own) => {
                        return Err(Error::argument(format!(
                            "threads is {own}; it must be from 1 to {MOST_THREADS}"
                        )));
                    }
                    own => own,
                },
                function: config.parallel_for,
            },
            machine: if stands { None } else { machine(config)? },
        })
    }
}

fn zero_or_one(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// Returns the caller's setting, or else that of the environment.
fn given(own: &Option<String>, name: &'static str) -> Option<String> {
    own.clone().or_else(|| env::get(name))
}

fn machine(config: &Config) -> Result<Option<Machine>> {
    let fabric = given(&config.fabric, "PENNY_FABRIC");
    let clock = given(&config.fabric_clock, "PENNY_FABRIC_CLOCK");
    let grace = given(&config.fabric_grace, "PENNY_FABRIC_GRACE");
    let machine = Machine::declared(fabric.as_deref(), clock.as_deref())?;
    machine.map(|machine| machine.with_grace(grace.as_deref())).transpose()
}

fn number<T>(name: &'static str, parse: impl Fn(&str) -> Option<T>, takes: &str) -> Result<Option<T>> {
    env::get(name).map(|text| parse(&text).ok_or_else(|| wrong(name, &text, takes))).transpose()
}

fn staging(text: &str) -> Option<usize> {
    env::parse_bytes(text).filter(|&bytes| bytes >= LEAST_STAGING && bytes as u64 <= MOST_STAGING)
}

fn threads(text: &str) -> Option<u32> {
    text.trim().parse().ok().filter(|threads| (1..=MOST_THREADS).contains(threads))
}

fn wrong(name: &str, text: &str, takes: &str) -> Error {
    Error::argument(format!("{name} is `{text}`; it takes {takes}"))
}

fn seconds_to_ms(text: &str) -> Option<u64> {
    let seconds: f64 = text.trim().parse().ok()?;
    // Rounded up: a part of a millisecond is not 0, which is none.
    (seconds >= 0.0 && seconds.is_finite()).then_some((seconds * 1000.0).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_may_have_a_fraction_but_no_sign() {
        assert_eq!(seconds_to_ms("2.5"), Some(2500));
        assert_eq!(seconds_to_ms("0"), Some(0));
        assert_eq!(seconds_to_ms("0.0001"), Some(1), "0 would be no deadline");
        assert_eq!(seconds_to_ms("-1"), None);
        assert_eq!(seconds_to_ms("soon"), None);
    }

    #[test]
    fn staging_memory_has_a_page_at_least_and_no_more_than_peers_accept() {
        for (text, bytes) in [
            ("4K", Some(4096)),
            ("4G", Some(1 << 32)),
            ("0", None),
            ("4095", None),
            ("5G", None),
            ("999T", None),
        ] {
            assert_eq!(staging(text), bytes, "{text}");
        }
    }
}
