//! The protocols between ranks, small enough for loom to try every interleaving (`RUSTFLAGS="--cfg loom"`).
//!
//! Each model mirrors the lines that it names and takes their orderings as arguments. Right ones must survive; for every
//! one there is a mutant, weakened by one ordering, which must not.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn wait_until(word: &AtomicU64, at_least: u64, order: Ordering) {
    // BOUND: the other thread of the model stores the value.
    while word.load(order) < at_least {
        thread::yield_now();
    }
}

/// Orderings of a slot that is written, read, and written again.
#[derive(Clone, Copy)]
struct SlotOrders {
    /// `Transport::publish`, by the writer: the slot is full.
    full: Ordering,
    /// `Transport::await_counter`, by the reader.
    see_full: Ordering,
    /// `Transport::publish`, by the reader: the slot is free.
    free: Ordering,
    /// `Transport::await_counter` in `exec::Run::destinations`, by the writer.
    see_free: Ordering,
}

const SLOT: SlotOrders = SlotOrders { full: Release, see_full: Acquire, free: Release, see_free: Acquire };

/// One slot of depth 1 used for two slices: the program counters hand it to and fro.
fn slot(orders: SlotOrders) {
    explore(move || {
        let shared = Arc::new((UnsafeCell::new(0u64), AtomicU64::new(0), AtomicU64::new(0)));
        let theirs = shared.clone();
        let reader = thread::spawn(move || {
            let (slot, written, read) = &*theirs;
            for slice in 1..=2 {
                wait_until(written, slice, orders.see_full);
                // SAFETY: loom checks that no other thread writes meanwhile.
                assert_eq!(slot.with(|p| unsafe { *p }), slice * 10);
                read.store(slice, orders.free);
            }
        });
        let (slot, written, read) = &*shared;
        for slice in 1..=2 {
            wait_until(read, slice - 1, orders.see_free);
            // SAFETY: loom checks that no other thread reads meanwhile.
            slot.with_mut(|p| unsafe { *p = slice * 10 });
            written.store(slice, orders.full);
        }
        reader.join().unwrap();
    });
}

/// Arrival lines, as many as calls that may be under way, found by the call's number: `Transport::arrive` and `meet`.
///
/// A line is written again two calls later (`DEPTH` in the library), once the other has arrived at the call between.
fn arrivals(arrive: Ordering, meet: Ordering) {
    const DEPTH: u64 = 2;
    type Line = (AtomicU64, UnsafeCell<u64>);
    fn line() -> Line {
        (AtomicU64::new(0), UnsafeCell::new(0))
    }
    explore(move || {
        let lines: Arc<[[Line; DEPTH as usize]; 2]> = Arc::new([[line(), line()], [line(), line()]]);
        let run = move |lines: &[[Line; DEPTH as usize]; 2], me: usize| {
            for seq in 1..=3u64 {
                let mine = &lines[me][(seq % DEPTH) as usize];
                if seq > DEPTH {
                    // `Ledger::await_done(seq - DEPTH)`: all have arrived at the call after it.
                    let next = seq - DEPTH + 1;
                    wait_until(&lines[1 - me][(next % DEPTH) as usize].0, next, meet);
                }
                // SAFETY: loom checks that no other thread reads meanwhile.
                mine.1.with_mut(|p| unsafe { *p = seq * 10 + me as u64 });
                mine.0.store(seq, arrive);
                let theirs = &lines[1 - me][(seq % DEPTH) as usize];
                wait_until(&theirs.0, seq, meet);
                // SAFETY: loom checks that no other thread writes meanwhile.
                assert_eq!(theirs.1.with(|p| unsafe { *p }), seq * 10 + 1 - me as u64);
            }
        };
        let other = lines.clone();
        let thread = thread::spawn(move || run(&other, 1));
        run(&lines, 0);
        thread.join().unwrap();
    });
}

/// A rank gives up and writes to its buffer; another is still reading it: `Transport::fail` and `check_borrowed`.
fn giving_up(leave: Ordering, look: Ordering) {
    explore(move || {
        let shared = Arc::new((AtomicU64::new(1), AtomicU64::new(0)));
        let theirs = shared.clone();
        let leaver = thread::spawn(move || {
            let (buffer, gave_up) = &*theirs;
            gave_up.fetch_add(1, Release);
            fence(leave);
            buffer.store(2, Relaxed);
        });
        let (buffer, gave_up) = &*shared;
        let borrowed = buffer.load(Relaxed);
        fence(look);
        assert!(
            borrowed == 1 || gave_up.load(Relaxed) == 1,
            "the caller's next data passed off as the call's"
        );
        leaver.join().unwrap();
    });
}

