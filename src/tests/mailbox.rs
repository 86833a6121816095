//! Mailboxes among ranks that are threads of this process: what arrives, in which order, and what is refused.

mod bad_input;
mod forged;
mod history;
mod idle;
mod keys;

use super::collectives::hosts::{Between, attend, connect, ways};
use crate::error::Result;
use crate::mailbox::{FLIT, MailboxService, MailboxShape, Mailboxes, Message, prepare};
use crate::memory::control::{ALIVE, Control, Layout, Membership};
use crate::memory::heap;
use crate::memory::view::Payload;
use crate::sync::prim::{AtomicBool, Ordering};
use crate::sync::wait::Backoff;
use crate::timing::Timing;
use crate::transport::Transport;
use crate::types::Rank;
use std::sync::{Arc, Mutex};

/// The mailboxes of several ranks, which are all this process. Their memory is freed at the end.
pub(super) struct Town {
    pub ranks: Vec<Mailboxes>,
    pub transports: Vec<Arc<Transport>>,
    blocks: Vec<usize>,
    /// Of the first block.
    bytes: usize,
    _members: Mutex<Vec<Membership>>,
    /// Where ranks are on several hosts: what polls their links, until the end.
    over: Arc<AtomicBool>,
}

/// Milliseconds that a test waits at most where nothing is meant to come.
pub(super) const SHORT_MS: u64 = 50;
const LONG_MS: u64 = 120_000;

impl Town {
    /// One rank for each number of threads.
    pub fn of(threads: &[u32], slots: u32, slot_bytes: u32) -> Town {
        Town::with_timeout(threads, slots, slot_bytes, LONG_MS)
    }

    pub fn with_timeout(threads: &[u32], slots: u32, slot_bytes: u32, timeout_ms: u64) -> Town {
        let n = threads.len() as u32;
        let control = Arc::new(Control::create(Layout::new(n, 4096)).unwrap());
        let transport = |rank: Rank| {
            control.life(rank).state.store(ALIVE, Ordering::Release);
            let heaps = (0..n).map(|_| heap::own().unwrap()).collect();
            Arc::new(Transport::new(
                control.clone(),
                rank,
                heaps,
                Backoff::for_ranks(n as usize, None),
                timeout_ms * 1_000_000,
            ))
        };
        let members = Mutex::new((0..n).map(|rank| control.keep(rank).unwrap()).collect());
        let mut town = Town::over((0..n).map(transport).collect(), threads, slots, slot_bytes);
        town._members = members;
        town
    }

    /// The same on hosts as `hosts` says by rank.
    pub fn on_hosts(hosts: &[u32], between: Between, threads: &[u32], slots: u32, slot_bytes: u32) -> Town {
        let (transports, _) = connect(hosts, between, LONG_MS);
        let town = Town::over(transports, threads, slots, slot_bytes);
        let (all, over) = (town.transports.clone(), town.over.clone());
        std::thread::spawn(move || attend(&all, &over));
        town
    }

    /// On one host, on two, and on three.
    pub fn everywhere(threads: &[u32], slots: u32, slot_bytes: u32) -> impl Iterator<Item = Town> {
        let several = (2..=threads.len().min(3) as u32)
            .flat_map(|several| ways(0..1).into_iter().map(move |between| (several, between)));
        let on_several = move |(several, between)| {
            let hosts: Vec<u32> = (0..threads.len() as u32).map(|rank| rank % several).collect();
            println!("hosts {hosts:?}, {between:?}");
            Town::on_hosts(&hosts, between, threads, slots, slot_bytes)
        };
        std::iter::once_with(move || Town::of(threads, slots, slot_bytes)).chain(several.map(on_several))
    }

    fn over(transports: Vec<Arc<Transport>>, threads: &[u32], slots: u32, slot_bytes: u32) -> Town {
        let ranks = threads.len() as u32;
        let (mut told, mut blocks) = (Vec::new(), Vec::new());
        for (t, &threads) in transports.iter().zip(threads) {
            let shape = MailboxShape { threads, slots, slot_bytes, ranks };
            let addr = heap::mine().unwrap().alloc(shape.bytes()).unwrap();
            let offset = prepare(addr, &shape, t.rank()).unwrap();
            MailboxService::begin(t, 7, offset, shape).unwrap();
            told.push((offset, shape));
            blocks.push(addr);
        }
        let ranks = transports
            .iter()
            .map(|t| Mailboxes::new(Timing::new(t.clone(), None, &[]), &told, 7).unwrap())
            .collect();
        let bytes = told[0].1.bytes();
        let over = Arc::new(AtomicBool::new(false));
        Town { ranks, transports, blocks, bytes, _members: Mutex::default(), over }
    }

