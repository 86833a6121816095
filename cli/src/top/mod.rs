//! `penny top`: shows the traffic on the ports of declared machines on which jobs of this user run.
//!
//! ```text
//!     /proc/*/fd --> boards of running jobs (jobs) --> what passed since when (report) --> text, JSON, screen
//! ```
//!
//! The ranks do no work for it: their counters are read from shared memory.

mod jobs;
mod report;
mod screen;
mod text;

use std::io::IsTerminal;
use std::process::ExitCode;

use jobs::Jobs;
use report::Report;

use crate::answer;

const EXAMPLES: &str = "\
Counted is what passed until nothing was under way the last time; a long call shows when it is over. A NIC is idle that
carried less than a hundredth of what the busiest one did.
Keys: q quits, a shows all ports or only those that carried something, Tab takes the next job, arrows and pages scroll.

Examples:
  penny top
  penny top --once --pid 4711
  penny top --json | jq '.[0].nodes'";

/// The options of `penny top`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Print once as text and exit
    #[arg(long)]
    once: bool,
    /// Print once as JSON and exit: a list of jobs, in bytes and picoseconds
    #[arg(long)]
    json: bool,
    /// Show the job of this process: one of its ranks, or the `penny run` that started it
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Show ports without traffic, too
    #[arg(long)]
    all: bool,
    /// Seconds between two updates
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=3600))]
    interval: u32,
}

/// Shows the jobs once, or until the user quits.
pub fn main(args: &Args) -> Result<ExitCode, String> {
    let mut jobs = Jobs::new(args.pid);
    jobs.look();
    if jobs.list().is_empty() {
        return Err(nothing(args.pid));
    }
    if args.json || args.once {
        let reports: Vec<Report> = jobs.list().iter().map(|job| job.report(args.all)).collect();
        let text = if args.json {
            serde_json::to_string_pretty(&reports).map_err(|why| why.to_string())? + "\n"
        } else {
            reports.iter().map(text::whole).collect::<Vec<_>>().join("\n")
        };
        return answer::print(&text);
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err("the screen needs a terminal; print once with --once or --json".into());
    }
    screen::run(jobs, args.all, args.interval)
}

fn nothing(pid: Option<u32>) -> String {
    let whose = pid
        .map_or("no running job".to_owned(), |pid| format!("process {pid} belongs to no running job that"));
    format!(
        "{whose} stands on a declared machine; start one with --fabric (penny run -n 16 --fabric dgx-h100 --nodes 2 \
         PROGRAM), and look as the user who runs it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_found_is_one_sentence_with_the_remedy() {
        for (pid, start) in
            [(None, "no running job stands"), (Some(7), "process 7 belongs to no running job that stands")]
        {
            let sentence = nothing(pid);
            assert!(sentence.starts_with(start) && sentence.contains("--fabric"), "{sentence}");
        }
    }
}
