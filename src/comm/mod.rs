//! Communicators: their ranks, their calls, their end.
//!
//! `api` and `ffi` are thin layers over these functions.

mod agree;
mod calls;
mod communicator;
mod config;
mod group;
mod host_profile;
mod join;
mod joining;
mod late_mismatch;
mod mailbox;
mod onesided;
mod progress;
mod recorder;
mod registry;
mod shared;
mod stream;
mod suspend;
mod timed;

pub use calls::channels::{ChannelEnd, MoverSetup, SignalMode, Termination, run_channels};
pub use calls::collective::Call;
pub use calls::immediate::{
    check, collective_now, group_now, init_rank_now, on_stream, permute_now, refuse_stream_worker,
    shrink_now, simulate_together, split_now, together, transfer_now, transfers_now,
};
pub use calls::permute::Permute;
pub use calls::point_to_point::Transfer;
pub use calls::queued::{
    awaited_count, collective, permute, probe, signal, sum_scaled, transfer, vector, wait_signals,
};
pub use calls::scaled::{
    FIRST as FIRST_OPERATION, Factor, LAST as LAST_OPERATION, premul_sum_create, premul_sum_destroy, scaled,
};
pub use calls::vector::{Vector, VectorBlock, VectorKind};
#[cfg(feature = "internals")]
pub use config::check_environment;
pub use config::{Config, MOST_THREADS};
pub use group::at_end::{resume, suspend, window_register};
pub use group::batch::Queued;
pub use group::recording::{RecordingHandle, record_end, record_start, recording_destroy, recording_launch};
#[cfg(feature = "internals")]
pub use host_profile::{HostProfileFound, find_host_profile, host_profile_path, this_host};
#[cfg(test)]
pub use join::given::over;
pub use join::grow::growth_id;
pub use join::split::Grouping;
pub use join::team::{team_split_2d, team_split_strided, team_translate};
pub use mailbox::{MailboxConfig, MailboxHandle, mailbox, mailbox_create, mailbox_destroy};
pub use onesided::remote_copy::{RemoteCopyCall, remote_copy};
pub use onesided::semaphore::{
    SemaphoreHandle, barrier_semaphore, mesh, semaphore, semaphore_create, semaphore_destroy,
};
pub use onesided::shmem::*;
pub use onesided::signals::{AwaitedSignals, CONTEXTS as SIGNAL_CONTEXTS, Counter, Put, SIGNALS, Signal};
pub use onesided::window::{is_window, window_buffer, window_deregister};
pub use onesided::window_table::WindowHandle;
pub use registry::CommHandle;
pub use shared::{failures, remember_failure};
pub use stream::{
    EventHandle, StreamHandle, event_create, event_destroy, event_elapsed_ms, event_query, event_record,
    event_synchronize, stream_create, stream_destroy, stream_host_function, stream_query, stream_synchronize,
    stream_wait_event,
};
pub use suspend::comm_memory;
pub use timed::{fabric_account, fabric_advance, fabric_advance_to, fabric_counters, fabric_now};

pub use crate::sys::callback::refuse_inside as refuse_in_callback;
pub use crate::sys::interrupt::set as set_interrupt_check;
pub use crate::sys::parallel_function::ParallelFunction;
pub use crate::sys::progress_hook::set as set_progress_hook;

use join::pending::{Joining, PendingInit};
use join::shrink::PendingShrink;
use join::split::{PendingSplit, SplitArgs};

use crate::bootstrap::{self, UniqueId};
use crate::error::{Code, Error, Result};
use crate::memory::heap;
use crate::memory::view::Address;
use crate::sys::cpu;
use crate::transport::link::Ending;
use crate::types::Rank;

/// Makes an id that all ranks of one future communicator pass to [`init_rank`]. This process serves the meeting.
pub fn unique_id() -> Result<UniqueId> {
    bootstrap::create_id()
}

/// The same where the ranks may be on several hosts.
pub fn unique_id_for_hosts() -> Result<UniqueId> {
    bootstrap::create_id_for_hosts()
}

