//! A communicator: who is in it, what it is doing, how it ends.
//!
//! This is Penny's Rust interface; `ffi` is a thin C coat over it.

mod call;
mod child;
mod communicator;
mod config;
mod declared;
mod exchange;
mod group;
mod joining;
mod lease;
mod life;
mod permute;
mod registry;
mod shmem;
mod signals;
mod symmetric;
mod table;
mod team;
mod timed;
mod transfer;
mod window;

pub use call::Call;
pub use child::Grouping;
pub use config::Config;
pub use permute::Permute;
pub use registry::Handle;
pub use shmem::*;
pub use signals::{
    Awaited, CONTEXTS as SIGNAL_CONTEXTS, Counter, Put, SIGNALS, Signal, signal, wait_signals,
};
pub use team::{team_split_2d, team_split_strided, team_translate};
pub use timed::{fabric_account, fabric_advance, fabric_advance_to, fabric_counters, fabric_now};
pub use transfer::Transfer;
pub use window::{WindowHandle, window_buffer, window_deregister, window_register};

use child::{Birth, Wish};
use joining::{Joining, Newcomer};

use crate::bootstrap::{self, UniqueId};
use crate::error::{Code, Error, Result};
use crate::memory::heap;
use crate::types::Rank;

/// Make an id that all ranks of one future communicator pass to [`init_rank`]. This process serves the meeting.
pub fn unique_id() -> Result<UniqueId> {
    bootstrap::create_id()
}
/// Join the communicator that `id` names. Blocks until all ranks have come or the deadline passes; in an open group
/// the outermost [`group_end`] does, and the handle is valid after it.
pub fn init_rank(nranks: i32, id: &UniqueId, rank: i32, config: &Config) -> Result<Handle> {
    if group::is_blank(id) {
        return Err(Error::argument(
            "commId is blank; fill it with pennyGetUniqueId on one rank and pass it to all",
        ));
    }
    if group::is_open() {
        let newcomer = Newcomer::new(nranks, id, rank, config).inspect_err(group::fail)?;
        let handle = newcomer.handle();
        group::add_joining(Joining::Newcomer(newcomer));
        return Ok(handle);
    }
    life::init_rank(nranks, id, rank, config)
}
/// The communicator of the caller's group, where the ranks of `parent` are divided into groups of `size`, which must
/// divide their number; for [`Grouping::All`] it is 0 or that number. Ranks keep their order, and the parent's settings
/// hold. Every rank of the parent calls, with the same kind and size; in an open group the outermost [`group_end`] does
/// the work, and the handle is valid after it.
pub fn group(parent: Handle, kind: Grouping, size: i32) -> Result<Handle> {
    let handle = Wish::group(parent, kind, size).inspect_err(group::fail).and_then(|w| bear(parent, w))?;
    handle.ok_or_else(|| Error::internal("a rank is in no group"))
}
/// The communicator of the ranks of `parent` that pass the same colour, ordered by key, then by their rank in the parent;
/// `None` for a rank without a colour. Every rank of the parent calls. `config`: `None` for the parent's settings. In an
/// open group as for [`group`].
pub fn split(
    parent: Handle,
    colour: Option<i32>,
    key: i32,
    config: Option<Config>,
) -> Result<Option<Handle>> {
    bear(parent, Wish::split(colour, key, config))
}
fn bear(parent: Handle, wish: Wish) -> Result<Option<Handle>> {
    if group::is_open() {
        let birth = Birth::new(parent, wish).inspect_err(group::fail)?;
        return Ok(group::add_joining(Joining::Birth(birth)));
    }
    child::child(parent, wish)
}
/// The members' ranks in the communicator that this one was made from by [`group`] or [`split`], by rank; `None` if it
/// was not made from another.
pub fn parent_ranks(comm: Handle) -> Result<Option<Vec<Rank>>> {
    Ok(registry::shared(comm)?.origin.parent_ranks.clone())
}
/// `n` ranks in this process, one communicator each.
pub fn init_all(n: i32) -> Result<Vec<Handle>> {
    life::init_all(n)
}
/// Join the communicator of all processes of this launch (mpirun, mpiexec, srun, torchrun, `penny run`).
pub fn init_from_env(config: &Config) -> Result<Handle> {
    life::init_from_env(config)
}
/// Finish what is under way; the handle then only serves [`destroy`].
pub fn finalize(comm: Handle) -> Result<()> {
    registry::enter(comm, |c| c.finalize())
}
/// Free the communicator.
pub fn destroy(comm: Handle) -> Result<()> {
    life::destroy(comm)
}
/// Make every rank's current and future calls fail, then free it. May be called while another thread is inside a call.
pub fn abort(comm: Handle) -> Result<()> {
    life::abort(comm)
}
/// The communicator's state: `Success`, or the failure that broke it.
pub fn async_error(comm: Handle) -> Result<Code> {
    let shared = registry::shared(comm)?;
    if let Some(e) = shared.broken.get() {
        return Ok(e.code);
    }
    Ok(shared.transport.check_abort().map_or_else(|e| e.code, |()| Code::Success))
}
/// Break the communicator after a panic in one of its calls.
pub fn poison(comm: Handle, message: &str) {
    let _ = registry::enter(comm, |c| {
        c.break_with(&Error::internal(message));
        Ok(())
    });
}
/// Ranks in the communicator.
pub fn count(comm: Handle) -> Result<u32> {
    Ok(registry::shared(comm)?.transport.nranks())
}
/// The caller's rank in it.
pub fn user_rank(comm: Handle) -> Result<Rank> {
    Ok(registry::shared(comm)?.transport.rank())
}
/// The caller's index on its machine.
pub fn device(comm: Handle) -> Result<u32> {
    Ok(registry::shared(comm)?.device)
}
/// Run a collective, or queue it if a group is open on this thread.
#[inline]
pub fn collective(comm: Handle, call: &Call) -> Result<()> {
    if group::is_open() {
        let (rank, nranks) = (user_rank(comm)?, count(comm)?);
        call.check(rank, nranks)?;
        group::add_collective(comm, call);
        return Ok(());
    }
    registry::enter(comm, |c| c.collective(call))
}
/// Run one half of a transfer, or queue it if a group is open on this thread.
pub fn transfer(comm: Handle, transfer: &Transfer) -> Result<()> {
    if group::is_open() {
        transfer.check(user_rank(comm)?, count(comm)?)?;
        group::add_transfer(comm, transfer);
        return Ok(());
    }
    registry::enter(comm, |c| transfer::run(c, std::slice::from_ref(transfer), false))
}
/// Run a permutation, or queue it if a group is open on this thread.
pub fn permute(comm: Handle, permute: Permute) -> Result<()> {
    if group::is_open() {
        permute.check(user_rank(comm)?, count(comm)?)?;
        group::add_permute(comm, permute);
        return Ok(());
    }
    registry::enter(comm, |c| c.permute(&permute))
}
/// Open a group on this thread.
pub fn group_start() -> Result<()> {
    group::start()
}
/// Record that a call inside the open group failed its checks: the outermost [`group_end`] returns this and runs nothing.
pub fn group_fail(error: &Error) {
    group::fail(error);
}
/// Close the innermost group; the outermost runs what was queued.
pub fn group_end() -> Result<()> {
    group::end()
}
/// Close the innermost group; the outermost is not run but priced: picoseconds on the declared machine.
pub fn group_simulate_end() -> Result<u64> {
    group::simulate_end()
}
/// Shareable, 64-byte aligned memory: collectives on it copy nothing.
pub fn mem_alloc(bytes: usize) -> Result<usize> {
    heap::mine()?.alloc(bytes)
}
/// Give memory of [`mem_alloc`] back.
pub fn mem_free(addr: usize) -> Result<()> {
    heap::mine()?.free(addr)
}
