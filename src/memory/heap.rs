//! The shareable heap: memory of `pennyMemAlloc`, which peers reach directly.
//!
//! One sparse unnamed file a process, mapped once at its full size. Every communicator hands its descriptor to the
//! peers when they meet, and they map what they need of it ([`PeerHeap`]), so allocations made later need no further
//! exchange. An [`Arena`] over its addresses says what is whose. Pages are reserved when they are handed out: exhaustion
//! is an error of `alloc`, never a SIGBUS. Large blocks of a heap in a memfd get their pages when they are touched: no file system
//! can refuse these, and whether the machine has the memory is asked before.
//!
//! ```text
//!     file   | used | free | used |   sparse          |   never handed out ...     | limit (PENNY_HEAP_SIZE, else
//!            '-------- reserved ---'   '- reserved -'                              |        the machine's memory)
//! ```
//!
//! Address space is taken sparingly where it is scarce (`ulimit -v`): unless PENNY_HEAP_SIZE is set the heap takes a
//! quarter of what is left. A forked child has a heap of its own.
//!
//! A sparse range has addresses only; its owner has pages reserved for parts of it, and gives them back. It begins and
//! ends with pages, so that reserved memory never shares one with it.

#[cfg(any(test, feature = "internals"))]
use super::arena::ArenaStats;
use super::arena::{Arena, MAX_ALIGN, Refused};
use super::segment::Segment;
use super::view::Payload;
use crate::env;
use crate::error::{Error, Result};
use crate::log;
use crate::sync::lock::{Mutex, MutexGuard};
use crate::sys::kept_file::KeptFile;
use crate::sys::{fork, limits, process, shm};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak};

mod peer;
pub use peer::PeerHeap;

/// Every allocation begins on a line of its own, so neighbours never share one.
pub const ALIGN: usize = 64;

/// The least that the system reserves.
const PAGE: usize = 4096;

/// Freed ranges of this size and more return their pages to the system.
const GIVE_BACK: usize = 1 << 20;

/// A heap is not divided further than that when it cannot be mapped.
const LEAST: usize = 1 << 20;

/// The largest heap: what a 64-bit process can address.
const MOST: usize = 1 << 47;

/// The heap lies in /dev/shm if that can hold at least such a part of it: systems give a tmpfs half of the memory,
/// containers often 64 MiB.
const DEV_SHM_PART: usize = 4;

/// Names a process's heap: 128 random bits, so that a mapping is never mistaken for another's.
pub type HeapId = [u8; 16];

/// This process's heap.
pub struct Heap {
    id: HeapId,
    file: KeptFile,
    segment: Segment,
    /// The same mapping, as the lists of all ranks' heaps hold it.
    as_peer: Arc<PeerHeap>,
    /// The name of the limit that must be raised for a larger one.
    bound: &'static str,
    generation: u32,
    /// Large blocks need no reservation.
    is_lazy: bool,
    space: Mutex<Space>,
}

struct Space {
    /// Over addresses, so that what is aligned in it is aligned here.
    arena: Arena,
    /// Where live blocks begin whose pages are not reserved.
    sparse: BTreeSet<usize>,
    /// Live blocks without a reservation, with their bytes.
    lazy: BTreeMap<usize, usize>,
}

/// The most forks between a process and its first ancestor that used a heap.
const MOST_FORKS: usize = 64;

/// The heaps of this process's ancestors and its own, by generation. A child inherits the mappings of its ancestors'.
static HEAPS: [OnceLock<Result<Heap>>; MOST_FORKS] = [const { OnceLock::new() }; MOST_FORKS];

/// This process's heap, made at the first call.
#[inline]
pub fn mine() -> Result<&'static Heap> {
    let heap = HEAPS.get(fork::generation() as usize).ok_or_else(forked_too_often)?;
    heap.get_or_init(Heap::new).as_ref().map_err(Clone::clone)
}

#[cold]
fn forked_too_often() -> Error {
    Error::usage(format!(
        "this process was forked {MOST_FORKS} times over from one that used Penny; start it by exec instead"
    ))
}

/// This process's heap, as the list of all ranks' heaps holds it.
pub fn own() -> Result<Arc<PeerHeap>> {
    Ok(mine()?.as_peer.clone())
}

