//! The shareable heap: memory of `pennyMemAlloc`, which peers reach directly.
//!
//! One sparse unnamed file a process, mapped once at its full size; every communicator hands its descriptor to the
//! peers when they meet, so allocations made later need no further exchange. Pages are reserved when they are handed
//! out: exhaustion is an error of `alloc`, never a SIGBUS.
//!
//! ```text
//!     file   | used | free | used |   never handed out ...            | limit (PENNY_HEAP_SIZE, else the machine's memory)
//!            '-------- reserved ---'
//! ```

use super::segment::Segment;
use super::view::View;
use crate::env;
use crate::error::{Error, Result};
use crate::sys::{fork, process, shm};
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// Every allocation begins on a line of its own, so neighbours never share one.
pub const ALIGN: usize = 64;

/// Names a process's heap: 128 random bits, so that a mapping is never mistaken for another's.
pub type HeapId = [u8; 16];

/// This process's heap.
pub struct Heap {
    id: HeapId,
    file: File,
    segment: Arc<Segment>,
    generation: u32,
    blocks: Mutex<Blocks>,
}

#[derive(Default)]
struct Blocks {
    /// Offset to length of what is handed out.
    used: BTreeMap<usize, usize>,
    /// Offset to length of the gaps below `end`; neighbours are always joined.
    free: BTreeMap<usize, usize>,
    /// Everything below has been reserved.
    end: usize,
}

/// A peer's heap, mapped here.
pub type PeerHeap = Arc<Segment>;

/// This process's heap, made at the first call.
pub fn mine() -> Result<&'static Heap> {
    static HEAP: OnceLock<Result<Heap>> = OnceLock::new();
    HEAP.get_or_init(Heap::new).as_ref().map_err(Clone::clone)
}

/// This process's heap, as the list of all ranks' heaps holds it.
pub fn own() -> Result<PeerHeap> {
    Ok(mine()?.segment.clone())
}

/// Map the heap that `id` names, or find it among those mapped already (this process's own included).
pub fn peer(id: HeapId, file: &File, bytes: usize) -> Result<PeerHeap> {
    static MAPPED: Mutex<BTreeMap<HeapId, Weak<Segment>>> = Mutex::new(BTreeMap::new());
    let own = mine()?;
    if id == own.id {
        return Ok(own.segment.clone());
    }
    let mut mapped = MAPPED.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(segment) = mapped.get(&id).and_then(Weak::upgrade) {
        return Ok(segment);
    }
    mapped.retain(|_, weak| weak.strong_count() > 0);
    let segment = Arc::new(Segment::map(file, bytes)?);
    mapped.insert(id, Arc::downgrade(&segment));
    Ok(segment)
}

impl Heap {
    fn new() -> Result<Heap> {
        fork::watch();
        let limit = limit_bytes()?;
        let make = |bytes: usize| -> Result<(File, Segment)> {
            let file = shm::unnamed(bytes, shm::Backing::DevShm)
                .or_else(|_| shm::unnamed(bytes, shm::Backing::Memfd))?;
            let segment = Segment::map(&file, bytes)?;
            Ok((file, segment))
        };
        // A limit on address space (`ulimit -v`) may forbid the full size; a smaller heap is better than none.
        let mut bytes = limit;
        let (file, segment) = loop {
            match make(bytes) {
                Ok(made) => break made,
                Err(e) if bytes <= 1 << 20 => return Err(e),
                Err(_) => bytes = (bytes / 4).next_multiple_of(4096),
            }
        };
        Ok(Heap {
            id: process::random(),
            file,
            segment: Arc::new(segment),
            generation: fork::generation(),
            blocks: Mutex::default(),
        })
    }

    /// The heap's name.
    pub fn id(&self) -> HeapId {
        self.id
    }
    /// The file by which peers map it.
    pub fn file(&self) -> &File {
        &self.file
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
        if bytes == 0 {
            return Ok(0);
        }
        self.refuse_forked()?;
        let mut blocks = self.blocks.lock().unwrap_or_else(|e| e.into_inner());
        let exhausted = |blocks: &Blocks| {
            let largest = blocks.free.values().copied().max().unwrap_or(0);
            let tail = self.segment.bytes() - blocks.end;
            Error::system(format!(
                "the shareable heap has no {bytes} bytes left: {} of {} are free, the largest range is {}; free memory \
                 or raise PENNY_HEAP_SIZE",
                blocks.free.values().sum::<usize>() + tail,
                self.segment.bytes(),
                largest.max(tail)
            ))
        };
        let size = bytes.checked_next_multiple_of(ALIGN).ok_or_else(|| exhausted(&blocks))?;
        let offset = match blocks.free.iter().find(|&(_, &len)| len >= size) {
            Some((&offset, &len)) => {
                blocks.free.remove(&offset);
                if len > size {
                    blocks.free.insert(offset + size, len - size);
                }
                // A large range's pages were given back when it was freed.
                if let Err(e) = shm::reserve(&self.file, offset, size) {
                    blocks.insert_free(offset, size);
                    return Err(e);
                }
                offset
            }
            None => {
                let offset = blocks.end;
                if size > self.segment.bytes() - offset {
                    return Err(exhausted(&blocks));
                }
                shm::reserve(&self.file, offset, size)?;
                blocks.end += size;
                offset
            }
        };
        blocks.used.insert(offset, size);
        Ok(self.segment.base() + offset)
    }

