//! The C functions of the symmetric heap, called as a C program calls them; a failure is returned as Penny's sentence.

use std::ffi::{c_int, c_void};
use std::ptr;

use penny::ffi;
use penny::internals::types::DataType;

use crate::capi::{Communicator, outcome};

/// A communicator's symmetric heap.
pub struct Heap<'a> {
    comm: &'a Communicator,
    /// The other one of the two ranks.
    pub peer: c_int,
}

/// The heap's statistics.
#[derive(Clone, Copy, Debug)]
pub struct Books {
    /// Bytes of all segments.
    pub bytes: u64,
    /// Bytes in allocations.
    pub used: u64,
    /// Bytes free.
    pub free: u64,
    /// Live allocations.
    pub blocks: u64,
    /// Allocations since the heap was made.
    pub allocations: u64,
    /// Frees since the heap was made.
    pub frees: u64,
    /// Segments.
    pub segments: u64,
    /// The part of the free bytes that lies outside the largest free block.
    pub fragmentation: f64,
}

impl<'a> Heap<'a> {
    /// Makes the symmetric heap.
    pub fn init(comm: &'a Communicator) -> Result<Heap<'a>, String> {
        // SAFETY: the communicator is live while it is borrowed; so in every call here.
        outcome(unsafe { ffi::pennyShmemInit(comm.raw()) }, comm.raw())?;
        Ok(Heap { comm, peer: 1 - comm.rank() as c_int })
    }

    /// Frees the symmetric heap.
    pub fn finalize(self) -> Result<(), String> {
        // SAFETY: as above.
        self.done(unsafe { ffi::pennyShmemFinalize(self.comm.raw()) })
    }

    /// The ranks' communicator.
    pub fn comm(&self) -> &Communicator {
        self.comm
    }

    #[inline]
    fn done(&self, result: ffi::pennyResult_t) -> Result<(), String> {
        outcome(result, self.comm.raw())
    }

    /// Allocates `bytes` bytes at a multiple of `alignment`.
    pub fn align(&self, alignment: usize, bytes: usize) -> Result<*mut u8, String> {
        let mut memory: *mut c_void = ptr::null_mut();
        // SAFETY: the pointer is to a local.
        self.done(unsafe { ffi::pennyShmemAlign(&mut memory, alignment, bytes, self.comm.raw()) })?;
        Ok(memory.cast())
    }

    /// Allocates `bytes` bytes at the heap's own alignment.
    pub fn malloc(&self, bytes: usize) -> Result<*mut u8, String> {
        let mut memory: *mut c_void = ptr::null_mut();
        // SAFETY: the pointer is to a local.
        self.done(unsafe { ffi::pennyShmemMalloc(&mut memory, bytes, self.comm.raw()) })?;
        Ok(memory.cast())
    }

    /// Allocates `bytes` bytes, all zero.
    pub fn calloc(&self, bytes: usize) -> Result<*mut u8, String> {
        let mut memory: *mut c_void = ptr::null_mut();
        // SAFETY: the pointer is to a local.
        self.done(unsafe { ffi::pennyShmemCalloc(&mut memory, bytes, 1, self.comm.raw()) })?;
        Ok(memory.cast())
    }

    /// Frees memory. No rank may use it afterwards.
    pub fn free(&self, memory: *mut u8) -> Result<(), String> {
        // SAFETY: any address may be passed; what is no allocation is refused.
        self.done(unsafe { ffi::pennyShmemFree(memory.cast(), self.comm.raw()) })
    }

    /// Returns the address of the peer's copy of `memory` in this process, for loads and stores.
    pub fn bare(&self, memory: *mut u8) -> Result<*mut u8, String> {
        let mut theirs: *mut c_void = ptr::null_mut();
        // SAFETY: the pointer is to a local.
        self.done(unsafe { ffi::pennyShmemPtr(&mut theirs, memory.cast(), self.peer, self.comm.raw()) })?;
        match theirs.is_null() {
            false => Ok(theirs.cast()),
            true => {
                Err("the peer's memory has no address here, as on a declared machine or on another host, so there is \
                     nothing to compare with; run it between ranks of one host"
                    .to_owned())
            }
        }
    }

    /// Writes to the peer.
    ///
    /// # Safety
    /// `source` must be readable for `bytes` bytes.
    #[inline]
    pub unsafe fn put(&self, dest: *mut u8, source: *const u8, bytes: usize) -> Result<(), String> {
        // SAFETY: the caller's promise; `dest` may be any address. So in the next three.
        self.done(unsafe {
            ffi::pennyShmemPutMem(dest.cast(), source.cast(), bytes, self.peer, self.comm.raw())
        })
    }

    /// Reads from the peer.
    ///
    /// # Safety
    /// `dest` must be writable for `bytes` bytes.
    #[inline]
    pub unsafe fn get(&self, dest: *mut u8, source: *const u8, bytes: usize) -> Result<(), String> {
        // SAFETY: as in `put`.
        self.done(unsafe {
            ffi::pennyShmemGetMem(dest.cast(), source.cast(), bytes, self.peer, self.comm.raw())
        })
    }

    /// Writes to the peer, and sets its signal.
    #[inline]
    pub fn put_signal(&self, dest: *mut u8, source: &u64, signal: *mut u8, value: u64) -> Result<(), String> {
        let source: *const u64 = source;
        // SAFETY: 8 bytes are readable at `source`; the others may be any addresses.
        self.done(unsafe {
            ffi::pennyShmemPutMemSignal(
                dest.cast(),
                source.cast(),
                8,
                signal.cast(),
                value,
                ffi::PENNY_SIGNAL_SET,
                self.peer,
                self.comm.raw(),
            )
        })
    }

    /// Sets the peer's signal.
    #[inline]
    pub fn signal(&self, signal: *mut u8, value: u64) -> Result<(), String> {
        let (signal, set) = (signal.cast(), ffi::PENNY_SIGNAL_SET);
        // SAFETY: as in `put_signal`.
        self.done(unsafe { ffi::pennyShmemSignalOp(signal, value, set, self.peer, self.comm.raw()) })
    }

    /// Waits until this rank's signal is at least `value`.
    #[inline]
    pub fn wait(&self, signal: *mut u8, value: u64) -> Result<(), String> {
        let (signal, none) = (signal.cast(), ptr::null_mut());
        // SAFETY: `signal` may be any address; the result may be NULL.
        self.done(unsafe {
            ffi::pennyShmemSignalWaitUntil(none, signal, ffi::PENNY_CMP_GE, value, self.comm.raw())
        })
    }

    /// Returns when all puts of this rank are complete.
    #[inline]
    pub fn quiet(&self) -> Result<(), String> {
        // SAFETY: the communicator is live while it is borrowed.
        self.done(unsafe { ffi::pennyShmemQuiet(self.comm.raw()) })
    }

    /// Adds 1 to a word of rank `pe`, and returns its value before.
    #[inline]
    pub fn fetch_add(&self, word: *mut u8, pe: c_int) -> Result<u64, String> {
        let (one, mut before) = (1u64, 0u64);
        // SAFETY: the operands are locals; `word` may be any address. So in the next one.
        self.done(unsafe {
            ffi::pennyShmemAtomicFetchAdd(
                (&raw mut before).cast(),
                word.cast(),
                (&raw const one).cast(),
                DataType::Uint64.into(),
                pe,
                self.comm.raw(),
            )
        })?;
        Ok(before)
    }

    /// Replaces a word of rank `pe` if it is `expected`, and returns its value before.
    #[inline]
    pub fn compare_swap(&self, word: *mut u8, expected: u64, value: u64, pe: c_int) -> Result<u64, String> {
        let mut before = 0u64;
        // SAFETY: as in `fetch_add`.
        self.done(unsafe {
            ffi::pennyShmemAtomicCompareSwap(
                (&raw mut before).cast(),
                word.cast(),
                (&raw const expected).cast(),
                (&raw const value).cast(),
                DataType::Uint64.into(),
                pe,
                self.comm.raw(),
            )
        })?;
        Ok(before)
    }

    /// Returns the heap's statistics.
    pub fn books(&self) -> Result<Books, String> {
        // SAFETY: numbers, for which zeros are valid.
        let zeros: ffi::pennyShmemStats_t = unsafe { std::mem::zeroed() };
        let (size, magic) = (size_of::<ffi::pennyShmemStats_t>(), ffi::PENNY_SHMEM_STATS_MAGIC);
        let mut stats = ffi::pennyShmemStats_t { size, magic, version: ffi::PENNY_VERSION_CODE, ..zeros };
        // SAFETY: the pointer is to a local.
        self.done(unsafe { ffi::pennyShmemStats(self.comm.raw(), &mut stats) })?;
        Ok(Books {
            bytes: stats.bytes,
            used: stats.used,
            free: stats.free,
            blocks: stats.blocks,
            allocations: stats.allocations,
            frees: stats.frees,
            segments: stats.segments,
            fragmentation: stats.fragmentation,
        })
    }
}
