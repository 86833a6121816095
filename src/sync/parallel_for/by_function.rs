//! Loops that a function of the program runs, and the check that it has run each index once.
//!
//! The function is not trusted: it may leave indices out, repeat them, invent some, or call the body after it has returned. The body's
//! argument is therefore no address but the number of a loop. A thread that calls the body with the number of a loop that is over finds
//! none, and nothing is done.

use crate::error::{Error, Result};
use crate::sync::lent::{Lent, LentBody};
use crate::sync::lock::Mutex;
use crate::sync::prim::{AtomicU32, AtomicU64, Ordering};
use crate::sys::fork::{KEPT, PerFork};
use crate::sys::parallel_function::ParallelFunction;
use crate::types::Rank;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// The loops that are under way in this process, by number.
static LOOPS: PerFork<Mutex<BTreeMap<u64, Arc<Lent>>>> =
    PerFork::new([const { Mutex::new(BTreeMap::new()) }; KEPT]);

/// A loop's entry among those that are under way, until it is dropped.
struct Entry(u64);

impl Entry {
    fn new(lent: &Arc<Lent>) -> Entry {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        LOOPS.own().lock().insert(number, lent.clone());
        Entry(number)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        LOOPS.own().lock().remove(&self.0);
    }
}

/// The body of every loop.
unsafe extern "C" fn body(number: *mut c_void, index: c_int) {
    let lent = LOOPS.own().lock().get(&(number.addr() as u64)).cloned();
    if let Some(lent) = lent {
        lent.call(index as u32);
    }
}

/// Has `function` run `piece` for each of `0..pieces`, and checks that it has done so once for each.
pub fn run(function: &ParallelFunction, rank: Rank, pieces: u32, piece: LentBody<'_>) -> Result<()> {
    let times: Vec<AtomicU32> = (0..pieces).map(|_| AtomicU32::new(0)).collect();
    // 1 + the last index that there is not, as 32 bits.
    let outside = AtomicU64::new(0);
    let once = |index: u32| match times.get(index as usize) {
        None => outside.store(1 + u64::from(index), Ordering::Relaxed),
        Some(times) => {
            if times.fetch_add(1, Ordering::Relaxed) == 0 {
                piece(index);
            }
        }
    };
    Lent::during(&once, |lent| {
        let entry = Entry::new(lent);
        let number = std::ptr::without_provenance_mut(entry.0 as usize);
        // SAFETY: `body` looks its argument up and does not follow it, so it may be called with anything at any time.
        unsafe { function.call(rank, pieces, body, number) };
    });
    check(rank, &times, outside.into_inner().checked_sub(1).map(|index| index as u32 as i32))
}

/// Checks a loop in which index i was begun `times[i]` times. `outside`: an index outside of the loop that was begun as well.
fn check(rank: Rank, times: &[AtomicU32], outside: Option<i32>) -> Result<()> {
    let begun = |times: &AtomicU32| times.load(Ordering::Relaxed);
    let (n, ran) = (times.len(), times.iter().filter(|times| begun(times) > 0).count());
    let fault = if let Some(missing) = times.iter().position(|times| begun(times) == 0) {
        format!("returned when it had called body for {ran} of {n} indices; index {missing} is missing")
    } else if let Some(index) = outside {
        format!("called body with i = {index}, but n is {n}")
    } else if let Some(index) = times.iter().position(|times| begun(times) > 1) {
        format!("called body {} times with i = {index}", begun(&times[index]))
    } else {
        return Ok(());
    };
    Err(Error::usage(format!(
        "parallelFor of rank {rank} {fault}; it must call body once for each i in 0..n and return when all of these calls have \
         returned; correct it, or leave it NULL; abort this communicator and make a new one"
    )))
}
