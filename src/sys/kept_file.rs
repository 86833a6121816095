//! A file that the library keeps open, in a process whose other code may close any descriptor.
//!
//! ```text
//!     closefrom(3); open("data")        the descriptor of the library's file is that of the program's file now:
//!                                       to give memory back by it would make a hole in the data
//! ```
//!
//! So each use first asks the kernel whether the descriptor is still that of the file, and one that is not is left open.

use crate::error::{Error, Result};
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

/// A file that was opened by the library, for as long as its descriptor is not closed by the program.
pub struct KeptFile {
    file: ManuallyDrop<File>,
    /// The file's device and number; `None`: the system does not tell.
    number: Option<(u64, u64)>,
}

fn number(file: &File) -> Option<(u64, u64)> {
    file.metadata().ok().map(|about| (about.dev(), about.ino()))
}

impl KeptFile {
    /// Keeps a file.
    pub fn new(file: File) -> KeptFile {
        KeptFile { number: number(&file), file: ManuallyDrop::new(file) }
    }

    /// Returns the file's device and number; `None`: the system does not tell.
    pub fn number(&self) -> Option<(u64, u64)> {
        self.number
    }

    /// Returns the file, unless the program has closed its descriptor.
    pub fn get(&self) -> Result<&File> {
        if number(&self.file) == self.number {
            return Ok(&self.file);
        }
        Err(Error::system(format!(
            "the program has closed file descriptor {}, which is Penny's; closefrom, close_range and os.closerange close those of \
             libraries, too: call them before Penny's first communicator, or close the program's own alone",
            self.file.as_raw_fd()
        )))
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        if self.get().is_ok() {
            // SAFETY: dropped here once, and not used again.
            unsafe { ManuallyDrop::drop(&mut self.file) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};
    use std::os::fd::FromRawFd;

    #[test]
    fn a_descriptor_that_is_another_files_by_now_is_neither_used_nor_closed() {
        let kept = KeptFile::new(tempfile());
        kept.get().unwrap();
        let mut own = tempfile();
        own.write_all(b"data").unwrap();
        let (mine, theirs) = (own.as_raw_fd(), kept.file.as_raw_fd());
        // SAFETY: as a program does that closes the library's descriptor, and opens a file that gets its number.
        assert_eq!(unsafe { libc::dup2(mine, theirs) }, theirs);
        assert!(kept.get().unwrap_err().message.contains(&format!("closed file descriptor {theirs},")));
        drop(kept);
        own.rewind().unwrap();
        // SAFETY: the descriptor is open, and this test's alone by now.
        let mut again = unsafe { File::from_raw_fd(theirs) };
        let mut text = String::new();
        again.read_to_string(&mut text).unwrap();
        assert_eq!(text, "data");
    }

    fn tempfile() -> File {
        // SAFETY: the name is a C string; the descriptor is nobody else's.
        unsafe { File::from_raw_fd(libc::memfd_create(c"kept".as_ptr(), 0)) }
    }
}
