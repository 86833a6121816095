//! What comes by a connection. Nothing of it is trusted.

use super::memories::Memories;
use super::socket::{TcpSocket, range};
use super::wire::{self, Head, WRITE_HEAD, WriteHead};
use crate::sys::endpoint::Report;
use std::io;

/// Bytes that are received at once where it is not known what comes: what is behind the head of a write is copied once more.
const AT_ONCE: usize = 9 << 10;
/// Bytes that are received behind those of a write.
const BEHIND: usize = 1 << 10;
/// Receptions in one look, so that nobody is held up by a flood.
const RECEPTIONS: usize = 16;

/// A write whose bytes or trailer have not come as a whole.
struct Arriving {
    head: WriteHead,
    /// Where the next byte goes. `None`: nowhere, for it is not wanted any more.
    target: Option<usize>,
    /// Bytes that are still to come, and those of the padding.
    left: usize,
    padding: usize,
    /// Where the trailer goes.
    trailer: usize,
}

/// What has come by a connection and is not passed on yet.
pub struct ItemIntake {
    buffer: Box<[u64]>,
    /// Bytes of the buffer that are done with, and that are filled.
    at: usize,
    filled: usize,
    arriving: Option<Arriving>,
    /// Words of the longest message.
    most: usize,
    is_second: bool,
    /// Items that were passed on.
    pub taken: u64,
}

/// A connection that is over.
#[derive(Debug)]
pub enum Over {
    /// The other side has closed it, or the system has ended it.
    Ended(Option<io::Error>),
    /// What came makes no sense.
    Nonsense,
}

impl From<io::Error> for Over {
    fn from(error: io::Error) -> Over {
        Over::Ended(Some(error))
    }
}

impl ItemIntake {
    /// For messages of up to `most` words. `is_second`: it is one of the second endpoint. `taken`: items that have come by earlier connections.
    pub fn new(most: usize, is_second: bool, taken: u64) -> ItemIntake {
        // A message, the head of the next item, and what came at once behind it.
        let words = most + WRITE_HEAD + AT_ONCE.max(BEHIND) / 8;
        let buffer = vec![0; words].into_boxed_slice();
        ItemIntake { buffer, at: 0, filled: 0, arriving: None, most, is_second, taken }
    }

