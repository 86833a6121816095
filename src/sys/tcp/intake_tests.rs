//! A stream of messages and writes that is cut anywhere.

use super::*;
use crate::sys::endpoint::tests::{Words, word};
use crate::sys::endpoint::{LentRange, Place, Use};
use std::io::Write;
use std::os::unix::net::UnixStream;

const MOST: usize = 40;
const TARGET: usize = 64;

/// An item of the stream, and what is passed on of it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Passed {
    Message(Vec<u64>),
    /// The data, the bytes of the range, the trailer.
    Write(u32, Vec<u8>, Vec<u64>),
}

/// Where an intake's writes go.
struct Targets {
    memories: Memories,
    target: usize,
    trailer: usize,
    places: [Place; 2],
}

struct Range(usize, usize);

// SAFETY: it is one of memory that is never freed.
unsafe impl LentRange for Range {
    fn base(&self) -> usize {
        self.0
    }
    fn bytes(&self) -> usize {
        self.1
    }
}

impl Targets {
    fn new() -> Targets {
        let mut memories = Memories::default();
        let (_, target) = Words::new(TARGET / 8, 0);
        let (trailers, trailer) = Words::new(MOST, 0);
        let opened = memories.open(&Range(target, TARGET));
        let registered = memories.register(Box::new(trailers), 0, MOST * 8, Use::Written);
        let places = [opened.place(3), memories.remote(registered).place(8)];
        Targets { memories, target, trailer, places }
    }

    fn bytes(&self, number: usize) -> Vec<u8> {
        let all: Vec<u8> = (0..TARGET / 8).flat_map(|at| word(self.target, at).to_ne_bytes()).collect();
        all[3..3 + number].to_vec()
    }

    /// The stream of some items.
    fn stream(&self, items: &[Passed]) -> Vec<u8> {
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let mut stream = Vec::new();
        for item in items {
            match item {
                Passed::Message(message) => {
                    stream.extend(words(&[wire::message(message.len())]));
                    stream.extend(words(message));
                }
                Passed::Write(data, bytes, trailer) => {
                    let (data, places) = (*data, self.places);
                    let head = WriteHead { trailer_words: trailer.len(), data, bytes: bytes.len(), places };
                    stream.extend(words(&head.words()));
                    stream.extend(bytes);
                    stream.resize(stream.len() + head.padding(), 0xee);
                    stream.extend(words(trailer));
                }
            }
        }
        stream
    }

    /// Sends the stream in pieces, and returns what is passed on. `closes_after`: after this number of pieces the range is closed.
    fn passed(&self, items: &[Passed], pieces: &[usize], closes_after: Option<usize>) -> Vec<Passed> {
        let (mut out, into) = UnixStream::pair().unwrap();
        let socket = TcpSocket::of(into.into());
        let mut intake = ItemIntake::new(MOST, true, 0);
        let (mut passed, mut next) = (Vec::new(), items.iter());
        let (mut left, mut sizes) = (&self.stream(items)[..], pieces.iter().cycle());
        let mut number = 0;
        while !left.is_empty() {
            let (piece, others) = left.split_at((*sizes.next().unwrap()).min(left.len()));
            left = others;
            out.write_all(piece).unwrap();
            let mut sink = |report: Report<'_>| {
                let item = next.next().expect("another item");
                passed.push(match (report, item) {
                    (Report::Message(words), _) => Passed::Message(words.to_vec()),
                    (Report::Written(data), Passed::Write(_, bytes, trailer)) => {
                        let trailer = (0..trailer.len()).map(|at| word(self.trailer, 1 + at)).collect();
                        Passed::Write(data, self.bytes(bytes.len()), trailer)
                    }
                    (report, _) => Passed::Message(vec![u64::from(matches!(report, Report::Written(_)))]),
                });
            };
            intake.look(&socket, &self.memories, &mut sink).unwrap();
            number += 1;
            if closes_after == Some(number) {
                intake.close_to(self.places[0].key);
            }
        }
        assert_eq!(intake.taken, items.len() as u64);
        passed
    }
}

/// Writes of 0 to 17 bytes with trailers of 0, 1 and 5 words, and messages between them.
fn items() -> Vec<Passed> {
    let mut items = vec![Passed::Message(vec![])];
    for bytes in 0..=17u8 {
        for trailer in [0, 1, 5] {
            let value = |at: u64| u64::from(bytes) << 32 | trailer << 8 | at;
            let range = (0..bytes).map(|at| at ^ (bytes << 3) ^ trailer as u8).collect();
            items.push(Passed::Write(u32::from(bytes) << 8, range, (0..trailer).map(value).collect()));
            if trailer == 1 {
                items.push(Passed::Message((0..u64::from(bytes)).map(value).collect()));
            }
        }
    }
    items.push(Passed::Message((0..MOST as u64).collect()));
    items
}

#[test]
fn items_are_passed_on_as_they_were_sent_wherever_the_stream_is_cut() {
    let (targets, items) = (Targets::new(), items());
    for size in 1..=70 {
        assert_eq!(targets.passed(&items, &[size], None), items, "pieces of {size}");
        for other in [1, 2, 3, 5, 7, 8, 11, 64] {
            assert_eq!(targets.passed(&items, &[size, other], None), items, "pieces of {size} and {other}");
        }
    }
    let all = targets.stream(&items).len();
    for cut in 1..all {
        assert_eq!(targets.passed(&items, &[cut, all], None), items, "cut at {cut}");
    }
}

#[test]
fn what_follows_a_write_whose_range_was_closed_is_passed_on_wherever_the_stream_is_cut() {
    let targets = Targets::new();
    for bytes in 1..=17 {
        let items = [
            Passed::Write(1, vec![bytes; usize::from(bytes)], vec![7, 8]),
            Passed::Message(vec![5, 6]),
            Passed::Message(vec![1; MOST]),
        ];
        let length = targets.stream(&items).len();
        for (cut, piece) in (1..length).flat_map(|cut| (1..=9).map(move |piece| (cut, piece))) {
            let mut pieces = vec![piece; length];
            pieces[0] = cut;
            let passed = targets.passed(&items, &pieces, Some(1));
            assert_eq!(passed[1..], items[1..], "cut at {cut}, pieces of {piece}");
            let Passed::Write(1, _, trailer) = &passed[0] else { panic!("no write") };
            assert_eq!(trailer, &[7, 8], "cut at {cut}, pieces of {piece}");
        }
    }
}
