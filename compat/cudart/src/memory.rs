//! Memory: what programs allocate, register, free and ask about.

use std::ffi::{c_int, c_uint, c_void};

use crate::allocations::{self, Allocation, Kind};
use crate::guard::{Result, cuda_api, fault, invalid, place, set_if_wanted};
use crate::handles::Handle;
use crate::operation::refuse_in_host_function;
use crate::{codes, device, order, properties, stream};

/// Rows of cudaMallocPitch begin at multiples of this.
const PITCH: usize = 512;
/// Flags of host memory that a program may pass.
const HOST_FLAGS: c_uint = 7;
/// Flags of registered memory that a program may pass.
const REGISTER_FLAGS: c_uint = 0xf;
/// Flags of managed memory: to all streams, or to the host at first.
const ATTACH: [c_uint; 2] = [1, 2];
/// The device of memory that CUDA does not know.
const NO_DEVICE: c_int = -2;
/// The device number that means the host.
const CPU: c_int = -1;

/// Memory that is out of the table and is freed in a stream's turn.
#[derive(Clone, Copy)]
pub struct Freed(pub Allocation);

impl Freed {
    /// Gives the memory back.
    pub fn free(&self) {
        // It was taken out of the table of this process, so Penny knows it.
        let _ = self.0.free();
    }
}

/// What cudaPointerGetAttributes tells.
#[repr(C)]
pub struct Attributes {
    kind: c_int,
    device: c_int,
    device_pointer: *mut c_void,
    host_pointer: *mut c_void,
}

/// Returns an address for C.
pub fn to_c(address: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address)
}

fn allocate(at: *mut *mut c_void, bytes: usize, kind: Kind, flags: c_uint) -> Result<()> {
    let at = place(at, "ptr")?;
    at.set(to_c(allocations::allocate(bytes, kind, device::current()?, flags, 0)?));
    Ok(())
}

fn free(address: *mut c_void, name: &str, fits: impl Fn(&Allocation) -> bool) -> Result<()> {
    if address.is_null() {
        return Ok(());
    }
    refuse_in_host_function()?;
    let known = allocations::find(address.addr()).filter(|one| one.at == address.addr() && fits(one));
    if let Some(known) = known {
        // Nothing that was queued before may use it any more.
        order::quiet(known.device);
    }
    match allocations::take(address.addr(), fits) {
        Some(taken) => taken.free(),
        None => invalid(format!(
            "{name} is not the beginning of memory that this function frees; pass what the allocation returned, once"
        )),
    }
}

/// Takes device memory out of the table, for a stream that frees it in its turn.
pub fn take_device(address: *mut c_void) -> Result<Freed> {
    let is_device = |one: &Allocation| matches!(one.kind, Kind::Device | Kind::Managed);
    match allocations::take(address.addr(), is_device) {
        Some(taken) => Ok(Freed(taken)),
        None => {
            invalid("devPtr is not the beginning of device memory; pass what cudaMallocAsync returned, once")
        }
    }
}

fn allocate_host(at: *mut *mut c_void, bytes: usize, flags: c_uint) -> Result<()> {
    if flags & !HOST_FLAGS != 0 {
        return invalid(format!("flags is {flags}; pass a sum of the flags cudaHostAlloc..."));
    }
    allocate(at, bytes, Kind::Host, flags)
}

fn host(address: *mut c_void) -> Result<Allocation> {
    match allocations::find(address.addr()).filter(|one| one.kind != Kind::Device) {
        Some(found) => Ok(found),
        None => invalid("pHost is not pinned host memory; allocate it with cudaHostAlloc, or register it"),
    }
}

