//! Memory that an endpoint sends from, or that others write to.

use super::abi::*;
use super::endpoint::OfiEndpoint;
use crate::error::{Error, Result};
use crate::sys::endpoint::{MappedRegion, MemoryId, RemoteMemory, Use};
use crate::sys::process;
use std::ffi::c_void;
use std::ptr::null_mut;

/// A part of a region that an endpoint has registered, or may send from without.
pub(super) struct Memory {
    /// Its first byte.
    pub base: usize,
    pub bytes: usize,
    pub mr: *mut Mr,
    /// Keeps it mapped.
    _region: Box<dyn MappedRegion>,
}

impl Memory {
    /// What the provider wants to know of local memory.
    pub fn descriptor(&self) -> *mut c_void {
        // SAFETY: NULL, or a registration that is closed only with the endpoint.
        unsafe { self.mr.as_ref() }.map_or(null_mut(), |mr| mr.mem_desc)
    }
}

impl OfiEndpoint {
    /// Registers bytes `at .. at + bytes` of a region. They must lie within.
    pub(super) fn register(
        &mut self,
        region: Box<dyn MappedRegion>,
        at: usize,
        bytes: usize,
        used: Use,
    ) -> Result<MemoryId> {
        assert!(at <= region.bytes() && bytes <= region.bytes() - at, "a memory outside of its region");
        let base = region.base() + at;
        let mr = match used {
            Use::Send if self.modes & FI_MR_LOCAL == 0 => null_mut(),
            Use::Send => self.register_range(base, bytes, FI_WRITE | FI_SEND)?,
            Use::Written => self.register_range(base, bytes, FI_REMOTE_WRITE)?,
        };
        self.memories.push(Memory { base, bytes, mr, _region: region });
        Ok(MemoryId(self.memories.len() - 1))
    }

    /// Registers a range that the endpoint keeps mapped.
    pub(super) fn register_range(&self, base: usize, bytes: usize, access: u64) -> Result<*mut Mr> {
        // No key of one communicator is good for another, and none can be guessed.
        let random = u64::from_ne_bytes(process::random());
        let key = if self.key_bytes < 8 { random & ((1 << (8 * self.key_bytes)) - 1) } else { random };
        let mut mr: *mut Mr = null_mut();
        // SAFETY: a live domain, whose table is there; the range stays mapped until the registration is closed.
        let result = unsafe {
            let domain = self.objects.domain;
            ((*(*domain).mr).reg)(
                &raw mut (*domain).fid,
                base as *const c_void,
                bytes,
                access,
                0,
                key,
                0,
                &mut mr,
                null_mut(),
            )
        };
        self.check(result as isize, || format!("cannot register {bytes} bytes of memory"))?;
        if self.modes & FI_MR_ENDPOINT != 0 {
            // SAFETY: a new registration, bound to the endpoint as its mode asks, and then enabled.
            let result = unsafe {
                let fid = &raw mut (*mr).fid;
                let ops = &*(*mr).fid.ops;
                match (ops.bind)(fid, &raw mut (*self.objects.ep).fid, 0) {
                    0 => (ops.control)(fid, FI_ENABLE, null_mut()),
                    failed => failed,
                }
            };
            self.check(result as isize, || "cannot bind registered memory to the endpoint".into())?;
        }
        // SAFETY: as above.
        if access & FI_REMOTE_WRITE != 0 && unsafe { (*mr).key } == FI_KEY_NOTAVAIL {
            return Err(Error::system(format!(
                "{} has keys of more than 64 bits, which are not supported; set PENNY_NET to another provider",
                self.who
            )));
        }
        Ok(mr)
    }

    /// What another endpoint has to know to write to a memory.
    pub(super) fn remote(&self, memory: MemoryId) -> RemoteMemory {
        let memory = &self.memories[memory.0];
        let address = if self.modes & FI_MR_VIRT_ADDR != 0 { memory.base as u64 } else { 0 };
        // SAFETY: as in `descriptor`.
        RemoteMemory { address, key: unsafe { memory.mr.as_ref() }.map_or(FI_KEY_NOTAVAIL, |mr| mr.key) }
    }
}
