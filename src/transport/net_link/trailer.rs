//! What ends a write to a peer's mirror: the frame that belongs to it.

use super::peer::{NUMBERS, WRITES};
use super::wire::{self, HEADER, MessageHeader};

/// Words of a trailer: its write's number and length, then a message.
pub const TRAILER: usize = 32;
/// Words of the trailers of one sender.
pub const TRAILERS: usize = WRITES as usize * TRAILER;

/// Writes a trailer: the write's number, the length, and a message. Returns its words.
pub fn trailer<'a>(
    words: &'a mut [u64; TRAILER],
    number: u32,
    header: MessageHeader,
    ahead: &[u64],
    frames: &[u64],
) -> &'a [u64] {
    let length = HEADER + ahead.len() + frames.len();
    words[0] = u64::from(number & NUMBERS) | (length as u64) << 32;
    words[1..=HEADER].copy_from_slice(&header.words());
    let (first, rest) = words[1 + HEADER..=length].split_at_mut(ahead.len());
    first.copy_from_slice(ahead);
    rest.copy_from_slice(frames);
    &words[..=length]
}

/// Finds the message in a trailer, if it is that of this write.
pub fn message_in(trailer: &mut [u64], number: u32) -> Option<&mut [u64]> {
    let (first, rest) = trailer.split_first_mut()?;
    let words = (*first >> 32) as usize;
    (*first as u32 == number & NUMBERS).then(|| rest.get_mut(..words)).flatten()
}

/// Makes the last frame of a trailer one that changes nothing.
pub fn withdraw(trailer: &mut [u64]) {
    let Some((first, rest)) = trailer.split_first_mut() else { return };
    if let Some(frames) = rest.get_mut(HEADER..(*first >> 32) as usize) {
        wire::withdraw(frames);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailer_of_another_write_is_none() {
        let header = MessageHeader { token: 1, from: 2, seen: 3, number: None, messages: 0 };
        let mut words = [0; TRAILER];
        assert_eq!(trailer(&mut words, NUMBERS + 6, header, &[], &[8, 9]).len(), 6);
        assert_eq!(message_in(&mut words, 5).map(|m| m.len()), Some(5));
        assert!(message_in(&mut words, 6).is_none() && message_in(&mut [], 0).is_none());
        words[0] = 5 | 99 << 32;
        assert!(message_in(&mut words, 5).is_none());
    }
}
