//! `penny top`: shows the jobs of this user: calls, bytes and waits of each rank; of jobs on declared machines the traffic on their ports.
//!
//! ```text
//!     /proc/*/fd --> files of running jobs (jobs) --> what passed since when (report, ranks) --> text, JSON, metrics, screen
//! ```
//!
//! The ranks do no work for it: their counters are read from shared memory.

mod jobs;
mod metrics;
mod ranks;
mod ranks_text;
mod report;
mod screen;
mod text;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use jobs::{JobReport, Jobs};
use ranks::Sort;
use text::Lines;

use crate::answer;

const EXAMPLES: &str = "\
A job of an ordinary communicator has a line a rank. WAITS is the time in waits that lasted longer than their first polls (some ten microseconds), in all or,
where there were two looks, as a share of the time between them; a rank for which the others wait has the smallest. WAITING is how long the present
wait has lasted. Sends and receives
are counted; LAST CALL names collectives, and the number of messages where there was none. One-sided operations and mailboxes are not counted.

A job on a simulated cluster has a line a port. Counted is what passed until nothing was under way the last time; a long call shows when it is over. A
NIC is idle that carried less than a hundredth of what the busiest one did.

Keys: q quits, s sorts ranks by the next column, a shows all ports or only those that carried something, Tab takes the next job, arrows and pages scroll.

Examples:
  penny top
  penny top --once --sort waits
  penny top --json --pid 4711 | jq '.[0].ranks'
  penny top --metrics > /var/lib/node_exporter/penny.prom";

/// How long after the first look `--once` takes the second, by which rates are known.
const BETWEEN: Duration = Duration::from_millis(250);

/// The options of `penny top`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Print once as text and exit
    #[arg(long, conflicts_with_all = ["json", "metrics"])]
    once: bool,
    /// Print once as JSON and exit: a list of jobs, in bytes, seconds, and picoseconds of simulated clusters
    #[arg(long, conflicts_with = "metrics")]
    json: bool,
    /// Print once in Prometheus' text format and exit
    #[arg(long)]
    metrics: bool,
    /// Show the job of this process: one of its ranks, or the `penny run` that started it
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Show ports without traffic, too
    #[arg(long)]
    all: bool,
    /// Sort ranks by this
    #[arg(long, value_enum, default_value = "bytes")]
    sort: Sort,
    /// Seconds between two updates
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=3600))]
    interval: u32,
}

/// Shows the jobs once, or until the user quits.
pub fn main(args: &Args) -> Result<ExitCode, String> {
    let mut jobs = Jobs::new(args.pid);
    jobs.look();
    if jobs.list().is_empty() && !args.metrics {
        return Err(nothing(args.pid));
    }
    if args.metrics {
        return answer::print(&metrics::text(&reports(&jobs, args)));
    }
    if args.json || args.once {
        if reports(&jobs, args).iter().any(|job| matches!(job, JobReport::Ranks(_))) {
            std::thread::sleep(BETWEEN);
            jobs.look();
        }
        let reports = reports(&jobs, args);
        if reports.is_empty() {
            return Err(nothing(args.pid));
        }
        let text = if args.json {
            serde_json::to_string_pretty(&reports).map_err(|why| why.to_string())? + "\n"
        } else {
            reports.iter().map(|report| Lines::of(report).whole()).collect::<Vec<_>>().join("\n")
        };
        return answer::print(&text);
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err("the screen needs a terminal; print once with --once, --json or --metrics".into());
    }
    screen::run(jobs, args.all, args.sort, args.interval)
}

fn reports(jobs: &Jobs, args: &Args) -> Vec<JobReport> {
    let sorted = |report| match report {
        JobReport::Ranks(report) => JobReport::Ranks(report.sorted(args.sort)),
        ports => ports,
    };
    jobs.list().iter().filter_map(|job| job.report(args.all)).map(sorted).collect()
}

fn nothing(pid: Option<u32>) -> String {
    match pid {
        None => {
            "no job of this user is running on this host; start one (penny run -n 2 PROGRAM), and look as the user who runs it".into()
        }
        Some(pid) => format!(
            "process {pid} belongs to no running job of this user; name one of its ranks or the `penny run` that started it, or \
             leave --pid out"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_found_is_one_sentence_with_the_remedy() {
        for (pid, start, remedy) in [
            (None, "no job of this user is running", "penny run"),
            (Some(7), "process 7 belongs to no running job", "leave --pid out"),
        ] {
            let sentence = nothing(pid);
            assert!(sentence.starts_with(start) && sentence.contains(remedy), "{sentence}");
        }
    }
}
