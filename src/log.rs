//! What the library says on its own account: lines on stderr, for those who ask with PENNY_DEBUG.
//!
//! As with NCCL's variable: unset, nothing is said but that a variable is misspelt; `warn`: what is probably a mistake; `info`: also what was decided
//! and is good to know.

use crate::env;
#[cfg(feature = "internals")]
use crate::error::{Error, Result};
use crate::types::Rank;
use std::fmt::Arguments;
use std::io::Write;
use std::sync::OnceLock;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Silent,
    Warn,
    Info,
}

impl Level {
    fn parse(text: &str) -> Option<Level> {
        match text.to_ascii_lowercase().as_str() {
            "warn" => Some(Level::Warn),
            "info" => Some(Level::Info),
            _ => None,
        }
    }
}

/// Logs a probable mistake of the program.
#[cold]
pub fn warn(rank: Rank, what: Arguments<'_>) {
    say(Level::Warn, rank, what);
}

/// Logs a decision of the library.
#[cold]
pub fn info(rank: Rank, what: Arguments<'_>) {
    say(Level::Info, rank, what);
}

/// Logs a decision of the library that is made before the process is a rank.
#[cold]
pub fn decided(what: Arguments<'_>) {
    if tells_info() {
        write(&format!("penny: pid {}: {what}\n", std::process::id()));
    }
}

/// Logs a mistake that nobody would notice otherwise, before the process is a rank, whatever `PENNY_DEBUG` is.
#[cold]
pub fn always_early(what: Arguments<'_>) {
    write(&format!("penny: pid {}: {what}\n", std::process::id()));
}

/// Tells whether [`info`] is heard, for what is costly to say.
pub fn tells_info() -> bool {
    Level::Info <= asked_for()
}

/// Logs a mistake that nobody would notice otherwise, whatever `PENNY_DEBUG` is.
#[cold]
pub fn always(rank: Rank, what: Arguments<'_>) {
    say(Level::Silent, rank, what);
}

fn say(level: Level, rank: Rank, what: Arguments<'_>) {
    if level <= asked_for() {
        write(&format!("penny: rank {rank}: {what}\n"));
    }
}

/// Writes a line in one piece, so that the ranks' lines stay whole. The line is lost if stderr is closed.
fn write(line: &str) {
    let _ = std::io::stderr().write_all(line.as_bytes());
}

fn asked_for() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(|| match env::get("PENNY_DEBUG") {
        None => Level::Silent,
        Some(text) => Level::parse(&text).unwrap_or_else(|| {
            write(&format!("penny: {}\n", unknown(&text)));
            Level::Warn
        }),
    })
}

fn unknown(text: &str) -> String {
    format!("PENNY_DEBUG is `{text}`; it takes `warn` or `info`")
}

/// Checks `PENNY_DEBUG`.
#[cfg(feature = "internals")]
pub fn check() -> Result<()> {
    let wrong = env::get("PENNY_DEBUG").filter(|text| Level::parse(text).is_none());
    wrong.map_or(Ok(()), |text| Err(Error::argument(unknown(&text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_includes_warnings_and_silence_neither() {
        assert!(Level::parse("INFO").unwrap() >= Level::Warn);
        assert!(Level::parse("warn").unwrap() < Level::Info);
        assert!(Level::Silent < Level::Warn);
        assert_eq!(Level::parse("loud"), None);
    }
}
