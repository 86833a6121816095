//! The output of a command.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// Writes text to standard output. A closed pipe (`| head`) is not an error.
pub fn print(text: &str) -> Result<ExitCode, String> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("cannot write: {error}")),
        _ => Ok(ExitCode::SUCCESS),
    }
}
