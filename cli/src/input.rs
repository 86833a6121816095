//! The files that a command reads. `-` is standard input.

use crate::answer::STANDARD;
use std::fs::File;
use std::io::{Error, Read, Result, stdin};
use std::path::Path;

/// Most bytes of a file that are read. Traces are large; the limit protects from a device that never ends.
const MOST_BYTES: u64 = 1 << 30;

/// Opens a file to read.
pub fn open(file: &Path) -> Result<Box<dyn Read>> {
    Ok(if file == Path::new(STANDARD) { Box::new(stdin().lock()) } else { Box::new(File::open(file)?) })
}

/// Reads a text file, at most 1 GiB of it.
pub fn text(file: &Path) -> Result<String> {
    at_most(MOST_BYTES, file, "")
}

/// Reads a text file of at most a number of bytes. `remedy`: what follows the sentence that it has more.
pub fn at_most(bytes: u64, file: &Path, remedy: &str) -> Result<String> {
    let mut text = Vec::new();
    open(file)?.take(bytes + 1).read_to_end(&mut text)?;
    if text.len() as u64 > bytes {
        return Err(Error::other(format!("it has more than {} MiB{remedy}", bytes >> 20)));
    }
    String::from_utf8(text).map_err(|_| Error::other("it is no text (UTF-8)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_never_ends_is_refused() {
        let refused = at_most(1 << 20, Path::new("/dev/zero"), "; name another").unwrap_err();
        assert_eq!(refused.to_string(), "it has more than 1 MiB; name another");
        assert_eq!(at_most(0, Path::new("/dev/null"), "").unwrap(), "");
    }
}
