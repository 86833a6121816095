//! Everybody sends to the next rank and receives from the previous one.

use penny_bench::subject::Subject;

fn main() -> std::process::ExitCode {
    penny_bench::main(Subject::SendRecv)
}
