//! One shared mapping.

use super::view::Payload;
use crate::error::{Error, Result};
use crate::sync::doorbell::{Doorbell, Sleepers};
use crate::sync::prim::{AtomicU32, AtomicU64};
use crate::sync::wait_time::WaitTime;
use crate::sys::endpoint::MappedRegion;
use crate::sys::keeper::LifeNode;
use crate::sys::remap::Again;
use crate::sys::shm;
use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::marker::PhantomData;
use std::sync::Arc;

/// What may live in shared memory: plain atomics in a fixed layout, valid for any bytes another process may write.
///
/// # Safety
/// The type is `repr(C)`, has no padding that matters, holds only atomics (or arrays and structs of them), and every
/// bit pattern is a valid value.
pub unsafe trait ShmSafe {}

// SAFETY: an atomic, valid for any bits.
unsafe impl ShmSafe for AtomicU32 {}
// SAFETY: as above.
unsafe impl ShmSafe for AtomicU64 {}
// SAFETY: as above, where loom watches it.
#[cfg(loom)]
unsafe impl ShmSafe for crate::sync::prim::model::AtomicU32 {}
// SAFETY: as above, where loom watches it.
#[cfg(loom)]
unsafe impl ShmSafe for crate::sync::prim::model::AtomicU64 {}
// SAFETY: repr(C), atomics only, any bits valid.
unsafe impl ShmSafe for Doorbell {}
// SAFETY: as above.
unsafe impl ShmSafe for WaitTime {}
// SAFETY: as above.
unsafe impl ShmSafe for Sleepers {}
// SAFETY: as above.
unsafe impl ShmSafe for LifeNode {}
// SAFETY: an array lies like its elements one after another.
unsafe impl<T: ShmSafe, const N: usize> ShmSafe for [T; N] {}

