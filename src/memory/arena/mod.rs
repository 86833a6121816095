//! An allocator of offsets: two-level segregated fit (Masmano, Ripoll, Crespo, Real; ECRTS 2004) over ranges that it
//! never touches.
//!
//! ```text
//!     segment 0   |  live  | free |     live     |            free            |
//!     segment 1                                                                    | live |     free      |
//!                                  blocks begin and end at multiples of 64; none spans two segments
//! ```
//!
//! What it knows of a block stands beside the memory, so it serves memory that is not there yet or that belongs to
//! others, and no write past a block's end can damage it. It depends only on its own calls: arenas that are told
//! the same in the same order give the same offsets, in every process and on every machine.
//!
//! A request is served from the smallest class whose blocks all have the size, by a look at two bitmaps, or by the block
//! of its own class that was freed last, if that has it. What is left of a block on either side stays free, and a block
//! that comes back is joined with its free neighbours at once. If there is no such class, all of the request's own class,
//! whose blocks may or may not have the size, are searched, and for alignments above 64 those above it: so a request
//! fails only if no free block can hold it.
//!
//! Cost: choosing a block is a constant number of steps, and a search of the lists that may hold it where it would fail
//! otherwise. Finding the block that a caller names is a search in a tree of the live ones. A block costs some 60 bytes
//! beside the memory.

mod blocks;
mod classes;
#[cfg(test)]
mod tests;

use blocks::{Blocks, Id};
use std::collections::BTreeMap;
use std::ops::Range;

/// Offsets and sizes of blocks are multiples of this.
pub const GRAIN: u64 = classes::GRAIN;

/// The largest alignment there is.
pub const MAX_ALIGN: u64 = 1 << 30;

/// Names a segment by its place in the order of [`add_segment`](Arena::add_segment), from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentId(pub u32);

/// The result of [`alloc`](Arena::alloc).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The offset of its begin.
    pub offset: u64,
    /// The length: the requested one, rounded up to a multiple of [`GRAIN`].
    pub bytes: u64,
}

/// No free block can hold a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted {
    /// Bytes asked for.
    pub requested: u64,
    /// Free bytes.
    pub free: u64,
    /// Bytes of the largest free block. It may be larger than `requested` if it cannot be aligned.
    pub largest: u64,
}

/// The reason for which an offset cannot be freed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The address lies within this live block and not at its beginning.
    Inside(Range<u64>),
    /// Nothing is live there any more: blocks of the segment have reached beyond it before.
    Freed,
    /// Nothing has begun there ever: it lies outside of all segments, beyond all that was ever handed out of its
    /// segment, or at no multiple of [`GRAIN`].
    Never,
}

/// The statistics of an arena.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ArenaStats {
    /// Bytes of all segments: `used + free`.
    pub bytes: u64,
    /// Bytes of live blocks.
    pub used: u64,
    /// Bytes of free blocks.
    pub free: u64,
    /// Bytes of the largest free block.
    pub largest_free: u64,
    /// The number of live blocks.
    pub live_blocks: u64,
    /// The most that `used` has been.
    pub peak_used: u64,
    /// Requests served so far.
    pub allocations: u64,
    /// Blocks taken back so far.
    pub frees: u64,
    /// `1 - largest_free / free`: 0 if all that is free lies together or nothing is, near 1 if it lies in crumbs.
    pub fragmentation: f64,
}

/// The allocator.
pub struct Arena {
    blocks: Blocks,
    /// Live blocks by where they begin.
    live: BTreeMap<u64, Id>,
    segments: Vec<Segment>,
    used: u64,
    peak_used: u64,
    allocations: u64,
    frees: u64,
}

struct Segment {
    range: Range<u64>,
    /// The highest end of a block so far.
    reached: u64,
}

impl Default for Arena {
    fn default() -> Arena {
        Arena::new()
    }
}

impl Arena {
    /// Makes an arena without memory.
    pub fn new() -> Arena {
        Arena {
            blocks: Blocks::new(),
            live: BTreeMap::new(),
            segments: Vec::new(),
            used: 0,
            peak_used: 0,
            allocations: 0,
            frees: 0,
        }
    }

