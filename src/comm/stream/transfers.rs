//! Sends and receives of one rank on one stream that the thread which queues them can make at once.
//!
//! ```text
//!     group start, send to 1, receive from 1, group end, on an idle stream
//!         begin both, poll both ............................ over, or the stream's first task
//! ```
//!
//! [`at_once`](super::at_once) does the same with a collective. A rank of an all-to-all or a scatter by sends has such a group. Groups of several ranks or streams go through [`small_parts`](super::small_parts) (docs/decisions/0089).

use super::queue::StreamQueue;
use super::readiness::{BegunCall, begin, end, hold, is_alone, largest, leave, poll_for_peers};
use super::table::{Placed, STREAMS};
use super::task::Calls;
use super::turn::is_worker;
use crate::comm::calls::point_to_point::PolledTransfers;
use crate::comm::communicator::CommCore;
use crate::comm::group::batch::GROUP;
use crate::comm::group::one_rank;
use crate::comm::group::polled::PolledBatch;
use crate::comm::progress::is_on_machine;
use crate::comm::registry::{self, CommHandle};
use crate::error::Error;
use std::sync::Arc;

/// The most calls.
const MOST_CALLS: usize = 32;

/// Transfers that have begun, and their turn.
type Begun = BegunCall<PolledTransfers<'static>>;

/// Makes or begins the transfers of a rank, those of a group or one alone. Returns false if they have to be queued.
pub(in crate::comm) fn make_transfers_at_once(calls: &[Placed], grouped: bool) -> bool {
    if calls.len() > MOST_CALLS || is_worker() || is_on_machine() {
        return false;
    }
    let Some((comm, Some(on))) = one_rank::of_transfers(calls) else { return false };
    STREAMS.with(on, |stream| try_make(comm, calls, grouped, stream).is_some()).unwrap_or(false)
}

fn try_make(comm: CommHandle, calls: &[Placed], grouped: bool, stream: &Arc<StreamQueue>) -> Option<()> {
    let bytes = calls.iter().map(|(call, _)| call.bytes()).max()?;
    let name = if grouped { GROUP } else { calls[0].0.name() };
    let tasks = hold(comm, stream)?;
    let left = registry::enter_if_free(comm, |c| {
        if bytes as u64 > largest(is_alone(c, stream)) {
            return None;
        }
        // Arguments that do not fit are refused where they are queued.
        let under_way = begin(c, |c| PolledTransfers::begin(c, one_rank::transfers(calls), grouped).ok())?;
        Some(poll_for_peers(c, bytes, stream, under_way, |c, under_way| poll(c, under_way, name, stream)))
    });
    if let Some(BegunCall { begun, turn }) = left? {
        let batch = PolledBatch::transfers_under_way(comm, begun);
        leave(stream, tasks, comm, turn, |turns| Calls::begun(name, batch, turns, bytes));
    }
    Some(())
}

/// Goes on with transfers as far as they come without waiting. `None`: they are over, and their stream has been told of a failure.
fn poll(c: &mut CommCore, mut under_way: Begun, name: &str, stream: &StreamQueue) -> Option<Begun> {
    let ended = c.guarded(|c| under_way.begun.poll(c)).and_then(|ended| ended);
    if ended.as_ref().is_err_and(Error::is_pending) {
        return Some(under_way);
    }
    end(c, name, ended, under_way.turn, stream);
    None
}
