//! What goes over a connection: words of 64 bits, in the byte order of the machines.
//!
//! ```text
//!     who connects    | HELLO | the other endpoint's token | its own address | where it stands |
//!     who accepts     | WELCOME | where it stands |
//!     then, both      | MESSAGE, words | the words |
//!                     | WRITE, words of the trailer | data | bytes | place | place of the trailer | the bytes, padded to a word | the trailer |
//! ```

use crate::sys::endpoint::Place;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The first word of a connection, with the version of what follows, and of the answer.
const HELLO: u64 = u64::from_le_bytes(*b"PennyT\x01\x00");
const WELCOME: u64 = u64::from_le_bytes(*b"PennyW\x01\x00");
/// Words of a greeting and of its answer.
pub const HELLO_WORDS: usize = 3 + NAME_WORDS;
pub const WELCOME_WORDS: usize = 3;
/// Words of a name.
const NAME_WORDS: usize = 4;
/// Bytes of a name.
pub const NAME_BYTES: usize = NAME_WORDS * 8;
/// Words of an item before its bytes.
pub const MESSAGE_HEAD: usize = 1;
pub const WRITE_HEAD: usize = 7;

const MESSAGE: u64 = 1;
const WRITE: u64 = 2;
const V6: u64 = 6;
const V4: u64 = 4;

/// By what others reach an endpoint, and what they show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    pub at: SocketAddr,
    /// Only members are told.
    pub token: u64,
}

impl Name {
    /// Returns its words.
    pub fn words(self) -> [u64; NAME_WORDS] {
        let (family, high, low) = match self.at.ip() {
            IpAddr::V4(ip) => (V4, 0, u64::from(ip.to_bits())),
            IpAddr::V6(ip) => (V6, (ip.to_bits() >> 64) as u64, ip.to_bits() as u64),
        };
        [family << 32 | u64::from(self.at.port()), high, low, self.token]
    }

    /// Of two that connect to each other at once, whose connection serves?
    pub fn comes_before(self, other: SocketAddr) -> bool {
        self.at < other
    }

    /// Returns its bytes.
    pub fn bytes(self) -> Vec<u8> {
        self.words().iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// Reads words.
    pub fn of(words: &[u64]) -> Option<Name> {
        let &[first, high, low, token] = words else { return None };
        let ip = match first >> 32 {
            V4 if high == 0 => IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(low).ok()?)),
            V6 => IpAddr::V6(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low))),
            _ => return None,
        };
        Some(Name { at: SocketAddr::new(ip, u16::try_from(first & 0xffff_ffff).ok()?), token })
    }

    /// Reads bytes.
    pub fn of_bytes(bytes: &[u8]) -> Option<Name> {
        let words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
        if bytes.len() == NAME_BYTES { Name::of(&Vec::from_iter(words)) } else { None }
    }
}

/// Where one side of a connection stands when it is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Items of the other's that it has taken in.
    pub taken: u64,
    /// How often it has begun or accepted a connection to the other: what is told with a lesser number was told before.
    pub number: u64,
}

/// Returns the words of a greeting.
pub fn hello(token: u64, own: Name, standing: Standing) -> [u64; HELLO_WORDS] {
    // Another process may listen at the port by now: it is not shown this endpoint's token.
    let [first, high, low, _] = own.words();
    [HELLO, token, first, high, low, standing.taken, standing.number]
}

/// Reads a greeting: the token that was shown, the address of who shows it, and where it stands.
pub fn hello_of(words: [u64; HELLO_WORDS]) -> Option<(u64, SocketAddr, Standing)> {
    let [HELLO, token, first, high, low, taken, number] = words else { return None };
    Some((token, Name::of(&[first, high, low, 0])?.at, Standing { taken, number }))
}

/// Returns the words of the answer.
pub fn welcome(standing: Standing) -> [u64; WELCOME_WORDS] {
    [WELCOME, standing.taken, standing.number]
}

