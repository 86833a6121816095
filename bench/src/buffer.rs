//! Guarded memory: a range for data between two guards that must never be written.
//!
//! ```text
//!     | guard 256 | data ...................... | guard 256 |        data is 64-byte aligned
//! ```

use std::alloc::Layout;
use std::ops::Range;
use std::ptr;

use crate::capi;
use crate::options::Buffers;

/// Bytes on either side of the data. A multiple of the alignment.
pub const GUARD: usize = 256;
const ALIGN: usize = 64;

/// The byte that fills memory before anything is written to it. No input consists of it alone.
pub const UNTOUCHED: u8 = 0xc5;

/// Memory of one kind, guarded on both sides.
pub struct Buffer {
    start: *mut u8,
    data: usize,
    kind: Buffers,
}

impl Buffer {
    /// Allocates `data` bytes and touches every page. Buffers of kind `Registered` are private memory here; the caller registers
    /// them with a communicator.
    pub fn new(kind: Buffers, data: usize) -> Result<Buffer, String> {
        let bytes = Self::total(data);
        let start = match kind {
            Buffers::Heap => capi::mem_alloc(bytes)?,
            Buffers::Private | Buffers::Registered => {
                let layout = Layout::from_size_align(bytes, ALIGN).map_err(|e| e.to_string())?;
                // SAFETY: the layout is not empty: it has two guards.
                let start = unsafe { std::alloc::alloc(layout) };
                if start.is_null() {
                    return Err(format!(
                        "no memory for a buffer of {bytes} bytes; measure smaller sizes (-e)"
                    ));
                }
                start
            }
        };
        // SAFETY: `bytes` bytes were just allocated at `start`.
        unsafe { ptr::write_bytes(start, UNTOUCHED, bytes) };
        Ok(Buffer { start, data, kind })
    }

    fn total(data: usize) -> usize {
        data.next_multiple_of(ALIGN) + 2 * GUARD
    }

    /// The address of byte `at` of the data. Other ranks may read and write there during a call.
    pub fn address(&self, at: usize) -> *mut u8 {
        assert!(at <= self.data, "byte {at} of {}", self.data);
        // SAFETY: within the allocation: the guard lies before the data, and the data was just checked.
        unsafe { self.start.add(GUARD + at) }
    }

    /// A range of the data; between calls only.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        assert!(range.end <= self.data, "{range:?} of {}", self.data);
        // SAFETY: in bounds and initialised by `new`; no other rank writes between calls.
        unsafe { std::slice::from_raw_parts(self.address(range.start), range.len()) }
    }

    /// A range of the data, to be written; between calls only.
    pub fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        assert!(range.end <= self.data, "{range:?} of {}", self.data);
        // SAFETY: as for `bytes`, and self is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.address(range.start), range.len()) }
    }

    /// Returns the guards of a range: the `GUARD` bytes before it and after it, which may lie in the data or beyond its ends.
    fn guards(&self, range: Range<usize>) -> [Range<usize>; 2] {
        assert!(range.end <= self.data, "{range:?} of {}", self.data);
        [range.start..range.start + GUARD, range.end + GUARD..range.end + 2 * GUARD]
    }

    /// Fills a range and its guards with [`UNTOUCHED`].
    pub fn forget(&mut self, range: Range<usize>) {
        let [before, after] = self.guards(range);
        // SAFETY: from the first guard's start to the second's end lies within the allocation.
        unsafe { ptr::write_bytes(self.start.add(before.start), UNTOUCHED, after.end - before.start) };
    }

    /// Returns how many bytes of a range's guards were written since [`Buffer::forget`].
    pub fn trespasses(&self, range: Range<usize>) -> u64 {
        let written = |guard: Range<usize>| {
            // SAFETY: both guards lie within the allocation, which `new` initialised.
            let bytes = unsafe { std::slice::from_raw_parts(self.start.add(guard.start), guard.len()) };
            bytes.iter().filter(|&&b| b != UNTOUCHED).count() as u64
        };
        self.guards(range).into_iter().map(written).sum()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        match self.kind {
            Buffers::Private | Buffers::Registered => {
                // SAFETY: `new` allocated it with this layout, which was valid then.
                unsafe {
                    let layout = Layout::from_size_align_unchecked(Self::total(self.data), ALIGN);
                    std::alloc::dealloc(self.start, layout);
                }
            }
            Buffers::Heap => {
                // SAFETY: `new` got it from mem_alloc; self is not used any more.
                if let Err(sentence) = unsafe { capi::mem_free(self.start) } {
                    eprintln!("{sentence}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_next_to_a_range_is_a_trespass() {
        let mut buffer = Buffer::new(Buffers::Private, 1000).unwrap();
        for range in [0..1000, 0..0, 8..16, 1000..1000, 500..1000] {
            buffer.forget(range.clone());
            // SAFETY: inside the range, between the guards of the allocation.
            unsafe { ptr::write_bytes(buffer.address(range.start), 1, range.len()) };
            assert_eq!(buffer.trespasses(range.clone()), 0);
            // SAFETY: one byte before and one after: both are guard bytes of the allocation.
            unsafe {
                buffer.address(range.start).sub(1).write(1);
                buffer.address(range.end).write(1);
            }
            assert_eq!(buffer.trespasses(range), 2);
        }
    }

    #[test]
    fn data_is_aligned_to_a_cache_line() {
        let buffer = Buffer::new(Buffers::Private, 77).unwrap();
        assert_eq!(buffer.address(0) as usize % 64, 0);
        assert_eq!(buffer.bytes(0..77), [UNTOUCHED; 77]);
    }
}