/// Two ranks write and add to a semaphore; a third takes one at a time: `Semaphores::add` and `Line::take`.
fn semaphore(add: Ordering, take: Ordering) {
    explore(move || {
        let shared = Arc::new((AtomicU64::new(0), [UnsafeCell::new(0u64), UnsafeCell::new(0u64)]));
        let signallers: [_; 2] = std::array::from_fn(|k| {
            let shared = shared.clone();
            thread::spawn(move || {
                // SAFETY: loom checks that no other thread reads meanwhile.
                shared.1[k].with_mut(|p| unsafe { *p = 1 });
                shared.0.fetch_add(1, add);
            })
        });
        let value = &shared.0;
        for _ in 0..2 {
            // BOUND: each signaller adds 1.
            loop {
                let there = value.load(Relaxed);
                if there >= 1 && value.compare_exchange(there, there - 1, take, Relaxed).is_ok() {
                    break;
                }
                thread::yield_now();
            }
        }
        // Both have been taken, so what both have written is there, whichever was taken first.
        for cell in &shared.1 {
            // SAFETY: loom checks that no other thread writes meanwhile.
            assert_eq!(cell.with(|p| unsafe { *p }), 1);
        }
        for signaller in signallers {
            signaller.join().unwrap();
        }
    });
}

#[test]
fn model_a_semaphore_brings_what_each_of_its_signals_published() {
    semaphore(Release, Acquire);
}

#[test]
#[should_panic]
fn model_mutant_a_semaphore_signalled_without_release_is_caught() {
    semaphore(Relaxed, Acquire);
}

#[test]
#[should_panic]
fn model_mutant_a_semaphore_taken_without_acquire_is_caught() {
    semaphore(Release, Relaxed);
}

#[test]
fn model_a_slot_is_never_read_and_written_at_once() {
    slot(SLOT);
}

#[test]
#[should_panic]
fn model_mutant_a_slot_published_without_release_is_caught() {
    slot(SlotOrders { full: Relaxed, ..SLOT });
}

#[test]
#[should_panic]
fn model_mutant_a_slot_read_without_acquire_is_caught() {
    slot(SlotOrders { see_full: Relaxed, ..SLOT });
}

#[test]
#[should_panic]
fn model_mutant_a_slot_freed_without_release_is_caught() {
    slot(SlotOrders { free: Relaxed, ..SLOT });
}

#[test]
#[should_panic]
fn model_mutant_a_slot_reused_without_acquire_is_caught() {
    slot(SlotOrders { see_free: Relaxed, ..SLOT });
}

#[test]
fn model_arrivals_bring_their_payload_and_lines_are_reused_in_time() {
    arrivals(Release, Acquire);
}

#[test]
#[should_panic]
fn model_mutant_an_arrival_without_release_is_caught() {
    arrivals(Relaxed, Acquire);
}

#[test]
#[should_panic]
fn model_mutant_a_meeting_without_acquire_is_caught() {
    arrivals(Release, Relaxed);
}

#[test]
fn model_borrowed_bytes_of_a_rank_that_gave_up_are_noticed() {
    giving_up(Release, Acquire);
}

#[test]
#[should_panic]
fn model_mutant_a_look_without_its_fence_is_caught() {
    // Loom has no relaxed fence; a release fence does not order loads.
    giving_up(Release, Release);
}

#[test]
#[should_panic]
fn model_mutant_a_leave_without_its_fence_is_caught() {
    giving_up(Acquire, Acquire);
}

#[test]
fn model_the_first_who_notices_a_death_names_it_for_all() {
    // `Transport::first_dead`: two survivors may see different deaths, and must say the same.
    explore(|| {
        let noted = Arc::new(AtomicU64::new(0));
        let note = |noted: &AtomicU64, dead: u64| match noted.compare_exchange(0, dead, AcqRel, Acquire) {
            Ok(_) => dead,
            Err(earlier) => earlier,
        };
        let theirs = noted.clone();
        let other = thread::spawn(move || note(&theirs, 2));
        assert_eq!(note(&noted, 1), other.join().unwrap());
    });
}
