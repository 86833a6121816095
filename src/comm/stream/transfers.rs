//! Sends and receives of one rank on one stream that the thread which queues them can make at once.
//!
//! ```text
//!     group start, send to 1, receive from 1, group end, on an idle stream
//!         begin both, poll both ............................ over, or the stream's first task
//! ```
//!
//! It is what [`at_once`](super::at_once) does with a collective, for what a rank of an all-to-all or a scatter by sends has in its group, or for one
//! call alone. Groups of several ranks or streams go through [`small_parts`](super::small_parts) (docs/decisions/0089).

use super::queue::StreamQueue;
use super::readiness::{POLLS, guarded, hold, is_alone, largest, note, polls_of};
use super::table::{Placed, STREAMS};
use super::task::{self, Calls, StreamTask};
use super::turn::{aborted, is_worker};
use crate::comm::calls::point_to_point::{PolledTransfers, Transfer};
use crate::comm::communicator::CommCore;
use crate::comm::group::batch::{GROUP, Queued};
use crate::comm::group::polled::PolledBatch;
use crate::comm::progress::is_on_machine;
use crate::comm::registry::{self, CommHandle};
use crate::error::Error;
use crate::sync::wait::Neighbours;
use std::sync::Arc;

/// The most calls.
const MOST_CALLS: usize = 32;

/// Transfers that have begun, and their turn.
struct UnderWay {
    transfers: PolledTransfers<'static>,
    turn: u64,
}

/// Makes or begins the transfers of a rank, those of a group or one alone. Returns false if they have to be queued.
pub(in crate::comm) fn make_transfers_at_once(calls: &[Placed], grouped: bool) -> bool {
    let [(Queued::Transfer(comm, _, inner), Some(on)), ..] = calls else { return false };
    let are_of_one = |(call, stream): &Placed| match call {
        Queued::Transfer(of, _, of_inner) => (of, of_inner, stream) == (comm, inner, &Some(*on)),
        _ => false,
    };
    if calls.len() > MOST_CALLS || is_worker() || is_on_machine() || !calls.iter().all(are_of_one) {
        return false;
    }
    STREAMS.with(*on, |stream| try_make(*comm, calls, grouped, stream).is_some()).unwrap_or(false)
}

fn try_make(comm: CommHandle, calls: &[Placed], grouped: bool, stream: &Arc<StreamQueue>) -> Option<()> {
    let bytes = calls.iter().map(|(call, _)| call.bytes()).max()?;
    let name = if grouped { GROUP } else { calls[0].0.name() };
    let tasks = hold(comm, stream)?;
    let left = registry::enter_if_free(comm, |c| {
        if bytes as u64 > largest(is_alone(c, stream)) {
            return None;
        }
        let under_way = begin(c, calls, grouped)?;
        let mut left = poll(c, under_way, name, stream);
        // Peers that need this core come no sooner.
        let is_worth_it = left.is_some() && !c.transport.are_on_this_core();
        let polls = if is_worth_it { POLLS + polls_of(bytes, stream) } else { 0 };
        // BOUND: `POLLS` and those of the bytes.
        for _ in 0..polls {
            let Some(under_way) = left.take() else { break };
            left = poll(c, under_way, name, stream);
        }
        if is_worth_it {
            note(bytes, stream, left.is_none());
        }
        Some(left)
    });
    if let Some(UnderWay { transfers, turn }) = left? {
        let Ok(shared) = registry::shared(comm) else {
            stream.failures.add(&aborted());
            return Some(());
        };
        let batch = PolledBatch::transfers_under_way(comm, transfers);
        let calls = Calls::begun(name, batch, vec![(turn, shared)], bytes);
        stream.push_behind(tasks, StreamTask::Calls(calls));
    }
    Some(())
}

/// Begins transfers. `None`: calls of others come first, or the arguments do not fit, which is told where they are queued.
fn begin(c: &mut CommCore, calls: &[Placed], grouped: bool) -> Option<UnderWay> {
    let turn = c.shared.turns.take_first()?;
    let transfers = calls.iter().filter_map(|(call, _)| match call {
        Queued::Transfer(_, transfer, _) => Some(*transfer),
        _ => None,
    });
    let transfers: Vec<Transfer<'static>> = transfers.collect();
    match guarded(c, |c| PolledTransfers::begin(c, &transfers, grouped)) {
        Ok(Ok(transfers)) => {
            c.is_held = true;
            Some(UnderWay { transfers, turn })
        }
        Ok(Err(_)) | Err(_) => {
            c.shared.turns.end(turn);
            None
        }
    }
}

/// Goes on with transfers as far as they come without waiting. `None`: they are over, and their stream has been told of a failure.
fn poll(c: &mut CommCore, mut under_way: UnderWay, name: &str, stream: &StreamQueue) -> Option<UnderWay> {
    let ended = guarded(c, |c| under_way.transfers.poll(c)).and_then(|ended| ended);
    if ended.as_ref().is_err_and(Error::is_pending) {
        return Some(under_way);
    }
    c.is_held = false;
    if let Err(error) = ended {
        stream.failures.add(&task::tell(name, error, std::iter::once(&c.shared)));
    }
    c.shared.turns.end(under_way.turn);
    None
}
