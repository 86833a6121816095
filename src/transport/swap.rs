//! Two ranks write where they have read last.
//!
//! ```text
//!                                        memory of rank 0      memory of rank 1
//!     inputs alone         call 1        0 writes, 1 reads     1 writes, 0 reads
//!                          call 3        1 writes, 0 reads     0 writes, 1 reads
//!     results over         every call    0 writes, 1 folds     1 writes, 0 folds
//!     operands                           over it, 0 reads      over it, 1 reads
//! ```
//!
//! Some processors hand the ownership of a line over to the core that reads what another has written. Then that core writes the line at
//! once, and the core that wrote it before would have to fetch it back first. So ranks that send each other as much as they receive write to the memory
//! that they have read: in turns to their own and to the other's, and results over the operands of which they are made
//! (docs/decisions/0076).
//!
//! Calls of odd and of even numbers have halves of their own, as without this. Who writes to either rank's memory has waited until the
//! other is done with the call before the last; it has itself read what the other wrote there. Only calls in which each rank waits for
//! the other's arrival swap: in others a rank would write to memory to which the other, who is late, has yet to write.

use super::Transport;
use crate::kernels::hints;
use crate::memory::control::arrivals::BEHIND;
use crate::memory::view::Payload;
use crate::types::Rank;
use std::ops::Range;

/// Returns the bytes above which payloads of `nranks` ranks that share memory are swapped on this processor. In the library's own tests they
/// are on every processor.
pub(super) fn here(nranks: u32) -> usize {
    match hints::limits().swaps_above {
        _ if nranks != 2 => usize::MAX,
        above if cfg!(test) => above.min(BEHIND),
        above => above,
    }
}

/// Returns whose memory `rank` writes to in a call, which is its own in every other call of a half.
#[inline]
fn owner(rank: Rank, seq: u64) -> Rank {
    rank ^ (seq / 2 % 2) as Rank
}

impl Transport {
    /// Tells whether this communicator's two ranks write where they have read last.
    #[inline]
    pub fn swaps(&self) -> bool {
        self.swaps_above != usize::MAX
    }

    /// Tells whether a payload of `bytes` bytes is swapped. `mutual`: see [`Transport::payload_of`].
    #[inline]
    pub fn is_swapped(&self, bytes: usize, mutual: bool) -> bool {
        bytes > self.swaps_above && mutual
    }

    /// Returns the ranks to whose memory this one writes.
    #[inline]
    pub fn writes_to(&self) -> Range<Rank> {
        if self.swaps() { 0..self.nranks } else { self.rank..self.rank + 1 }
    }

    /// Returns where the payload of a rank's arrival lies in a call in which each sends one: at the first place of a half, so that its
    /// lines stay in the caches.
    #[inline]
    pub(super) fn swapped_payload(&self, rank: Rank, seq: u64, bytes: usize) -> Payload<'_> {
        self.control.first_payload(owner(rank, seq), seq, bytes)
    }

    /// Returns the blocks that such a payload takes among those of its owner.
    #[inline]
    pub fn swapped_blocks(&self, seq: u64, bytes: usize) -> Range<usize> {
        self.control.layout().half.first_blocks(seq, bytes)
    }
}
