//! A compiler driver in nvcc's place, for programs that run on Penny's CUDA runtime on the host.
//!
//! ```text
//!     arguments, options    the command line, and whom each option concerns
//!     places, home          where headers and libraries lie; a folder as CUDA_HOME
//!     drive                 preprocess | rewrite | compile, then link: by the host's compiler
//!     rewrite               launches, kernels (declarations), variables, ptx: changes (edits) of a text in tokens
//!     version               what it says it is
//! ```
//!
//! It knows CUDA C++ and no program. compat/nvcc/README.md says what is compiled and what is refused.

mod arguments;
mod declarations;
mod drive;
mod edits;
mod home;
mod kernels;
mod launches;
mod options;
mod places;
mod ptx;
mod rewrite;
mod tokens;
mod variables;
mod version;

use std::process::ExitCode;

use arguments::Ask;

fn main() -> ExitCode {
    let outcome = arguments::read(std::env::args_os().skip(1)).and_then(|arguments| match &arguments.ask {
        Some(Ask::Version) => {
            print!("{}", version::text());
            Ok(())
        }
        Some(Ask::Help) => {
            print!("{}", version::HELP);
            Ok(())
        }
        Some(Ask::Architectures) => {
            print!("{}", version::ARCHITECTURES);
            Ok(())
        }
        Some(Ask::Home(folder)) => home::make(folder),
        None => drive::run(&arguments),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            if !sentence.is_empty() {
                eprintln!("penny-nvcc: error: {sentence}");
            }
            ExitCode::FAILURE
        }
    }
}
