//! Stream-ordered allocation, and the pools it takes memory from.
//!
//! Memory is taken when it is asked for and given back in the stream's turn. A pool keeps nothing: it counts what it has given,
//! and its attributes are kept for the program that set them.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_ulonglong, c_void};
use std::sync::{Arc, Mutex};

use crate::allocations::{self, Kind};
use crate::guard::{Result, cuda_api, fault, invalid, place, read, unsupported};
use crate::handles::{self, Handle, Table, lock};
use crate::memory;
use crate::operation::Operation;
use crate::{capture, codes, device, stream};

/// A pool.
struct Pool {
    number: usize,
    device: c_int,
    is_default: bool,
    attributes: Mutex<Attributes>,
}

struct Attributes {
    /// The three that say when memory may be used again.
    reuse: [c_int; 3],
    release_threshold: c_ulonglong,
    most: c_ulonglong,
}

/// How a pool is made. Only the place matters here.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PoolProps {
    alloc_type: c_int,
    handle_types: c_int,
    location: Location,
    security: *mut c_void,
    max_size: usize,
    usage: u16,
    reserved: [u8; 54],
}

/// A place of memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Location {
    kind: c_int,
    id: c_int,
}

/// The right of a device to use memory of a pool.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Access {
    location: Location,
    flags: c_int,
}

static POOLS: Table<Pool> = Table::new();
/// The first pool of a device, and the one that it uses.
type Pair = (Arc<Pool>, Arc<Pool>);
static OF_DEVICE: Mutex<BTreeMap<c_int, Pair>> = Mutex::new(BTreeMap::new());

fn make(device: c_int, is_default: bool) -> Arc<Pool> {
    let attributes = Attributes { reuse: [1; 3], release_threshold: 0, most: 0 };
    let number = handles::fresh();
    let pool = Arc::new(Pool { number, device, is_default, attributes: Mutex::new(attributes) });
    POOLS.insert(number, pool.clone());
    pool
}

fn of_device(device: c_int) -> Pair {
    let make = || {
        let pool = make(device, true);
        (pool.clone(), pool)
    };
    lock(&OF_DEVICE).entry(device).or_insert_with(make).clone()
}

fn find(pool: Handle) -> Result<Arc<Pool>> {
    match POOLS.get(pool) {
        Some(found) => Ok(found),
        None => invalid(
            "memPool is not a live pool: it was destroyed already, or is the handle of something else",
        ),
    }
}

fn allocate(at: *mut *mut c_void, bytes: usize, pool: &Pool, on: Handle) -> Result<()> {
    let at = place(at, "devPtr")?;
    let stream = stream::find(on)?;
    refuse_capture(&stream)?;
    if bytes == 0 {
        return invalid("size is 0; pass the size in bytes");
    }
    at.set(memory::to_c(allocations::allocate(bytes, Kind::Device, pool.device, 0, pool.number)?));
    let mut attributes = lock(&pool.attributes);
    attributes.most = attributes.most.max(allocations::in_pool(pool.number) as c_ulonglong);
    Ok(())
}

/// Refuses allocation on a captured stream: each launch of the graph would need memory of its own.
fn refuse_capture(stream: &stream::Stream) -> Result<()> {
    if capture::of(stream).is_none() {
        return Ok(());
    }
    unsupported("stream is captured, and graphs allocate no memory here; allocate before the capture")
}

impl Pool {
    fn attribute(&self, number: c_int) -> Result<Value> {
        let attributes = lock(&self.attributes);
        Ok(match number {
            1..=3 => Value::Int(attributes.reuse[number as usize - 1]),
            4 => Value::Long(attributes.release_threshold),
            5 | 7 => Value::Long(allocations::in_pool(self.number) as c_ulonglong),
            6 | 8 => Value::Long(attributes.most),
            _ => return invalid(format!("attr is {number}; pass a cudaMemPoolAttr")),
        })
    }
}

enum Value {
    Int(c_int),
    Long(c_ulonglong),
}

