//! Shareable memory: buffers that other ranks read and write in place.

use std::ffi::c_void;

use crate::comm;

c_api! {
    /// Allocates memory that the other ranks can reach, aligned to 64 bytes. What is in it at first is undefined, as with
    /// malloc. Any buffer may be passed to any call; calls on this memory copy less.
    ///
    /// ptr: written on success; the caller owns the memory until pennyMemFree. size: bytes.
    fn pennyMemAlloc(#[out] ptr: *mut *mut c_void, size: usize) {
        ptr.set(std::ptr::with_exposed_provenance_mut(comm::mem_alloc(size)?))
    }

    /// Gives memory of pennyMemAlloc back. No call may be using it, on any rank. Communicators do not own memory: it may be
    /// freed before or after they are.
    ///
    /// ptr: what pennyMemAlloc gave, else pennyInvalidArgument; NULL does nothing and succeeds.
    fn pennyMemFree(ptr: *mut c_void) {
        match ptr.is_null() {
            true => Ok(()),
            false => comm::mem_free(ptr.get()),
        }
    }
}
