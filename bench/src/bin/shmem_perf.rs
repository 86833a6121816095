//! One-sided access between two ranks, beside what it cannot be faster than; or the symmetric heap under random operations.

use clap::Parser;
use penny_bench::shmem;

/// Measures one-sided access between the two processes of one launch
#[derive(Parser)]
#[command(name = "shmem_perf", version)]
struct Program {
    #[command(flatten)]
    options: shmem::Options,
}

fn main() -> std::process::ExitCode {
    shmem::run(&Program::parse().options)
}
