//! Access to far ranks' memory: what is open is reached, in order, and complete when it is said to be; nothing else is.

use super::{FarAccess, WINDOW};
use crate::error::Result;
use crate::kernels;
use crate::memory::heap;
use crate::memory::view::Payload;
use crate::memory::word::{AtomicOp, Change};
use crate::sync::prim::{AtomicBool, Ordering};
use crate::transport::in_process::{Delivery, transports};
use crate::transport::{Scope, Transport};
use std::sync::Arc;
use std::time::Duration;

/// A block of this process's heap, which rank 1 has opened to rank 0.
struct Opened {
    ranks: Vec<Arc<Transport>>,
    addr: usize,
    at: u64,
}

const BYTES: usize = 64 << 10;

impl Opened {
    fn new(delivery: Delivery) -> Opened {
        let (ranks, _) = transports(&[0, 1], delivery, 20_000);
        let addr = heap::mine().unwrap().alloc(3 * BYTES).unwrap();
        let at = heap::mine().unwrap().offset_of(addr, 3 * BYTES).unwrap();
        kernels::zero(heap::mine().unwrap().view(at, 3 * BYTES).unwrap());
        let opened = Opened { ranks, addr, at: (at + BYTES) as u64 };
        opened.ranks[1].open(opened.at, BYTES);
        opened
    }

    /// All bytes of the block, those before and behind the open ones among them.
    fn bytes(&self) -> Vec<u8> {
        let mut words = vec![0u64; 3 * BYTES / 8];
        let view = heap::mine().unwrap().view(self.at as usize - BYTES, 3 * BYTES).unwrap();
        kernels::copy(Payload::from(&mut words[..]), view, false);
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Runs `work` as rank 0, while rank 1 polls.
    fn work<T>(&self, work: impl FnOnce(&Transport) -> T) -> T {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    self.ranks[1].poll_far();
                    std::thread::yield_now();
                }
            });
            let done = work(&self.ranks[0]);
            over.store(true, Ordering::Release);
            done
        })
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        heap::mine().unwrap().free(self.addr).unwrap();
    }
}

fn put(t: &Transport, at: u64, bytes: &[u8]) -> Result<()> {
    let mut words: Vec<u64> = bytes
        .chunks(8)
        .map(|chunk| u64::from_le_bytes(std::array::from_fn(|i| *chunk.get(i).unwrap_or(&0))))
        .collect();
    t.put_far(1, at, Payload::from(&mut words[..]).part(0, bytes.len()), false)
}

#[test]
fn puts_are_there_when_they_are_complete_and_gets_read_them() {
    for seed in 0..12 {
        let opened = Opened::new(Delivery::Reordered(seed));
        let mut expected = vec![0u8; BYTES];
        let mut dice = seed * 77 + 1;
        opened.work(|t| {
            for round in 0..200u64 {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let (begin, length) = ((dice >> 20) as usize % 40_000, (dice >> 40) as usize % 20_000);
                let bytes = vec![round as u8 + 1; length];
                put(t, opened.at + begin as u64, &bytes).unwrap();
                expected[begin..begin + length].copy_from_slice(&bytes);
                if round % 50 == 49 {
                    t.complete_far().unwrap();
                    assert!(opened.bytes()[BYTES..2 * BYTES] == expected, "seed {seed} round {round}");
                }
            }
            let mut words = vec![0u64; BYTES / 8];
            t.get_far(1, opened.at, Payload::from(&mut words[..])).unwrap();
            assert!(words.iter().flat_map(|word| word.to_le_bytes()).eq(expected.iter().copied()));
        });
        let all = opened.bytes();
        assert!(
            all[..BYTES].iter().chain(&all[2 * BYTES..]).all(|&byte| byte == 0),
            "nothing else is written"
        );
    }
}

#[test]
fn words_are_changed_in_the_order_of_the_requests() {
    for seed in 0..12 {
        let opened = Opened::new(Delivery::Reordered(seed));
        opened.work(|t| {
            let change = |op, value, expected| Change { op, value, expected };
            for k in 0..100u64 {
                t.change_far(1, opened.at, true, change(AtomicOp::Add, 3, 0), k % 2 == 0).unwrap();
                assert_eq!(
                    t.exchange_far(1, opened.at, true, change(AtomicOp::Fetch, 0, 0)).unwrap(),
                    4 * k + 3
                );
                let swap = change(AtomicOp::CompareSwap, 4 * k + 4, 4 * k + 3);
                assert_eq!(t.exchange_far(1, opened.at, true, swap).unwrap(), 4 * k + 3);
            }
            let half = change(AtomicOp::Set, u64::MAX, 0);
            assert_eq!(t.exchange_far(1, opened.at + 12, false, half).unwrap(), 0);
            assert_eq!(
                t.exchange_far(1, opened.at + 8, true, change(AtomicOp::Fetch, 0, 0)).unwrap(),
                0xffff_ffff << 32
            );
        });
    }
}

#[test]
fn every_thread_of_a_rank_completes_what_it_has_put() {
    let opened = Opened::new(Delivery::Reordered(5));
    opened.work(|t| {
        std::thread::scope(|scope| {
            for thread in 0..3u64 {
                let at = opened.at + 8 * thread;
                scope.spawn(move || {
                    for round in 0..1000u64 {
                        put(t, at, &round.to_le_bytes()).unwrap();
                        t.complete_far().unwrap();
                    }
                });
            }
        });
    });
    for thread in 0..3 {
        assert_eq!(opened.bytes()[BYTES + 8 * thread..][..2], 999u16.to_le_bytes());
    }
}

