//! Many threads send numbered messages to random sets of threads: nothing is lost, doubled, torn or out of order.
//!
//! Each message says who sent it, its number among the sender's messages to this mailbox, its mask, and what the sender's
//! previous message to each thread was, as a running count for each receiver; so each receiver knows which message must be
//! next from this sender, and a missing, doubled or early one shows at once.

use super::{Town, read};
use crate::sync::prim::{AtomicU64, Ordering};

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 7) % sides
    }
    /// Narrow or wide, never empty.
    fn mask(&mut self, threads: u32) -> u64 {
        let all = if threads == 64 { u64::MAX } else { (1 << threads) - 1 };
        let one = 1 << self.roll(threads as u64);
        match self.roll(4) {
            0 => one,
            1 => one | 1 << self.roll(threads as u64),
            2 => (self.0 & all) | one,
            _ => all,
        }
    }
}

/// `total` messages among `ranks` ranks of `threads` threads; how many were delivered.
fn exchange(ranks: usize, threads: u32, slots: u32, total: u64, narrow: bool) -> u64 {
    exchange_in(&Town::of(&vec![threads; ranks], slots, 64), threads, slots, total, narrow)
}

fn exchange_in(town: &Town, threads: u32, slots: u32, total: u64, narrow: bool) -> u64 {
    let ranks = town.ranks.len();
    let n = ranks * threads as usize;
    // What each thread is still to receive, once its senders know it.
    let owed: Vec<AtomicU64> = (0..n).map(|_| AtomicU64::new(0)).collect();
    let (sending, delivered) = (AtomicU64::new(n as u64), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for me in 0..n {
            let (owed, sending, delivered) = (&owed, &sending, &delivered);
            scope.spawn(move || {
                let (rank, thread) = (me / threads as usize, (me % threads as usize) as i32);
                let boxes = &town.ranks[rank];
                let mut dice = Dice(me as u64 * 7919 + 1);
                // Messages from each thread so far, and to each.
                let (mut from, mut to) = (vec![0u64; n], vec![0u64; n]);
                let mut got = 0;
                let mut left = total / n as u64;
                let mut last_seen = vec![0u64; n];
                loop {
                    while let Some(message) = boxes.try_recv(thread).unwrap() {
                        let [number, mask, sum, counts @ ..] = read::<8>(&message);
                        let sender =
                            message.source_rank as usize * threads as usize + message.source_thread as usize;
                        assert!(mask >> thread & 1 == 1, "a message for others");
                        assert_eq!(sum, number ^ mask.rotate_left(17) ^ sender as u64, "a torn message");
                        assert!(number > last_seen[sender], "out of order, or twice");
                        last_seen[sender] = number;
                        // The sender's count of messages to this thread, if it was told.
                        if mask.count_ones() <= 5 {
                            let place = (mask & ((1 << thread) - 1)).count_ones() as usize;
                            assert_eq!(counts[place], from[sender], "one is missing");
                        }
                        from[sender] += 1;
                        got += 1;
                        boxes.free(thread, message.data).unwrap();
                    }
                    if left == 0 {
                        if sending.load(Ordering::Acquire) == 0 && got == owed[me].load(Ordering::Acquire) {
                            break;
                        }
                        std::thread::yield_now();
                        continue;
                    }
                    let dest = dice.roll(ranks as u64) as usize;
                    if !boxes.can_send(thread, dest as i32).unwrap() {
                        std::thread::yield_now();
                        continue;
                    }
                    let mask = if narrow { 1 << dice.roll(threads as u64) } else { dice.mask(threads) };
                    let number = total / n as u64 - left + 1;
                    let mut words = [number, mask, number ^ mask.rotate_left(17) ^ me as u64, 0, 0, 0, 0, 0];
                    let addressed = (0..threads).filter(|t| mask >> t & 1 == 1);
                    for (i, t) in addressed.enumerate() {
                        let other = dest * threads as usize + t as usize;
                        if i < 5 {
                            words[3 + i] = to[other];
                        }
                        to[other] += 1;
                    }
                    // Others may take the slot first: waiting is safe, because receivers never stop receiving for long.
                    match waiting_receives(town, rank, thread, dest, mask, &words) {
                        true => {
                            left -= 1;
                            delivered.fetch_add(mask.count_ones() as u64, Ordering::Relaxed);
                        }
                        false => {
                            let addressed = (0..threads).filter(|t| mask >> t & 1 == 1);
                            addressed.for_each(|t| to[dest * threads as usize + t as usize] -= 1);
                        }
                    }
                    if left == 0 {
                        to.iter().zip(owed).for_each(|(sent, owed)| {
                            owed.fetch_add(*sent, Ordering::AcqRel);
                        });
                        sending.fetch_sub(1, Ordering::AcqRel);
                    }
                }
            });
        }
    });
    for boxes in &town.ranks {
        let stats = boxes.stats().unwrap();
        assert_eq!(stats.slots_free, slots, "all slots come back");
    }
    let received: u64 = town.ranks.iter().map(|boxes| boxes.stats().unwrap().received).sum();
    assert_eq!(received, delivered.load(Ordering::Relaxed));
    received
}

/// Send unless the mailbox is full: who only waited would not receive meanwhile, and all might.
fn waiting_receives(town: &Town, rank: usize, thread: i32, dest: usize, mask: u64, words: &[u64]) -> bool {
    town.ranks[rank].set_len(thread, 4).unwrap();
    let slot = town.ranks[rank].send_slot(thread).unwrap();
    super::write(slot, words);
    town.ranks[rank].try_multicast(dest as i32, mask, slot).unwrap()
}

// A town each: see `idle.rs`.

#[test]
fn messages_to_random_sets_of_a_few_threads() {
    assert!(exchange(2, 4, 16, 40_000, false) > 40_000);
}

#[test]
fn messages_to_random_sets_of_threads_where_slots_are_scarce() {
    assert!(exchange(3, 2, 3, 30_000, false) > 30_000);
}

#[test]
fn messages_to_random_sets_of_threads_of_several_hosts() {
    for (ranks, threads, slots) in [(2, 3, 8), (3, 2, 3), (4, 2, 4)] {
        for town in Town::everywhere(&vec![threads; ranks], slots, 64) {
            assert!(exchange_in(&town, threads, slots, 4_000, false) > 4_000);
        }
    }
}

#[test]
fn messages_to_random_sets_of_128_threads() {
    assert!(exchange(2, 64, 512, 30_000, false) > 30_000);
}

#[test]
fn a_million_messages_between_128_threads() {
    // A hundred times as many where time does not matter.
    let total = if std::env::var_os("PENNY_LONG").is_some() { 100_000_000 } else { 1_000_000 };
    let total = total / 128 * 128;
    assert_eq!(exchange(2, 64, 512, total, true), total);
}
