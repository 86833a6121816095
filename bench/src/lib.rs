//! nccl-tests in shape: one program a collective, each the same loop over sizes.
//!
//! ```text
//!     options ──► sweep ──► measure ──► table, report       which cases; time and check one case; print and keep
//!                             │
//!                 layout    inputs    buffer    capi        what lies where; which values; guarded memory; the C calls
//! ```
//!
//! What a call must produce is computed here and never by Penny: [`inputs`] chooses values whose reduction is exact in
//! every element type, in any order, so one wrong bit is one wrong element.

pub mod back_to_back;
mod batch_size;
pub mod beside;
pub mod buffer;
pub mod capi;
pub mod children;
pub mod element;
pub mod exchange;
pub mod host;
pub mod inputs;
pub mod layout;
pub mod machine;
pub mod measure;
pub mod options;
pub mod pattern;
pub mod report;
pub mod shmem;
pub mod sizes;
pub mod subject;
pub mod sweep;
pub mod words;

use clap::{CommandFactory, FromArgMatches};

use options::{Options, Variant};
use subject::Subject;

/// The options of a `*_perf` program.
#[derive(clap::Parser)]
#[command(version, after_help = options::EXAMPLES)]
struct Program {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    variant: Variant,
}

/// The whole of a `*_perf` program: read the command line, join the launch, measure, print.
pub fn main(subject: Subject) -> std::process::ExitCode {
    let about = format!("Measures and checks {subject} between the processes of one launch");
    let command = Program::command().name(format!("{subject}_perf")).about(about);
    let program = Program::from_arg_matches(&command.get_matches()).unwrap_or_else(|e| e.exit());
    sweep::run(subject, &program.options, &program.variant)
}

/// Returns the exit code of the program called `name`, and prints what went wrong.
pub fn exit(name: &str, outcome: Result<(), String>) -> std::process::ExitCode {
    match outcome {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{name}: {problem}");
            std::process::ExitCode::FAILURE
        }
    }
}
