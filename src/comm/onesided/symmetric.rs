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
use crate::comm::communicator::CommCore;
use crate::env;
use crate::error::{Error, Result};
use crate::kernels;
use crate::memory::arena::{Arena, ArenaStats, Exhausted};
use crate::memory::heap;
use crate::memory::view::{Address, Payload};
use crate::onesided::SymmetricMemory;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The first segment where nothing else is said.
const FIRST_BYTES: usize = 64 << 20;
/// Addresses of all ranks agree up to a page.
const MOST_ALIGN: usize = 4096;
/// The step in bytes in which pages are reserved.
const PAGES: usize = 256 << 10;
/// The shift by which segment k begins at `k << SEGMENT_SHIFT` in the arena, so that no two segments are adjacent.
const SEGMENT_SHIFT: u32 = 44;

/// One rank's bookkeeping of a symmetric heap.
pub(in crate::comm) struct Symmetric {
    symmetric: Arc<SymmetricMemory>,
    arena: Arena,
    segments: Vec<Segment>,
    /// Bytes of the first segment.
    first: usize,
    /// Registrations of ordinary memory by their first address.
    pub buffers: BTreeMap<usize, u64>,
}

struct Segment {
    deferred: Option<DeferredFree>,
    base: usize,
    bytes: usize,
    /// Everything below has its pages.
    reserved: usize,
}

/// The request that ranks exchange, as the first of [`WORDS`] words.
#[derive(Clone, Copy)]
enum Ask {
    Init = 1,
    Malloc,
    Calloc,
    Free,
    Finalize,
}

const WORDS: usize = 4;
/// The value that stands for an offset if the pointer is not the start of an allocation.
const NOT_ALLOCATED: u64 = u64::MAX;

impl Ask {
    fn text(words: &[u64]) -> String {
        match words[0] {
            1 => format!("pennyShmemInit with segments of {} bytes", words[1]),
            2 => format!("an allocation of {} bytes aligned to {}", words[1], words[2]),
            3 => format!("an allocation of {} zeroed bytes", words[1]),
            4 if words[1] == NOT_ALLOCATED => {
                "pennyShmemFree of a pointer that is no live allocation".to_string()
            }
            4 => format!("pennyShmemFree of what lies at offset {}", words[1]),
            5 => "pennyShmemFinalize".to_string(),
            _ => "something that is no call on the symmetric heap".to_string(),
        }
    }
}

impl Drop for Symmetric {
    /// The communicator ends without a finalize, so others may not know yet.
    fn drop(&mut self) {
        self.symmetric.close();
        self.segments.iter_mut().filter_map(|s| s.deferred.take()).for_each(DeferredFree::keep);
    }
}

impl CommCore {
    /// Checks that all ranks make the same request.
    fn same(&mut self, ask: Ask, a: u64, b: u64) -> Result<()> {
        let all = self.tell_all(&[ask as u64, a, b, 0])?;
        let first = &all[..WORDS];
        let other = (0..).zip(all.chunks_exact(WORDS)).find(|(_, words)| *words != first);
        let Some((rank, words)) = other else { return Ok(()) };
        Err(Error::usage(format!(
            "ranks disagree on the symmetric heap: rank 0 calls {}, rank {rank} {}; all ranks must make the same calls",
            Ask::text(first),
            Ask::text(words)
        )))
    }

    /// Exchanges the outcomes of all ranks; returns an error if one of them failed, and this rank's own error if it was
    /// this one.
    fn verdict<T>(&mut self, mine: Result<T>, what: &str) -> Result<T> {
        let all = self.tell_all(&[mine.is_err() as u64, 0, 0, 0])?;
        let mine = mine?;
        let failed = (0..).zip(all.chunks_exact(WORDS)).find(|(_, words)| words[0] != 0);
        match failed {
            None => Ok(mine),
            Some((rank, _)) => Err(Error::system(format!(
                "rank {rank} could not {what}, so no rank did; its own error says why"
            ))),
        }
    }

    fn heap(&mut self) -> Result<&mut Symmetric> {
        self.symmetric.as_mut().ok_or_else(absent)
    }

