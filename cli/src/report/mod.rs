//! `penny report`: measurements, simulations and traces on one page of HTML that needs nothing else.
//!
//! ```text
//!     penny perf --json ──┐
//!     penny sim --json ───┼─► read ─► runs, traces ─► page ─► report.html: curves, tables, comparison, timelines
//!     penny trace ────────┘
//! ```

mod page;
mod read;
mod timeline;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::answer;

const EXAMPLES: &str = "\
Files are told apart by their content: the JSON of penny perf, of penny sim (one object a line), of penny trace. Runs of one collective
are compared with each other, whatever file they are from. The page loads nothing from anywhere.

Examples:
  penny perf all_reduce -n 2 -b 8 -e 16M -f 4 --algorithm ring,two_shot,auto --json runs.json
  penny sim all_reduce --fabric dgx-h100 --nodes 2 -b 8 -e 16M -f 4 --algorithm all --json > machine.json
  penny trace all_reduce --fabric t3000 -b 64K -o ring.json
  penny report runs.json machine.json ring.json -o report.html";

/// The options of `penny report`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Files of penny perf --json, penny sim --json and penny trace
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write the page to this file; `-`: standard output
    #[arg(short = 'o', long, value_name = "FILE.html", default_value = "report.html", value_parser = answer::file)]
    output: PathBuf,
    /// Title of the page
    #[arg(long, value_name = "TEXT", default_value = "Penny: collective communication")]
    title: String,
}

/// Writes the page.
pub fn main(args: &Args) -> Result<ExitCode, String> {
    let mut all = read::Inputs::default();
    args.files.iter().try_for_each(|file| all.read(file))?;
    let text = page::page(&args.title, &all)?;
    answer::save("--output", &args.output, &text)?;
    Ok(ExitCode::SUCCESS)
}
