//! How much of a control segment is reserved for a rank: at first use, but for what the maker has reserved; and what can be given back.

use super::Control;
use super::arrivals::BLOCK;
use crate::error::Result;
use crate::sync::prim::{AtomicBool, AtomicU64, Ordering};
use crate::sys::remap;
use std::ops::Range;

/// What of a segment a rank has reserved.
#[derive(Default)]
pub(super) struct Reserved {
    /// The number of calls whose arrivals are reserved; `u64::MAX`: all.
    arrivals: AtomicU64,
    /// The number of blocks that are reserved in each half of this rank's payloads; `u64::MAX`: all.
    payloads: AtomicU64,
    /// This rank's staging memory is reserved.
    staging: AtomicBool,
    /// Bytes of its halves of the rings that it has reserved.
    rings: AtomicU64,
}

impl Reserved {
    /// What the maker of a file reserves for all ranks.
    pub fn by_its_maker() -> Reserved {
        let all = || AtomicU64::new(u64::MAX);
        Reserved { arrivals: all(), payloads: all(), ..Reserved::default() }
    }
}

impl Control {
    /// Makes sure that the arrivals of call `seq` can be touched. Call this for each call in order.
    #[inline]
    pub fn reserve_arrivals(&self, seq: u64) -> Result<()> {
        match seq <= self.layout.depth as u64 && self.reserved.arrivals.load(Ordering::Relaxed) < seq {
            true => self.reserve_next_arrivals(seq),
            false => Ok(()),
        }
    }
    #[cold]
    fn reserve_next_arrivals(&self, seq: u64) -> Result<()> {
        const AT_ONCE: u64 = 8;
        let last = seq.next_multiple_of(AT_ONCE);
        let (from, to) = (self.layout.arrivals(last + 1 - AT_ONCE), self.layout.arrivals(last));
        self.reserve(from, to + self.layout.arrivals_of_a_call() - from)?;
        self.reserved
            .arrivals
            .store(if last < self.layout.depth as u64 { last } else { u64::MAX }, Ordering::Relaxed);
        Ok(())
    }
    /// Tells whether the arrivals of all calls can be touched.
    #[inline(always)]
    pub fn has_all_arrivals(&self) -> bool {
        self.reserved.arrivals.load(Ordering::Relaxed) == u64::MAX
    }
    /// Tells whether the arrivals of call `seq` can be touched.
    pub fn has_arrivals(&self, seq: u64) -> bool {
        let reserved = self.reserved.arrivals.load(Ordering::Relaxed);
        reserved == u64::MAX || seq.wrapping_sub(1) % (self.layout.depth as u64) < reserved
    }
    /// Makes sure that payloads of `bytes` bytes of these ranks, to which this rank writes, can be touched. The others read there what it
    /// has written.
    #[inline]
    pub fn reserve_payloads(&self, ranks: Range<u32>, bytes: usize) -> Result<()> {
        match self.reserved.payloads.load(Ordering::Relaxed) < self.layout.half.used(bytes) as u64 {
            true => self.reserve_written_payloads(ranks, bytes),
            false => Ok(()),
        }
    }
    #[cold]
    fn reserve_written_payloads(&self, ranks: Range<u32>, bytes: usize) -> Result<()> {
        let blocks = self.layout.half.used(bytes);
        for rank in ranks {
            let first = self.layout.payloads(rank);
            self.reserve(first, blocks * BLOCK)?;
            self.reserve(first + self.layout.half.blocks * BLOCK, blocks * BLOCK)?;
        }
        self.reserved.payloads.store(blocks as u64, Ordering::Relaxed);
        Ok(())
    }
    /// Makes sure that the staging memory of these ranks, to which this rank writes, can be touched. The rank itself does it, so that the
    /// pages lie on the node of its cores; the others read there what the rank has written.
    #[inline]
    pub fn reserve_staging(&self, ranks: Range<u32>) -> Result<()> {
        if self.reserved.staging.load(Ordering::Relaxed) {
            Ok(())
        } else {
            self.reserve_written_staging(ranks)
        }
    }
    #[cold]
    fn reserve_written_staging(&self, ranks: Range<u32>) -> Result<()> {
        for rank in ranks {
            let (offset, bytes) = self.layout.staging(rank);
            self.reserve(offset, bytes)?;
            // Ranks that rotate would come to new pages for a hundred calls.
            remap::make_present(self.segment.base() + offset, bytes);
        }
        self.reserved.staging.store(true, Ordering::Relaxed);
        Ok(())
    }
    /// Reserves the space of the ring from one rank to another. Both ends do it before they touch it.
    pub fn reserve_ring(&self, from: u32, to: u32) -> Result<()> {
        let (offset, bytes) = self.layout.ring(from, to);
        self.reserve(offset, bytes)?;
        self.reserved.rings.fetch_add(bytes as u64 / 2, Ordering::Relaxed);
        Ok(())
    }
    /// Reserves the places for the pieces of messages from one rank to another. The sender does it.
    pub fn reserve_places_for_pieces(&self, from: u32, to: u32) -> Result<()> {
        let (offset, bytes) = self.layout.places_for_pieces(from, to);
        self.reserve(offset, bytes)?;
        remap::make_present(self.segment.base() + offset, bytes);
        self.reserved.rings.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }
    /// Gives the pages of this rank's staging memory back, until it is reserved again. Returns false if they stay. No rank may be in a
    /// call that uses it.
    pub fn release_staging(&self, rank: u32) -> bool {
        let (offset, bytes) = self.layout.staging(rank);
        self.reserved.staging.store(false, Ordering::Relaxed);
        self.file.release_pages(self.at + offset, bytes)
    }
    /// Returns the bytes of this rank's staging memory; 0: it has not been reserved.
    pub fn staging_bytes(&self) -> usize {
        if self.reserved.staging.load(Ordering::Relaxed) { self.layout.staging } else { 0 }
    }
    /// Returns this rank's share of the other memory of the segment that is reserved.
    pub fn other_bytes(&self) -> usize {
        let all_or = |reserved: &AtomicU64, all: usize| match reserved.load(Ordering::Relaxed) {
            u64::MAX => all,
            some => some as usize,
        };
        let arrivals = all_or(&self.reserved.arrivals, self.layout.depth) * self.layout.arrivals_of_a_call();
        let payloads = all_or(&self.reserved.payloads, self.layout.half.blocks) * 2 * BLOCK;
        (self.layout.head() + arrivals) / self.layout.nranks
            + payloads
            + self.reserved.rings.load(Ordering::Relaxed) as usize
    }
}
