//! `penny doctor`: one line a fact about this machine, with what to do about the bad ones.

mod limits;
mod machine;
mod post_mortem;
mod shm;
mod variables;

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;

use crate::answer;

/// The options of `penny doctor`.
#[derive(clap::Args)]
#[command(after_help = "The exit code is 1 if something prevents Penny from working.

Examples:
  penny doctor
  penny doctor --post-mortem /tmp/penny-4711      what each rank did last, from the files of PENNY_POST_MORTEM
  penny doctor --json | jq '.[] | select(.level != \"ok\")'")]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Tell what the ranks of a communicator that broke did last, from the files that they wrote, or the folders of them
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "json")]
    post_mortem: Vec<PathBuf>,
}

/// The severity of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    /// Correct, or information only.
    Ok,
    /// Penny works, but not at its best or not as meant.
    Warn,
    /// Penny does not work.
    Bad,
}

/// A fact about this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Fact {
    subject: String,
    level: Level,
    value: String,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Fact {
    fn ok(subject: impl Into<String>, value: impl Into<String>) -> Fact {
        Fact { subject: subject.into(), level: Level::Ok, value: value.into(), remedy: None }
    }
    fn warn(subject: impl Into<String>, value: impl Into<String>, remedy: impl Into<String>) -> Fact {
        Fact { level: Level::Warn, remedy: Some(remedy.into()), ..Fact::ok(subject, value) }
    }
    fn bad(subject: impl Into<String>, value: impl Into<String>, remedy: impl Into<String>) -> Fact {
        Fact { level: Level::Bad, remedy: Some(remedy.into()), ..Fact::ok(subject, value) }
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Ok => "ok",
            Level::Warn => "warn",
            Level::Bad => "BAD",
        };
        writeln!(f, "{level:4}  {:20}  {}", self.subject, self.value)?;
        self.remedy.iter().try_for_each(|remedy| writeln!(f, "{:28}{remedy}", ""))
    }
}

/// Prints all facts.
pub fn main(args: &Args) -> Result<ExitCode, String> {
    if !args.post_mortem.is_empty() {
        return answer::print(&post_mortem::page(&args.post_mortem)?);
    }
    let facts: Vec<Fact> = [machine::facts(), shm::facts(), limits::facts(), variables::facts(args.json)]
        .into_iter()
        .flatten()
        .collect();
    if args.json {
        answer::print(&(serde_json::to_string_pretty(&facts).map_err(|e| e.to_string())? + "\n"))?;
    } else {
        answer::print(&facts.iter().map(Fact::to_string).collect::<String>())?;
    }
    let works = facts.iter().all(|fact| fact.level < Level::Bad);
    Ok(if works { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Bytes with a suffix, one digit after the point.
fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut suffix = "B";
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        suffix = next;
    }
    if suffix == "B" { format!("{bytes} B") } else { format!("{value:.1} {suffix}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        assert_eq!([0, 1023, 1024, 3 << 29].map(size), ["0 B", "1023 B", "1.0 KiB", "1.5 GiB"]);
    }
}