    /// Write words to a thread's send slot and send as many flits as they fill.
    pub fn send(&self, from: (usize, i32), dest: i32, mask: u64, words: &[u64]) -> Result<()> {
        let (boxes, thread) = (&self.ranks[from.0], from.1);
        boxes.set_len(thread, size_of_val(words).div_ceil(FLIT) as i32)?;
        let slot = boxes.send_slot(thread)?;
        write(slot, words);
        boxes.multicast(dest, mask, slot)?;
        // So that a test may look at once.
        self.transports[from.0].complete_far()
    }
}

impl Drop for Town {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        self.ranks.clear();
        for &addr in &self.blocks {
            heap::mine().unwrap().free(addr).unwrap();
        }
    }
}

/// Words to an address of this process's heap.
pub(super) fn write(addr: usize, words: &[u64]) {
    let heap = heap::mine().unwrap();
    let at = heap.offset_of(addr, size_of_val(words)).expect("in the heap");
    let mut copy = words.to_vec();
    crate::kernels::copy(heap.view(at, size_of_val(words)).unwrap(), Payload::from(&mut copy[..]), false);
}

/// The first words of a message.
pub(super) fn read<const N: usize>(message: &Message) -> [u64; N] {
    let heap = heap::mine().unwrap();
    let at = heap.offset_of(message.data, N * 8).expect("in the heap");
    assert!(N * 8 <= message.flits as usize * FLIT);
    let mut words = [0; N];
    crate::kernels::copy(Payload::from(&mut words[..]), heap.view(at, N * 8).unwrap(), false);
    words
}

#[test]
fn a_message_comes_to_every_addressed_thread_and_to_no_other() {
    for town in Town::everywhere(&[2, 5], 8, 64) {
        town.send((0, 1), 1, 0b10110, &[7, 8, 9]).unwrap();
        for thread in 0..5 {
            let got = town.ranks[1].try_recv(thread).unwrap();
            assert_eq!(got.is_some(), 0b10110 >> thread & 1 == 1);
            if let Some(message) = got {
                assert_eq!((message.flits, message.source_rank, message.source_thread), (2, 0, 1));
                assert_eq!(read::<3>(&message), [7, 8, 9]);
                assert_eq!(town.ranks[1].try_recv(thread).unwrap(), None);
            }
        }
        assert!((0..2).all(|thread| town.ranks[0].try_recv(thread).unwrap().is_none()));
    }
}

#[test]
fn one_copy_serves_all_receivers_and_the_last_free_returns_its_slot() {
    let town = Town::of(&[64], 512, 64);
    town.send((0, 0), 0, u64::MAX, &[1; 8]).unwrap();
    let boxes = &town.ranks[0];
    let stats = boxes.stats().unwrap();
    assert_eq!((stats.slots_free, stats.written, stats.delivered, stats.bytes_written), (511, 1, 64, 64));
    let all: Vec<Message> = (0..64).map(|thread| boxes.recv(thread).unwrap()).collect();
    assert!(all.iter().all(|m| m.data == all[0].data));
    for thread in 0..64 {
        assert_eq!(boxes.stats().unwrap().slots_free, 511);
        boxes.free(thread, all[0].data).unwrap();
    }
    assert_eq!(boxes.stats().unwrap().slots_free, 512);
    // The same as 64 messages to one: as many slots and bytes.
    for thread in 0..64 {
        town.send((0, 0), 0, 1 << thread, &[1; 8]).unwrap();
    }
    let stats = boxes.stats().unwrap();
    assert_eq!((stats.slots_free, stats.written, stats.bytes_written), (448, 65, 65 * 64));
}

#[test]
fn messages_come_in_the_order_they_were_sent_whatever_their_masks_are() {
    for town in Town::everywhere(&[1, 3], 4, 64) {
        for round in 0..100u64 {
            for (i, mask) in [0b111, 0b001, 0b110, 0b111].into_iter().enumerate() {
                town.send((0, 0), 1, mask, &[round * 4 + i as u64]).unwrap();
            }
            assert!(!town.ranks[0].can_send(0, 1).unwrap(), "four slots are full");
            for (thread, expected) in [(0, &[0u64, 1, 3][..]), (1, &[0, 2, 3]), (2, &[0, 2, 3])] {
                for i in expected {
                    let message = town.ranks[1].recv(thread).unwrap();
                    assert_eq!(read::<1>(&message), [round * 4 + i]);
                    town.ranks[1].free(thread, message.data).unwrap();
                }
            }
            assert!(town.ranks[0].can_send(0, 1).unwrap());
        }
    }
}