cuda_api! {
    /// Allocates device memory, at once.
    fn cudaMallocAsync(devPtr: *mut *mut c_void, size: usize, hStream: Handle) {
        let device = stream::find(hStream)?.device;
        allocate(devPtr, size, &of_device(device).1, hStream)
    }

    /// Allocates device memory that a pool counts, at once.
    fn cudaMallocFromPoolAsync(ptr: *mut *mut c_void, size: usize, memPool: Handle, stream: Handle) {
        allocate(ptr, size, &*find(memPool)?, stream)
    }

    /// Frees device memory in the stream's turn. Its address is unknown from now on.
    fn cudaFreeAsync(devPtr: *mut c_void, hStream: Handle) {
        let stream = stream::find(hStream)?;
        refuse_capture(&stream)?;
        if devPtr.is_null() {
            return Ok(());
        }
        stream.run(Operation::Free(memory::take_device(devPtr)?))
    }

    /// Returns the first pool of a device.
    fn cudaDeviceGetDefaultMemPool(memPool: *mut Handle, device: c_int) {
        let at = place(memPool, "memPool")?;
        at.set(handles::to_c(of_device(device::check(device)?).0.number));
        Ok(())
    }

    /// Returns the pool that a device uses.
    fn cudaDeviceGetMemPool(memPool: *mut Handle, device: c_int) {
        let at = place(memPool, "memPool")?;
        at.set(handles::to_c(of_device(device::check(device)?).1.number));
        Ok(())
    }

    /// Makes a device use a pool.
    fn cudaDeviceSetMemPool(device: c_int, memPool: Handle) {
        let (first, _) = of_device(device::check(device)?);
        let pool = find(memPool)?;
        if pool.device != device {
            return invalid(format!("memPool is of device {}; pass a pool of device {device}", pool.device));
        }
        lock(&OF_DEVICE).insert(device, (first, pool));
        Ok(())
    }

    /// Makes a pool.
    fn cudaMemPoolCreate(memPool: *mut Handle, poolProps: *const PoolProps) {
        let at = place(memPool, "memPool")?;
        let props = read(poolProps, "poolProps")?;
        if props.location.kind != 1 {
            return invalid("poolProps->location is not a device; pass cudaMemLocationTypeDevice");
        }
        if props.handle_types != 0 {
            return unsupported("pools are not shared between processes; pass cudaMemHandleTypeNone");
        }
        at.set(handles::to_c(make(device::check(props.location.id)?, false).number));
        Ok(())
    }

    /// Destroys a pool. What it has given stays.
    fn cudaMemPoolDestroy(memPool: Handle) {
        let pool = find(memPool)?;
        if pool.is_default {
            return fault(codes::cudaErrorInvalidValue, "memPool is the default pool of a device, which stays");
        }
        POOLS.remove(memPool);
        for (first, used) in lock(&OF_DEVICE).values_mut() {
            if used.number == pool.number {
                *used = first.clone();
            }
        }
        Ok(())
    }

    /// Does nothing: a pool keeps no free memory.
    fn cudaMemPoolTrimTo(memPool: Handle, _minBytesToKeep: usize) {
        find(memPool).map(drop)
    }

    /// Keeps an attribute of a pool.
    fn cudaMemPoolSetAttribute(memPool: Handle, attr: c_int, value: *mut c_void) {
        let pool = find(memPool)?;
        match attr {
            1..=3 => {
                let value = read(value.cast::<c_int>(), "value")?;
                lock(&pool.attributes).reuse[attr as usize - 1] = value;
            }
            4 => {
                let value = read(value.cast::<c_ulonglong>(), "value")?;
                lock(&pool.attributes).release_threshold = value;
            }
            6 | 8 if read(value.cast::<c_ulonglong>(), "value")? == 0 => lock(&pool.attributes).most = 0,
            _ => return invalid(format!("attr is {attr}; pass an attribute that may be set, and 0 for high marks")),
        }
        Ok(())
    }

    /// Returns an attribute of a pool.
    fn cudaMemPoolGetAttribute(memPool: Handle, attr: c_int, value: *mut c_void) {
        match find(memPool)?.attribute(attr)? {
            Value::Int(is) => place(value.cast(), "value")?.set(is),
            Value::Long(is) => place(value.cast(), "value")?.set(is),
        }
        Ok(())
    }

    /// Does nothing: all devices reach all memory.
    fn cudaMemPoolSetAccess(memPool: Handle, descList: *const Access, count: usize) {
        find(memPool)?;
        if descList.is_null() && count > 0 {
            return invalid("descList is NULL; pass as many descriptions as count says");
        }
        for i in 0..count {
            // SAFETY: the program promises `count` descriptions.
            device::check(unsafe { descList.add(i).read_unaligned() }.location.id)?;
        }
        Ok(())
    }

    /// Tells that memory of a pool may be read and written.
    fn cudaMemPoolGetAccess(flags: *mut c_int, memPool: Handle, location: *const Location) {
        let at = place(flags, "flags")?;
        find(memPool)?;
        device::check(read(location, "location")?.id)?;
        at.set(3);
        Ok(())
    }
}
