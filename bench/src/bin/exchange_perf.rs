//! Small all-reduces between two ranks, beside an exchange written by hand.

use clap::Parser;
use penny_bench::exchange;

/// Measures pennyAllReduce of small vectors beside an exchange without checks and a hand-off of a cache line
#[derive(Parser)]
#[command(name = "exchange_perf", version)]
struct Program {
    #[command(flatten)]
    options: exchange::Options,
}

fn main() -> std::process::ExitCode {
    penny_bench::exit("exchange_perf", exchange::run(&Program::parse().options))
}