/// Maps the heap that `id` names, or find it among those mapped already (this process's own included). It is one of
/// `of` heaps that are to be mapped.
pub fn peer(id: HeapId, file: &File, bytes: usize, of: u32) -> Result<Arc<PeerHeap>> {
    static MAPPED: Mutex<BTreeMap<HeapId, Weak<PeerHeap>>> = Mutex::new(BTreeMap::new());
    let own = mine()?;
    if id == own.id {
        return Ok(own.as_peer.clone());
    }
    let mut mapped = MAPPED.lock();
    if let Some(segment) = mapped.get(&id).and_then(Weak::upgrade) {
        return Ok(segment);
    }
    mapped.retain(|_, weak| weak.strong_count() > 0);
    // Half of what is left, divided by all; the next one takes its share of the rest.
    let share = limits::addresses_left() / 2 / of.max(1) as usize;
    let heap = Arc::new(PeerHeap::map(file, bytes, share)?);
    mapped.insert(id, Arc::downgrade(&heap));
    Ok(heap)
}

impl Heap {
    fn new() -> Result<Heap> {
        fork::watch();
        let asked = limit_bytes()?;
        let sparing = limits::addresses_left() / 4;
        let files = limits::file_bytes();
        let size = asked.unwrap_or_else(|| machine_bytes().min(sparing)).min(files);
        let mut bytes = whole_pages(size);
        let file = shm::create(bytes, 0, bytes.min(machine_bytes()) / DEV_SHM_PART)?;
        // A limit on address space (`ulimit -v`) may forbid the size that was asked for; a smaller heap is better than none.
        // BOUND: it falls to a quarter each time.
        let segment = loop {
            match Segment::of(&file, bytes) {
                Ok(segment) => break segment,
                Err(e) if bytes <= LEAST => return Err(e),
                Err(_) => bytes = whole_pages((bytes / 4).min(sparing)),
            }
        };
        let wanted = asked.unwrap_or_else(machine_bytes);
        let bound = match bytes {
            _ if bytes >= whole_pages(wanted) => "PENNY_HEAP_SIZE",
            _ if bytes == whole_pages(files) => "`ulimit -f`",
            _ => "`ulimit -v`",
        };
        if bytes < whole_pages(wanted) {
            log::decided(format_args!(
                "the shareable heap has {bytes} bytes, not {wanted}, because of {bound}"
            ));
        }
        let mut arena = Arena::new();
        arena.add_segment(segment.base() as u64, bytes as u64);
        let is_lazy = shm::is_unbounded(&file);
        Ok(Heap {
            id: process::random(),
            file: KeptFile::new(file),
            as_peer: Arc::new(PeerHeap::from(segment.clone())),
            segment,
            bound,
            generation: fork::generation(),
            is_lazy,
            space: Mutex::new(Space { arena, sparse: BTreeSet::new(), lazy: BTreeMap::new() }),
        })
    }

    /// The heap's name.
    pub fn id(&self) -> HeapId {
        self.id
    }
    /// The file by which peers map it.
    pub fn file(&self) -> Result<&File> {
        self.file.get()
    }
    /// The address of its first byte.
    pub(super) fn base(&self) -> usize {
        self.segment.base()
    }
    /// Bytes of address space, used or not.
    pub fn bytes(&self) -> usize {
        self.segment.bytes()
    }

    /// The offset of a range that lies wholly in this heap's used memory region.
    #[inline]
    pub fn offset_of(&self, addr: usize, bytes: usize) -> Option<usize> {
        let offset = addr.wrapping_sub(self.segment.base());
        (offset < self.segment.bytes() && bytes <= self.segment.bytes() - offset).then_some(offset)
    }

    /// `bytes` bytes, [`ALIGN`]ed, zero when first handed out. 0 gives the address 0.
    pub fn alloc(&self, bytes: usize) -> Result<usize> {
        self.alloc_aligned(bytes, ALIGN)
    }

