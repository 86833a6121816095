//! The packets of a meeting: hello, refusal, member, farewell, verdict.
//!
//! ```text
//!     client -> server   hello     who I am, which meeting, what I bring        + my descriptors
//!                   or   refusal   who I am, which meeting, why I cannot come
//!     server -> client   member    one rank's number and what it brought        + its descriptors
//!                        ...       nranks of them, in rank order
//!     client -> server   farewell  I have joined, or why I give up
//!     server -> client   verdict   instead of anything else: why there will be no communicator
//! ```
//!
//! A packet is one datagram of at most [`MAX_BYTES`], numbers little-endian. The first 64 bytes of a hello keep their
//! meaning for ever, so that two versions of Penny can at least tell each other that they differ.

use std::time::Duration;

use crate::error::{Code, Error};

/// The longest packet.
pub const MAX_BYTES: usize = 4096;
/// The largest size of a rank's info.
pub const MAX_INFO: usize = 2048;
/// The longest sentence of a verdict.
const MAX_SENTENCE: usize = 2048;

const HELLO: [u8; 8] = *b"PENNYhi\0";
const REFUSAL: [u8; 8] = *b"PENNYcnt";
const FAREWELL: [u8; 8] = *b"PENNYbye";
const MEMBER: [u8; 8] = *b"PENNYmbr";
const VERDICT: [u8; 8] = *b"PENNYno\0";

/// Raised by hand whenever what ranks share in memory changes its meaning within one version.
const SHARED_LAYOUT: u64 = 3;

/// A hash of the layouts that must be equal in two builds of one version that share memory.
pub const ABI: u64 = {
    let target =
        [size_of::<usize>() as u64, align_of::<u128>() as u64, cfg!(target_endian = "little") as u64];
    let mut hash = SHARED_LAYOUT;
    let mut i = 0;
    while i < target.len() {
        hash = hash.wrapping_mul(0x0000_0100_0000_01b3) ^ target[i];
        i += 1;
    }
    hash
};

/// This library's version, zero-padded.
pub const VERSION: [u8; 24] = {
    let text = env!("CARGO_PKG_VERSION").as_bytes();
    let mut padded = [0; 24];
    let mut i = 0;
    while i < text.len() && i < padded.len() {
        padded[i] = text[i];
        i += 1;
    }
    padded
};

/// The secret that admits to a meeting.
#[derive(Clone, Copy)]
pub struct Secret(pub [u8; 16]);

impl Secret {
    /// Equal? Takes the same time whatever the answer.
    pub fn admits(&self, other: &Secret) -> bool {
        equal(&self.0, &other.0)
    }
}

/// Are these bytes the same? Takes the same time whatever the answer.
pub fn equal(a: &[u8], b: &[u8]) -> bool {
    let differ = a.iter().zip(b).fold(0u8, |all, (a, b)| all | (a ^ b));
    a.len() == b.len() && std::hint::black_box(differ) == 0
}

/// The first packet of a rank. The secret is checked before anything after it is read.
pub struct HelloFrame<'a> {
    /// The serial number of the rendezvous at this socket.
    pub serial: u64,
    /// The secret that admits to it.
    pub secret: Secret,
    /// The rank's [`VERSION`].
    pub version: [u8; 24],
    /// The rank's [`ABI`].
    pub abi: u64,
    /// The rank.
    pub rank: u32,
    /// The number of ranks that it expects.
    pub nranks: u32,
    /// Descriptors that come with the packet.
    pub nfds: u32,
    /// The time that it waits in all, and from now on; `None`: no limit.
    pub time_limit: Option<TimeLimit>,
    /// The information for the other ranks.
    pub info: &'a [u8],
}

/// The time for which a rank waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimit {
    /// The time from its call on.
    pub total: Duration,
    /// The time from this packet on.
    pub left: Duration,
}

/// The answer of the server.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// A rank of the communicator.
    Member {
        /// The rank.
        rank: u32,
        /// Descriptors that come with the packet.
        nfds: u32,
        /// Its information.
        info: &'a [u8],
    },
    /// The error that all ranks get: there will be no communicator.
    Verdict(Error),
}

/// Read the fields of a packet one after the other; `None` past its end.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }
    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }
    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
    /// Returns the rest of the packet, if it is exactly `len` bytes.
    fn rest(self, len: u32, most: usize) -> Option<&'a [u8]> {
        (self.0.len() == len as usize && self.0.len() <= most).then_some(self.0)
    }
}

/// Nanoseconds for the wire; 0 stands for "for ever", so a wait that is over is 1.
fn nanoseconds(t: Duration) -> u64 {
    u64::try_from(t.as_nanos()).unwrap_or(u64::MAX).max(1)
}