    /// Take back what [`alloc`](Heap::alloc) gave.
    pub fn free(&self, addr: usize) -> Result<()> {
        if addr == 0 {
            return Ok(());
        }
        self.refuse_forked()?;
        let offset = addr.wrapping_sub(self.segment.base());
        let mut blocks = self.blocks.lock().unwrap_or_else(|e| e.into_inner());
        let Some(size) = blocks.used.remove(&offset) else {
            let inside = blocks.used.range(..offset).next_back().is_some_and(|(&at, &len)| offset < at + len);
            return Err(Error::argument(format!(
                "ptr {addr:#x} is not the start of memory that pennyMemAlloc returned{}",
                if inside {
                    "; it points into the middle of such memory"
                } else {
                    ", or it was freed already"
                }
            )));
        };
        if size >= GIVE_BACK {
            let (from, to) = (offset.next_multiple_of(4096), (offset + size) & !4095);
            shm::release(&self.file, from, to.saturating_sub(from));
        }
        blocks.insert_free(offset, size);
        Ok(())
    }

    /// Bytes handed out.
    pub fn used(&self) -> usize {
        self.blocks.lock().unwrap_or_else(|e| e.into_inner()).used.values().sum()
    }

    /// A range of this heap.
    pub fn view(&self, offset: usize, bytes: usize) -> Option<View<'_>> {
        self.segment.view(offset, bytes)
    }

    fn refuse_forked(&self) -> Result<()> {
        if fork::generation() == self.generation {
            return Ok(());
        }
        Err(Error::usage(
            "this process was forked from one that uses Penny; its memory belongs to the parent",
        ))
    }
}

/// Freed ranges of this size and more return their pages to the system.
const GIVE_BACK: usize = 1 << 20;

impl Blocks {
    /// Add a gap, joined with its neighbours.
    fn insert_free(&mut self, mut offset: usize, mut size: usize) {
        if let Some((&before, &len)) = self.free.range(..offset).next_back()
            && before + len == offset
        {
            self.free.remove(&before);
            (offset, size) = (before, size + len);
        }
        if let Some(len) = self.free.remove(&(offset + size)) {
            size += len;
        }
        self.free.insert(offset, size);
    }
}

fn limit_bytes() -> Result<usize> {
    let bytes = match env::get("PENNY_HEAP_SIZE") {
        Some(text) => env::parse_bytes(&text).ok_or_else(|| {
            Error::argument(format!(
                "PENNY_HEAP_SIZE is `{text}`; it takes a number of bytes such as 67108864, 64M or 2G"
            ))
        })?,
        None => shm::physical_memory() as usize,
    };
    Ok(bytes.max(4096).next_multiple_of(4096))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_neighbours_join() {
        let mut b = Blocks::default();
        b.insert_free(0, 64);
        b.insert_free(128, 64);
        b.insert_free(64, 64);
        assert_eq!(b.free.into_iter().collect::<Vec<_>>(), [(0, 192)]);
    }

    #[test]
    fn memory_is_aligned_distinct_and_comes_back() {
        let heap = Heap::new().unwrap();
        let a = heap.alloc(100).unwrap();
        let b = heap.alloc(1).unwrap();
        assert!(a.is_multiple_of(ALIGN) && b.is_multiple_of(ALIGN) && b >= a + 100);
        assert_eq!(heap.used(), 192);
        heap.free(a).unwrap();
        assert_eq!(heap.alloc(128).unwrap(), a);
        heap.free(a).unwrap();
        heap.free(b).unwrap();
        assert_eq!(heap.used(), 0);
    }

    #[test]
    fn a_foreign_or_freed_pointer_is_refused_by_name() {
        let heap = Heap::new().unwrap();
        let a = heap.alloc(256).unwrap();
        assert!(heap.free(a + 64).unwrap_err().message.contains("middle"));
        heap.free(a).unwrap();
        assert!(heap.free(a).unwrap_err().message.contains("freed already"));
        assert!(heap.free(64).is_err());
    }

    #[test]
    fn exhaustion_is_a_sentence_and_loses_nothing() {
        let heap = Heap::new().unwrap();
        let e = heap.alloc(usize::MAX - 7).unwrap_err();
        assert!(e.message.contains("PENNY_HEAP_SIZE"), "{e}");
        let e = heap.alloc(heap.bytes() + 64).unwrap_err();
        assert!(e.message.contains("largest range"), "{e}");
        assert_eq!(heap.used(), 0);
    }
}
