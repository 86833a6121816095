//! Everybody gets the reduction of everybody's buffer.

use penny::internals::types::Collective;
use penny_bench::subject::Subject;

fn main() -> std::process::ExitCode {
    penny_bench::main(Subject::Collective(Collective::AllReduce))
}