/// Declares structures that may lie in shared memory. A field that is not [`ShmSafe`] is an error of the compiler, so a
/// module that declares its layout by this macro needs no `unsafe` of its own.
macro_rules! shared_layout {
    ($(
        $(#[doc = $doc:expr])*
        #[repr(C, align($align:literal))]
        $vis:vis struct $name:ident {
            $($(#[doc = $about:expr])* $of:vis $field:ident: $type:ty,)*
        }
    )*) => {$(
        $(#[doc = $doc])*
        #[repr(C, align($align))]
        $vis struct $name {
            $($(#[doc = $about])* $of $field: $type,)*
        }
        // SAFETY: repr(C), and the bounds say that each field may lie in shared memory.
        #[allow(unsafe_code)]
        unsafe impl $crate::memory::segment::ShmSafe for $name
        where
            $($type: $crate::memory::segment::ShmSafe,)*
        {}
    )*};
}
pub(crate) use shared_layout;

/// A mapping of a shared file, or of a part of it. The file itself has no name (see [`shm`]). A clone is the same mapping.
#[derive(Clone)]
pub struct Segment {
    /// Where it is mapped.
    base: usize,
    bytes: usize,
    /// Unmaps it with the last clone.
    _map: Arc<Map>,
}

/// The owner of a mapping, which unmaps it.
enum Map {
    File { _raw: MmapRaw },
    Again { _again: Again },
}

impl Segment {
    /// New zeroed memory with the file by which others map it; the first `reserved` bytes have their space already.
    pub fn create(bytes: usize, reserved: usize) -> Result<(Segment, File)> {
        let file = shm::create(bytes, reserved, bytes)?;
        Ok((Segment::of(&file, bytes)?, file))
    }

    /// Maps a file that a peer made. Fails if it is smaller than `bytes`, or could be made smaller where that can be ruled
    /// out.
    pub fn map(file: &File, bytes: usize) -> Result<Segment> {
        Segment::map_first(file, bytes, bytes)
    }

    /// Maps the first `part` bytes of a file that a peer made and announced with `bytes` bytes.
    pub fn map_first(file: &File, bytes: usize, part: usize) -> Result<Segment> {
        shm::check_sealed(file)?;
        let size =
            file.metadata().map_err(|e| Error::system(format!("cannot read a segment's size: {e}")))?.len();
        if size < bytes as u64 {
            return Err(Error::remote(format!(
                "a peer's segment has {size} bytes where {bytes} were announced; the peer is faulty"
            )));
        }
        Segment::of(file, part)
    }

    /// Maps the first bytes of a file that this process made.
    pub fn of(file: &File, bytes: usize) -> Result<Segment> {
        let raw = MmapOptions::new().len(bytes).map_raw(file).map_err(|e| refused(bytes, &e.to_string()))?;
        Ok(Segment { base: raw.as_mut_ptr() as usize, bytes, _map: Arc::new(Map::File { _raw: raw }) })
    }

    /// Maps `bytes` bytes of a file that has them, from `offset`, a multiple of the page size.
    pub(super) fn part(file: &File, offset: usize, bytes: usize) -> Result<Segment> {
        let options = || MmapOptions::new().offset(offset as u64).len(bytes).map_raw(file);
        let raw = options().map_err(|e| refused(bytes, &e.to_string()))?;
        Ok(Segment { base: raw.as_mut_ptr() as usize, bytes, _map: Arc::new(Map::File { _raw: raw }) })
    }

    /// Maps a part of a file of other processes for reading. Nothing may be stored there.
    #[cfg(any(test, feature = "internals"))]
    pub(super) fn looked_at(file: &File, offset: u64, bytes: usize) -> Result<Segment> {
        let raw = MmapOptions::new().offset(offset).len(bytes).map_raw_read_only(file);
        let raw = raw.map_err(|e| refused(bytes, &e.to_string()))?;
        Ok(Segment { base: raw.as_mut_ptr() as usize, bytes, _map: Arc::new(Map::File { _raw: raw }) })
    }

    /// Makes zeroed memory of this process alone.
    pub fn private(bytes: usize) -> Result<Segment> {
        let map = MmapOptions::new().len(bytes).map_anon().map_err(|e| refused(bytes, &e.to_string()))?;
        let raw = MmapRaw::from(map);
        Ok(Segment { base: raw.as_mut_ptr() as usize, bytes, _map: Arc::new(Map::File { _raw: raw }) })
    }

    /// Maps the same file a second time, `bytes` bytes of it. They must not be more than the file has.
    ///
    /// # Safety
    /// This one begins where the file begins, and the file has as many bytes.
    pub(super) unsafe fn again(&self, bytes: usize) -> Result<Segment> {
        // SAFETY: this is a shared mapping from the file's beginning, and the caller's promise.
        let again = unsafe { Again::of(self.base, bytes) }.map_err(|e| refused(bytes, &e.message))?;
        Ok(Segment { base: again.at(), bytes, _map: Arc::new(Map::Again { _again: again }) })
    }

    /// Bytes mapped.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of the first byte, as a number.
    pub fn base(&self) -> usize {
        self.base
    }

    /// Payload at `offset`; `None` if it does not lie within.
    #[inline]
    pub fn view(&self, offset: usize, bytes: usize) -> Option<Payload<'_>> {
        if offset > self.bytes || bytes > self.bytes - offset {
            return None;
        }
        // SAFETY: within the mapping, which lives as long as self.
        Some(unsafe { Payload::from_raw((self.base + offset) as *mut u8, bytes) })
    }

    /// The 64-bit word at `offset`, which others may change at any time; `None` if it does not lie within or is misaligned.
    #[inline]
    pub fn word64(&self, offset: usize) -> Option<&AtomicU64> {
        let fits = offset.is_multiple_of(8) && self.bytes >= 8 && offset <= self.bytes - 8;
        // SAFETY: within the mapping, which begins at a page, and aligned; any bytes are a valid word.
        fits.then(|| unsafe { &*((self.base() + offset) as *const AtomicU64) })
    }

    /// The 32-bit word at `offset`, as [`word64`](Self::word64).
    #[inline]
    pub fn word32(&self, offset: usize) -> Option<&AtomicU32> {
        let fits = offset.is_multiple_of(4) && self.bytes >= 4 && offset <= self.bytes - 4;
        // SAFETY: as above.
        fits.then(|| unsafe { &*((self.base() + offset) as *const AtomicU32) })
    }

    /// `count` structures at `offset`. Panics if they do not lie within or are misaligned: offsets of structures are
    /// computed from our own layout, never read from shared memory.
    #[inline(always)]
    pub fn structs<T: ShmSafe>(&self, offset: usize, count: usize) -> &[T] {
        let bytes = count.checked_mul(size_of::<T>()).expect("a layout's size overflows");
        assert!(
            offset <= self.bytes && bytes <= self.bytes - offset,
            "a structure lies outside of its segment"
        );
        let at = self.base() + offset;
        assert!(at.is_multiple_of(align_of::<T>()), "a structure is misaligned");
        // SAFETY: within the mapping and aligned; ShmSafe: any bytes are a valid T and all access is atomic.
        unsafe { std::slice::from_raw_parts(at as *const T, count) }
    }
}

/// Structures in a segment, one behind the other. That they lie within it is asked once, when this is made.
pub struct Structs<T> {
    at: usize,
    count: usize,
    kind: PhantomData<fn() -> T>,
}

impl<T: ShmSafe> Structs<T> {
    /// Finds `count` structures at `offset` of a segment; none if the segment does not hold them all.
    pub fn of(segment: &Segment, offset: usize, count: usize) -> Structs<T> {
        let bytes = count.checked_mul(size_of::<T>()).and_then(|bytes| offset.checked_add(bytes));
        let (at, count) = match bytes {
            Some(end) if end <= segment.bytes() => {
                (segment.structs::<T>(offset, count).as_ptr() as usize, count)
            }
            _ => (0, 0),
        };
        Structs { at, count, kind: PhantomData }
    }

    /// Returns some of them. Panics if they are not among these.
    ///
    /// # Safety
    /// The segment must stay mapped during `'a`.
    #[inline(always)]
    pub unsafe fn part<'a>(&self, first: usize, count: usize) -> &'a [T] {
        assert!(first <= self.count && count <= self.count - first, "a structure outside of its memory");
        // SAFETY: within the mapping and aligned, as `structs` has found; ShmSafe: any bytes are a valid T and all access is atomic.
        unsafe { std::slice::from_raw_parts((self.at as *const T).add(first), count) }
    }

    /// Returns one of them. Panics if it is not among these.
    ///
    /// # Safety
    /// As for [`part`](Self::part).
    #[inline(always)]
    pub unsafe fn one<'a>(&self, index: usize) -> &'a T {
        assert!(index < self.count, "a structure outside of its memory");
        // SAFETY: as above.
        unsafe { &*(self.at as *const T).add(index) }
    }
}

// SAFETY: the mapping lives as long as any clone of it, and its bytes are read and written through views and atomics only.
unsafe impl MappedRegion for Segment {
    fn base(&self) -> usize {
        self.base
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
}

fn refused(bytes: usize, why: &str) -> Error {
    Error::system(format!(
        "cannot map {bytes} bytes of shared memory: {why}; check `ulimit -v` or lower PENNY_HEAP_SIZE"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::prim::Ordering;

    #[repr(C)]
    struct Word(AtomicU64);
    // SAFETY: one atomic.
    unsafe impl ShmSafe for Word {}

    #[test]
    fn two_mappings_of_one_file_share_their_words() {
        let (a, file) = Segment::create(4096, 4096).unwrap();
        let b = Segment::map(&file, 4096).unwrap();
        a.structs::<Word>(64, 1)[0].0.store(7, Ordering::Release);
        assert_eq!(b.structs::<Word>(64, 1)[0].0.load(Ordering::Acquire), 7);
    }

    #[test]
    fn a_second_mapping_of_a_part_sees_the_whole_file_and_outlives_the_first() {
        let (a, file) = Segment::create(1 << 20, 1 << 20).unwrap();
        let part = Segment::map_first(&file, 1 << 20, 4096).unwrap();
        drop(file);
        // SAFETY: the file has `1 << 20` bytes.
        let whole = unsafe { part.again(1 << 20) }.unwrap();
        drop(part);
        a.word64(1 << 19).unwrap().store(7, Ordering::Release);
        assert_eq!(whole.word64(1 << 19).unwrap().load(Ordering::Acquire), 7);
        assert_eq!((whole.bytes(), whole.clone().base()), (1 << 20, whole.base()));
    }

    #[test]
    fn a_word_past_the_end_or_across_words_is_refused() {
        let (a, _file) = Segment::create(4096, 4096).unwrap();
        assert!(a.word64(4088).is_some() && a.word32(4092).is_some());
        assert!(a.word64(4092).is_none() && a.word64(4).is_none() && a.word64(usize::MAX - 7).is_none());
        assert!(a.word32(4096).is_none() && a.word32(2).is_none() && a.word32(usize::MAX - 3).is_none());
    }

    #[test]
    fn a_view_past_the_end_is_refused() {
        let (a, file) = Segment::create(4096, 4096).unwrap();
        assert!(a.view(4096, 0).is_some() && a.view(0, 4096).is_some());
        assert!(a.view(4096, 1).is_none() && a.view(1, 4096).is_none() && a.view(usize::MAX, 2).is_none());
        assert!(Segment::map(&file, 8192).is_err());
    }
}
