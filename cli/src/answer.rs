//! The output of a command.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Writes text to standard output. A closed pipe (`| head`) is not an error.
pub fn print(text: &str) -> Result<ExitCode, String> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("cannot write: {error}")),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Fails if a file cannot be written; for what is measured long before it is.
pub fn writable(path: &Path) -> Result<(), String> {
    let there = fs::symlink_metadata(path);
    if there.as_ref().is_ok_and(|there| !there.is_file()) {
        // A pipe is written once, when there is something to write.
        return Ok(());
    }
    let is_new = there.is_err();
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(|e| format!("{}: {e}", path.display()))?;
    if is_new {
        // Nothing is left if the command ends before it has something to write.
        let _ = fs::remove_file(path);
    }
    Ok(())
}

/// Returns the path if it can be written, for the command line.
pub fn file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    writable(&path).map(|()| path)
}
