//! Everybody's block to the next rank, by one table that all pass.

use penny_bench::subject::Subject;

fn main() -> std::process::ExitCode {
    penny_bench::main(Subject::Permute)
}