    /// Takes in what has come. True: there may be more.
    #[inline]
    pub fn look(
        &mut self,
        stream: &TcpSocket,
        memories: &Memories,
        sink: &mut dyn FnMut(Report<'_>),
    ) -> Result<bool, Over> {
        for _ in 0..RECEPTIONS {
            let (received, asked) = self.receive(stream)?;
            match received {
                None => return Ok(false),
                Some(0) => return Err(Over::Ended(None)),
                Some(bytes) => {
                    self.pass_on(memories, sink)?;
                    if bytes < asked {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Takes in all that has come by a connection that is about to be closed.
    pub fn take_all(
        &mut self,
        stream: &TcpSocket,
        memories: &Memories,
        sink: &mut dyn FnMut(Report<'_>),
    ) -> Result<(), Over> {
        // BOUND: what the socket holds.
        while self.look(stream, memories, sink)? || self.has_received(stream)? {}
        Ok(())
    }

    /// Is there something in the socket?
    fn has_received(&self, stream: &TcpSocket) -> io::Result<bool> {
        Ok(stream.peek()?.is_some_and(|bytes| bytes > 0))
    }

    /// Receives some bytes. Returns their number, and that of those that were asked for.
    fn receive(&mut self, stream: &TcpSocket) -> io::Result<(Option<usize>, usize)> {
        let Some(arriving) = self.arriving.as_mut().filter(|arriving| arriving.left > 0) else {
            // What follows the padding that is still to come begins at a word.
            if let Some(arriving) = self.arriving.as_ref().filter(|_| self.at == self.filled) {
                self.at = (8 - arriving.padding) % 8;
                self.filled = self.at;
            }
            let asked = AT_ONCE.min(size_of_val(&*self.buffer) - self.filled);
            let received = stream.receive(&mut self.buffer, self.filled, asked)?;
            self.filled += received.unwrap_or(0);
            return Ok((received, asked));
        };
        // All that is in the buffer was taken for the write.
        (self.at, self.filled) = (0, 0);
        let Some(target) = arriving.target else {
            // No more than belongs to the write: what follows begins at a word.
            let asked = AT_ONCE.min(arriving.left + arriving.padding);
            let received = stream.receive(&mut self.buffer, 0, asked)?;
            self.filled = received.unwrap_or(0);
            return Ok((received, asked));
        };
        let mut scratch = 0u64;
        let (left, padding) = (arriving.left, arriving.padding);
        let ranges = [
            range(target, left),
            range(&raw mut scratch as usize, padding),
            range(self.buffer.as_mut_ptr() as usize, BEHIND),
        ];
        // SAFETY: the target lies in memory of the endpoint's, or that was opened to others and is not closed; the others are this function's own.
        let received = unsafe { stream.receive_ranges(&ranges) }?;
        let mut bytes = received.unwrap_or(0);
        let mut less = |part: &mut usize| {
            let some = bytes.min(*part);
            (*part, bytes) = (*part - some, bytes - some);
            some
        };
        arriving.target = Some(target + less(&mut arriving.left));
        less(&mut arriving.padding);
        self.filled = bytes;
        Ok((received, left + padding + BEHIND))
    }

    /// Passes on what is there as a whole.
    fn pass_on(&mut self, memories: &Memories, sink: &mut dyn FnMut(Report<'_>)) -> Result<(), Over> {
        // BOUND: the buffer.
        loop {
            if self.arriving.is_some() {
                if !self.go_on(sink) {
                    break;
                }
                continue;
            }
            let (first, end) = (self.at / 8, self.filled / 8);
            match wire::head_of(&self.buffer[first..end]).map_err(|()| Over::Nonsense)? {
                None => break,
                Some(Head::Message(words)) if words > self.most => return Err(Over::Nonsense),
                Some(Head::Message(words)) => {
                    let begin = first + wire::MESSAGE_HEAD;
                    if begin + words > end {
                        break;
                    }
                    (self.at, self.taken) = ((begin + words) * 8, self.taken + 1);
                    sink(Report::Message(&mut self.buffer[begin..begin + words]));
                }
                Some(Head::Write(head)) => {
                    let [place, behind] = head.places;
                    let target = memories.target(place, head.bytes, self.is_second);
                    let trailer = match head.trailer_words {
                        0 => Some(0),
                        words => memories.target(behind, words * 8, false),
                    };
                    let trailer = trailer.filter(|_| head.trailer_words <= self.most);
                    let (Some(target), Some(trailer)) = (target, trailer) else { return Err(Over::Nonsense) };
                    self.at += WRITE_HEAD * 8;
                    let (left, padding) = (head.bytes, head.padding());
                    self.arriving = Some(Arriving { head, target: Some(target), left, padding, trailer });
                }
            }
        }
        let whole = self.at / 8 * 8;
        if self.at == self.filled {
            (self.at, self.filled) = (0, 0);
        } else if whole > 0 {
            self.buffer.copy_within(whole / 8..self.filled.div_ceil(8), 0);
            (self.at, self.filled) = (self.at - whole, self.filled - whole);
        }
        Ok(())
    }

    /// Takes what is in the buffer for the write that arrives. True: it is there as a whole.
    fn go_on(&mut self, sink: &mut dyn FnMut(Report<'_>)) -> bool {
        let Some(arriving) = &mut self.arriving else { return true };
        let some = arriving.left.min(self.filled - self.at);
        if let Some(target) = arriving.target.filter(|_| some > 0) {
            // SAFETY: the bytes lie in the buffer; the target as in `receive`.
            unsafe {
                let from = self.buffer.as_ptr().cast::<u8>().add(self.at);
                std::ptr::copy_nonoverlapping(from, std::ptr::with_exposed_provenance_mut(target), some);
            }
            arriving.target = Some(target + some);
        }
        arriving.left -= some;
        self.at += some;
        let some = arriving.padding.min(self.filled - self.at);
        arriving.padding -= some;
        self.at += some;
        let bytes = arriving.head.trailer_words * 8;
        if arriving.left + arriving.padding > 0 || self.filled - self.at < bytes {
            return false;
        }
        if bytes > 0 {
            // SAFETY: as above; the trailer's place lies in memory of the endpoint's.
            unsafe {
                let from = self.buffer.as_ptr().cast::<u8>().add(self.at);
                let to = std::ptr::with_exposed_provenance_mut::<u8>(arriving.trailer);
                std::ptr::copy_nonoverlapping(from, to, bytes);
            }
        }
        let data = arriving.head.data;
        (self.at, self.taken, self.arriving) = (self.at + bytes, self.taken + 1, None);
        sink(Report::Written(data));
        true
    }

    /// Nothing is written any more to what was opened by this key.
    pub fn close_to(&mut self, key: u64) {
        if let Some(arriving) = self.arriving.as_mut().filter(|arriving| arriving.head.places[0].key == key) {
            arriving.target = None;
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "intake_tests.rs"]
mod tests;