impl<'a> HelloFrame<'a> {
    /// Returns the packet.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(104 + self.info.len());
        out.extend(HELLO);
        out.extend(self.serial.to_le_bytes());
        out.extend(self.secret.0);
        out.extend(self.version);
        out.extend(self.abi.to_le_bytes());
        out.extend(self.rank.to_le_bytes());
        out.extend(self.nranks.to_le_bytes());
        out.extend(self.time_limit.map_or(0, |p| nanoseconds(p.total)).to_le_bytes());
        out.extend(self.time_limit.map_or(0, |p| nanoseconds(p.left)).to_le_bytes());
        out.extend(self.nfds.to_le_bytes());
        out.extend((self.info.len() as u32).to_le_bytes());
        out.extend(self.info);
        out
    }

    /// Returns the packet of a rank that cannot come. In place of what it would say to the others, `info` tells why.
    pub fn encode_refusal(&self) -> Vec<u8> {
        let mut out = self.encode();
        out[..8].copy_from_slice(&REFUSAL);
        out
    }

    /// Tells whether the packet says that its sender cannot join.
    pub fn refuses(packet: &[u8]) -> bool {
        packet.starts_with(&REFUSAL)
    }

    /// Returns the rendezvous that the packet asks for and its secret; `None`: it is no hello.
    pub fn ticket(packet: &[u8]) -> Option<(u64, Secret)> {
        let mut c = Cursor(packet);
        matches!(c.take::<8>()?, HELLO | REFUSAL).then_some(())?;
        Some((c.u64()?, Secret(c.take()?)))
    }

    /// Returns the version and the ABI hash, which stand at the same place in every version.
    pub fn build(packet: &[u8]) -> Option<([u8; 24], u64)> {
        let mut c = Cursor(packet.get(32..)?);
        Some((c.take()?, c.u64()?))
    }

    /// Returns the whole packet; only for one of the same build.
    pub fn decode(packet: &'a [u8]) -> Option<HelloFrame<'a>> {
        let (serial, secret) = HelloFrame::ticket(packet)?;
        let (version, abi) = HelloFrame::build(packet)?;
        let mut c = Cursor(packet.get(64..)?);
        let (rank, nranks) = (c.u32()?, c.u32()?);
        let (total, left) = (c.u64()?, c.u64()?);
        let time_limit = (total != 0)
            .then_some(TimeLimit { total: Duration::from_nanos(total), left: Duration::from_nanos(left) });
        let (nfds, len) = (c.u32()?, c.u32()?);
        let info = c.rest(len, if HelloFrame::refuses(packet) { MAX_SENTENCE } else { MAX_INFO })?;
        Some(HelloFrame { serial, secret, version, abi, rank, nranks, nfds, time_limit, info })
    }
}

/// Returns as much of a sentence as fits a packet.
pub fn cut(sentence: &str) -> &str {
    let whole = |end: &usize| sentence.is_char_boundary(*end);
    let end = (0..=sentence.len().min(MAX_SENTENCE)).rev().find(whole).unwrap_or(0);
    &sentence[..end]
}

/// Returns the last thing that a rank says: it has joined (`None`), or why it gives up.
pub fn encode_farewell(why: Option<&Error>) -> Vec<u8> {
    let code = why.map_or(0, |e| e.code as u32);
    [&FAREWELL[..], &code.to_le_bytes(), cut(why.map_or("", |e| &e.message)).as_bytes()].concat()
}

/// Decodes a farewell; the outer `None`: the packet is something else.
pub fn decode_farewell(packet: &[u8]) -> Option<Option<Error>> {
    let mut c = Cursor(packet);
    (c.take::<8>()? == FAREWELL).then_some(())?;
    let code = c.u32()?;
    let sentence = std::str::from_utf8(c.0).ok()?;
    if code == 0 { Some(None) } else { Some(Some(Error::new(code_from(code)?, sentence))) }
}

impl<'a> Answer<'a> {
    /// Returns the packet.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Answer::Member { rank, nfds, info } => {
                out.extend(MEMBER);
                out.extend(rank.to_le_bytes());
                out.extend(nfds.to_le_bytes());
                out.extend((info.len() as u32).to_le_bytes());
                out.extend(*info);
            }
            Answer::Verdict(error) => {
                let sentence = cut(&error.message);
                out.extend(VERDICT);
                out.extend((error.code as i32).to_le_bytes());
                out.extend((sentence.len() as u32).to_le_bytes());
                out.extend(sentence.as_bytes());
            }
        }
        out
    }

    /// Returns the packet's meaning; `None` if it has none.
    pub fn decode(packet: &'a [u8]) -> Option<Answer<'a>> {
        let mut c = Cursor(packet);
        match c.take::<8>()? {
            MEMBER => {
                let (rank, nfds, len) = (c.u32()?, c.u32()?, c.u32()?);
                Some(Answer::Member { rank, nfds, info: c.rest(len, MAX_INFO)? })
            }
            VERDICT => {
                let code = code_from(c.u32()?)?;
                let len = c.u32()?;
                let sentence = std::str::from_utf8(c.rest(len, MAX_SENTENCE)?).ok()?;
                Some(Answer::Verdict(Error::new(code, sentence)))
            }
            _ => None,
        }
    }
}

