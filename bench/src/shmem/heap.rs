//! The calls on the symmetric heap, as a C program would make them, with failures as sentences.

use std::ffi::{c_int, c_void};
use std::ptr;

use penny::ffi;
use penny::internals::types::DataType;

use crate::capi::{Communicator, outcome};

/// A communicator's symmetric heap.
pub struct Heap<'a> {
    comm: &'a Communicator,
    /// Of two ranks, the other.
    pub peer: c_int,
}

/// What the heap's books say.
#[derive(Clone, Copy, Debug)]
pub struct Books {
    /// Bytes of all segments.
    pub bytes: u64,
    /// Bytes in allocations.
    pub used: u64,
    /// Bytes free.
    pub free: u64,
    /// Allocations that live.
    pub blocks: u64,
    /// Of all times.
    pub allocations: u64,
    /// Of all times.
    pub frees: u64,
    /// Segments.
    pub segments: u64,
    /// The share of the free bytes that the largest free block does not have.
    pub fragmentation: f64,
}

impl<'a> Heap<'a> {
    /// Makes it.
    pub fn init(comm: &'a Communicator) -> Result<Heap<'a>, String> {
        // SAFETY: the communicator is live while it is borrowed; so in every call here.
        outcome(unsafe { ffi::pennyShmemInit(comm.raw()) }, comm.raw())?;
        Ok(Heap { comm, peer: 1 - comm.rank() as c_int })
    }

    /// Gives it up.
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

    /// Memory of so many bytes.
    pub fn align(&self, alignment: usize, bytes: usize) -> Result<*mut u8, String> {
        let mut memory: *mut c_void = ptr::null_mut();
        // SAFETY: the pointer is to a local.
        self.done(unsafe { ffi::pennyShmemAlign(&mut memory, alignment, bytes, self.comm.raw()) })?;
        Ok(memory.cast())
    }

    /// Memory of so many bytes, of the heap's own alignment.
    pub fn malloc(&self, bytes: usize) -> Result<*mut u8, String> {
        let mut memory: *mut c_void = ptr::null_mut();
        // SAFETY: the pointer is to a local.
        self.done(unsafe { ffi::pennyShmemMalloc(&mut memory, bytes, self.comm.raw()) })?;
        Ok(memory.cast())
    }

    /// Memory of so many bytes, all zero.
    pub fn calloc(&self, bytes: usize) -> Result<*mut u8, String> {
        let mut memory: *mut c_void = ptr::null_mut();
        // SAFETY: the pointer is to a local.
        self.done(unsafe { ffi::pennyShmemCalloc(&mut memory, bytes, 1, self.comm.raw()) })?;
        Ok(memory.cast())
    }

    /// Gives memory back; nobody may use it any more.
    pub fn free(&self, memory: *mut u8) -> Result<(), String> {
        // SAFETY: any address may be passed; what is no allocation is refused.
        self.done(unsafe { ffi::pennyShmemFree(memory.cast(), self.comm.raw()) })
    }

    /// Where the peer's copy of `memory` is for loads and stores of this process.
    pub fn bare(&self, memory: *mut u8) -> Result<*mut u8, String> {
        let mut theirs: *mut c_void = ptr::null_mut();
        // SAFETY: the pointer is to a local.
        self.done(unsafe { ffi::pennyShmemPtr(&mut theirs, memory.cast(), self.peer, self.comm.raw()) })?;
        match theirs.is_null() {
            false => Ok(theirs.cast()),
            true => {
                Err("on a declared machine there is no way round its time, so nothing to compare with"
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

    /// All puts are done.
    #[inline]
    pub fn quiet(&self) -> Result<(), String> {
        // SAFETY: the communicator is live while it is borrowed.
        self.done(unsafe { ffi::pennyShmemQuiet(self.comm.raw()) })
    }

    /// Adds 1 to a word of rank `pe`; what it was.
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

    /// Replaces a word of rank `pe` if it is `expected`; what it was.
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

    /// The books.
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
