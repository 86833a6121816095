//! Vectors in the shareable heap.

use super::element::Plain;
use super::names::in_rust;
use crate::comm;
use crate::error::{Error, Result};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A vector of fixed length in memory that the other ranks' processes can reach: large collectives on it copy nothing.
///
/// It is a slice like any other for the calls. It is aligned to 64 bytes and belongs to no communicator.
///
/// The library writes to it only during calls that were given it. One limit: a call that has *failed* may have left a rank
/// behind that was slow and still writes its part. So after an error of a communicator do not use the vectors that its last
/// call was given; drop them. Their memory is not used again.
///
/// ```
/// use penny::{Op, SharedVec};
///
/// penny::on_threads(2, |comm| {
///     let mut gradients = SharedVec::filled(100_000, 1.5f32)?;
///     comm.all_reduce_in_place(&mut gradients, Op::Sum)?;
///     assert!(gradients.iter().all(|&x| x == 3.0));
///     Ok(())
/// })?;
/// # Ok::<(), penny::Error>(())
/// ```
pub struct SharedVec<T: Plain> {
    start: NonNull<T>,
    len: usize,
    /// Failed calls when it was made.
    failures: u64,
}

// SAFETY: it owns its memory as a Vec does, and its elements are Send and Sync.
unsafe impl<T: Plain> Send for SharedVec<T> {}
// SAFETY: as above; shared references only read.
unsafe impl<T: Plain> Sync for SharedVec<T> {}

impl<T: Plain> SharedVec<T> {
    /// Allocates `len` elements that are all `value`.
    pub fn filled(len: usize, value: T) -> Result<SharedVec<T>> {
        let bytes = len
            .checked_mul(size_of::<T>())
            .ok_or_else(|| Error::argument(format!("len {len} is more than memory can hold")))?;
        let failures = comm::failures();
        let mut start = NonNull::<T>::dangling();
        if bytes > 0 {
            let address = in_rust(comm::mem_alloc(bytes))?;
            start = NonNull::new(std::ptr::with_exposed_provenance_mut(address))
                .ok_or_else(|| Error::internal("an allocation at the address 0"))?;
        }
        for i in 0..len {
            // SAFETY: `len` elements were allocated for this vector alone, aligned to 64 bytes.
            unsafe { start.add(i).write(value) };
        }
        Ok(SharedVec { start, len, failures })
    }

    /// Allocates `len` elements that are all zero.
    pub fn zeroed(len: usize) -> Result<SharedVec<T>> {
        SharedVec::filled(len, T::default())
    }

    /// Allocates a copy of a slice.
    pub fn copied(slice: &[T]) -> Result<SharedVec<T>> {
        let mut made = SharedVec::zeroed(slice.len())?;
        made.copy_from_slice(slice);
        Ok(made)
    }
}

impl<T: Plain> Deref for SharedVec<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: `len` elements were allocated and written; this vector owns them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Plain> DerefMut for SharedVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and `&mut self` is the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: Plain> Drop for SharedVec<T> {
    fn drop(&mut self) {
        // If a call has failed since it was made, a peer may still write to it.
        if self.len > 0 && self.failures == comm::failures() {
            drop(comm::mem_free(self.start.as_ptr().expose_provenance()));
        }
    }
}

impl<T: Plain + fmt::Debug> fmt::Debug for SharedVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
