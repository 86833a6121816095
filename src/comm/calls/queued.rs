//! Calls that are made now, or kept: by the open group of the thread until its end, or by a stream until it comes to them.

use super::collective::Call;
use super::permute::Permute;
use super::point_to_point::{self, Transfer};
use super::scaled::Scaled;
use super::vector::Vector;
use crate::comm::group::batch::{Batch, Queued};
use crate::comm::onesided::signals::{self, AwaitedSignals, CONTEXTS, SIGNALS, Signal};
use crate::comm::recorder::{self, Description, Recorded};
use crate::comm::registry::{self, CommHandle};
use crate::comm::stream::{self, StreamHandle};
use crate::comm::{count, group};
use crate::error::{Error, Result};
use crate::types::DataType;

/// Tells whether a call is to be queued: a group is open on this thread, or a stream is given.
#[inline]
fn is_for_later(stream: Option<StreamHandle>) -> bool {
    stream.is_some() || group::is_open()
}
/// Records a call that is not kept by a group, which is recorded as a whole. `describe` has the stream's number, 0: none.
#[inline(always)]
fn recorded(stream: Option<StreamHandle>, describe: impl FnOnce(&mut Description, u64)) -> Option<Recorded> {
    recorder::record(|description| {
        if !group::is_open() {
            describe(description, stream.map_or(0, StreamHandle::bits));
        }
    })
}
/// Makes a call whose arguments are right at the end of the open group, or when its stream comes to it.
fn later(stream: Option<StreamHandle>, queued: Queued) -> Result<()> {
    if group::is_open() {
        return group::add(queued, stream);
    }
    let alone = [(queued, stream)];
    if stream::make_transfers_at_once(&alone, false) {
        return Ok(());
    }
    let [(queued, _)] = alone;
    stream::queue(Batch { calls: vec![queued], grouped: false }, &[stream])
}
/// Runs a collective; or queues it, if a stream is given or a group is open on this thread.
#[inline(always)]
pub fn collective(comm: CommHandle, call: &Call<'static>, stream: Option<StreamHandle>) -> Result<()> {
    let _recorded = recorded(stream, |d, stream| d.collective(comm, call, stream));
    if is_for_later(stream) {
        if let Some(stream) = stream
            && !group::is_open()
            && stream::make_at_once(comm, call, stream)
        {
            return Ok(());
        }
        // What is like the last call has been checked.
        if registry::enter_if_free(comm, |c| c.like_the_last(call).map(drop)).is_none() {
            let (rank, nranks) = registry::rank_and_number(comm)?;
            call.check(rank, nranks)?;
        }
        return later(stream, Queued::Collective(comm, *call));
    }
    registry::enter(comm, |c| c.collective(call))
}
/// Runs one half of a transfer, or queue it as [`collective`] does.
pub fn transfer(comm: CommHandle, transfer: &Transfer<'static>, stream: Option<StreamHandle>) -> Result<()> {
    let _recorded = recorded(stream, |d, stream| d.transfer(comm, transfer, stream));
    if is_for_later(stream) {
        let (rank, nranks) = registry::rank_and_number(comm)?;
        transfer.check(rank, nranks)?;
        return later(stream, Queued::Transfer(comm, *transfer, 0));
    }
    registry::enter(comm, |c| point_to_point::run(c, std::slice::from_ref(transfer), false))
}
/// Looks for a message of a peer that no receive has taken: its number of elements and their type.
pub fn probe(comm: CommHandle, peer: i32) -> Result<Option<(u64, DataType)>> {
    let arrived = registry::enter(comm, |c| point_to_point::probe(c, peer))?;
    Ok(arrived.map(|message| (message.count, message.dtype)))
}
/// Runs a permutation, or queue it as [`collective`] does.
pub fn permute(comm: CommHandle, permute: Permute<'static>, stream: Option<StreamHandle>) -> Result<()> {
    let _recorded = recorded(stream, |d, stream| d.permute(comm, &permute, stream));
    if is_for_later(stream) {
        let (rank, nranks) = registry::rank_and_number(comm)?;
        permute.check(rank, nranks)?;
        return later(stream, Queued::Permute(comm, permute));
    }
    registry::enter(comm, |c| c.permute(&permute))
}
/// Runs a collective whose blocks have sizes of their own, or queues it as [`collective`] does.
pub fn vector(comm: CommHandle, vector: Vector<'static>, stream: Option<StreamHandle>) -> Result<()> {
    let _recorded = recorded(stream, |d, stream| d.vector(comm, &vector, stream));
    if is_for_later(stream) {
        let (rank, nranks) = registry::rank_and_number(comm)?;
        vector.check(rank, nranks)?;
        return later(stream, Queued::Vector(comm, vector));
    }
    registry::enter(comm, |c| c.vector(&vector))
}
/// Runs a sum of scaled inputs, or queues it as [`collective`] does.
pub fn sum_scaled(comm: CommHandle, scaled: Scaled<'static>, stream: Option<StreamHandle>) -> Result<()> {
    let _recorded = recorded(stream, |d, stream| d.collective(comm, &scaled.call, stream));
    if is_for_later(stream) {
        let (rank, nranks) = registry::rank_and_number(comm)?;
        scaled.call.check(rank, nranks)?;
        return later(stream, Queued::Scaled(comm, scaled));
    }
    registry::enter(comm, |c| c.scaled(&scaled))
}
/// Give a rank a signal, after the data if there is some; or queue it, if a stream is given or a group is open on this
/// thread. The peer need not be in any call.
pub fn signal(comm: CommHandle, signal: &Signal, stream: Option<StreamHandle>) -> Result<()> {
    let _recorded = recorded(stream, |d, stream| d.signal(comm, signal, stream));
    if is_for_later(stream) {
        let (rank, nranks) = registry::rank_and_number(comm)?;
        signal.check(comm, rank, nranks)?;
        return later(stream, Queued::Signal(comm, *signal));
    }
    registry::enter(comm, |c| c.signal(signal))
}

/// Check the number of descriptors of a wait: no more than there are signals to be waited for.
pub fn awaited_count(comm: CommHandle, descriptors: i32) -> Result<usize> {
    let most = count(comm)? as usize * CONTEXTS * SIGNALS;
    match usize::try_from(descriptors) {
        Ok(count) if (1..=most).contains(&count) => Ok(count),
        Ok(0) | Err(_) => {
            Err(Error::argument(format!("nDesc is {descriptors}; pass at least one descriptor")))
        }
        Ok(_) => Err(Error::argument(format!(
            "nDesc is {descriptors}, but there are {most} signals to wait for; pass one descriptor for each, with a count"
        ))),
    }
}

/// Wait for signals and take them off, or queue that as [`signal`] does.
pub fn wait_signals(
    comm: CommHandle,
    awaited: Vec<AwaitedSignals>,
    stream: Option<StreamHandle>,
) -> Result<()> {
    let _recorded = recorded(stream, |d, stream| d.awaited(comm, &awaited, stream));
    if is_for_later(stream) {
        signals::check_all(&awaited, count(comm)?)?;
        return later(stream, Queued::Awaited(comm, awaited));
    }
    registry::enter(comm, |c| c.await_signals(&awaited))
}