    /// Like [`alloc`](Heap::alloc), at an address that is a multiple of `align`: a power of two up to [`MAX_ALIGN`].
    /// Where peers map this heap the address is another one, and is aligned to pages only.
    pub fn alloc_aligned(&self, bytes: usize, align: usize) -> Result<usize> {
        if bytes == 0 {
            return Ok(0);
        }
        let Range { start, end } = {
            let mut space = self.lock()?;
            let range = self.take(&mut space, bytes, align)?;
            if self.is_lazy && bytes >= GIVE_BACK {
                return self.promise(&mut space, range);
            }
            range
        };
        // Outside of the lock: the range is ours, and taking many pages takes a while.
        let reserve = |file| shm::reserve(file, start - self.segment.base(), end - start);
        match self.file().and_then(reserve) {
            Ok(()) => Ok(start),
            Err(e) => self.free(start).and(Err(e)),
        }
    }

    /// Hands out a range without a reservation, if there is memory for it and for what was handed out so before.
    fn promise(&self, space: &mut Space, range: Range<usize>) -> Result<usize> {
        let bytes = range.end - range.start;
        let promised = space.lazy.values().sum::<usize>() as u64;
        let filled = self.file().map_or(0, shm::filled);
        match shm::check_available(bytes, promised.saturating_sub(filled)) {
            Ok(()) => {
                // Smaller blocks that lay here may have left theirs, which are not zero.
                self.release_pages(&range);
                space.lazy.insert(range.start, bytes);
                Ok(range.start)
            }
            Err(e) => {
                let _ = space.arena.free(range.start as u64);
                Err(e)
            }
        }
    }

    /// Address space for `bytes` bytes, in whole pages, without any memory: to touch it before
    /// [`reserve_within`](Heap::reserve_within) may end the process with SIGBUS. `align` is a power of two up to
    /// [`MAX_ALIGN`]; less than a page counts as a page. 0 bytes give the address 0.
    pub fn alloc_sparse(&self, bytes: usize, align: usize) -> Result<usize> {
        if bytes == 0 {
            return Ok(0);
        }
        let mut space = self.lock()?;
        // What cannot be rounded up is refused as it is.
        let pages = bytes.checked_next_multiple_of(PAGE).unwrap_or(bytes);
        let align = if align.is_power_of_two() { align.max(PAGE) } else { align };
        let range = self.take(&mut space, pages, align)?;
        // Smaller blocks that lay here may have left theirs.
        self.release_pages(&range);
        space.sparse.insert(range.start);
        Ok(range.start)
    }

    /// Reserves the pages of a part of a sparse range; zero when first reserved. After this, touching them cannot fail.
    pub fn reserve_within(&self, addr: usize, bytes: usize) -> Result<()> {
        let space = self.lock()?;
        self.sparse_part(&space, addr, bytes)?;
        shm::reserve(self.file()?, addr - self.segment.base(), bytes)
    }

    /// Gives the whole pages of a part of a sparse range back to the system; their contents are lost.
    #[cfg(any(test, feature = "internals"))]
    pub fn release_within(&self, addr: usize, bytes: usize) -> Result<()> {
        let space = self.lock()?;
        self.release_pages(&self.sparse_part(&space, addr, bytes)?);
        Ok(())
    }

    /// Takes back what [`alloc`](Heap::alloc), [`alloc_aligned`](Heap::alloc_aligned) or
    /// [`alloc_sparse`](Heap::alloc_sparse) gave.
    pub fn free(&self, addr: usize) -> Result<()> {
        if addr == 0 {
            return Ok(());
        }
        let mut space = self.lock()?;
        let bytes = space.arena.free(addr as u64).map_err(|refused| {
            Error::argument(match refused {
                Refused::Inside(block) => format!(
                    "ptr {addr:#x} is not the start of memory that pennyMemAlloc returned; it points into the middle of \
                     such memory, which starts at {:#x}",
                    block.start
                ),
                Refused::Freed => format!("ptr {addr:#x} is not memory of pennyMemAlloc any more; it was freed already"),
                Refused::Never if self.was_inherited(addr) => {
                    return Error::usage(format!(
                        "ptr {addr:#x} is memory of the process from which this one was forked; only that may free it"
                    ));
                }
                Refused::Never => format!("ptr {addr:#x} is not the start of memory that pennyMemAlloc returned"),
            })
        })? as usize;
        // Under the lock: what is handed out next must not lose its pages.
        space.lazy.remove(&addr);
        if space.sparse.remove(&addr) || bytes >= GIVE_BACK {
            self.release_pages(&(addr..addr + bytes));
        }
        Ok(())
    }

