//! The output of ranks, split into lines.

use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

/// One of a rank's two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// One line that a rank wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The rank that wrote it.
    pub rank: u32,
    /// The stream that it was written to.
    pub stream: Stream,
    /// The text without the end of line.
    pub text: &'a [u8],
}

/// The longest line that is passed on as a whole. Longer ones are passed on in pieces, so that a rank that never ends a line
/// uses no more memory.
const LONGEST: usize = 64 * 1024;

/// The capacity of a pipe on Linux: the most that can be left in one when its writers are gone.
const PIPE_CAPACITY: usize = 64 * 1024;

/// The reading end of one rank's stream.
pub struct Pipe {
    rank: u32,
    stream: Stream,
    file: Option<std::fs::File>,
    /// The text after the last end of line.
    rest: Vec<u8>,
}

impl Pipe {
    /// Takes a rank's stream and makes it non-blocking.
    pub fn new(rank: u32, stream: Stream, fd: OwnedFd) -> Pipe {
        // On a pipe of our own this cannot fail.
        let _ = fcntl(&fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
        Pipe { rank, stream, file: Some(fd.into()), rest: Vec::new() }
    }

    /// Tells whether a process can still write to it.
    pub fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Returns the descriptor for poll(2).
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_ref().expect("closed pipes are dropped").as_fd()
    }

    /// Hands on the lines that have arrived, at most one pipe's capacity, so that a rank that writes without a pause does not keep
    /// the launcher from its other work.
    pub fn forward(&mut self, lines: &mut Option<&mut dyn FnMut(Line)>) {
        let mut buffer = [0; 16 * 1024];
        for _ in 0..PIPE_CAPACITY / buffer.len() {
            let Some(file) = &mut self.file else { return };
            match file.read(&mut buffer) {
                Ok(0) => self.finish(lines),
                Ok(n) => self.take(&buffer[..n], lines),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.finish(lines),
            }
        }
    }

    /// Hands on the last text, which has no end of line, and closes the pipe.
    pub fn finish(&mut self, lines: &mut Option<&mut dyn FnMut(Line)>) {
        self.file = None;
        if !self.rest.is_empty() {
            let text = std::mem::take(&mut self.rest);
            self.say(&text, lines);
        }
    }

    fn take(&mut self, bytes: &[u8], lines: &mut Option<&mut dyn FnMut(Line)>) {
        self.rest.extend_from_slice(bytes);
        let all = std::mem::take(&mut self.rest);
        let mut left = &all[..];
        while let Some(end) = left.iter().position(|&b| b == b'\n') {
            self.say(&left[..end], lines);
            left = &left[end + 1..];
        }
        if left.len() > LONGEST {
            self.say(left, lines);
            left = &[];
        }
        self.rest = left.to_vec();
    }

    fn say(&self, text: &[u8], lines: &mut Option<&mut dyn FnMut(Line)>) {
        if let Some(lines) = lines {
            lines(Line { rank: self.rank, stream: self.stream, text });
        }
    }
}