#[test]
fn a_rank_that_takes_nothing_in_holds_its_senders_back() {
    let opened = Opened::new(Delivery::InOrder);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| (0..=WINDOW).try_for_each(|_| put(&opened.ranks[0], opened.at, &[1])));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!sender.is_finished(), "one too many");
        opened.work(|_| sender.join().unwrap().unwrap());
    });
}

#[test]
fn several_ranks_are_asked_at_once_and_one_that_is_silent_holds_up_none() {
    let (ranks, network) = transports(&[0, 1, 2], Delivery::InOrder, 20_000);
    let addr = heap::mine().unwrap().alloc(8).unwrap();
    let at = heap::mine().unwrap().offset_of(addr, 8).unwrap();
    let mut seven = [7u64];
    kernels::copy(heap::mine().unwrap().view(at, 8).unwrap(), Payload::from(&mut seven[..]), false);
    ranks[2].open(at as u64, 8);
    std::thread::scope(|scope| {
        let asks =
            scope.spawn(|| ranks[0].words_of_each::<1>(&[(1, at as u64), (2, at as u64)], 60_000_000_000));
        let is_asked = || ranks[2].memory().unwrap().peers[0].served.load(Ordering::Relaxed) == 1;
        // BOUND: rank 2 is asked, or rank 0 has given up.
        while !is_asked() && !asks.is_finished() {
            ranks[2].poll_far();
            std::thread::yield_now();
        }
        network.kill(1);
        assert_eq!(asks.join().unwrap(), [None, Some([7])]);
    });
    heap::mine().unwrap().free(addr).unwrap();
}

#[test]
fn a_rank_enters_no_collective_before_its_puts_are_complete() {
    let opened = Opened::new(Delivery::InOrder);
    let [t, other] = [0, 1].map(|rank| &opened.ranks[rank]);
    // As a call that is polled: it leaves where it would have to wait.
    let mut scope = Scope::new(1, [0; 2], 0, Some(0));
    t.complete_far_before(&mut scope).unwrap();
    put(t, opened.at, &[1]).unwrap();
    assert!(t.complete_far_before(&mut scope).unwrap_err().is_pending());
    other.poll_far();
    assert_eq!(opened.bytes()[BYTES], 1);
    // What another thread asks for meanwhile is not waited for.
    put(t, opened.at, &[2]).unwrap();
    t.complete_far_before(&mut scope).unwrap();
}

#[test]
fn a_rank_that_has_done_its_part_and_left_is_not_waited_for_before_a_collective() {
    let (ranks, _) = transports(&[0, 1, 0], Delivery::InOrder, 20_000);
    ranks[0].signal_far(1, 0, 0).unwrap();
    ranks[2].leave();
    let mut scope = Scope::new(1, [0; 2], 0, Some(0));
    for _ in 0..100 {
        assert!(ranks[0].complete_far_before(&mut scope).unwrap_err().is_pending());
    }
    ranks[1].poll_far();
    // BOUND: the answer has come.
    (0..10).find(|_| ranks[0].complete_far_before(&mut scope).is_ok()).expect("all is done");
}

/// What a faulty or foreign process may ask for.
#[test]
fn what_is_not_open_is_neither_read_nor_written_and_breaks_the_communicator() {
    let set = |at, wide| {
        let change = Change { op: AtomicOp::Set, value: u64::MAX, expected: 0 };
        FarAccess::Change { at, wide, change, ticket: 0, more: false }
    };
    let end = BYTES as u64;
    let forged: [(&str, &dyn Fn(u64) -> FarAccess<'static>); 9] = [
        ("a change behind it", &|at| set(at + end, true)),
        ("a change before it", &|at| set(at - 8, true)),
        ("a change across its end", &|at| set(at + end - 4, true)),
        ("a change of a word that is not aligned", &|at| set(at + 4, true)),
        ("a change that wraps", &|_| set(u64::MAX - 3, true)),
        ("a read across its end", &|at| FarAccess::Get { at: at + end - 7, bytes: 8, ticket: 1 }),
        ("a read of too much", &|at| FarAccess::Get { at, bytes: 16 << 10, ticket: 1 }),
        ("a signal that there is not", &|_| FarAccess::Signal { context: 8, index: 0 }),
        ("another service", &|_| FarAccess::Ask {
            of: 5,
            words: [0; 3],
            bytes: Payload::EMPTY,
            ticket: 1,
            more: false,
        }),
    ];
    for (what, access) in forged {
        let opened = Opened::new(Delivery::InOrder);
        opened.ranks[0].request(1, access(opened.at)).unwrap();
        opened.ranks[1].poll_far();
        let told = opened.ranks[1].check_alarm().expect_err(what);
        assert!(
            told.message.contains("rank 0") && told.message.contains("new communicator"),
            "{what}: {told}"
        );
        assert!(opened.bytes().iter().all(|&byte| byte == 0), "{what}");
    }
    for (begin, length) in [(BYTES - 7, 8), (BYTES, 1), (0, BYTES + 1)] {
        let opened = Opened::new(Delivery::InOrder);
        put(&opened.ranks[0], opened.at + begin as u64, &vec![1; length]).unwrap();
        opened.ranks[1].poll_far();
        assert!(opened.ranks[1].check_alarm().is_err(), "{length} bytes at {begin}");
        let all = opened.bytes();
        assert!(
            all[..BYTES].iter().chain(&all[2 * BYTES..]).all(|&byte| byte == 0),
            "{length} bytes at {begin}"
        );
    }
    let shut = Opened::new(Delivery::InOrder);
    shut.ranks[1].shut(shut.at, BYTES);
    put(&shut.ranks[0], shut.at, &[1; 8]).unwrap();
    shut.ranks[1].poll_far();
    assert!(shut.ranks[1].check_alarm().is_err() && shut.bytes().iter().all(|&byte| byte == 0));
}
