//! The symmetric heap's interface, by communicator: what all ranks call together, and the heap for what each calls alone.

use super::symmetric;
use crate::comm::recorder;
use crate::comm::registry::{self, CommHandle};
use crate::error::{Error, Result};
use crate::memory::view::Address;
use crate::onesided::SymmetricMemory;
use crate::sys::fork;
use crate::types::Rank;
use std::cell::RefCell;
use std::sync::Arc;

pub use crate::memory::arena::ArenaStats as HeapStats;

/// Makes the communicator's symmetric heap. All ranks call.
pub fn shmem_init(comm: CommHandle) -> Result<()> {
    registry::enter(comm, |c| c.symmetric_init())
}
/// Gives it up with all that is in it. All ranks call; none may be inside one of its calls.
pub fn shmem_finalize(comm: CommHandle) -> Result<()> {
    forget();
    registry::enter(comm, |c| c.symmetric_finalize())
}
/// `bytes` bytes at the same offset on all ranks, aligned to a power of two, at most a page; their address here. All ranks
/// call with the same arguments; 0 bytes give 0, without meeting anybody.
pub fn shmem_alloc(comm: CommHandle, bytes: usize, align: usize, zeroed: bool) -> Result<usize> {
    registry::enter(comm, |c| c.symmetric_alloc(bytes, align, zeroed))
}
/// Gives memory of [`shmem_alloc`] back. All ranks call, each with its own address of it; 0 does nothing.
pub fn shmem_free(comm: CommHandle, addr: usize) -> Result<()> {
    registry::enter(comm, |c| c.symmetric_free(addr))
}
/// Returns the heap's statistics and its number of segments.
pub fn shmem_stats(comm: CommHandle) -> Result<(HeapStats, usize)> {
    registry::enter(comm, |c| c.symmetric_stats())
}
/// Waits until all ranks have called it. `quiet`: their earlier puts are then complete.
pub fn shmem_barrier(comm: CommHandle, quiet: bool) -> Result<()> {
    let _recorded = recorder::record(|d| d.barrier(comm));
    registry::enter(comm, |c| {
        if quiet {
            c.symmetric.as_ref().ok_or_else(symmetric::absent)?.symmetric().quiet()?;
        }
        c.barrier()
    })
}
/// Registers `bytes` bytes of ordinary memory by their address, as NVSHMEM does: see [`register`](crate::comm::register).
pub fn shmem_register(comm: CommHandle, buffer: Address<'static>, bytes: usize) -> Result<()> {
    registry::enter(comm, |c| {
        c.symmetric.as_ref().ok_or_else(symmetric::absent)?.refuse_second(buffer)?;
        let registration = c.register(buffer, bytes)?;
        c.symmetric.as_mut().ok_or_else(symmetric::absent)?.buffers.insert(buffer.get(), registration);
        Ok(())
    })
}
/// Ends it.
pub fn shmem_unregister(comm: CommHandle, buffer: Address) -> Result<()> {
    registry::enter(comm, |c| {
        let heap = c.symmetric.as_mut().ok_or_else(symmetric::absent)?;
        let registration = heap.buffers.remove(&buffer.get()).ok_or_else(|| {
            Error::argument(format!(
                "addr {:#x} is not the start of a buffer that pennyShmemBufferRegister registered, or it was unregistered \
                 already",
                buffer.get()
            ))
        })?;
        c.deregister(registration)
    })
}
/// Uses the heap from any thread.
#[inline]
pub fn shmem<T>(comm: CommHandle, body: impl FnOnce(&SymmetricMemory) -> Result<T>) -> Result<T> {
    with_domain(comm, body)
}
/// This rank's number in the heap and how many ranks there are.
pub fn shmem_members(comm: CommHandle) -> Result<(Rank, u32)> {
    members(comm)
}

thread_local! {
    /// The heap that this thread used last.
    static LAST: RefCell<Option<(CommHandle, u32, Arc<SymmetricMemory>)>> = const { RefCell::new(None) };
}

/// Uses a communicator's symmetric heap. Any number of threads may at once; none waits for another here.
#[inline]
fn with_domain<T>(comm: CommHandle, body: impl FnOnce(&SymmetricMemory) -> Result<T>) -> Result<T> {
    let mut body = Some(body);
    let used = LAST.try_with(|last| {
        let body = body.take().ok_or_else(symmetric::absent)?;
        if let Ok(last) = last.try_borrow()
            && let Some((of, generation, symmetric)) = &*last
            && *of == comm
            && registry::is_live(comm)
            && !symmetric.is_closed()
            && *generation == fork::generation()
        {
            return body(symmetric);
        }
        let symmetric = symmetric(comm)?;
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = Some((comm, fork::generation(), symmetric.clone()));
        }
        body(&symmetric)
    });
    used.unwrap_or_else(|_| match body.take() {
        // A thread that runs its last destructors remembers nothing.
        Some(body) => body(&*symmetric(comm)?),
        None => Err(symmetric::absent()),
    })
}

/// The heap itself, for longer than a call.
#[cold]
pub(in crate::comm) fn symmetric(comm: CommHandle) -> Result<Arc<SymmetricMemory>> {
    let shared = registry::shared(comm)?;
    shared.refuse_forked()?;
    let symmetric = shared.symmetric.lock().clone();
    symmetric.ok_or_else(symmetric::absent)
}

/// Forgets what this thread used last: the communicator is going away.
pub(in crate::comm) fn forget() {
    let _ = LAST.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            last.take();
        }
    });
}

/// This rank's number and how many there are.
fn members(comm: CommHandle) -> Result<(Rank, u32)> {
    let symmetric = symmetric(comm)?;
    Ok((symmetric.my_pe(), symmetric.transport().nranks()))
}
