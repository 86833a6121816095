//! Communicators made from another one: time and memory.

use clap::Parser;
use penny_bench::children;

/// Measures pennyCommSplit, pennyCommDup and pennyCommDestroy, and the memory of live communicators
#[derive(Parser)]
#[command(name = "children_perf", version)]
struct Program {
    #[command(flatten)]
    options: children::Options,
}

fn main() -> std::process::ExitCode {
    penny_bench::exit("children_perf", children::run(&Program::parse().options))
}
