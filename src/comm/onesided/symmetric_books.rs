//! One rank's books of a symmetric heap: its segments, and what is allocated in them.

use super::deferred_free::DeferredFree;
use crate::error::{Error, Result};
use crate::kernels;
use crate::memory::arena::Arena;
use crate::memory::heap;
use crate::memory::view::{Address, Payload};
use crate::onesided::SymmetricMemory;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The bytes by which the reserved pages grow.
const PAGES: usize = 256 << 10;
/// In the arena, segment k begins at `k << SEGMENT_SHIFT`: no two are neighbours.
pub(super) const SEGMENT_SHIFT: u32 = 44;

/// One rank's books of a symmetric heap.
pub(in crate::comm) struct Symmetric {
    pub(super) symmetric: Arc<SymmetricMemory>,
    pub(super) arena: Arena,
    pub(super) segments: Vec<HeapSegment>,
    /// Bytes of the first segment.
    pub(super) first: usize,
    /// Registrations of ordinary memory by their first address.
    pub buffers: BTreeMap<usize, u64>,
}

pub(super) struct HeapSegment {
    pub(super) deferred: Option<DeferredFree>,
    pub(super) base: usize,
    pub(super) bytes: usize,
    /// Everything below has its pages.
    pub(super) reserved: usize,
}

impl Drop for Symmetric {
    /// The communicator ends without a finalize, so others may not know yet.
    fn drop(&mut self) {
        self.symmetric.close();
        self.segments.iter_mut().filter_map(|s| s.deferred.take()).for_each(DeferredFree::keep);
    }
}

impl Symmetric {
    /// A buffer is registered once.
    pub fn refuse_second(&self, buffer: Address) -> Result<()> {
        match self.buffers.contains_key(&buffer.get()) {
            true => Err(Error::argument(format!("addr {:#x} is registered already", buffer.get()))),
            false => Ok(()),
        }
    }

    /// Returns the symmetric memory, for access to it.
    pub fn symmetric(&self) -> &SymmetricMemory {
        &self.symmetric
    }

    /// Get the pages of a new block; its address.
    pub(super) fn back(&mut self, offset: u64, bytes: usize, zeroed: bool) -> Result<usize> {
        let own = heap::mine()?;
        let segment = &mut self.segments[(offset >> SEGMENT_SHIFT) as usize];
        let within = (offset & ((1 << SEGMENT_SHIFT) - 1)) as usize;
        let end = within + bytes;
        if end > segment.reserved {
            let to = end.next_multiple_of(PAGES).min(segment.bytes);
            own.reserve_within(segment.base + segment.reserved, to - segment.reserved)?;
            segment.reserved = to;
        }
        if zeroed {
            let at = own.offset_of(segment.base + within, bytes);
            let view = at.and_then(|at| own.view(at, bytes)).unwrap_or(Payload::EMPTY);
            kernels::zero(view);
        }
        Ok(segment.base + within)
    }

    /// The arena's offset of a live allocation's start.
    pub(super) fn offset_of(&self, addr: usize) -> Result<u64> {
        let refuse = |why: &str| {
            Err(Error::argument(format!(
                "ptr {addr:#x} is not the start of memory that pennyShmemMalloc returned on this communicator{why}"
            )))
        };
        let holds = |s: &&HeapSegment| addr.wrapping_sub(s.base) < s.bytes;
        let Some(index) = self.segments.iter().position(|s| holds(&s)) else { return refuse("") };
        let offset = (index as u64) << SEGMENT_SHIFT | (addr - self.segments[index].base) as u64;
        match self.arena.live(offset) {
            Some(block) if block.start == offset => Ok(offset),
            Some(_) => refuse("; it points into the middle of such memory"),
            None => refuse(", or it was freed already"),
        }
    }
}
