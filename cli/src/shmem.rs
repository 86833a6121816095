//! `penny perf shmem`: one-sided access between two ranks, with this program as launcher and as ranks.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use penny_bench::shmem::{self, Options};

use crate::answer;
use crate::launch::bind::Bind;
use crate::launch::{self, Job};

/// The hidden subcommand that a rank runs.
pub const WORKER: &str = "perf-shmem-rank";

const EXAMPLES: &str = "\
Sizes are bytes; K, M, G and KiB, MiB, GiB multiply by powers of 1024, kB, MB, GB by powers of 1000. A ratio is Penny's time over that of what stands beside it.
The exit code is 1 if anything was wrong.

Examples:
  penny perf shmem
  penny perf shmem -b 64K -e 64M -f 1024 --rounds 101 --json shmem.json
  penny perf shmem --heap-operations 10000000 -n 4";

/// The options of `penny perf shmem`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Processes to start: 2, or any number with --heap-operations, by default 4
    #[arg(short = 'n', long = "ranks", value_name = "N", allow_negative_numbers = true, value_parser = launch::ranks)]
    ranks: Option<u32>,
    #[command(flatten)]
    options: Options,
    /// End the ranks after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
}

/// The arguments of one rank.
#[derive(clap::Args)]
pub struct WorkerArgs {
    /// `Options` as JSON
    options: String,
}

/// Runs one rank.
pub fn worker(args: &WorkerArgs) -> ExitCode {
    match serde_json::from_str(&args.options) {
        Ok(options) => shmem::run(&options),
        Err(error) => {
            answer::tell(format_args!("penny {WORKER}: {error}; it is `penny perf shmem` that calls this"));
            ExitCode::from(2)
        }
    }
}

/// Starts the ranks.
pub fn main(args: &Args) -> Result<ExitCode, String> {
    args.options.sizes.list()?;
    let churns = args.options.heap_operations.is_some();
    let ranks = args.ranks.unwrap_or(if churns { 4 } else { 2 });
    if ranks != 2 && !churns {
        return Err(format!("-n {ranks}: it measures between 2 ranks"));
    }
    let options = serde_json::to_string(&args.options).map_err(|e| e.to_string())?;
    let arguments = [WORKER, &options].map(OsString::from).to_vec();
    let program = std::env::current_exe().map_err(|e| format!("cannot find myself: {e}"))?.into();
    let timeout = args.timeout.map(Duration::from_secs);
    let job =
        Job { program, arguments, environment: Vec::new(), ranks, part: None, bind: Bind::None, timeout };
    Ok(launch::run(&job, None).report("penny perf shmem"))
}
