//! A range of memory that every rank of a communicator has, at an address of its own.

use crate::error::Result;
use crate::memory::view::Payload;
use crate::sync::prim::{AtomicU32, AtomicU64};
use crate::transport::Transport;
use crate::types::Rank;

/// The position of a word in a rank's shareable heap, which names it on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeapWord {
    pub rank: Rank,
    /// The offset from the beginning of the rank's heap.
    pub at: u64,
}

/// A range of as many bytes in each rank's shareable heap.
#[derive(Clone, Debug)]
pub struct Region {
    /// This rank's address of the first byte.
    base: usize,
    bytes: usize,
    /// The offset of the region in each rank's heap.
    begins: Box<[u64]>,
}

impl Region {
    /// `begins`: its place in each rank's heap, as the ranks have told each other.
    pub fn new(base: usize, bytes: usize, begins: Vec<u64>) -> Region {
        Region { base, bytes, begins: begins.into() }
    }
    /// This rank's address of the first byte.
    pub fn base(&self) -> usize {
        self.base
    }
    /// Returns the length.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the offset within the region of a range of this rank's memory, if it lies within.
    #[inline]
    pub fn offset_of(&self, addr: usize, bytes: usize) -> Option<usize> {
        let offset = addr.wrapping_sub(self.base);
        (offset <= self.bytes && bytes <= self.bytes - offset).then_some(offset)
    }

    /// Returns the name of the word at `offset` in a rank's copy.
    pub(super) fn place(&self, rank: Rank, offset: usize) -> HeapWord {
        HeapWord { rank, at: self.at(rank, offset) }
    }

    /// Returns where the byte at `offset` lies in a rank's heap.
    #[inline]
    pub fn at(&self, rank: Rank, offset: usize) -> u64 {
        self.begins[rank as usize].saturating_add(offset as u64)
    }

    /// Part of a near rank's copy of it; it must lie within.
    #[inline]
    pub fn view<'a>(&self, t: &'a Transport, rank: Rank, offset: usize, bytes: usize) -> Result<Payload<'a>> {
        t.heap(rank, self.at(rank, offset), bytes)
    }

    /// Returns a word of a near rank's copy. `None` if it is misaligned or a rank has told nonsense.
    #[inline]
    pub fn word64<'a>(&self, t: &'a Transport, rank: Rank, offset: usize) -> Option<&'a AtomicU64> {
        t.near_heap(rank)?.word64(usize::try_from(self.begins[rank as usize]).ok()?.checked_add(offset)?)
    }

    /// Returns a half word of a near rank's copy, as [`word64`](Self::word64).
    #[inline]
    pub fn word32<'a>(&self, t: &'a Transport, rank: Rank, offset: usize) -> Option<&'a AtomicU32> {
        t.near_heap(rank)?.word32(usize::try_from(self.begins[rank as usize]).ok()?.checked_add(offset)?)
    }
}