#[test]
fn a_senders_own_slot_is_free_at_once() {
    for town in Town::everywhere(&[1, 1], 8, 64) {
        let slot = town.ranks[0].send_slot(0).unwrap();
        for i in 0..8u64 {
            assert_eq!(town.ranks[0].send_slot(0).unwrap(), slot);
            write(slot, &[i, i]);
            town.ranks[0].multicast(1, 1, slot).unwrap();
        }
        for i in 0..8 {
            let message = town.ranks[1].recv(0).unwrap();
            assert_eq!((message.flits, read::<2>(&message)), (4, [i, i]));
        }
    }
}

#[test]
fn a_full_mailbox_holds_its_senders_back_and_nobody_else() {
    for town in Town::everywhere(&[2, 1, 1], 2, 64) {
        std::thread::scope(|scope| {
            for i in 0..2 {
                town.send((0, 0), 1, 1, &[i]).unwrap();
            }
            let held_back = scope.spawn(|| town.send((0, 0), 1, 1, &[2]).unwrap());
            // Rank 1 does not receive; thread 1 of rank 0 and others go on sending elsewhere.
            for i in 0..300 {
                town.send((0, 1), 2, 1, &[i]).unwrap();
                town.send((1, 0), 2, 1, &[i]).unwrap();
                for _ in 0..2 {
                    let message = town.ranks[2].recv(0).unwrap();
                    town.ranks[2].free(0, message.data).unwrap();
                }
            }
            assert!(!held_back.is_finished());
            for i in 0..3 {
                let message = town.ranks[1].recv(0).unwrap();
                assert_eq!(read::<1>(&message), [i]);
                town.ranks[1].free(0, message.data).unwrap();
            }
        });
    }
}

#[test]
fn sleepers_wake_for_a_message_and_for_a_slot() {
    for town in Town::everywhere(&[1, 1], 1, 64) {
        std::thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                for i in 0..3 {
                    let message = town.ranks[1].recv(0).unwrap();
                    assert_eq!(read::<1>(&message), [i]);
                    // Long enough for the sender to sleep, and then for this thread.
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    town.ranks[1].free(0, message.data).unwrap();
                }
            });
            for i in 0..3 {
                town.send((0, 0), 1, 1, &[i]).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(30));
            }
            receiver.join().unwrap();
        });
    }
}

#[test]
fn waiting_for_either_ends_with_what_has_come() {
    use crate::mailbox::Want;
    let town = Town::with_timeout(&[1, 1], 1, 64, SHORT_MS);
    let boxes = &town.ranks[0];
    let both = Want { send: Some(1), recv: true };
    assert_eq!(boxes.wait_until(0, both).unwrap(), (true, false));
    town.send((0, 0), 1, 1, &[1]).unwrap();
    let e = boxes.wait_until(0, both).unwrap_err();
    assert_eq!(e.code, crate::error::Code::Timeout);
    assert!(e.message.contains("a message, or a free slot of rank 1's mailbox"), "{e}");
    town.send((1, 0), 0, 1, &[1]).unwrap();
    assert_eq!(boxes.wait_until(0, both).unwrap(), (false, true));
    assert_eq!(boxes.wait_until(0, Want { send: None, recv: true }).unwrap(), (false, true));
    let message = town.ranks[1].recv(0).unwrap();
    town.ranks[1].free(0, message.data).unwrap();
    assert_eq!(boxes.wait_until(0, both).unwrap(), (true, true));
    assert!(
        boxes.wait_until(0, Want { send: None, recv: false }).unwrap_err().message.contains("flags is 0")
    );
}

#[test]
fn messages_of_64_kib_and_queues_that_go_round_many_times() {
    let town = Town::of(&[1], 3, 64 << 10);
    let slot = town.ranks[0].send_slot(0).unwrap();
    for i in 0..1000u64 {
        write(slot, &vec![i; 8192]);
        town.ranks[0].multicast(0, 1, slot).unwrap();
        let message = town.ranks[0].recv(0).unwrap();
        assert_eq!(message.flits, 4096);
        assert!(read::<8192>(&message).iter().all(|&word| word == i));
        town.ranks[0].free(0, message.data).unwrap();
    }
}
