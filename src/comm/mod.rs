//! A communicator: who is in it, what it is doing, how it ends.
//!
//! This is Penny's Rust interface; `ffi` is a thin C coat over it.

use crate::bootstrap::UniqueId;
use crate::error::{Code, Error, Result};
use crate::memory::view::Address;
use crate::types::{Collective, DataType, Rank, RedOp};

/// Names one communicator of this process: index and generation, so that a stale one is recognised. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(pub u64);

/// What a caller may set when it makes a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Deadline of every blocking call; `None`: `PENNY_TIMEOUT`, else 10 minutes; `Some(0)`: none.
    pub timeout_ms: Option<u64>,
    /// `false`: calls may return `InProgress`.
    pub blocking: bool,
    /// A name for messages; empty: none.
    pub name: String,
}

/// One collective call as the caller made it, not checked yet.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Which collective.
    pub collective: Collective,
    /// The input.
    pub send: Address,
    /// The output.
    pub recv: Address,
    /// Elements a block: what NCCL calls count, sendcount or recvcount. For `padded`: elements of the whole input.
    pub count: usize,
    /// Element type.
    pub dtype: DataType,
    /// Reduction; `Sum` where the collective has none.
    pub op: RedOp,
    /// Root; 0 where the collective has none.
    pub root: i32,
    /// ReduceScatter only: `count` is the whole input's; each rank gets `ceil(count / nranks)`, the tail zero.
    pub padded: bool,
}

/// One half of a point-to-point transfer.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// `true`: send.
    pub send: bool,
    /// The buffer.
    pub buffer: Address,
    /// Elements.
    pub count: usize,
    /// Element type.
    pub dtype: DataType,
    /// The other rank.
    pub peer: i32,
}

/// Make an id that all ranks of one future communicator pass to [`init_rank`]. This process serves the meeting.
pub fn unique_id() -> Result<UniqueId> {
    Err(Error::internal("not built yet"))
}
/// Join the communicator that `id` names. Blocks until all ranks have come or the deadline passes.
pub fn init_rank(_nranks: i32, _id: &UniqueId, _rank: i32, _config: &Config) -> Result<Handle> {
    Err(Error::internal("not built yet"))
}
/// `n` ranks in this process, one communicator each.
pub fn init_all(_n: i32) -> Result<Vec<Handle>> {
    Err(Error::internal("not built yet"))
}
/// Join the communicator of all processes of this launch (mpirun, mpiexec, srun, torchrun, `penny run`).
pub fn init_from_env(_config: &Config) -> Result<Handle> {
    Err(Error::internal("not built yet"))
}
/// Finish what is under way; the handle then only serves [`destroy`].
pub fn finalize(_comm: Handle) -> Result<()> {
    Err(Error::internal("not built yet"))
}
/// Free the communicator.
pub fn destroy(_comm: Handle) -> Result<()> {
    Err(Error::internal("not built yet"))
}
/// Make every rank's current and future calls fail, then free it. May be called while another thread is inside a call.
pub fn abort(_comm: Handle) -> Result<()> {
    Err(Error::internal("not built yet"))
}
/// The communicator's state: `Success`, or the failure that poisoned it.
pub fn async_error(_comm: Handle) -> Result<Code> {
    Err(Error::internal("not built yet"))
}
/// Poison the communicator after a panic in one of its calls.
pub fn poison(_comm: Handle, _message: &str) {}
/// Ranks in the communicator.
pub fn count(_comm: Handle) -> Result<u32> {
    Err(Error::internal("not built yet"))
}
/// The caller's rank in it.
pub fn user_rank(_comm: Handle) -> Result<Rank> {
    Err(Error::internal("not built yet"))
}
/// The caller's index on its machine.
pub fn device(_comm: Handle) -> Result<u32> {
    Err(Error::internal("not built yet"))
}
/// Run a collective, or queue it if a group is open on this thread.
pub fn collective(_comm: Handle, _call: &Call) -> Result<()> {
    Err(Error::internal("not built yet"))
}
/// Run one half of a transfer, or queue it if a group is open on this thread.
pub fn transfer(_comm: Handle, _transfer: &Transfer) -> Result<()> {
    Err(Error::internal("not built yet"))
}
/// Open a group on this thread.
pub fn group_start() -> Result<()> {
    Err(Error::internal("not built yet"))
}
/// Record that a call inside the open group failed its checks: the outermost [`group_end`] returns this and runs nothing.
pub fn group_fail(_error: &Error) {}
/// Close the innermost group; the outermost runs what was queued.
pub fn group_end() -> Result<()> {
    Err(Error::internal("not built yet"))
}
/// Shareable, 64-byte aligned memory: collectives on it copy nothing.
pub fn mem_alloc(_bytes: usize) -> Result<usize> {
    Err(Error::internal("not built yet"))
}
/// Give memory of [`mem_alloc`] back.
pub fn mem_free(_addr: usize) -> Result<()> {
    Err(Error::internal("not built yet"))
}
