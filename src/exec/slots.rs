//! Where a slot lies: in its maker's staging memory, or in its reader's, if that has read there last (docs/decisions/0076).
//!
//! Two ranks, one input and one result each, in slices 0, 1, ... of two places (`depth`):
//!
//! ```text
//!     Swap::Inputs      memory of its maker in even rounds of the places, of the other rank in odd ones ([`round`])
//!     Swap::Results     the result of a slice lies where the other rank's input of that slice lay
//! ```
//!
//! This adds no synchronization. Within a call, a rank reads the other rank's data at a place before it writes there, because higher
//! levels run first in a wave. Between calls, it waits until the other rank has finished the previous call of this half, as it does without a swap.

use super::Run;
use crate::memory::view::Payload;
use crate::types::Rank;

/// Returns how often its places have been used before lap `lap` of call `seq`, as if all calls had `laps` laps: calls that follow one
/// another are alike, and the first lap of each writes where the last one of the call before has read.
#[inline]
fn round(seq: u64, laps: u64, lap: u64) -> u64 {
    (seq / 2).wrapping_mul(laps).wrapping_add(lap)
}

impl<'a> Run<'a, '_> {
    /// Returns the memory of a slot for a slice.
    #[inline]
    pub(super) fn slot(&self, maker: Rank, slot: u32, slice: u64, bytes: usize) -> Payload<'a> {
        self.slot_of(self.scope.seq, maker, slot, slice, bytes)
    }

    /// Returns the memory that a slot has in call `seq`.
    pub(super) fn slot_of(&self, seq: u64, maker: Rank, slot: u32, slice: u64, bytes: usize) -> Payload<'a> {
        let lap = slice / self.linked.depth as u64;
        let round = round(seq, self.cut.slices.div_ceil(self.linked.depth as u64), lap);
        let (owner, slot) = self.swap.place(self.linked.result_slots, maker, slot, round);
        self.t.staging(owner, self.at(seq, slot, slice), bytes)
    }

    /// Returns where a slot of this rank lies in its staging memory, if none are swapped.
    pub(super) fn own_slot_at(&self, slot: u32, slice: u64) -> usize {
        self.at(self.scope.seq, slot, slice)
    }

    fn at(&self, seq: u64, slot: u32, slice: u64) -> usize {
        let depth = self.linked.depth as u64;
        let index = slot as usize * depth as usize + (slice % depth) as usize;
        self.places.at(seq, slice / depth) + index * self.cut.slot
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_call_goes_on_with_the_rounds_of_the_call_before_of_its_half() {
        for laps in 1..6 {
            for seq in 1..40 {
                let rounds: Vec<u64> = (0..laps).map(|lap| round(seq, laps, lap)).collect();
                assert!(rounds.windows(2).all(|w| w[1] == w[0] + 1));
                assert_eq!(round(seq + 2, laps, 0), rounds[laps as usize - 1] + 1, "{laps} laps");
            }
        }
    }
}
