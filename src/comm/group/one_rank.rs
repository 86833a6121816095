//! A group of sends and receives of one rank, such as an exchange with its neighbours or an all-to-all by messages.
//!
//! Its transfers run side by side from the group's own list: there is nothing to divide among communicators, streams or inner groups.

use super::batch::Queued;
use crate::comm::calls::point_to_point::{self, Transfer};
use crate::comm::registry::{self, CommHandle};
use crate::comm::stream::{Placed, StreamHandle};
use crate::error::Result;

/// Returns the communicator and the stream of a group's calls, if all are transfers of one inner group with the same.
#[inline]
pub(in crate::comm) fn of(calls: &[Placed]) -> Option<(CommHandle, Option<StreamHandle>)> {
    let [(Queued::Transfer(comm, _, inner), on), ..] = calls else { return None };
    let is_like_the_first = |(call, other_on): &Placed| match call {
        Queued::Transfer(other, _, other_inner) => (other, other_inner, other_on) == (comm, inner, on),
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

/// Makes them, if they are on no stream. `None`: nothing is done.
pub(super) fn make(calls: &[Placed]) -> Option<Result<()>> {
    let (comm, None) = of(calls)? else { return None };
    Some(registry::enter(comm, |c| point_to_point::run_listed(c, transfers(calls), true)))
}
