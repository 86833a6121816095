//! No rank leaves before every rank has arrived.

use penny::internals::types::Collective;
use penny_bench::subject::Subject;

fn main() -> std::process::ExitCode {
    penny_bench::main(Subject::Collective(Collective::Barrier))
}
