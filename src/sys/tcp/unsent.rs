//! A message or a write that the kernel has not taken as a whole.

use super::socket::{Range, TcpSocket, range};
use super::wire::{self, WRITE_HEAD, WriteHead};
use std::io;

/// Zeros in the place of bytes that are not lent any more, and behind bytes up to a word.
static ZEROS: [u64; 512] = [0; 512];

/// A message or a write.
pub struct UnsentItem {
    head: [u64; WRITE_HEAD],
    head_words: usize,
    /// The range of a write: its address, and its bytes. The address 0 stands for zeros.
    base: usize,
    bytes: usize,
    padding: usize,
    /// A message's words, or a write's trailer.
    words: Vec<u64>,
    /// Bytes that the kernel has taken.
    taken: usize,
    pub is_lent: bool,
    /// Its bytes were given back when its trailer had gone in part: it cannot go again.
    is_torn: bool,
}

impl UnsentItem {
    /// A message of which the kernel has taken some bytes.
    pub fn message(words: &[u64], taken: usize) -> UnsentItem {
        let mut head = [0; WRITE_HEAD];
        head[0] = wire::message(words.len());
        let (head_words, words) = (wire::MESSAGE_HEAD, words.to_vec());
        UnsentItem {
            head,
            head_words,
            base: 0,
            bytes: 0,
            padding: 0,
            words,
            taken,
            is_lent: false,
            is_torn: false,
        }
    }

    /// A write of a range that begins at an address.
    pub fn write(head: WriteHead, base: usize, trailer: &[u64], is_lent: bool) -> UnsentItem {
        UnsentItem {
            head: head.words(),
            head_words: WRITE_HEAD,
            base,
            bytes: head.bytes,
            padding: head.padding(),
            words: trailer.to_vec(),
            taken: 0,
            is_lent,
            is_torn: false,
        }
    }

    /// The range is not readable any more: zeros go in its place. `withdraw` may change the trailer.
    pub fn give_back(&mut self, withdraw: &dyn Fn(&mut [u64])) {
        (self.base, self.is_lent) = (0, false);
        // A trailer that has gone in part belongs to bytes that have gone.
        self.is_torn = self.taken > self.head_words * 8 + self.bytes + self.padding;
        if !self.is_torn {
            withdraw(&mut self.words);
        }
    }

    /// It goes again from its beginning, by another connection. False: it cannot.
    pub fn begin_again(&mut self) -> bool {
        self.taken = 0;
        !self.is_torn
    }

    /// Has the kernel take it. True: all of it.
    pub fn send_on(&mut self, stream: &TcpSocket) -> io::Result<bool> {
        // BOUND: its bytes.
        loop {
            let (ranges, number, bytes, all) = self.left();
            let Some(sent) = stream.send_ranges(&ranges[..number])? else { return Ok(false) };
            self.taken += sent;
            if sent < bytes {
                return Ok(false);
            }
            if all {
                return Ok(true);
            }
        }
    }

    /// Returns what is left of it, or the first of it: ranges, their number, their bytes, and whether they are all.
    fn left(&self) -> ([Range; 4], usize, usize, bool) {
        let zeros = ZEROS.as_ptr() as usize;
        let withdrawn = self.base == 0;
        let parts = [
            (self.head.as_ptr() as usize, self.head_words * 8),
            (self.base, self.bytes),
            (zeros, self.padding),
            (self.words.as_ptr() as usize, self.words.len() * 8),
        ];
        let (mut ranges, mut number, mut bytes) = ([range(0, 0); 4], 0, 0);
        let mut skip = self.taken;
        for (part, (base, length)) in parts.into_iter().enumerate() {
            let left = length.saturating_sub(skip);
            let begin = base + (length - left);
            skip -= length - left;
            if left == 0 {
                continue;
            }
            let some = if part == 1 && withdrawn { left.min(size_of_val(&ZEROS)) } else { left };
            ranges[number] = range(if part == 1 && withdrawn { zeros } else { begin }, some);
            (number, bytes) = (number + 1, bytes + some);
            if some < left {
                return (ranges, number, bytes, false);
            }
        }
        (ranges, number, bytes, true)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sys::endpoint::Place;
    use crate::sys::endpoint::tests::Words;
    use std::os::unix::net::UnixStream;

    #[test]
    fn an_item_whose_bytes_were_given_back_goes_again_only_if_its_trailer_shows_none() {
        let (_, base) = Words::new(4, 7);
        let place = Place { address: 0, key: 0 };
        for (trailer_words, goes_again) in [(1, true), (100_000, false)] {
            let head = WriteHead { trailer_words, data: 0, bytes: 32, places: [place; 2] };
            let mut item = UnsentItem::write(head, base, &vec![5; trailer_words], true);
            let (_other, one) = UnixStream::pair().unwrap();
            let socket = TcpSocket::of(one.into());
            // The socket takes the bytes, and of the long trailer a part.
            let is_sent = goes_again || !item.send_on(&socket).unwrap();
            item.give_back(&|words| words.fill(0));
            assert!(is_sent && !item.is_lent);
            assert_eq!(item.words.iter().all(|&word| word == 0), goes_again, "the trailer");
            assert_eq!(item.begin_again(), goes_again);
        }
    }
}
