//! The symmetric heap: memory that all ranks of a communicator allocate together.
//!
//! ```text
//!     rank 0   tell all "malloc, 100 bytes, aligned to 64"  -> the same? -> arena -> offset 4096 -> pages -> tell all "done"
//!     rank 1   tell all "malloc, 100 bytes, aligned to 64"  -> the same? -> arena -> offset 4096 -> pages -> tell all "done"
//! ```
//!
//! Every rank keeps the allocation records of the whole heap by itself: the same calls in the same order give the same
//! offsets, and the first exchange proves that the calls are the same. The second is the barrier with which an allocation
//! ends, and the
//! verdict: if one rank's system has no pages left, no rank has the memory.
//!
//! The memory is taken from the rank's shareable heap, which all peers have mapped whole. So growing by a further segment
//! takes one exchange of numbers, and collectives on symmetric memory copy nothing.

use super::deferred_free::DeferredFree;
use super::range::no_memory;
use super::symmetric_books::{HeapSegment, SEGMENT_SHIFT, Symmetric};
use crate::comm::agree::{Proposal, Subject};
use crate::comm::communicator::CommCore;
use crate::env;
use crate::error::{Error, Result};
use crate::memory::arena::{Arena, ArenaStats, Exhausted};
use crate::memory::heap;
use crate::onesided::SymmetricMemory;
use crate::types::Rank;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The first segment where nothing else is said.
const FIRST_BYTES: usize = 64 << 20;
/// Addresses of all ranks agree up to a page.
const MOST_ALIGN: usize = 4096;
/// A rank's proposal: a call and its arguments. The place of a new segment in the rank's heap may differ between ranks.
struct HeapCall {
    ask: Ask,
    args: [u64; 2],
    begin: u64,
}

#[derive(Clone, Copy)]
enum Ask {
    Init = 1,
    Malloc,
    Calloc,
    Free,
    Finalize,
    Segment,
    Pages,
}

/// In place of an offset: the pointer is not the start of an allocation.
const NOT_ALLOCATED: u64 = u64::MAX;

impl Proposal for HeapCall {
    const SUBJECT: Subject = Subject::SymmetricHeap;
    const EQUAL: usize = 3;
    type Words = [u64; 4];

    fn words(&self) -> [u64; 4] {
        [self.ask as u64, self.args[0], self.args[1], self.begin]
    }

    fn reads(words: &[u64]) -> String {
        match words[0] {
            1 => format!("pennyShmemInit with segments of {} bytes", words[1]),
            2 => format!("an allocation of {} bytes aligned to {}", words[1], words[2]),
            3 => format!("an allocation of {} zeroed bytes", words[1]),
            4 if words[1] == NOT_ALLOCATED => "pennyShmemFree of a pointer that is no live allocation".into(),
            4 => format!("pennyShmemFree of what lies at offset {}", words[1]),
            5 => "pennyShmemFinalize".into(),
            _ => "something that is no call on the symmetric heap".into(),
        }
    }

    fn inability(&self, rank: Rank) -> String {
        match self.ask {
            Ask::Segment => no_memory(rank, self.args[0] as usize),
            Ask::Pages => {
                format!("rank {rank} could not get the pages, so no rank did; its own error says why")
            }
            _ => format!("rank {rank} could not do its part, so no rank did; its own error says why"),
        }
    }
}

impl CommCore {
    /// All ranks must ask for the same.
    fn same<T>(&mut self, ask: Ask, args: [u64; 2], part: Result<T>) -> Result<T> {
        self.agree(&HeapCall { ask, args, begin: 0 }, part).map(|(part, _)| part)
    }

    fn heap(&mut self) -> Result<&mut Symmetric> {
        self.symmetric.as_mut().ok_or_else(absent)
    }

    /// Makes the symmetric heap.
    pub(in crate::comm) fn symmetric_init(&mut self) -> Result<()> {
        self.usable()?;
        self.broken()?;
        let first = first_bytes();
        let bytes = first.as_ref().map_or(0, |&bytes| bytes as u64);
        let first = self.same(Ask::Init, [bytes, 0], first)?;
        if self.symmetric.is_some() {
            return Err(Error::usage(
                "the communicator has a symmetric heap already; one pennyShmemInit is enough",
            ));
        }
        let symmetric = Arc::new(SymmetricMemory::new(self.timing().clone()));
        self.symmetric = Some(Symmetric {
            symmetric: symmetric.clone(),
            arena: Arena::new(),
            segments: Vec::new(),
            first,
            buffers: BTreeMap::new(),
        });
        if let Err(e) = self.grow(first, first).and_then(|()| self.semaphores_init(symmetric.clone())) {
            self.symmetric = None;
            return Err(e);
        }
        *self.shared.symmetric.lock() = Some(symmetric);
        Ok(())
    }

    /// Gives the whole of it up.
    pub(in crate::comm) fn symmetric_finalize(&mut self) -> Result<()> {
        self.usable()?;
        self.heap()?;
        self.same(Ask::Finalize, [0; 2], Ok(()))?;
        let mut symmetric = self.symmetric.take().ok_or_else(absent)?;
        self.shared.symmetric.lock().take();
        symmetric.symmetric.close();
        let left = self.semaphores_left();
        let mut deferred = self.semaphores_close();
        deferred.extend(symmetric.segments.iter_mut().filter_map(|s| s.deferred.take()));
        // No rank writes to it any more once all have come here.
        match self.same(Ask::Finalize, [1, 0], Ok(())) {
            Ok(()) => deferred.into_iter().try_for_each(DeferredFree::free).and(left),
            Err(e) => {
                deferred.into_iter().for_each(DeferredFree::keep);
                Err(e)
            }
        }
    }

