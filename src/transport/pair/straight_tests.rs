//! Large messages between hosts, whichever way they take, and what becomes of buffers whose message fails.

use super::*;
use crate::kernels;
use crate::memory::view::Payload;
use crate::sys::endpoint::Carrier;
use crate::transport::in_process::{Delivery, transports};
use crate::transport::link::Body;
use crate::transport::net_link::testing::{Loopback, Writes, carriers};
use crate::transport::pair::{Pairs, slots_of};
use crate::transport::transfers;
use crate::types::DataType;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Bytes around each buffer that nobody may change.
const GUARD: usize = 64;
const UNTOUCHED: u8 = 0xa5;

/// A buffer that begins at any byte, with guards.
struct Buffer {
    words: Vec<u64>,
    at: usize,
    bytes: usize,
}

impl Buffer {
    fn new(at: usize, bytes: usize) -> Buffer {
        let words = (bytes + 2 * GUARD + at).div_ceil(8) + 1;
        Buffer { words: vec![u64::from_ne_bytes([UNTOUCHED; 8]); words], at: GUARD + at, bytes }
    }

    fn filled(at: usize, bytes: usize, number: u64) -> Buffer {
        let mut buffer = Buffer::new(at, bytes);
        let mut words = pattern(number, bytes);
        kernels::copy(buffer.data(), Payload::from(&mut words[..]).part(0, bytes), false);
        buffer
    }

    fn data(&mut self) -> Payload<'_> {
        Payload::from(&mut self.words[..]).part(self.at, self.bytes)
    }

    fn bytes(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// Does it have these bytes, and nothing around them?
    fn has(&self, number: u64) -> bool {
        let all = self.bytes();
        let (head, rest) = all.split_at(self.at);
        let (data, tail) = rest.split_at(self.bytes);
        let expected: Vec<u8> =
            pattern(number, self.bytes).iter().flat_map(|word| word.to_ne_bytes()).collect();
        *data == expected[..self.bytes] && head.iter().chain(tail).all(|&byte| byte == UNTOUCHED)
    }
}

fn pattern(number: u64, bytes: usize) -> Vec<u64> {
    (0..bytes.div_ceil(8) as u64).map(|i| (number << 32 | i).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect()
}

fn half(send: bool, peer: Rank, buffer: &mut Buffer) -> PairTransfer<'_> {
    let bytes = buffer.bytes;
    PairTransfer::new(send, peer, buffer.data(), DataType::Uint8, bytes, None)
}

fn run(t: &Transport, pairs: &mut Pairs, batch: &mut [PairTransfer]) -> Result<()> {
    let mut progress = transfers::begin(t, pairs, None);
    transfers::run(t, pairs, batch, &mut progress)
}

/// Sends messages of many sizes in both directions, one by one and in groups. Returns the number of slots that they took less than by the ring alone.
fn exchange(ranks: &[Arc<Transport>]) -> u64 {
    let spared = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for t in ranks {
            let spared = &spared;
            scope.spawn(move || {
                let (mut pairs, me) = (Pairs::new(2), t.rank());
                let mut kept = Vec::new();
                let mut by_ring = 0;
                for number in 0..60u64 {
                    let bytes = [STRAIGHT_FROM - 1, STRAIGHT_FROM, 200_003, 300_000, (1 << 20) + 5]
                        [number as usize % 5];
                    let at = (number % 9) as usize;
                    let (mut out, mut into) = (Buffer::filled(at, bytes, number), Buffer::new(8 - at, bytes));
                    let late = Duration::from_micros(300 * (number / 5 % 3));
                    if number % 2 == u64::from(me) {
                        std::thread::sleep(late);
                    }
                    if number / 10 % 2 == 0 {
                        let mut batch = [half(true, 1 - me, &mut out), half(false, 1 - me, &mut into)];
                        run(t, &mut pairs, &mut batch).unwrap();
                    } else {
                        for send in [me == 0, me == 1] {
                            let buffer = if send { &mut out } else { &mut into };
                            run(t, &mut pairs, &mut [half(send, 1 - me, buffer)]).unwrap();
                        }
                    }
                    assert!(into.has(number), "message {number} of {bytes} bytes");
                    by_ring += slots_of(bytes, 0);
                    kept.push((number, into));
                }
                // Nothing came to a buffer after its message.
                assert!(kept.iter().all(|(number, into)| into.has(*number)));
                spared.fetch_add(by_ring - pairs.peers[1 - me as usize].filled, Ordering::Relaxed);
            });
        }
    });
    spared.into_inner()
}

#[test]
fn large_messages_come_whole_whichever_way_they_take() {
    for delivery in [Delivery::InOrder, Delivery::Reordered(3), Delivery::TwoRails(4), Delivery::Lent(5)] {
        assert_eq!(exchange(&transports(&[0, 1], delivery, 60_000).0), 0, "{delivery:?}");
    }
    for carrier in carriers() {
        for writes in [Writes::WithTrailers, Writes::Alone, Writes::ByTwoRails] {
            let spared = exchange(&Loopback::new(&[0, 1], carrier, writes, 60_000).transports);
            assert_eq!(
                spared > 300,
                writes == Writes::WithTrailers,
                "{carrier:?} {writes:?}: {spared} slots"
            );
        }
    }
}