/// Joins the communicator that `id` names. Blocks until all ranks have come or the deadline passes; in an open group
/// the outermost [`group_end`] does, and the handle is valid after it.
pub fn init_rank(nranks: i32, id: &UniqueId, rank: i32, config: &Config) -> Result<CommHandle> {
    if group::is_blank(id) {
        return Err(Error::argument(
            "commId is blank; fill it with pennyGetUniqueId on one rank and pass it to all",
        ));
    }
    if group::is_open() {
        let pending = PendingInit::new(nranks, id, rank, config).inspect_err(group::fail)?;
        let handle = pending.handle();
        group::add_joining(Joining::Init(pending));
        return Ok(handle);
    }
    if !config.blocking {
        return join::pending::begin(PendingInit::new(nranks, id, rank, config)?);
    }
    join::init_rank(nranks, id, rank, config)
}
/// Makes the communicator of the caller's group, where the ranks of `parent` are divided into groups of `size`, which must
/// divide their number; for [`Grouping::All`] it is 0 or that number. Ranks keep their order, and the parent's settings
/// hold. Every rank of the parent calls, with the same kind and size; in an open group the outermost [`group_end`] does
/// the work, and the handle is valid after it.
pub fn group(parent: CommHandle, kind: Grouping, size: i32) -> Result<CommHandle> {
    let handle = SplitArgs::group(parent, kind, size.into())
        .inspect_err(group::fail)
        .and_then(|w| split_or_queue(parent, w))?;
    handle.ok_or_else(|| Error::internal("a rank is in no group"))
}
/// Makes the communicator of the ranks of `parent` that pass the same colour, ordered by key, then by their rank in the parent;
/// `None` for a rank without a colour. Every rank of the parent calls. `config`: `None` for the parent's settings. In an
/// open group as for `group`.
pub fn split(
    parent: CommHandle,
    colour: Option<i32>,
    key: i32,
    config: Option<Config>,
) -> Result<Option<CommHandle>> {
    split_or_queue(parent, SplitArgs::split(colour, key, config))
}
/// Makes a communicator of the ranks of `parent` that are not excluded. They alone call, with the same list; the others may be dead.
/// Works on a broken or aborted parent. `aborts`: the parent is aborted first. In an open group as for `group`; otherwise the
/// caller waits for it, also where `blocking` is 0.
pub fn shrink(
    parent: CommHandle,
    excluded: &[i32],
    aborts: bool,
    config: Option<Config>,
) -> Result<CommHandle> {
    if group::is_open() {
        let pending = PendingShrink::new(parent, excluded, aborts, config).inspect_err(group::fail)?;
        let handle = pending.handle();
        group::add_joining(Joining::Shrink(pending));
        return Ok(handle);
    }
    join::shrink::shrink(parent, excluded, aborts, config)
}
/// Makes a communicator of the ranks of `parent` and new ones, `nranks` in all, which join by the same id. All ranks of the parent call,
/// and one of them passes the id.
pub fn grow(
    parent: CommHandle,
    nranks: i32,
    id: Option<UniqueId>,
    config: Option<&Config>,
) -> Result<CommHandle> {
    if group::is_open() {
        return Err(join::grow::in_a_group()).inspect_err(group::fail);
    }
    let (nranks, id, rank) = join::grow::agree(parent, nranks, id)?;
    let shared = registry::shared(parent)?;
    init_rank(nranks as i32, &id, rank as i32, config.unwrap_or(&shared.origin.config))
}
/// Makes every rank's current and future calls fail, and keeps the communicator: it serves [`shrink`], [`abort`] and [`destroy`].
pub fn revoke(comm: CommHandle) -> Result<()> {
    let shared = registry::shared(comm)?;
    shared.refuse_forked()?;
    shared.end_calls(Ending::Revoked);
    Ok(())
}
/// Makes a team as [`split`] does. The caller waits for it, also where the parent's `blocking` is 0.
fn split_team(parent: CommHandle, colour: Option<i32>, key: i32) -> Result<Option<CommHandle>> {
    split_or_queue(parent, SplitArgs::team(colour, key))
}
fn split_or_queue(parent: CommHandle, args: SplitArgs) -> Result<Option<CommHandle>> {
    if group::is_open() {
        let pending = PendingSplit::new(parent, args, false).inspect_err(group::fail)?;
        return Ok(group::add_joining(Joining::Split(pending)));
    }
    if !args.is_blocking(parent)? {
        let pending = PendingSplit::new(parent, args, true)?;
        let handle = pending.handle();
        join::pending::begin_all(vec![Joining::Split(pending)])?;
        return Ok(handle);
    }
    join::split::child(parent, args)
}
/// Returns the members' ranks in the communicator that this one was made from by `group` or [`split`], by rank; `None` if it
/// was not made from another.
pub fn parent_ranks(comm: CommHandle) -> Result<Option<Vec<Rank>>> {
    Ok(registry::shared(comm)?.origin.parent_ranks.clone())
}
/// `n` ranks in this process, one communicator each.
pub fn init_all(n: i32) -> Result<Vec<CommHandle>> {
    join::init_all(n)
}
/// Joins the communicator of all processes of this launch (mpirun, mpiexec, srun, torchrun, `penny run`).
pub fn init_from_env(config: &Config) -> Result<CommHandle> {
    join::init_from_env(config)
}
/// Tells whether a communicator, or one that is made from it, is still being joined in the background.
pub fn is_joining(comm: CommHandle) -> bool {
    joining::state(comm) == Some(Code::InProgress) || joining::is_parent(comm)
}
/// Finishes what is under way; the handle then only serves [`destroy`].
pub fn finalize(comm: CommHandle) -> Result<()> {
    group::refuse_queued(comm)?;
    registry::enter(comm, |c| c.finalize())
}
/// Frees the communicator.
pub fn destroy(comm: CommHandle) -> Result<()> {
    group::refuse_queued(comm)?;
    join::destroy(comm)
}
/// Makes every rank's current and future calls fail, then frees it. May be called while another thread is inside a call.
pub fn abort(comm: CommHandle) -> Result<()> {
    join::abort(comm)
}
/// Returns the communicator's state: a pending error while it is joined in the background, or one that is made from it is; else the
/// failure that broke it, or the first failure of a call on a stream.
pub fn state(comm: CommHandle) -> Result<Result<()>> {
    match joining::state(comm) {
        Some(Code::InProgress) => return Ok(Err(joining_still())),
        Some(code) => {
            let why = joining::refusal(comm);
            return Ok(Err(why.unwrap_or_else(|| Error::new(code, "the communicator could not be joined"))));
        }
        None => {}
    }
    let shared = registry::shared(comm)?;
    if joining::is_parent(comm) {
        return Ok(Err(joining_still()));
    }
    let failure = shared.broken.get().cloned().or_else(|| shared.turns.failure());
    Ok(failure.map_or_else(|| shared.transport.check_abort(), Err))
}
/// Lets the threads and ranks that join run: the caller polls until they have.
fn joining_still() -> Error {
    cpu::yield_now();
    Error::pending()
}
/// Break the communicator after a panic in one of its calls.
pub fn poison(comm: CommHandle, message: &str) {
    registry::poison(comm, message);
}
/// Ranks in the communicator.
pub fn count(comm: CommHandle) -> Result<u32> {
    registry::rank_and_number(comm).map(|(_, nranks)| nranks)
}
/// Returns the name that the program has given it; `None`: none, or it is not live.
pub fn name(comm: CommHandle) -> Option<String> {
    let shared = registry::shared(comm).ok()?;
    Some(shared.origin.config.name.clone()).filter(|name| !name.is_empty())
}
/// Returns the caller's rank in it.
pub fn user_rank(comm: CommHandle) -> Result<Rank> {
    registry::rank_and_number(comm).map(|(rank, _)| rank)
}
/// Returns the caller's index on its machine.
pub fn device(comm: CommHandle) -> Result<u32> {
    Ok(registry::shared(comm)?.device)
}
/// Opens a group on this thread.
pub fn group_start() -> Result<()> {
    group::start()
}
/// Tells whether a group or a recording is open on this thread.
pub fn is_group_open() -> bool {
    group::is_open()
}
/// Records that a call inside the open group failed its checks: the outermost [`group_end`] returns this and runs nothing.
pub fn group_fail(error: &Error) {
    group::fail(error);
}
/// Closes the innermost group; the outermost runs what was queued.
pub fn group_end() -> Result<()> {
    group::end()
}
/// Closes the innermost group; the outermost is not run but priced: picoseconds on the declared machine.
pub fn group_simulate_end() -> Result<u64> {
    group::simulate_end()
}
/// Allocates shareable memory, aligned to 64 bytes: large collectives on it copy nothing.
pub fn mem_alloc(bytes: usize) -> Result<usize> {
    heap::mine()?.alloc(bytes).or_else(|full| {
        // What ranks that failed left behind is free once the others know.
        onesided::deferred_free::sweep();
        heap::mine()?.alloc(bytes).map_err(|_| full)
    })
}
/// Gives memory of [`mem_alloc`] back.
pub fn mem_free(addr: usize) -> Result<()> {
    heap::mine()?.free(addr)
}
/// Lets peers reach `bytes` bytes of ordinary memory where they lie, until [`deregister`] or the communicator's end: its
/// calls on them copy no more than on memory of [`mem_alloc`]. Where that cannot be, the log says why and they copy.
pub fn register(comm: CommHandle, buffer: Address<'static>, bytes: usize) -> Result<u64> {
    registry::enter(comm, |c| c.register(buffer, bytes))
}
/// Ends a registration of [`register`]; 0: nothing.
pub fn deregister(comm: CommHandle, registration: u64) -> Result<()> {
    registry::enter(comm, |c| c.deregister(registration))
}
