//! Semaphores, and how a rank is named to them: by its number or by its place in a mesh.

use std::ffi::{CStr, c_char, c_int};

use super::handle::{pennyComm_t, to_c};
use super::types::c_numbers;
use crate::comm::{self, SemaphoreHandle};
use crate::error::{Error, Result};
use crate::ffi::guard::Parameter;
use crate::onesided::semaphore::SemaphoreUnit;
use crate::onesided::{Device, MESH_DIMS};

/// The incomplete type to which a pennySemaphore_t points.
pub struct pennySemaphore {
    _opaque: [u8; 0],
}

/// A handle of the semaphores of one name on one rank. It may be copied. It is valid until pennySemaphoreDestroy or the end
/// of the symmetric heap; later calls refuse it with pennyInvalidArgument.
pub type pennySemaphore_t = *mut pennySemaphore;

/// Largest number of dimensions of a mesh.
pub const PENNY_MESH_DIMS: usize = 4;

// LAYOUT: the C struct holds as many coordinates as a mesh has dimensions.
const _: () = assert!(PENNY_MESH_DIMS == MESH_DIMS);

/// Bytes of a semaphore's name, including the terminating 0.
pub const PENNY_SEMAPHORE_NAME_BYTES: usize = 32;

/// Number of barrier semaphores of a communicator.
pub const PENNY_BARRIER_SEMAPHORES: c_int = 32;

c_numbers! {
    /// The unit that a semaphore counts.
    pub enum pennySemaphoreKind_t {
        /// Bytes of remote copies; only remote copies change it.
        pennySemaphoreDma = 0,
        /// Signals.
        pennySemaphoreRegular = 1,
    }
}

c_numbers! {
    /// The way in which a pennyDevice_t names a rank.
    pub enum pennyDeviceKind_t {
        /// Coordinates if a mesh is declared, else the number.
        pennyDeviceDefault = 0,
        /// The number in the communicator, in the first entry of coord.
        pennyDeviceLogical = 1,
        /// The coordinates in the mesh.
        pennyDeviceMesh = 2,
    }
}

/// The rank to which a signal or a copy goes: PENNY_DEVICE(rank), or PENNY_MESH_DEVICE(x, y, ...) with the coordinates in
/// the order of pennyMesh's dims.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pennyDevice_t {
    /// The way in which the device is named.
    pub kind: pennyDeviceKind_t,
    /// The number, or the coordinates; unused entries are 0.
    pub coord: [c_int; PENNY_MESH_DIMS],
}