/// The failures that a verdict may carry.
fn code_from(number: u32) -> Option<Code> {
    use Code::*;
    [SystemError, InternalError, InvalidArgument, InvalidUsage, RemoteError, Timeout]
        .into_iter()
        .find(|code| *code as u32 == number)
}

/// Returns a zero-padded version as text, for sentences.
pub fn version_text(version: &[u8; 24]) -> String {
    version.split(|b| *b == 0).next().unwrap_or_default().escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello(info: &[u8]) -> HelloFrame<'_> {
        HelloFrame {
            serial: 7,
            secret: Secret([3; 16]),
            version: VERSION,
            abi: ABI,
            rank: 2,
            nranks: 5,
            nfds: 1,
            time_limit: Some(TimeLimit {
                total: Duration::from_secs(30),
                left: Duration::from_millis(29_999),
            }),
            info,
        }
    }

    #[test]
    fn the_first_64_bytes_of_a_hello_are_where_they_will_always_be() {
        let packet = hello(b"x").encode();
        assert_eq!(&packet[..8], b"PENNYhi\0");
        assert_eq!(packet[8..16], 7u64.to_le_bytes());
        assert_eq!(packet[16..32], [3; 16]);
        assert_eq!(packet[32..56], VERSION);
        assert_eq!(packet[56..64], ABI.to_le_bytes());
    }

    #[test]
    fn a_secret_admits_itself_and_nothing_that_differs_in_one_bit() {
        let secret = Secret([0xa5; 16]);
        assert!(secret.admits(&secret));
        for bit in 0..128 {
            let mut other = secret;
            other.0[bit / 8] ^= 1 << (bit % 8);
            assert!(!secret.admits(&other), "bit {bit}");
        }
    }

    #[test]
    fn a_long_sentence_is_cut_between_characters() {
        let packet = Answer::Verdict(Error::usage("ü".repeat(5000))).encode();
        assert!(packet.len() <= MAX_BYTES);
        let Some(Answer::Verdict(error)) = Answer::decode(&packet) else { panic!("not a verdict") };
        assert_eq!(error.message, "ü".repeat(MAX_SENTENCE / 2));
    }

    proptest! {
        #[test]
        fn a_hello_survives_the_journey(info in prop::collection::vec(any::<u8>(), 0..=MAX_INFO)) {
            let packet = hello(&info).encode();
            let got = HelloFrame::decode(&packet).unwrap();
            prop_assert_eq!((got.serial, got.rank, got.nranks, got.nfds, got.info), (7, 2, 5, 1, &info[..]));
            prop_assert_eq!(got.time_limit, hello(&info).time_limit);
        }

        #[test]
        fn a_member_survives_the_journey(rank: u32, nfds: u32, info in prop::collection::vec(any::<u8>(), 0..=MAX_INFO)) {
            let packet = Answer::Member { rank, nfds, info: &info }.encode();
            prop_assert_eq!(Answer::decode(&packet), Some(Answer::Member { rank, nfds, info: &info }));
        }

        #[test]
        fn a_cut_or_lengthened_packet_means_nothing(info in prop::collection::vec(any::<u8>(), 0..=64), at: prop::sample::Index) {
            for packet in [hello(&info).encode(), Answer::Member { rank: 1, nfds: 0, info: &info }.encode()] {
                let cut = &packet[..at.index(packet.len())];
                prop_assert!(HelloFrame::decode(cut).is_none() && Answer::decode(cut).is_none());
                let longer = [&packet[..], &[0]].concat();
                prop_assert!(HelloFrame::decode(&longer).is_none() && Answer::decode(&longer).is_none());
            }
        }

        #[test]
        fn a_length_that_lies_is_refused(length: u32) {
            let mut packet = hello(b"abc").encode();
            let at = packet.len() - 7;
            packet[at..at + 4].copy_from_slice(&length.to_le_bytes());
            prop_assert_eq!(HelloFrame::decode(&packet).is_some(), length == 3);
        }

        #[test]
        fn random_bytes_are_no_packet(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(HelloFrame::ticket(&bytes).is_none() && HelloFrame::decode(&bytes).is_none());
            prop_assert!(Answer::decode(&bytes).is_none());
        }
    }
}