    /// Makes the symmetric heap.
    pub(in crate::comm) fn symmetric_init(&mut self) -> Result<()> {
        self.usable()?;
        self.broken()?;
        let first = first_bytes();
        self.same(Ask::Init, first.as_ref().map_or(u64::MAX, |&bytes| bytes as u64), 0)?;
        let first = first?;
        if self.symmetric.is_some() {
            return Err(Error::usage(
                "the communicator has a symmetric heap already; one pennyShmemInit is enough",
            ));
        }
        let symmetric = Arc::new(SymmetricMemory::new(self.transport.clone(), self.placement_view()));
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
        *self.shared.symmetric.lock().unwrap_or_else(|e| e.into_inner()) = Some(symmetric);
        Ok(())
    }

    /// Gives the whole of it up.
    pub(in crate::comm) fn symmetric_finalize(&mut self) -> Result<()> {
        self.usable()?;
        self.heap()?;
        self.same(Ask::Finalize, 0, 0)?;
        let mut symmetric = self.symmetric.take().ok_or_else(absent)?;
        self.shared.symmetric.lock().unwrap_or_else(|e| e.into_inner()).take();
        symmetric.symmetric.close();
        let left = self.semaphores_left();
        let mut deferred = self.semaphores_close();
        deferred.extend(symmetric.segments.iter_mut().filter_map(|s| s.deferred.take()));
        // Nobody writes to it any more once all have come here.
        match self.same(Ask::Finalize, 1, 0) {
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
        self.same(if zeroed { Ask::Calloc } else { Ask::Malloc }, bytes as u64, align as u64)?;
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
        self.verdict(ready, "get the pages").inspect_err(|_| {
            if let Ok(heap) = self.heap() {
                let _ = heap.arena.free(block.offset);
            }
        })
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
        let told = self.same(Ask::Free, *offset.as_ref().unwrap_or(&NOT_ALLOCATED), 0);
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        told?;
        self.heap()?.arena.free(offset?).map(drop).map_err(|_| Error::internal("a live block was not freed"))
    }

    /// Ends the waits of this rank's threads in the heap, because the communicator ends.
    pub(in crate::comm) fn symmetric_close(&mut self) {
        if let Some(symmetric) = self.shared.symmetric.lock().unwrap_or_else(|e| e.into_inner()).take() {
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
        let made = self.range_of_all(base, bytes, |c, begin| {
            let all = c.tell_all(&[begin, bytes as u64, 0, 0])?;
            Ok(all.chunks_exact(WORDS).map(|words| words[0]).collect())
        })?;
        let (region, deferred) = match made {
            Ok(made) => made,
            Err(refused) => return Ok(Err(refused)),
        };
        let (base, heap) = (region.base(), self.heap()?);
        // Refused on all ranks alike, if at all: they have as many segments.
        let added = heap.symmetric.add(region);
        if added.is_ok() {
            heap.arena.add_segment((heap.segments.len() as u64) << SEGMENT_SHIFT, bytes as u64);
            heap.segments.push(Segment { deferred: Some(deferred), base, bytes, reserved: 0 });
        } else {
            deferred.keep();
        }
        added.map(Ok)
    }
}

impl Symmetric {
    /// Refuses a second registration of a buffer.
    pub fn refuse_second(&self, buffer: Address) -> Result<()> {
        match self.buffers.contains_key(&buffer.get()) {
            true => Err(Error::argument(format!("addr {:#x} is registered already", buffer.get()))),
            false => Ok(()),
        }
    }

    /// Returns the access to the heap.
    pub fn symmetric(&self) -> &SymmetricMemory {
        &self.symmetric
    }

    /// Gets the pages of a new block; its address.
    fn back(&mut self, offset: u64, bytes: usize, zeroed: bool) -> Result<usize> {
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

    /// Returns the arena's offset of a live allocation's start.
    fn offset_of(&self, addr: usize) -> Result<u64> {
        let refuse = |why: &str| {
            Err(Error::argument(format!(
                "ptr {addr:#x} is not the start of memory that pennyShmemMalloc returned on this communicator{why}"
            )))
        };
        let holds = |s: &&Segment| addr.wrapping_sub(s.base) < s.bytes;
        let Some(index) = self.segments.iter().position(|s| holds(&s)) else { return refuse("") };
        let offset = (index as u64) << SEGMENT_SHIFT | (addr - self.segments[index].base) as u64;
        match self.arena.live(offset) {
            Some(block) if block.start == offset => Ok(offset),
            Some(_) => refuse("; it points into the middle of such memory"),
            None => refuse(", or it was freed already"),
        }
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