    /// What is handed out, what is free and in which pieces; sparse ranges count as a whole.
    #[cfg(any(test, feature = "internals"))]
    pub fn stats(&self) -> ArenaStats {
        self.space.lock().arena.stats()
    }

    /// A range of this heap.
    pub fn view(&self, offset: usize, bytes: usize) -> Option<Payload<'_>> {
        self.segment.view(offset, bytes)
    }

    /// Tells whether an address lies in the heap of an ancestor process.
    fn was_inherited(&self, addr: usize) -> bool {
        let ancestors = HEAPS.iter().take(self.generation as usize).filter_map(OnceLock::get).flatten();
        ancestors.into_iter().any(|heap| heap.offset_of(addr, 1).is_some())
    }

    fn lock(&self) -> Result<MutexGuard<'_, Space>> {
        if fork::generation() != self.generation {
            return Err(Error::usage("this heap is that of the process from which this one was forked"));
        }
        Ok(self.space.lock())
    }

    /// A range of addresses that nothing else uses.
    fn take(&self, space: &mut Space, bytes: usize, align: usize) -> Result<Range<usize>> {
        if !align.is_power_of_two() || align as u64 > MAX_ALIGN {
            return Err(Error::argument(format!(
                "alignment {align} is not a power of two of at most {MAX_ALIGN}"
            )));
        }
        let block = space.arena.alloc(bytes as u64, align as u64).map_err(|e| {
            let aligned = if align > ALIGN { format!(" at a multiple of {align}") } else { String::new() };
            Error::system(format!(
                "the shareable heap has no {bytes} bytes left{aligned}: {} of {} are free, the largest range is {}; free \
                 memory or raise {}",
                e.free,
                self.segment.bytes(),
                e.largest,
                self.bound
            ))
        })?;
        Ok(block.offset as usize..(block.offset + block.bytes) as usize)
    }

    /// `addr..addr + bytes`, if it lies in one sparse range.
    fn sparse_part(&self, space: &Space, addr: usize, bytes: usize) -> Result<Range<usize>> {
        let end = addr.saturating_add(bytes);
        let inside =
            |block: &Range<u64>| end as u64 <= block.end && space.sparse.contains(&(block.start as usize));
        match space.arena.live(addr as u64).filter(inside) {
            Some(_) => Ok(addr..end),
            None => Err(Error::argument(format!(
                "the {bytes} bytes at {addr:#x} do not lie in one sparse range of the shareable heap"
            ))),
        }
    }

    /// Gives the whole pages of a range back.
    fn release_pages(&self, range: &Range<usize>) {
        let (from, to) = (range.start.next_multiple_of(PAGE), range.end & !(PAGE - 1));
        if let Ok(file) = self.file() {
            shm::release(file, from - self.segment.base(), to.saturating_sub(from));
        }
    }
}

/// Returns the size that PENNY_HEAP_SIZE asks for, in whole pages.
pub fn limit_bytes() -> Result<Option<usize>> {
    let Some(text) = env::get("PENNY_HEAP_SIZE") else { return Ok(None) };
    let bytes = env::parse_bytes(&text).ok_or_else(|| {
        Error::argument(format!(
            "PENNY_HEAP_SIZE is `{text}`; it takes a number of bytes such as 67108864, 64M or 2G"
        ))
    })?;
    if bytes > MOST {
        return Err(Error::argument(format!(
            "PENNY_HEAP_SIZE is `{text}`; a process does not have that number of addresses: pass at most {MOST}"
        )));
    }
    Ok(Some(bytes.max(PAGE).next_multiple_of(PAGE)))
}

fn whole_pages(bytes: usize) -> usize {
    (bytes & !(PAGE - 1)).max(PAGE)
}

fn machine_bytes() -> usize {
    usize::try_from(shm::physical_memory()).unwrap_or(MOST).min(MOST)
}

#[cfg(test)]
mod tests;