    /// `bytes` bytes at the same offset on all ranks; 0 bytes: the address 0, and no exchange.
    pub(in crate::comm) fn symmetric_alloc(
        &mut self,
        bytes: usize,
        align: usize,
        zeroed: bool,
    ) -> Result<usize> {
        self.usable()?;
        self.broken()?;
        self.heap()?;
        if !align.is_power_of_two() || align > MOST_ALIGN {
            return Err(Error::argument(format!(
                "alignment is {align}; it must be a power of two, at most {MOST_ALIGN}"
            )));
        }
        if bytes == 0 {
            return Ok(0);
        }
        let ask = if zeroed { Ask::Calloc } else { Ask::Malloc };
        self.same(ask, [bytes as u64, align as u64], Ok(()))?;
        die_point!(150 "symmetric_agreed");
        let heap = self.heap()?;
        let block = match heap.arena.alloc(bytes as u64, align as u64) {
            Ok(block) => block,
            Err(short) => {
                let room = bytes
                    .checked_add(MOST_ALIGN)
                    .and_then(|b| b.checked_next_multiple_of(4096))
                    .ok_or_else(|| exhausted(&short, None))?;
                let all = heap.segments.iter().map(|s| s.bytes).sum::<usize>().max(heap.first);
                self.grow(all.max(room), room).map_err(|e| exhausted(&short, Some(e)))?;
                let heap = self.heap()?;
                heap.arena.alloc(bytes as u64, align as u64).map_err(|short| exhausted(&short, None))?
            }
        };
        let heap = self.heap()?;
        let ready = heap.back(block.offset, bytes, zeroed);
        die_point!(151 "symmetric_backed");
        let made = self.same(Ask::Pages, [0; 2], ready).inspect_err(|_| {
            if let Ok(heap) = self.heap() {
                let _ = heap.arena.free(block.offset);
            }
        });
        die_point!(152 "symmetric_made");
        made
    }

    /// Gives one allocation back; the address 0: nothing, and no exchange.
    pub(in crate::comm) fn symmetric_free(&mut self, addr: usize) -> Result<()> {
        self.usable()?;
        self.broken()?;
        let heap = self.heap()?;
        if addr == 0 {
            return Ok(());
        }
        let offset = heap.offset_of(addr);
        let refusal = offset.as_ref().err().cloned();
        // The others count on this rank, and learn why nothing was freed.
        let told = self.same(Ask::Free, [*offset.as_ref().unwrap_or(&NOT_ALLOCATED), 0], Ok(()));
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        told?;
        self.heap()?.arena.free(offset?).map(drop).map_err(|_| Error::internal("a live block was not freed"))
    }

    /// Ends the waits of this rank's threads in the heap, because the communicator ends.
    pub(in crate::comm) fn symmetric_close(&mut self) {
        if let Some(symmetric) = self.shared.symmetric.lock().take() {
            symmetric.close();
        }
    }

    /// Returns the statistics.
    pub(in crate::comm) fn symmetric_stats(&mut self) -> Result<(ArenaStats, usize)> {
        let heap = self.heap()?;
        Ok((heap.arena.stats(), heap.segments.len()))
    }

    /// Adds a segment of `wished` bytes or, if a rank has less, of `least`.
    fn grow(&mut self, wished: usize, least: usize) -> Result<()> {
        let bytes = wished.next_multiple_of(4096);
        let refused = match self.segment_of(bytes)? {
            Ok(()) => return Ok(()),
            Err(refused) => refused,
        };
        if least >= wished {
            return Err(refused);
        }
        self.segment_of(least.next_multiple_of(4096))?
    }

    /// The inner result is the same on all ranks.
    fn segment_of(&mut self, bytes: usize) -> Result<Result<()>> {
        let base = heap::mine()?.alloc_sparse(bytes, MOST_ALIGN);
        die_point!(153 "symmetric_range");
        let args = [bytes as u64, 0];
        let made = self.range_of_all(base, bytes, 3, |begin| HeapCall { ask: Ask::Segment, args, begin })?;
        let (region, deferred) = match made {
            Ok(made) => made,
            Err(refused) => return Ok(Err(refused)),
        };
        die_point!(154 "symmetric_grown");
        let (base, heap) = (region.base(), self.heap()?);
        // Refused on all ranks alike, if at all: they have as many segments.
        let added = heap.symmetric.add(region);
        if added.is_ok() {
            heap.arena.add_segment((heap.segments.len() as u64) << SEGMENT_SHIFT, bytes as u64);
            heap.segments.push(HeapSegment { deferred: Some(deferred), base, bytes, reserved: 0 });
        } else {
            deferred.keep();
        }
        added.map(Ok)
    }
}

fn exhausted(short: &Exhausted, why: Option<Error>) -> Error {
    let why = why.map_or(String::new(), |e| format!(" ({})", e.message));
    Error::system(format!(
        "the symmetric heap has no {} bytes: {} are free, the largest block is {}, and it cannot grow{why}",
        short.requested, short.free, short.largest
    ))
}

pub(in crate::comm) fn absent() -> Error {
    Error::usage("the communicator has no symmetric heap; call pennyShmemInit on all its ranks first")
}

fn first_bytes() -> Result<usize> {
    let Some(text) = env::get("PENNY_SHMEM_SIZE") else { return Ok(FIRST_BYTES) };
    let bytes = env::parse_bytes(&text).filter(|&bytes| bytes > 0 && bytes < 1 << (SEGMENT_SHIFT - 1));
    bytes.map(|bytes| bytes.next_multiple_of(4096)).ok_or_else(|| {
        Error::argument(format!(
            "PENNY_SHMEM_SIZE is `{text}`; it takes a number of bytes such as 67108864, 64M or 2G"
        ))
    })
}