    /// Adds `base..base + bytes` to what may be handed out. No block reaches from it into another segment, even if the
    /// two touch.
    ///
    /// # Panics
    /// If `base` or `bytes` is not a multiple of [`GRAIN`], or the range is empty, beyond `u64` or overlaps another.
    pub fn add_segment(&mut self, base: u64, bytes: u64) -> SegmentId {
        assert!(
            base.is_multiple_of(GRAIN) && bytes.is_multiple_of(GRAIN),
            "a segment of {bytes} at {base:#x} is not made of {GRAIN}"
        );
        assert!(bytes > 0 && base.checked_add(bytes).is_some(), "a segment of {bytes} at {base:#x}");
        let range = base..base + bytes;
        for other in &self.segments {
            let apart = range.end <= other.range.start || other.range.end <= range.start;
            assert!(apart, "segments {range:#x?} and {:#x?} overlap", other.range);
        }
        let id = self.segments.len() as u32;
        self.blocks.add(base, bytes, id);
        self.segments.push(Segment { range, reached: base });
        SegmentId(id)
    }

    /// A block of `bytes` bytes, or of 1 for 0, that begins at a multiple of `align`. It fails only if no free block
    /// can hold that. No search is needed if the largest free block has what it takes wherever it begins, rounded up to a
    /// class: `bytes`, a multiple of 64, and `align - 64`, together as a multiple of 1/32 of the power of two below.
    ///
    /// # Panics
    /// If `align` is not a power of two or is above [`MAX_ALIGN`]; one below [`GRAIN`] counts as [`GRAIN`].
    pub fn alloc(&mut self, bytes: u64, align: u64) -> Result<Block, Exhausted> {
        assert!(align.is_power_of_two() && align <= MAX_ALIGN, "an alignment of {align}");
        let exhausted = |arena: &Arena| Exhausted {
            requested: bytes,
            free: arena.bytes() - arena.used,
            largest: arena.blocks.largest(),
        };
        let Some(size) = bytes.max(1).checked_next_multiple_of(GRAIN).filter(|&size| size <= self.bytes())
        else {
            return Err(exhausted(self));
        };
        let Some((id, offset)) = self.blocks.find(size, align.max(GRAIN)) else {
            return Err(exhausted(self));
        };
        let id = self.blocks.take(id, offset, size);
        self.live.insert(offset, id);
        let segment = &mut self.segments[self.blocks.get(id).segment as usize];
        segment.reached = segment.reached.max(offset + size);
        self.used += size;
        self.peak_used = self.peak_used.max(self.used);
        self.allocations += 1;
        Ok(Block { offset, bytes: size })
    }

    /// Takes back the block that begins at `offset`; its size.
    pub fn free(&mut self, offset: u64) -> Result<u64, Refused> {
        let Some(id) = self.live.remove(&offset) else { return Err(self.refusal(offset)) };
        let bytes = self.blocks.get(id).bytes;
        self.blocks.give(id);
        self.used -= bytes;
        self.frees += 1;
        Ok(bytes)
    }

    /// The live block that contains an offset.
    pub fn live(&self, offset: u64) -> Option<Range<u64>> {
        let (_, &id) = self.live.range(..=offset).next_back()?;
        let block = self.blocks.get(id);
        (offset < block.end()).then_some(block.offset..block.end())
    }

    /// The live blocks in the order of their offsets.
    #[cfg(any(test, feature = "internals"))]
    pub fn live_blocks(&self) -> impl Iterator<Item = Block> {
        self.live.values().map(|&id| self.blocks.get(id)).map(|b| Block { offset: b.offset, bytes: b.bytes })
    }

    /// Returns the statistics. Walks through the highest class of free blocks.
    pub fn stats(&self) -> ArenaStats {
        let bytes = self.bytes();
        let free = bytes - self.used;
        let largest_free = self.blocks.largest();
        ArenaStats {
            bytes,
            used: self.used,
            free,
            largest_free,
            live_blocks: self.live.len() as u64,
            peak_used: self.peak_used,
            allocations: self.allocations,
            frees: self.frees,
            fragmentation: if free == 0 { 0.0 } else { 1.0 - largest_free as f64 / free as f64 },
        }
    }

    fn bytes(&self) -> u64 {
        self.segments.iter().map(|s| s.range.end - s.range.start).sum()
    }

    /// Returns the reason for which nothing that begins at `offset` can be freed.
    fn refusal(&self, offset: u64) -> Refused {
        if let Some(block) = self.live(offset) {
            return Refused::Inside(block);
        }
        let reached = |s: &Segment| (s.range.start..s.reached).contains(&offset);
        if offset.is_multiple_of(GRAIN) && self.segments.iter().any(reached) {
            Refused::Freed
        } else {
            Refused::Never
        }
    }
}
