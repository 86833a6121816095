//! The symmetric heap: making it, memory of it, meeting in it.

use std::ffi::{c_double, c_int, c_uint, c_void};

use crate::comm;
use crate::ffi::fabric::fill;
use crate::ffi::handle::pennyComm_t;
use crate::ffi::types::PENNY_VERSION_CODE;

/// The magic of a pennyShmemStats_t: "PESH".
pub const PENNY_SHMEM_STATS_MAGIC: c_uint = 0x5045_5348;

/// Statistics of a symmetric heap. Initialize it with PENNY_SHMEM_STATS_INITIALIZER.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pennyShmemStats_t {
    /// Set by the initializer.
    pub size: usize,
    /// Set by the initializer.
    pub magic: c_uint,
    /// Set by the initializer.
    pub version: c_uint,
    /// Bytes of all segments.
    pub bytes: u64,
    /// Bytes in live allocations, each rounded up to 64.
    pub used: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Bytes of the largest free block.
    pub largestFree: u64,
    /// The most that was used at once.
    pub peakUsed: u64,
    /// Live allocations.
    pub blocks: u64,
    /// Allocations so far.
    pub allocations: u64,
    /// Frees so far.
    pub frees: u64,
    /// Segments.
    pub segments: u64,
    /// 1 - largestFree / free: the part of the free memory that a single allocation cannot get. 0 if nothing is free.
    pub fragmentation: c_double,
}

c_api! {
    /// Makes the communicator's symmetric heap: memory that all ranks allocate together, with the same offset on each, so
    /// that a rank names any rank's copy of a variable by the address of its own. All ranks call it. Calls on the heap that
    /// move data or wait may be made by any number of threads of a rank at once.
    ///
    /// It begins with one segment of PENNY_SHMEM_SIZE bytes, which must be the same on all ranks, and grows by more
    /// segments. Its memory is shareable memory: collectives on it copy less.
    fn pennyShmemInit(comm: pennyComm_t) {
        comm::shmem_init(comm)
    }

    /// Destroys the heap with all its allocations. All ranks call it; no other thread may be inside a call on it. The end
    /// of the communicator does the same.
    fn pennyShmemFinalize(comm: pennyComm_t) {
        comm::shmem_finalize(comm)
    }

    /// Reads this rank's number. pe: written on success.
    fn pennyShmemMyPe(comm: pennyComm_t, #[out] pe: *mut c_int) {
        pe.set(comm::shmem_members(comm)?.0 as c_int)
    }

    /// Reads the number of ranks. npes: written on success.
    fn pennyShmemNPes(comm: pennyComm_t, #[out] npes: *mut c_int) {
        npes.set(comm::shmem_members(comm)?.1 as c_int)
    }

    /// Allocates size bytes of the symmetric heap, aligned to 64. All ranks call it with the same size, and it ends with a
    /// barrier. Different sizes are pennyInvalidUsage on all ranks; the sentence names both. size 0 gives NULL, without a
    /// barrier.
    ///
    /// ptr: this rank's address, written on success. The initial contents are undefined. Exhaustion is pennySystemError;
    /// the sentence has the requested size, the free size, and the largest free block.
    fn pennyShmemMalloc(#[out] ptr: *mut *mut c_void, size: usize, comm: pennyComm_t) {
        ptr.set(pointer(comm::shmem_alloc(comm, size, 64, false)?))
    }

    /// Allocates count elements of size bytes, all zero. See pennyShmemMalloc.
    fn pennyShmemCalloc(#[out] ptr: *mut *mut c_void, count: usize, size: usize, comm: pennyComm_t) {
        let bytes = count.saturating_mul(size);
        ptr.set(pointer(comm::shmem_alloc(comm, bytes, 64, true)?))
    }

    /// Allocates size bytes aligned to alignment, a power of two, at most 4096. See pennyShmemMalloc.
    fn pennyShmemAlign(#[out] ptr: *mut *mut c_void, alignment: usize, size: usize, comm: pennyComm_t) {
        ptr.set(pointer(comm::shmem_alloc(comm, size, alignment, false)?))
    }

    /// Frees an allocation. All ranks call it, each with its own address of the allocation. It begins with a barrier, so
    /// earlier puts of all ranks have arrived. NULL does nothing, without a barrier. If the address is no live allocation
    /// on some rank, all ranks get an error and nothing is freed.
    fn pennyShmemFree(ptr: *mut c_void, comm: pennyComm_t) {
        comm::shmem_free(comm, ptr.get())
    }

    /// Returns the address at which this process reaches a rank's copy of dest by plain loads and stores.
    ///
    /// ptr: written on success; NULL where there is none: dest is not in the symmetric heap, the rank is on another host, or
    /// the ranks run on a simulated cluster (PENNY_FABRIC), whose links such access would bypass.
    fn pennyShmemPtr(#[out] ptr: *mut *mut c_void, dest: *const c_void, pe: c_int, comm: pennyComm_t) {
        ptr.set(pointer(comm::shmem(comm, |heap| heap.ptr(dest.get(), pe))?.unwrap_or(0)))
    }

    /// Registers ordinary memory of this process, as pennyCommRegister does, but named by its address, as in NVSHMEM.
    /// Sources of puts and destinations of gets need no registration; collectives on the buffer copy less.
    ///
    /// addr, length: see pennyCommRegister. A buffer is registered once; the registration ends with pennyShmemBufferUnregister
    /// or with the communicator.
    fn pennyShmemBufferRegister(addr: *mut c_void, length: usize, comm: pennyComm_t) {
        comm::shmem_register(comm, addr, length)
    }

    /// Ends a registration of pennyShmemBufferRegister.
    ///
    /// addr: the registered address, used once, else pennyInvalidArgument.
    fn pennyShmemBufferUnregister(addr: *mut c_void, comm: pennyComm_t) {
        comm::shmem_unregister(comm, addr)
    }

    /// Waits until all ranks have called it; all their earlier puts are then complete and visible to all ranks.
    fn pennyShmemBarrierAll(comm: pennyComm_t) {
        comm::shmem_barrier(comm, true)
    }

    /// Waits until all ranks have called it. Does not complete puts.
    fn pennyShmemSyncAll(comm: pennyComm_t) {
        comm::shmem_barrier(comm, false)
    }

    /// Reads the heap's statistics, which are the same on all ranks.
    ///
    /// stats: from PENNY_SHMEM_STATS_INITIALIZER; written on success.
    fn pennyShmemStats(comm: pennyComm_t, #[out] stats: *mut pennyShmemStats_t) {
        let (books, segments) = comm::shmem_stats(comm)?;
        let ours = pennyShmemStats_t {
            size: 0,
            magic: 0,
            version: PENNY_VERSION_CODE,
            bytes: books.bytes,
            used: books.used,
            free: books.free,
            largestFree: books.largest_free,
            peakUsed: books.peak_used,
            blocks: books.live_blocks,
            allocations: books.allocations,
            frees: books.frees,
            segments: segments as u64,
            fragmentation: books.fragmentation,
        };
        // SAFETY: the caller's promise: `stats` is a pennyShmemStats_t of some version, as its size says.
        unsafe {
            fill(stats, &ours, PENNY_SHMEM_STATS_MAGIC, "pennyShmemStats_t", "PENNY_SHMEM_STATS_INITIALIZER")
        }
    }
}

fn pointer(addr: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(addr)
}
