//! The symmetric heap's interface, by communicator: what all ranks call together, and the heap for what each calls alone.

use super::registry::{self, Handle};
use super::symmetric;
use crate::error::Result;
use crate::onesided::Domain;
use crate::types::Rank;

pub use crate::memory::arena::Stats as HeapStats;

/// Make the communicator's symmetric heap. All ranks call.
pub fn shmem_init(comm: Handle) -> Result<()> {
    registry::enter(comm, |c| c.symmetric_init())
}
/// Give it up with all that is in it. All ranks call; none may be inside one of its calls.
pub fn shmem_finalize(comm: Handle) -> Result<()> {
    symmetric::forget();
    registry::enter(comm, |c| c.symmetric_finalize())
}
/// `bytes` bytes at the same offset on all ranks, aligned to a power of two, at most a page; their address here. All ranks
/// call with the same arguments; 0 bytes give 0, without meeting anybody.
pub fn shmem_alloc(comm: Handle, bytes: usize, align: usize, zeroed: bool) -> Result<usize> {
    registry::enter(comm, |c| c.symmetric_alloc(bytes, align, zeroed))
}
/// Give memory of [`shmem_alloc`] back. All ranks call, each with its own address of it; 0 does nothing.
pub fn shmem_free(comm: Handle, addr: usize) -> Result<()> {
    registry::enter(comm, |c| c.symmetric_free(addr))
}
/// The heap's books, and its number of segments.
pub fn shmem_stats(comm: Handle) -> Result<(HeapStats, usize)> {
    registry::enter(comm, |c| c.symmetric_stats())
}
/// All ranks have come. `quiet`: and what they have put is done.
pub fn shmem_barrier(comm: Handle, quiet: bool) -> Result<()> {
    registry::enter(comm, |c| {
        if quiet {
            c.symmetric.as_ref().ok_or_else(symmetric::absent)?.domain().quiet()?;
        }
        c.barrier()
    })
}
/// Use the heap from any thread.
#[inline]
pub fn shmem<T>(comm: Handle, body: impl FnOnce(&Domain) -> Result<T>) -> Result<T> {
    symmetric::with_domain(comm, body)
}
/// This rank's number in the heap and how many ranks there are.
pub fn shmem_members(comm: Handle) -> Result<(Rank, u32)> {
    symmetric::members(comm)
}
