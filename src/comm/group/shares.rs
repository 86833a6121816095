//! Work of one thread that is divided into shares, of which helpers have some.
//!
//! ```text
//!     calling thread      pieces 0, 1, 2, 3 .... looks whether the helpers have come ... the pieces that are left
//!     helper 1                 pieces 4, 5, 6, 7 ....
//! ```
//!
//! Each thread has the same share each time, so that buffers that are used again are in the caches of the same cores.

use crate::sync::parallel_for::pool::Pool;
use crate::sync::prim::{AtomicU32, Ordering, pause};
use crate::sys::clock;
use std::ops::Range;

/// The most threads.
const MOST_THREADS: usize = 16;
/// Bytes of a piece that a thread takes, and the most pieces of a thread's share.
const PIECE: usize = 32 << 10;
const MOST_PIECES: usize = 16;
/// Pauses between two looks at what helpers have taken: each look takes a cache line from one of them.
const LOOKS_APART: usize = 16;

/// A thread's share: the next of its pieces that nobody has taken. A cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Share {
    next: AtomicU32,
}

/// Does `elements` elements of `size` bytes on this thread and on helpers. The calling thread takes what helpers that are late have left.
pub(super) fn run(helpers: &Pool, elements: usize, size: usize, part: &(impl Fn(Range<usize>) + Sync)) {
    let threads = helpers.threads().min(MOST_THREADS - 1) + 1;
    let shares: [Share; MOST_THREADS] = std::array::from_fn(|_| Share::default());
    let pieces = (elements * size / threads / PIECE).clamp(1, MOST_PIECES);
    let take = |share: usize, left: &Share| {
        // BOUND: the pieces of the share.
        loop {
            let piece = left.next.fetch_add(1, Ordering::Relaxed) as usize;
            if piece >= pieces {
                return;
            }
            let (first, all) = (share * pieces + piece, threads * pieces);
            part(begin(elements, first, all)..begin(elements, first + 1, all));
        }
    };
    let help = |thread: u32| {
        if let Some(share) = shares[..threads].get(thread as usize) {
            take(thread as usize, share);
        }
    };
    helpers.during(&help, || {
        let begun = clock::now_ns();
        take(0, &shares[0]);
        let over = clock::now_ns();
        let late = over + (over - begun) / 2;
        let is_taken = |share: &Share| share.next.load(Ordering::Relaxed) as usize >= pieces;
        // BOUND: half the time of the own share.
        while !shares[1..threads].iter().all(is_taken) && clock::now_ns() < late {
            (0..LOOKS_APART).for_each(|_| pause());
        }
        (1..threads).for_each(|share| take(share, &shares[share]));
    });
}

/// Returns the element with which a piece begins; no line of an aligned buffer is in two pieces.
fn begin(elements: usize, piece: usize, pieces: usize) -> usize {
    if piece == pieces { elements } else { elements * piece / pieces / 64 * 64 }
}
