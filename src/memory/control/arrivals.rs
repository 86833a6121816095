//! Where the arrivals of ranks and their payloads lie: rings, so that a rank can be several calls ahead of those that only read its
//! data.
//!
//! ```text
//!     lines       | call 1 | 2 | 3 | ...                    `depth` lines, used in turn. A payload of up to INLINE bytes lies within the
//!                                                           line, one of up to BEHIND bytes behind it.
//!     payloads    | 2 | 4 | 6 | ...     | 1 | 3 | 5 | ...   Larger ones: one half for even calls, one for odd ones. Each is divided into
//!                 | 2     | 4     | ... | 1     | 3     |   slots of the payload's size, rounded up, which are used in turn.
//! ```
//!
//! The place of a payload follows from the number of the call and from its size, which all ranks know. Slots of several sizes
//! overlap, so the writer remembers which call has used a [`BLOCK`] last, and waits until all ranks are done with that one.
//! A rank shows that it is done with a call by arriving at the next. With halves no call waits for the call just before it: that would
//! be two ranks, each of which waits for the other's arrival before it arrives.

use std::ops::Range;

/// The most arrival lines of a rank: how many calls a root may be ahead of the others.
pub const DEPTH: usize = 64;
/// Payload bytes of an arrival, where there are few ranks.
pub const PAYLOAD: usize = 64 << 10;
/// Payload bytes inside an arrival line.
pub const INLINE: usize = 32;
/// Payload bytes behind an arrival line.
pub const BEHIND: usize = 512;
/// Bytes of a block of payloads: 1 KiB, and so much more that slots do not all begin at the same place of a page.
pub const BLOCK: usize = 1152;

/// Payloads of up to this size have two slots in a half of [few](PayloadHalf::few).
const FEW: usize = 2 << 10;

/// A half of a rank's payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadHalf {
    /// Its blocks.
    pub blocks: usize,
    /// Small payloads use two of its slots only: where lines that a peer has read are slow to write, those that stay in the first-level
    /// caches are not (docs/decisions/0075).
    pub few: bool,
}

impl PayloadHalf {
    /// The blocks of a payload's slot, and how many such slots are used in turn.
    #[inline]
    fn slots(self, bytes: usize) -> (usize, usize) {
        let slot = slot_blocks(bytes);
        let most = if self.few && bytes <= FEW { 2 } else { DEPTH / 2 };
        (slot, most.min(self.blocks / slot))
    }

    /// Returns the blocks that the payload of call `seq` takes up, if it does not lie behind the arrival line.
    #[inline]
    pub fn payload_blocks(self, seq: u64, bytes: usize) -> Range<usize> {
        let (slot, used) = self.slots(bytes);
        let first = seq as usize % 2 * self.blocks + seq as usize / 2 % used * slot;
        first..first + slot
    }

    /// Returns the blocks of the first slot of this size in the half that call `seq` uses.
    #[inline]
    pub fn first_blocks(self, seq: u64, bytes: usize) -> Range<usize> {
        let first = seq as usize % 2 * self.blocks;
        first..first + slot_blocks(bytes)
    }

    /// Returns how many payloads of this size a half has place for.
    #[inline]
    pub fn places(self, bytes: usize) -> usize {
        self.slots(bytes).1
    }

    /// Returns how many blocks at the beginning of each half calls of this size use.
    #[inline]
    pub fn used(self, bytes: usize) -> usize {
        let (slot, used) = self.slots(bytes);
        slot * used
    }
}

/// Returns the blocks of a payload's slot.
#[inline]
fn slot_blocks(bytes: usize) -> usize {
    bytes.next_power_of_two().div_ceil(1024)
}

/// Returns the largest payload of an arrival.
#[inline]
pub fn largest_payload(nranks: usize) -> usize {
    half(nranks) * 1024
}

/// Returns the arrival lines of a rank, a power of two. Two ranks have a core each, most often, and gain nothing by more lines than
/// their first-level caches hold; of many ranks the lines would take too much memory.
pub fn depth(nranks: usize) -> usize {
    if (3..=16).contains(&nranks) { DEPTH } else { DEPTH / 2 }
}

/// Returns the blocks of a half.
pub fn half(nranks: usize) -> usize {
    match nranks {
        0..=16 => LARGEST_HALF,
        17..=32 => 24,
        _ => 16,
    }
}

/// The blocks of the largest half: one payload of the largest size.
pub const LARGEST_HALF: usize = PAYLOAD / 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [usize; 8] = [513, 1000, 1024, 1025, 2000, 4096, 5000, 16 << 10];

    #[test]
    fn payloads_of_one_size_are_apart_for_four_calls_or_more() {
        let halves = |&bytes| {
            [(2, true), (2, false), (64, false)].map(|(n, few)| (bytes, PayloadHalf { blocks: half(n), few }))
        };
        let all = SIZES.iter().flat_map(halves);
        for (bytes, half) in all.filter(|(bytes, half)| *bytes <= half.blocks / 2 * 1024) {
            let used = 2 * half.used(bytes) / half.payload_blocks(0, bytes).len();
            let mut blocks: Vec<usize> = Vec::new();
            for seq in 1000..1000 + used as u64 {
                let place = half.payload_blocks(seq, bytes);
                let end = place.start % half.blocks + place.len();
                assert!(place.len() * BLOCK >= bytes && end <= half.blocks && end <= half.used(bytes));
                blocks.extend(place);
            }
            let all = blocks.len();
            blocks.sort_unstable();
            blocks.dedup();
            assert_eq!(blocks.len(), all, "{bytes} bytes");
            assert!(half.blocks <= LARGEST_HALF && (4..=DEPTH).contains(&used));
        }
    }

    #[test]
    fn payloads_of_two_calls_in_a_row_are_apart() {
        for seq in 0..100 {
            for (one, other) in SIZES.iter().flat_map(|one| SIZES.map(|other| (*one, other))) {
                let half = PayloadHalf { blocks: 32, few: seq % 3 == 0 };
                let (one, other) = (half.payload_blocks(seq, one), half.payload_blocks(seq + 1, other));
                assert!(one.end <= other.start || other.end <= one.start);
            }
        }
    }
}
