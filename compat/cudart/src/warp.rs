//! Functions of a warp: the threads of a mask give a value each, and each gets an answer when all have come.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_ulonglong};

use crate::grid::{Block, WARP, Wait, Waiter, wait};

/// What a thread asks of the threads of a mask. `what` has the numbers of `include/penny_warp.h`.
#[derive(Clone, Copy)]
pub struct Ask {
    mask: c_uint,
    what: c_int,
    value: u64,
    /// The lane whose value it wants.
    lane: c_uint,
}

/// Only waits.
const SYNC: c_int = 0;
/// The value of a lane.
const SHUFFLE: c_int = 1;
/// A bit for each thread whose value is not 0.
const BALLOT: c_int = 2;
/// The threads whose value is the same.
const MATCH_ANY: c_int = 3;
/// The threads that have come.
const ACTIVE: c_int = 4;

/// Finds the threads for which all have come that their masks name; their answers. `None`: the thread goes on waiting.
pub fn complete(all: &[Waiter], block: &Block) -> Vec<Option<u64>> {
    let mut answers = vec![None; all.len()];
    let mut groups: BTreeMap<(usize, c_uint, c_int), Vec<usize>> = BTreeMap::new();
    for (i, one) in all.iter().enumerate() {
        if let Wait::Warp(ask) = one.wait {
            groups.entry((one.thread / WARP, ask.mask, ask.what)).or_default().push(i);
        }
    }
    for ((warp, mask, what), members) in groups {
        let mut values = [None; WARP];
        for &i in &members {
            if let Wait::Warp(ask) = all[i].wait {
                values[all[i].thread % WARP] = Some(ask.value);
            }
        }
        let present = bits(&values, |_| true);
        if what != ACTIVE && present != mask & block.living(warp) {
            continue;
        }
        for &i in &members {
            let Wait::Warp(ask) = all[i].wait else { continue };
            answers[i] = Some(match what {
                SHUFFLE => values[ask.lane as usize % WARP].unwrap_or(ask.value),
                BALLOT => bits(&values, |value| value != 0).into(),
                MATCH_ANY => bits(&values, |value| value == ask.value).into(),
                _ => present.into(),
            });
        }
    }
    answers
}

fn bits(values: &[Option<u64>; WARP], fits: impl Fn(u64) -> bool) -> c_uint {
    (0..WARP).filter(|&lane| values[lane].is_some_and(&fits)).fold(0, |bits, lane| bits | 1 << lane)
}

/// Waits for the threads of a mask in the warp. Returns what was asked.
#[unsafe(no_mangle)]
pub extern "C" fn pennyCudaWarp(
    thread: c_uint,
    mask: c_uint,
    what: c_int,
    value: c_ulonglong,
    lane: c_uint,
) -> c_ulonglong {
    debug_assert!((SYNC..=ACTIVE).contains(&what));
    wait(thread, Wait::Warp(Ask { mask, what, value, lane }))
}