/// Has a large message under way from rank 0's buffer to rank 1's, which has not come, and calls `with` with both halves.
fn under_way(
    carrier: &Carrier,
    with: impl FnOnce(&[Arc<Transport>], [Option<PairTransfer>; 2], [&mut Pairs; 2]),
) {
    const BYTES: usize = 64 << 20;
    let loopback = Loopback::new(&[0, 1], carrier, Writes::WithTrailers, 60_000);
    let ranks = &loopback.transports;
    let [mut its, mut others] = [Pairs::new(2), Pairs::new(2)];
    let (mut out, mut into) = (Buffer::filled(0, BYTES, 1), Buffer::new(0, BYTES));
    // The second endpoints meet by a first message, or by some.
    for number in 0.. {
        assert!(number < 10_000, "no message goes straight");
        let (mut small, mut to) = (Buffer::filled(0, 200_000, 5), Buffer::new(0, 200_000));
        std::thread::scope(|scope| {
            scope.spawn(|| run(&ranks[0], &mut its, &mut [half(true, 1, &mut small)]).unwrap());
            run(&ranks[1], &mut others, &mut [half(false, 0, &mut to)]).unwrap();
        });
        if its.peers[1].opens {
            break;
        }
    }
    let mut halves = [Some(half(true, 1, &mut out)), Some(half(false, 0, &mut into))];
    // BOUND: the receiver's word.
    while halves[0].as_ref().is_some_and(|half| half.straight.is_none()) {
        for (rank, (half, pairs)) in halves.iter_mut().zip([&mut its, &mut others]).enumerate() {
            ranks[rank].poll_far();
            assert!(half.as_mut().unwrap().advance(&ranks[rank], pairs, true).unwrap().is_none());
        }
    }
    with(ranks, halves, [&mut its, &mut others]);
}

/// Polls both until nothing more can come.
fn settle(ranks: &[Arc<Transport>]) {
    for _ in 0..2000 {
        ranks.iter().for_each(|t| t.poll_far());
    }
}

#[test]
fn a_buffer_whose_receive_has_failed_is_written_no_more() {
    for carrier in carriers() {
        under_way(carrier, |ranks, [out, into], _| {
            let into = into.unwrap();
            let data = into.data();
            let mut word = [0u64];
            let mut read = |at: usize| {
                kernels::copy(Payload::from(&mut word[..]), data.part(at, 8), false);
                word[0] != u64::from_ne_bytes([UNTOUCHED; 8])
            };
            // Some of it comes.
            while !read(0) {
                ranks.iter().for_each(|t| t.poll_far());
            }
            assert!(!read(data.bytes() - 8), "all has come");
            drop(into);
            kernels::zero(data);
            settle(ranks);
            let mut found = vec![1u64; data.bytes() / 8];
            kernels::copy(Payload::from(&mut found[..]), data, false);
            assert!(found.iter().all(|&word| word == 0));
            drop(out);
        });
    }
}

#[test]
fn a_message_whose_send_has_failed_never_comes() {
    for carrier in carriers() {
        under_way(carrier, |ranks, [out, into], [_, pairs]| {
            let (out, mut into) = (out.unwrap(), into.unwrap());
            assert!(!out.done);
            let data = out.data();
            drop(out);
            kernels::zero(data);
            settle(ranks);
            assert!(into.advance(&ranks[1], pairs, true).unwrap().is_none() && !into.done);
            // The others are left alone: small messages still pass.
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        ranks[1].poll_far();
                    }
                });
                ranks[0].send_counter(1, 77);
                while ranks[1].lines(0).progress(0).counter.load(crate::sync::prim::Ordering::Acquire) != 77 {
                    ranks[0].poll_far();
                }
                stop.store(true, Ordering::Relaxed);
            });
        });
    }
}

#[test]
fn counts_that_differ_are_told_and_the_next_message_comes() {
    for carrier in carriers() {
        let ranks = Loopback::new(&[0, 1], carrier, Writes::WithTrailers, 60_000).transports;
        std::thread::scope(|scope| {
            for t in &ranks {
                scope.spawn(move || {
                    let mut pairs = Pairs::new(2);
                    let mut told = 0;
                    for number in 0..30 {
                        let odd = number % 3 == 1 && t.rank() == 1;
                        let mut buffer = match t.rank() {
                            0 => Buffer::filled(3, 400_000, number),
                            _ => Buffer::new(5, if odd { 300_000 } else { 400_000 }),
                        };
                        let ended = run(t, &mut pairs, &mut [half(t.rank() == 0, 1 - t.rank(), &mut buffer)]);
                        told +=
                            u32::from(ended.is_err_and(|e| {
                                e.message.contains("400000") && e.message.contains("300000")
                            }));
                        assert!(t.rank() == 0 || odd || buffer.has(number), "message {number}");
                        assert!(!odd || buffer.bytes().iter().all(|&byte| byte == UNTOUCHED));
                    }
                    assert_eq!(told, 10, "rank {}", t.rank());
                });
            }
        });
    }
}

#[test]
fn a_message_that_comes_straight_unasked_is_refused() {
    let (ranks, _network) = transports(&[0, 1], Delivery::InOrder, 10_000);
    let (mut pairs, mut into) = (Pairs::new(2), Buffer::new(0, 200_000));
    let mut receive = half(false, 0, &mut into);
    let args = DataType::Uint8 as u64 | STRAIGHT;
    let body = Body::Piece { index: 0, args, count: 200_000, bytes: Payload::EMPTY };
    ranks[0].far_to_post().unwrap().post(1, body);
    ranks[1].poll_far();
    let told = receive.advance(&ranks[1], &mut pairs, true).unwrap_err();
    assert!(told.message.contains("rank 0 says that it has written a message"), "{told}");
}