c_api! {
    /// Declares the arrangement of the ranks: a mesh of ndims dimensions (at most PENNY_MESH_DIMS) in row-major order, so
    /// that the last coordinate runs fastest, as in a JAX mesh. All ranks call it with the same sides, whose product is the
    /// number of ranks. From then on pennyDeviceDefault means coordinates. Needs pennyShmemInit, and holds until
    /// pennyShmemFinalize.
    ///
    /// ndims 0: removes the mesh; dims may be NULL.
    fn pennyMesh(comm: pennyComm_t, ndims: c_int, dims: *const c_int) {
        let count = usize::try_from(ndims).map_err(|_| Error::argument(format!("ndims is {ndims}")))?;
        if dims.is_null() && count > 0 {
            return Err(Error::argument(format!("dims is NULL; pass {count} sides")));
        }
        // Of more than a mesh can have, the first are enough for the refusal.
        let sides = (0..count.min(MESH_DIMS + 1)).map(|k| {
            // SAFETY: the caller's promise: `dims` holds `ndims` sides.
            unsafe { dims.add(k).read_unaligned() }
        });
        comm::mesh(comm, &sides.collect::<Vec<_>>())
    }

    /// Makes count semaphores on every rank, all 0, addressed by their index. All ranks call it with the same arguments.
    /// Needs pennyShmemInit.
    ///
    /// A semaphore is a counter in the memory of its rank: any rank adds to it (pennySemaphoreSignal, a remote copy), only
    /// its own rank waits for it and subtracts from it. Any number of threads of a rank may use semaphores at once.
    ///
    /// name: for reports; 1 to 31 bytes, copied by the call. sem: written on success.
    fn pennySemaphoreCreate(
        comm: pennyComm_t,
        kind: pennySemaphoreKind_t,
        name: *const c_char,
        count: c_int,
        #[out] sem: *mut pennySemaphore_t,
    ) {
        sem.set(to_c(comm::semaphore_create(comm, kind, &name, count)?))
    }

    /// Destroys semaphores. All ranks call it; no other thread may be inside a call on them. They are freed on every rank.
    /// If some are not 0 on this rank the result is pennyInvalidUsage, whose sentence lists each with its value and the
    /// rank that signalled last. pennyShmemFinalize, pennyCommFinalize and pennyCommDestroy report remaining values in the
    /// same way, unless a rank failed.
    ///
    /// sem: NULL does nothing and succeeds.
    fn pennySemaphoreDestroy(#[or_null] sem: pennySemaphore_t) {
        sem.map_or(Ok(()), comm::semaphore_destroy)
    }

    /// Returns one of the communicator's PENNY_BARRIER_SEMAPHORES regular semaphores (count 1, name `barrier`), which exist
    /// from pennyShmemInit to pennyShmemFinalize. Does not wait. Programs that use them in the same pattern may share one
    /// by passing the same collectiveId; others must not.
    ///
    /// collectiveId: 0 to PENNY_BARRIER_SEMAPHORES - 1. sem: written on success; the same for the same collectiveId.
    fn pennyBarrierSemaphore(comm: pennyComm_t, collectiveId: c_int, #[out] sem: *mut pennySemaphore_t) {
        sem.set(to_c(comm::barrier_semaphore(comm, collectiveId)?))
    }

    /// Adds inc to a semaphore of the rank that device names. Earlier puts and copies of this thread are visible to a
    /// thread that waits for it. Returns at once.
    ///
    /// sem: of kind pennySemaphoreRegular. inc: less than 2^63.
    fn pennySemaphoreSignal(sem: pennySemaphore_t, index: c_int, inc: u64, device: pennyDevice_t) {
        comm::semaphore(sem, |semaphores| semaphores.signal(index, inc, device))
    }

    /// Waits until this rank's semaphore is at least value, then subtracts value from it. Fails if a rank dies or gives up,
    /// or at the deadline: pennyTimeout, whose sentence has the semaphore's value, how much each rank has signalled, which
    /// ranks never have, and what the other ranks wait for.
    ///
    /// sem: of any kind; of pennySemaphoreDma, value is bytes. value 0 does nothing.
    fn pennySemaphoreWait(sem: pennySemaphore_t, index: c_int, value: u64) {
        comm::semaphore(sem, |semaphores| semaphores.wait(index, value))
    }

    /// Reads the current value of this rank's semaphore.
    ///
    /// value: written on success.
    fn pennySemaphoreRead(sem: pennySemaphore_t, index: c_int, #[out] value: *mut u64) {
        value.set(comm::semaphore(sem, |semaphores| semaphores.read(index))?)
    }
}

impl Parameter for pennySemaphore_t {
    type Admitted = SemaphoreHandle;
    unsafe fn admit(self, name: &'static str) -> Result<SemaphoreHandle> {
        given(self).ok_or_else(|| Error::argument(format!("{name} is NULL; pass a semaphore")))
    }
}

/// Converts C's handle of semaphores; `None` for NULL.
pub(super) fn given(sem: pennySemaphore_t) -> Option<SemaphoreHandle> {
    (!sem.is_null()).then(|| SemaphoreHandle::from_bits(sem.addr() as u64))
}

impl Parameter for pennySemaphoreKind_t {
    type Admitted = SemaphoreUnit;
    unsafe fn admit(self, name: &'static str) -> Result<SemaphoreUnit> {
        [SemaphoreUnit::Dma, SemaphoreUnit::Regular]
            .into_iter()
            .find(|&kind| kind as c_int == self.0)
            .ok_or_else(|| {
                Error::argument(format!(
                    "{name} is {}, no pennySemaphoreKind_t; it is pennySemaphoreDma or pennySemaphoreRegular",
                    self.0
                ))
            })
    }
}

impl Parameter for pennyDevice_t {
    type Admitted = Device;
    unsafe fn admit(self, name: &'static str) -> Result<Device> {
        match self.kind {
            pennyDeviceDefault => Ok(Device::Default(self.coord)),
            pennyDeviceLogical => Ok(Device::Logical(self.coord[0])),
            pennyDeviceMesh => Ok(Device::Mesh(self.coord)),
            other => Err(Error::argument(format!(
                "{name}.kind is {}, no pennyDeviceKind_t; write PENNY_DEVICE(rank) or PENNY_MESH_DEVICE(x, y)",
                other.0
            ))),
        }
    }
}

/// Returns a string of C without its terminating 0.
impl Parameter for *const c_char {
    type Admitted = String;
    unsafe fn admit(self, name: &'static str) -> Result<String> {
        if self.is_null() {
            return Err(Error::argument(format!("{name} is NULL; pass a text")));
        }
        // SAFETY: the promise to `admit`: a text that ends with 0.
        Ok(unsafe { CStr::from_ptr(self) }.to_string_lossy().into_owned())
    }
}
