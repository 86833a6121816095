//! A group of one rank's sends and receives, such as an exchange with its neighbours or an all-to-all by messages, or of its collectives.
//!
//! Transfers run side by side, and collectives one after the other, from the group's own list: there is nothing to divide among communicators,
//! streams or inner groups.

use super::batch::Queued;
use crate::comm::calls::collective::Call;
use crate::comm::calls::point_to_point::{self, Transfer};
use crate::comm::communicator::CommCore;
use crate::comm::registry::{self, CommHandle, Entry};
use crate::comm::stream::table::{Placed, StreamHandle};
use crate::error::Result;

/// Returns the communicator and the stream of a group's calls, if all are transfers of one inner group with the same.
#[inline]
pub(in crate::comm) fn of_transfers(calls: &[Placed]) -> Option<(CommHandle, Option<StreamHandle>)> {
    let [(Queued::Transfer(comm, _, inner), on), ..] = calls else { return None };
    let is_like_the_first = |(call, other_on): &Placed| match call {
        Queued::Transfer(other, _, other_inner) => (other, other_inner, other_on) == (comm, inner, on),
        _ => false,
    };
    calls.iter().all(is_like_the_first).then_some((*comm, *on))
}

/// The same for collectives, of whichever inner group.
#[inline]
pub(in crate::comm) fn of_collectives(calls: &[Placed]) -> Option<(CommHandle, Option<StreamHandle>)> {
    let [(Queued::Collective(comm, _), on), ..] = calls else { return None };
    let is_like_the_first = |(call, other_on): &Placed| match call {
        Queued::Collective(other, _) => (other, other_on) == (comm, on),
        _ => false,
    };
    calls.iter().all(is_like_the_first).then_some((*comm, *on))
}

/// Returns the transfers among calls.
pub(in crate::comm) fn transfers(calls: &[Placed]) -> impl Iterator<Item = &Transfer<'static>> + Clone {
    calls.iter().filter_map(|(call, _)| match call {
        Queued::Transfer(_, transfer, _) => Some(transfer),
        _ => None,
    })
}

/// Returns the collectives among calls.
pub(in crate::comm) fn collectives(calls: &[Placed]) -> impl Iterator<Item = &Call<'static>> {
    calls.iter().filter_map(|(call, _)| match call {
        Queued::Collective(_, call) => Some(call),
        _ => None,
    })
}

/// Makes them, or a call of any kind that is alone, if they are on no stream. `None`: nothing is done.
pub(super) fn make(calls: &[Placed]) -> Option<Result<()>> {
    if let Some((comm, None)) = of_transfers(calls) {
        let run = |c: &mut CommCore| point_to_point::run_listed(c, transfers(calls), true);
        return Some(registry::enter(comm, |c| c.guarded(run).and_then(|ended| ended)));
    }
    if let [(call, None)] = calls {
        return Some(call.run(Entry::Caller));
    }
    let (comm, None) = of_collectives(calls)? else { return None };
    let run = |c: &mut CommCore| {
        let mut ended = Ok(());
        for call in collectives(calls) {
            // Those behind one that fails are made, too, as the other ranks make them.
            ended = ended.and(c.collective(call));
        }
        ended
    };
    Some(registry::enter(comm, |c| c.guarded(run).and_then(|ended| ended)))
}
