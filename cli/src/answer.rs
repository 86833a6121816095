//! The output of a command.

use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::launch::Stream;

/// Writes text to standard output. A closed pipe (`| head`) is not an error.
pub fn print(text: &str) -> Result<ExitCode, String> {
    write(text.as_bytes()).map(|_| ExitCode::SUCCESS)
}

/// Writes to standard output at once, and tells whether anybody reads it.
fn write(bytes: &[u8]) -> Result<bool, String> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("cannot write: {error}")),
    }
}

/// Lines that a command passes on as they come, where it may go on when it cannot.
#[derive(Debug, Default)]
pub struct PassedOn {
    /// Why lines for standard output were lost.
    lost: Option<String>,
    is_unread: bool,
}

impl PassedOn {
    /// Writes text to a stream.
    pub fn write(&mut self, stream: Stream, text: &[u8]) {
        match stream {
            Stream::Out => match write(text) {
                Ok(is_read) => self.is_unread |= !is_read,
                Err(why) => drop(self.lost.get_or_insert(why)),
            },
            Stream::Err => drop(std::io::stderr().write_all(text)),
        }
    }

    /// Tells whether more lines would reach nobody.
    pub fn is_over(&self) -> bool {
        self.is_unread || self.lost.is_some()
    }

    /// Fails if text for standard output was lost.
    pub fn end(self) -> Result<(), String> {
        self.lost.map_or(Ok(()), Err)
    }
}

/// Writes a line to standard error. Where nobody reads it (`2>&1 | head`) the command goes on: its exit code still tells.
pub fn tell(line: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Returns a number with its noun, which has an s for more than one.
pub fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Fails if a file cannot be written; for what is measured long before it is.
pub fn writable(path: &Path) -> Result<(), String> {
    if path.is_dir() {
        return Err("is a folder; name a file".into());
    }
    let there = fs::symlink_metadata(path);
    if there.as_ref().is_ok_and(|there| !there.is_file()) {
        // A pipe is written once, when there is something to write.
        return Ok(());
    }
    let is_new = there.is_err();
    OpenOptions::new().create(true).append(true).open(path).map_err(|e| unwritable(path, &e))?;
    if is_new {
        // Nothing is left if the command ends before it has something to write.
        let _ = fs::remove_file(path);
    }
    Ok(())
}

/// Says why a file cannot be written.
fn unwritable(path: &Path, why: &std::io::Error) -> String {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    match folder {
        Some(folder) => format!("there is no folder {}; make it first", folder.display()),
        None => format!("cannot be written: {why}"),
    }
}

/// The name that means standard output among files to write, and standard input among files to read.
pub const STANDARD: &str = "-";

/// Writes text to a file that an option names; to standard output for `-`.
pub fn save(option: &str, path: &Path, text: &str) -> Result<(), String> {
    if path == Path::new(STANDARD) {
        return write(text.as_bytes()).map(drop);
    }
    fs::write(path, text).map_err(|e| format!("{option} {}: {}", path.display(), unwritable(path, &e)))
}

/// Returns the path if it can be written, for the command line.
pub fn file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if text == STANDARD {
        return Ok(path);
    }
    writable(&path).map(|()| path)
}

/// Returns the path if it can be written and is not standard output, where a table goes.
pub fn file_beside_a_table(text: &str) -> Result<PathBuf, String> {
    if text == STANDARD {
        return Err("the table goes to standard output; name a file".into());
    }
    file(text)
}

/// Returns the path if a drawing can be written there beside a table: for the command line, which asks before anything is measured.
pub fn svg_file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if text != STANDARD && !path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("svg")) {
        let named = path.with_extension("svg");
        return Err(format!("drawings are SVG; name the file {}", named.display()));
    }
    file_beside_a_table(text)
}

/// Returns the path if a drawing that is all of the output can be written there.
pub fn svg(text: &str) -> Result<PathBuf, String> {
    if text == STANDARD { file(text) } else { svg_file(text) }
}