/// Reads the answer.
pub fn welcome_of(words: [u64; WELCOME_WORDS]) -> Option<Standing> {
    let [WELCOME, taken, number] = words else { return None };
    Some(Standing { taken, number })
}

/// What begins an item.
pub enum Head {
    /// A message of this number of words.
    Message(usize),
    Write(WriteHead),
}

/// What begins a write.
#[derive(Clone, Copy)]
pub struct WriteHead {
    pub trailer_words: usize,
    pub data: u32,
    pub bytes: usize,
    pub places: [Place; 2],
}

impl WriteHead {
    /// Returns its words.
    pub fn words(self) -> [u64; WRITE_HEAD] {
        let [first, second] = self.places;
        [
            WRITE | (self.trailer_words as u64) << 32,
            self.data.into(),
            self.bytes as u64,
            first.address,
            first.key,
            second.address,
            second.key,
        ]
    }

    /// Bytes behind those of the range, up to a word.
    pub fn padding(self) -> usize {
        self.bytes.next_multiple_of(8) - self.bytes
    }
}

/// Returns the word that begins a message.
pub fn message(words: usize) -> u64 {
    MESSAGE | (words as u64) << 32
}

/// Reads the head of an item from the words that have come. `Ok(None)`: there is more to come; `Err`: they are none.
pub fn head_of(words: &[u64]) -> Result<Option<Head>, ()> {
    let Some(&first) = words.first() else { return Ok(None) };
    let length = (first >> 32) as usize;
    match (first & 0xffff_ffff, words) {
        (MESSAGE, _) => Ok(Some(Head::Message(length))),
        (WRITE, &[_, data, bytes, address, key, second, second_key, ..]) => {
            let places = [Place { address, key }, Place { address: second, key: second_key }];
            let (data, bytes) = (u32::try_from(data).map_err(drop)?, usize::try_from(bytes).map_err(drop)?);
            Ok(Some(Head::Write(WriteHead { trailer_words: length, data, bytes, places })))
        }
        (WRITE, _) => Ok(None),
        _ => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_greetings_are_read_as_they_were_written() {
        for at in ["10.1.2.3:4567", "[fd00::12]:65535", "[::1]:1"] {
            let name = Name { at: at.parse().unwrap(), token: u64::MAX - 3 };
            assert_eq!(Name::of_bytes(&name.bytes()), Some(name));
            let standing = Standing { taken: 77, number: 3 };
            assert_eq!(hello_of(hello(9, name, standing)), Some((9, name.at, standing)));
            assert!(!hello(9, name, standing).contains(&name.token));
            assert_eq!(welcome_of(welcome(standing)), Some(standing));
        }
        assert_eq!(Name::of_bytes(&[0; 32]), None);
        assert_eq!(Name::of_bytes(&[4; 31]), None);
        let name = Name { at: "10.0.0.1:1".parse().unwrap(), token: 1 };
        let mut other_version = hello(9, name, Standing::default());
        other_version[0] += 1 << 48;
        assert_eq!(hello_of(other_version), None);
    }

    #[test]
    fn the_head_of_an_item_needs_all_its_words_and_a_kind() {
        let places = [Place { address: 1, key: 2 }, Place { address: 3, key: 4 }];
        let write = WriteHead { trailer_words: 5, data: 6, bytes: 9, places };
        let words = write.words();
        for most in 0..WRITE_HEAD {
            assert!(matches!(head_of(&words[..most]), Ok(None)), "{most}");
        }
        let Ok(Some(Head::Write(read))) = head_of(&words) else { panic!("no write") };
        assert_eq!((read.words(), read.padding()), (words, 7));
        assert!(matches!(head_of(&[message(12)]), Ok(Some(Head::Message(12)))));
        assert!(head_of(&[7]).is_err());
        let too_large = [words[0], 1 << 32, 9, 1, 2, 3, 4];
        assert!(head_of(&too_large).is_err());
    }
}
