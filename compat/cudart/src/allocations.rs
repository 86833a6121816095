//! The table of memory that was allocated or registered here.
//!
//! Device memory, pinned memory and managed memory are all shareable memory of Penny, so a collective on any of them copies nothing
//! that it need not. Where Penny's heap has no room left, the host's ordinary memory is taken.

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};
use std::sync::{PoisonError, RwLock};

use crate::codes;
use crate::guard::{Result, fault};
use crate::properties::host_memory;
use crate::{order, penny};

/// What CUDA promises of each address that it gives.
const ALIGNMENT: usize = 256;

/// What memory is to CUDA, with the numbers of cudaMemoryType.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Host = 1,
    Device = 2,
    Managed = 3,
}

/// Where memory came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// Penny's heap: the address that Penny gave.
    Heap(usize),
    /// The host's ordinary memory.
    Ordinary(Layout),
    /// The program's own, registered.
    Program,
}

/// A range of memory.
#[derive(Clone, Copy, Debug)]
pub struct Allocation {
    pub at: usize,
    pub bytes: usize,
    pub kind: Kind,
    pub device: c_int,
    pub flags: c_uint,
    /// The pool that counts it, or 0.
    pub pool: usize,
    origin: Origin,
}

static TABLE: RwLock<BTreeMap<usize, Allocation>> = RwLock::new(BTreeMap::new());

fn table<T>(act: impl FnOnce(&mut BTreeMap<usize, Allocation>) -> T) -> T {
    act(&mut TABLE.write().unwrap_or_else(PoisonError::into_inner))
}

/// Allocates memory; for 0 bytes none.
pub fn allocate(bytes: usize, kind: Kind, device: c_int, flags: c_uint, pool: usize) -> Result<usize> {
    if bytes == 0 {
        return Ok(0);
    }
    if bytes > isize::MAX as usize / 2 {
        return fault(
            codes::cudaErrorMemoryAllocation,
            format!("size is {bytes}, more than any process has; pass the size in bytes"),
        );
    }
    // Penny aligns to less.
    let heap =
        penny::allocate(bytes + ALIGNMENT).map(|at| (at.next_multiple_of(ALIGNMENT), Origin::Heap(at)));
    let (at, origin) = heap.or_else(|full| ordinary(bytes).ok_or(full))?;
    table(|table| table.insert(at, Allocation { at, bytes, kind, device, flags, pool, origin }));
    Ok(at)
}

/// Takes ordinary memory, if the host has as much.
fn ordinary(bytes: usize) -> Option<(usize, Origin)> {
    let layout = Layout::from_size_align(bytes, ALIGNMENT).ok()?;
    if bytes > host_memory().1 {
        return None;
    }
    // SAFETY: the size is not 0.
    let at = unsafe { std::alloc::alloc(layout) };
    (!at.is_null()).then(|| (at.expose_provenance(), Origin::Ordinary(layout)))
}

impl Allocation {
    /// Is it registered memory of the program?
    pub fn is_registered(&self) -> bool {
        self.origin == Origin::Program
    }

    /// Gives it back, after it was taken out of the table.
    pub fn free(&self) -> Result<()> {
        match self.origin {
            Origin::Heap(at) => penny::free(at),
            Origin::Ordinary(layout) => {
                // SAFETY: `ordinary` took it with this layout, and it is out of the table, so nobody frees it twice.
                unsafe { std::alloc::dealloc(std::ptr::with_exposed_provenance_mut(self.at), layout) };
                Ok(())
            }
            Origin::Program => Ok(()),
        }
    }
}

/// Returns what lies at an address.
pub fn find(address: usize) -> Option<Allocation> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let (_, found) = table.range(..=address).next_back()?;
    (address - found.at < found.bytes).then_some(*found)
}

/// Checks that bytes which begin in memory of the table do not go on beyond its end.
pub fn check_range(name: &str, at: usize, bytes: usize) -> Result<()> {
    let Some(found) = find(at) else { return Ok(()) };
    let room = found.bytes - (at - found.at);
    if bytes <= room {
        return Ok(());
    }
    fault(
        codes::cudaErrorInvalidValue,
        format!(
            "{name} has {room} bytes up to the end of its allocation of {} bytes, and {bytes} are asked for; pass a count that fits",
            found.bytes
        ),
    )
}

/// Takes out what begins at an address, if it is as it should be.
pub fn take(address: usize, fits: impl Fn(&Allocation) -> bool) -> Option<Allocation> {
    table(|table| table.get(&address).is_some_and(fits).then(|| table.remove(&address)).flatten())
}

/// Registers memory of the program. Returns false if a part of it is in the table already.
pub fn register(at: usize, bytes: usize, device: c_int, flags: c_uint) -> bool {
    let (kind, origin) = (Kind::Host, Origin::Program);
    table(|table| {
        let before = table.range(..at + bytes).next_back();
        if before.is_some_and(|(start, other)| start + other.bytes > at) {
            return false;
        }
        table.insert(at, Allocation { at, bytes, kind, device, flags, pool: 0, origin });
        true
    })
}

/// Frees all memory of a device.
pub fn free_all(device: c_int) {
    order::quiet(device);
    let all: Vec<_> = table(|table| {
        let of: Vec<_> = table.values().filter(|one| one.device == device).map(|one| one.at).collect();
        of.iter().filter_map(|at| table.remove(at)).collect()
    });
    for one in all {
        // A child cannot give back what its parent allocated, and need not.
        let _ = one.free();
    }
}

/// Returns the bytes that a pool has given.
pub fn in_pool(pool: usize) -> usize {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    table.values().filter(|one| one.pool == pool).map(|one| one.bytes).sum()
}
