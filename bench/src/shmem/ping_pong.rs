//! A put of 8 bytes with its signal, there and back, beside two words that two cores write in turn.
//!
//! ```text
//!     one cache line at each rank:   | data | signal | ...
//!     rank 0   line of 1 := (d, s)           sees its own line's s, checks d, next
//!     rank 1                sees s, checks d, line of 0 := (d, s)
//! ```
//!
//! Data and signal share a line, so that each way costs one transfer; both ends check what has come.

use std::sync::atomic::Ordering;

use super::heap::Heap;
use crate::beside::rounds::take_turns;
use crate::beside::{Row, bare};

/// Few, so that a busy machine lets most turns pass undisturbed; the rounds make up for it.
const TRIPS: u32 = 100;
/// To a round of the other measures.
const ROUNDS: u32 = 5;
/// A line and the one that hardware fetches with it.
const APART: usize = 128;

/// What travels with a signal.
fn payload(signal: u64) -> u64 {
    signal.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Measures; the payloads that were wrong here.
pub fn measure(heap: &Heap<'_>, rounds: u32, keep: &mut impl FnMut(Row)) -> Result<u64, String> {
    let leads = heap.comm().rank() == 0;
    let mine = heap.align(APART, 2 * APART)?;
    let other = heap.bare(mine)?;
    // SAFETY: both are 256 bytes that stay mapped until they are freed below.
    let words = |at: *mut u8| unsafe { (bare::word(at), bare::word(at.add(8))) };
    for word in [words(mine).0, words(mine).1] {
        word.store(0, Ordering::Relaxed);
    }
    // SAFETY: within the 256 bytes.
    let (bare_mine, bare_other) = unsafe { (mine.add(APART), other.add(APART)) };
    let ((data, _), (raw_data, raw_signal)) = (words(mine), words(bare_mine));
    let (their_data, their_signal) = words(bare_other);
    for word in [raw_data, raw_signal] {
        word.store(0, Ordering::Relaxed);
    }
    // SAFETY: within the 256 bytes.
    let signal = unsafe { mine.add(8) };
    // A rank writes to the peer's words only after the peer has cleared them.
    heap.comm().barrier()?;
    let (mut trip, mut bare_trip) = (0, 0);
    let (mut wrong, mut bare_wrong) = (0u64, 0u64);
    let mut penny = |trips: u32| {
        for _ in 0..trips {
            trip += 1;
            let value = payload(trip);
            if leads {
                heap.put_signal(mine, &value, signal, trip)?;
            }
            heap.wait(signal, trip)?;
            wrong += u64::from(data.load(Ordering::Relaxed) != value);
            if !leads {
                heap.put_signal(mine, &value, signal, trip)?;
            }
        }
        Ok(())
    };
    let mut bare = |trips: u32| {
        for _ in 0..trips {
            bare_trip += 1;
            let value = payload(bare_trip);
            let send = || {
                their_data.store(value, Ordering::Relaxed);
                // ORDER: publishes the data; partner: the load in `bare::wait`.
                their_signal.store(bare_trip, Ordering::Release);
            };
            if leads {
                send();
            }
            bare::wait(raw_signal, bare_trip)?;
            bare_wrong += u64::from(raw_data.load(Ordering::Relaxed) != value);
            if !leads {
                send();
            }
        }
        Ok(())
    };
    let meet = || heap.comm().barrier();
    let times = take_turns(ROUNDS * rounds, TRIPS, &meet, &mut [("", &mut penny), ("bare", &mut bare)])?;
    keep(Row::new("put_signal_round_trip", 8, &times));
    heap.comm().barrier()?;
    heap.free(mine)?;
    Ok(wrong + bare_wrong)
}
