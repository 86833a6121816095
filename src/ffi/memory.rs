//! Shareable memory: buffers that other ranks read and write in place.

use std::ffi::c_void;

use super::handle::pennyComm_t;
use crate::comm;

c_api! {
    /// Allocates memory that the other ranks can reach, aligned to 64 bytes. Its contents are undefined at first, as with
    /// malloc. Any buffer may be passed to any call; large calls on this memory copy less.
    ///
    /// ptr: written on success; the caller owns the memory until pennyMemFree. size: bytes.
    fn pennyMemAlloc(#[out] ptr: *mut *mut c_void, size: usize) {
        ptr.set(std::ptr::with_exposed_provenance_mut(comm::mem_alloc(size)?))
    }

    /// Frees memory of pennyMemAlloc. No call may be using it, on any rank. Communicators do not own memory: it may be
    /// freed before or after them.
    ///
    /// ptr: an address that pennyMemAlloc returned, else pennyInvalidArgument; NULL does nothing and succeeds.
    fn pennyMemFree(ptr: *mut c_void) {
        match ptr.is_null() {
            true => Ok(()),
            false => comm::mem_free(ptr.get()),
        }
    }

    /// Registers ordinary memory of this process so that the other ranks can reach it in place. Calls of comm on it then
    /// copy no more than on memory of pennyMemAlloc. Each rank may register on its own; the other ranks need not. The
    /// contents stay.
    ///
    /// Where registration is not possible the call still succeeds, calls on the buffer copy as before, and PENNY_DEBUG=info
    /// gives the reason: memory that is not ordinary (mapped from a file, shared, read-only, a stack), less than a page, no
    /// room in the shareable heap, a part of the range registered before. Memory of pennyMemAlloc needs no registration.
    /// Calls of less than 16 KiB gain nothing.
    ///
    /// comm: the registration ends with it, if not before.
    /// buff, size: bytes of memory that malloc, new or mmap gave, or any part of it. No thread may write to them during
    /// this call or pennyCommDeregister; what lies beside them may be written at any time. Memory where nothing is mapped
    /// is pennyInvalidArgument. A range within a registered one takes a share in it. size 0 does nothing and succeeds.
    /// handle: written on success, for pennyCommDeregister.
    ///
    /// Deregister before memory is freed. Memory that is freed while it is registered, and is then allocated anew, is not
    /// what the other ranks reach: calls of 1 MiB and more find that out and copy, results of smaller ones are undefined.
    ///
    /// The whole pages of the buffer become shared memory. So a forked child shares them with its parent, as it does
    /// memory of pennyMemAlloc, and must neither write nor free them; and memory that a device or the kernel has pinned at
    /// its pages (RDMA, a GPU driver, io_uring) must not be registered here.
    fn pennyCommRegister(comm: pennyComm_t, buff: *mut c_void, size: usize, #[out] handle: *mut *mut c_void) {
        handle.set(std::ptr::without_provenance_mut(comm::register(comm, buff, size)? as usize))
    }

    /// Ends a registration: the buffer is private memory again, with its contents.
    ///
    /// handle: a handle that pennyCommRegister returned for comm, used once, else pennyInvalidArgument; NULL does nothing
    /// and succeeds.
    fn pennyCommDeregister(comm: pennyComm_t, handle: *mut c_void) {
        comm::deregister(comm, handle.get() as u64)
    }
}
