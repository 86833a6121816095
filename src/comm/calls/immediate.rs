//! Calls that do not look at the thread's open group: made at once, or kept by their caller and made together.
//!
//! The Rust front keeps a group's calls itself, because only then do their borrows end with the group.

use super::collective::Call;
use super::permute::Permute;
use super::point_to_point::{self, Transfer};
use crate::bootstrap::UniqueId;
use crate::comm::config::Config;
use crate::comm::group::batch::{self, Batch, Queued};
use crate::comm::join::split::{self, Grouping, SplitArgs};
use crate::comm::recorder;
use crate::comm::registry::{self, CommHandle, Entry};
use crate::comm::stream::{self, StreamHandle};
use crate::comm::{group, join};
use crate::error::{Error, Result};

/// Joins the communicator that `id` names.
pub fn init_rank_now(nranks: i32, id: &UniqueId, rank: i32, config: &Config) -> Result<CommHandle> {
    match group::is_blank(id) {
        true => {
            Err(Error::argument("id is blank; make it with UniqueId::new on one rank and pass it to all"))
        }
        false => join::init_rank(nranks, id, rank, config),
    }
}
/// Makes the communicators of groups of one size.
pub fn group_now(parent: CommHandle, kind: Grouping, size: i64) -> Result<CommHandle> {
    let handle = SplitArgs::group(parent, kind, size).and_then(|args| split::child(parent, args))?;
    handle.ok_or_else(|| Error::internal("a rank is in no group"))
}
/// Makes the communicators of the ranks that pass one colour.
pub fn split_now(parent: CommHandle, colour: Option<i32>, key: i32) -> Result<Option<CommHandle>> {
    split::child(parent, SplitArgs::split(colour, key, None))
}

/// Makes the communicator of the ranks that are not excluded.
pub fn shrink_now(parent: CommHandle, excluded: &[i32]) -> Result<CommHandle> {
    join::shrink::shrink(parent, excluded, false, None)
}

/// Runs a collective.
#[inline]
pub fn collective_now(comm: CommHandle, call: &Call<'_>) -> Result<()> {
    let _recorded = recorder::record(|d| d.collective(comm, call, 0));
    registry::enter(comm, |c| c.collective(call))
}
/// Runs one half of a transfer.
#[inline]
pub fn transfer_now(comm: CommHandle, transfer: &Transfer<'_>) -> Result<()> {
    let _recorded = recorder::record(|d| d.transfer(comm, transfer, 0));
    registry::enter(comm, |c| point_to_point::run(c, std::slice::from_ref(transfer), false))
}
/// Runs both halves of an exchange side by side.
pub fn transfers_now(comm: CommHandle, transfers: &[Transfer<'_>]) -> Result<()> {
    let _recorded = recorder::record(|d| transfers.iter().for_each(|transfer| d.transfer(comm, transfer, 0)));
    registry::enter(comm, |c| point_to_point::run(c, transfers, true))
}
/// Runs a permutation.
pub fn permute_now(comm: CommHandle, permute: &Permute<'_>) -> Result<()> {
    let _recorded = recorder::record(|d| d.permute(comm, permute, 0));
    registry::enter(comm, |c| c.permute(permute))
}

/// Checks the arguments of a call that is made later.
pub fn check(queued: &Queued) -> Result<()> {
    let comm = queued.comm();
    let (rank, nranks) = {
        let shared = registry::shared(comm)?;
        (shared.transport.rank(), shared.transport.nranks())
    };
    match queued {
        Queued::Collective(_, call) => call.check(rank, nranks).map(drop),
        Queued::Permute(_, permute) => permute.check(rank, nranks),
        Queued::Vector(_, vector) => vector.check(rank, nranks),
        Queued::Scaled(_, scaled) => scaled.call.check(rank, nranks).map(drop),
        Queued::Transfer(_, transfer, _) => transfer.check(rank, nranks).map(drop),
        Queued::Signal(..) | Queued::Awaited(..) => Ok(()),
    }
}
/// Makes calls together; returns when none is under way.
pub fn together(calls: Vec<Queued>) -> Result<()> {
    let _recorded = recorder::record(|d| calls.iter().for_each(|call| call.describe(d, 0)));
    if calls.is_empty() { Ok(()) } else { Batch { calls, grouped: true }.run(Entry::Caller) }
}
/// Prices calls on the declared machine instead of making them: picoseconds.
pub fn simulate_together(calls: Vec<Queued>) -> Result<u64> {
    batch::estimate(calls)
}
/// Queues calls on a stream. `grouped`: they are made together.
pub fn on_stream(calls: Vec<Queued>, grouped: bool, stream: StreamHandle) -> Result<()> {
    let _recorded = recorder::record(|d| calls.iter().for_each(|call| call.describe(d, stream.bits())));
    if calls.is_empty() {
        return Ok(());
    }
    let streams = vec![Some(stream); calls.len()];
    stream::queue(Batch { calls, grouped }, &streams)
}
/// Refuses a stream's own worker thread, which would wait for its own end.
pub fn refuse_stream_worker() -> Result<()> {
    stream::refuse_worker()
}
