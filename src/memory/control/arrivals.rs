//! Where a rank's arrivals and their payloads lie: rings, so that a rank can be several calls ahead of those that only read its data.
//!
//! ```text
//!     lines       | call 1 | 2 | 3 | ...                    DEPTH lines of 64 bytes, used in turn; a payload of up to INLINE bytes lies within
//!     payloads    | 2 | 4 | 6 | ...     | 1 | 3 | 5 | ...   one half for even calls, one for odd ones; each divided into slots of the
//!                 | 2     | 4     | ... | 1     | 3     |   payload's size, rounded up to a power of two, which are used in turn
//! ```
//!
//! The place of a payload follows from the number of the call and from its size, which all ranks know. Slots of several sizes
//! overlap, so the writer remembers which call has used a [`BLOCK`] last, and waits until all ranks are done with that one.
//! A rank shows that it is done with a call by arriving at the next. With halves no call waits for the call just before it: that would
//! be two ranks, each of which waits for the other's arrival before it arrives.

use std::ops::Range;

/// Arrival lines a rank has: how many calls a root may be ahead of the others.
pub const DEPTH: usize = 32;
/// Payload bytes of an arrival.
pub const PAYLOAD: usize = 8 << 10;
/// Payload bytes inside an arrival line.
pub const INLINE: usize = 32;
/// Bytes of a rank's payloads.
pub const PAYLOADS: usize = 64 << 10;
/// Bytes of the smallest slot of a payload.
pub const BLOCK: usize = 512;
/// Where the payloads of odd calls begin.
pub const HALF: usize = PAYLOADS / 2;

/// The bytes of a payload's slot, and how many such slots of a half are used in turn.
#[inline]
fn slots(bytes: usize) -> (usize, usize) {
    let slot = bytes.next_power_of_two().max(BLOCK);
    (slot, (DEPTH / 2).min(HALF / slot))
}

/// Returns where the payload of call `seq` begins among its rank's payloads, if it does not lie in the arrival line.
#[inline]
pub fn payload_at(seq: u64, bytes: usize) -> usize {
    let (slot, used) = slots(bytes);
    seq as usize % 2 * HALF + seq as usize / 2 % used * slot
}

/// Returns the blocks that the payload of call `seq` takes up.
#[inline]
pub fn payload_blocks(seq: u64, bytes: usize) -> Range<usize> {
    let first = payload_at(seq, bytes) / BLOCK;
    first..first + bytes.div_ceil(BLOCK)
}

/// Returns how many bytes at the beginning of each half calls of this size use.
#[inline]
pub fn used_of_half(bytes: usize) -> usize {
    let (slot, used) = slots(bytes);
    slot * used
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [usize; 9] = [33, 256, 512, 513, 1000, 1024, 4096, 5000, PAYLOAD];

    #[test]
    fn payloads_of_one_size_are_apart_for_eight_calls_or_more() {
        for bytes in SIZES {
            let used = 2 * used_of_half(bytes) / bytes.next_power_of_two().max(BLOCK);
            let mut blocks: Vec<usize> = Vec::new();
            for seq in 1000..1000 + used as u64 {
                let at = payload_at(seq, bytes);
                assert!(at % HALF + bytes <= used_of_half(bytes));
                blocks.extend(payload_blocks(seq, bytes));
            }
            let all = blocks.len();
            blocks.sort_unstable();
            blocks.dedup();
            assert_eq!(blocks.len(), all, "{bytes} bytes");
            assert!(used_of_half(bytes) <= HALF && (8..=DEPTH).contains(&used));
        }
    }

    #[test]
    fn payloads_of_two_calls_in_a_row_are_apart() {
        for seq in 0..100 {
            for (one, other) in SIZES.iter().flat_map(|one| SIZES.map(|other| (*one, other))) {
                let (one, other) = (payload_blocks(seq, one), payload_blocks(seq + 1, other));
                assert!(one.end <= other.start || other.end <= one.start);
            }
        }
    }
}