cuda_api! {
    /// Allocates device memory: memory of the host that Penny's collectives reach in place.
    fn cudaMalloc(devPtr: *mut *mut c_void, size: usize) {
        allocate(devPtr, size, Kind::Device, 0)
    }

    /// Allocates memory of rows whose beginnings are aligned.
    fn cudaMallocPitch(devPtr: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize) {
        let at = place(pitch, "pitch")?;
        let row = self::pitch(width)?;
        allocate(devPtr, row.saturating_mul(height), Kind::Device, 0)?;
        at.set(row);
        Ok(())
    }

    /// Allocates managed memory, which is device memory here.
    fn cudaMallocManaged(devPtr: *mut *mut c_void, size: usize, flags: c_uint) {
        if !ATTACH.contains(&flags) {
            return invalid(format!("flags is {flags}; pass cudaMemAttachGlobal or cudaMemAttachHost"));
        }
        if size == 0 {
            return invalid("size is 0; pass the size in bytes");
        }
        allocate(devPtr, size, Kind::Managed, flags)
    }

    /// Frees device memory when all that is queued on its device is over.
    fn cudaFree(devPtr: *mut c_void) {
        free(devPtr, "devPtr", |one| matches!(one.kind, Kind::Device | Kind::Managed))
    }

    /// Allocates pinned host memory, which collectives also reach in place.
    fn cudaMallocHost(ptr: *mut *mut c_void, size: usize) {
        allocate_host(ptr, size, 0)
    }

    /// Allocates pinned host memory.
    fn cudaHostAlloc(pHost: *mut *mut c_void, size: usize, flags: c_uint) {
        allocate_host(pHost, size, flags)
    }

    /// Frees pinned host memory.
    fn cudaFreeHost(ptr: *mut c_void) {
        free(ptr, "ptr", |one| one.kind == Kind::Host && !one.is_registered())
    }

    /// Notes that memory of the program is pinned. It is reached as before.
    fn cudaHostRegister(ptr: *mut c_void, size: usize, flags: c_uint) {
        if ptr.is_null() || size == 0 || ptr.addr().checked_add(size).is_none() {
            return invalid(format!("ptr is {ptr:p} and size is {size}; pass memory of the program"));
        }
        if flags & !REGISTER_FLAGS != 0 {
            return invalid(format!("flags is {flags}; pass a sum of the flags cudaHostRegister..."));
        }
        if !allocations::register(ptr.expose_provenance(), size, device::current()?, flags) {
            return fault(
                codes::cudaErrorHostMemoryAlreadyRegistered,
                "a part of ptr is registered or was allocated here; unregister it before",
            );
        }
        Ok(())
    }

    /// Takes back cudaHostRegister.
    fn cudaHostUnregister(ptr: *mut c_void) {
        if allocations::take(ptr.addr(), Allocation::is_registered).is_none() {
            return fault(
                codes::cudaErrorHostMemoryNotRegistered,
                "ptr is not the beginning of registered memory; pass what cudaHostRegister was given, once",
            );
        }
        Ok(())
    }

    /// Returns the device's address of pinned memory, which is the host's.
    fn cudaHostGetDevicePointer(pDevice: *mut *mut c_void, pHost: *mut c_void, flags: c_uint) {
        let at = place(pDevice, "pDevice")?;
        if flags != 0 {
            return invalid(format!("flags is {flags}; pass 0"));
        }
        host(pHost)?;
        at.set(pHost);
        Ok(())
    }

    /// Returns the flags that pinned memory was made with.
    fn cudaHostGetFlags(pFlags: *mut c_uint, pHost: *mut c_void) {
        let at = place(pFlags, "pFlags")?;
        at.set(host(pHost)?.flags);
        Ok(())
    }

    /// Returns how much memory the device has, and how much of it is free: the host's.
    fn cudaMemGetInfo(free: *mut usize, total: *mut usize) {
        device::current()?;
        let (all, available) = properties::device_memory();
        set_if_wanted(free, available);
        set_if_wanted(total, all);
        Ok(())
    }

    /// Tells what memory lies at an address.
    fn cudaPointerGetAttributes(attributes: *mut Attributes, ptr: *const c_void) {
        let at = place(attributes, "attributes")?;
        let ptr = ptr.cast_mut();
        let none = std::ptr::null_mut();
        at.set(match allocations::find(ptr.addr()) {
            Some(found) => Attributes {
                kind: found.kind as c_int,
                device: found.device,
                device_pointer: ptr,
                host_pointer: if found.kind == Kind::Device { none } else { ptr },
            },
            None => Attributes { kind: 0, device: NO_DEVICE, device_pointer: none, host_pointer: ptr },
        });
        Ok(())
    }

    /// Does nothing: memory is where it is.
    fn cudaMemPrefetchAsync(devPtr: *const c_void, _count: usize, dstDevice: c_int, stream: Handle) {
        advice(devPtr, dstDevice)?;
        stream::find(stream).map(drop)
    }

    /// Does nothing.
    fn cudaMemAdvise(devPtr: *const c_void, _count: usize, advice: c_int, device: c_int) {
        if !(1..=6).contains(&advice) {
            return invalid(format!("advice is {advice}; pass a cudaMemoryAdvise"));
        }
        self::advice(devPtr, device)
    }

    /// Does nothing: writes are visible in their order.
    fn cudaDeviceFlushGPUDirectRDMAWrites(_target: c_int, _scope: c_int) {
        Ok(())
    }

    /// Refuses attributes of ranges, which memory here has not.
    fn cudaMemRangeGetAttribute(
        _data: *mut c_void, _dataSize: usize, _attribute: c_int, _devPtr: *const c_void, _count: usize,
    ) {
        crate::guard::unsupported("memory has no attributes of ranges; ask cudaPointerGetAttributes")
    }

    /// Returns memory of three dimensions. Its rows are aligned.
    fn cudaMalloc3D(pitchedDevPtr: *mut Pitched, extent: Extent) {
        let at = place(pitchedDevPtr, "pitchedDevPtr")?;
        let (mut memory, row) = (std::ptr::null_mut(), pitch(extent.width)?);
        allocate(&mut memory, row.saturating_mul(extent.height).saturating_mul(extent.depth), Kind::Device, 0)?;
        at.set(Pitched { at: memory, pitch: row, xsize: extent.width, ysize: extent.height });
        Ok(())
    }
}

/// Memory of rows.
#[repr(C)]
pub struct Pitched {
    at: *mut c_void,
    pitch: usize,
    xsize: usize,
    ysize: usize,
}

/// A size in three dimensions.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Extent {
    width: usize,
    height: usize,
    depth: usize,
}

fn advice(at: *const c_void, device: c_int) -> Result<()> {
    if allocations::find(at.addr()).is_none() {
        return invalid(
            "devPtr is not memory that was allocated or registered here; pass memory of cudaMallocManaged",
        );
    }
    if device != CPU { device::check(device).map(drop) } else { Ok(()) }
}

/// Returns the distance of rows.
fn pitch(width: usize) -> Result<usize> {
    match width.checked_next_multiple_of(PITCH) {
        Some(pitch) => Ok(pitch),
        None => invalid(format!("width is {width}, more than any process has; pass the width in bytes")),
    }
}
