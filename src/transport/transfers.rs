//! Transfers that run side by side, to completion or as far as they come.

use super::Transport;
use super::pair::{self, PairTransfer, Pairs, late_refusal};
use super::waiting::{Polls, Waiting};
use crate::error::{Code, Error, Result};
use crate::sync::wait::eagerly;
use crate::types::Rank;
use std::cell::RefCell;

/// The common progress of transfers that run side by side; each transfer keeps its own progress besides.
pub struct TransferProgress {
    waiting: Waiting,
    /// The first failure, or else the refusal of an earlier message.
    failure: Option<Error>,
    has_failed: bool,
    /// The communicator has failed: no transfer can continue.
    is_over: bool,
    /// Receives have begun before sends, where that is of use.
    has_begun: bool,
}

/// Prepares transfers. `polls`: as in [`Scope`](super::Scope).
#[inline]
pub fn begin(t: &Transport, pairs: &mut Pairs, polls: Polls) -> TransferProgress {
    let present = |e: Error| e.with_message(format!("{}; the present call was carried out", e.message));
    let failure = late_refusal(t, pairs).map(present);
    TransferProgress {
        waiting: Waiting { polls, deadline_ns: 0 },
        failure,
        has_failed: false,
        is_over: false,
        has_begun: !t.has_far(),
    }
}

/// Runs transfers to completion, or as far as they come without waiting if they are polled; those of one direction and peer
/// in their order, all others side by side.
#[inline]
pub fn run(
    t: &Transport,
    pairs: &mut Pairs,
    transfers: &mut [PairTransfer],
    progress: &mut TransferProgress,
) -> Result<()> {
    let mut advance = || advance_all(t, pairs, transfers, progress);
    // What a far rank has sent is not there before this rank polls its link.
    let are_over = if t.has_far_only() { advance() } else { eagerly(advance) };
    if !are_over {
        wait(t, pairs, transfers, progress)?;
    }
    progress.failure.take().map_or(Ok(()), Err)
}

impl TransferProgress {
    /// Keeps the first failure. The other transfers go on.
    pub fn failed(&mut self, error: Error) {
        if !std::mem::replace(&mut self.has_failed, true) {
            self.failure = Some(error);
        }
    }
}

/// Does what can be done without waiting. Returns whether all are done, or none of them can go on.
#[inline]
pub fn advance_all(
    t: &Transport,
    pairs: &mut Pairs,
    transfers: &mut [PairTransfer],
    progress: &mut TransferProgress,
) -> bool {
    if progress.is_over {
        return true;
    }
    if let [single] = transfers {
        return single.done || advance_one(t, pairs, single, true, progress);
    }
    let mut all = true;
    // First the receives alone: far senders are told of their buffers.
    let begins = !std::mem::replace(&mut progress.has_begun, true);
    let twice = if begins { 2 * transfers.len() } else { transfers.len() };
    for turn in 0..twice {
        let i = turn % transfers.len();
        if transfers[i].done || transfers[i].send && turn + transfers.len() < twice {
            continue;
        }
        let key = (transfers[i].send, transfers[i].peer);
        if transfers[..i].iter().any(|earlier| !earlier.done && (earlier.send, earlier.peer) == key) {
            all = false;
            continue;
        }
        all &= advance_one(t, pairs, &mut transfers[i], false, progress);
        if progress.is_over {
            return true;
        }
    }
    all
}

/// Does what can be done of one transfer. Returns whether it is done, or cannot go on.
#[inline(always)]
fn advance_one(
    t: &Transport,
    pairs: &mut Pairs,
    transfer: &mut PairTransfer,
    alone: bool,
    progress: &mut TransferProgress,
) -> bool {
    match transfer.advance(t, pairs, alone) {
        Ok(None) => {}
        Ok(Some(error)) => progress.failed(error),
        Err(error) => {
            progress.failed(error);
            progress.is_over = true;
            return true;
        }
    }
    transfer.done
}

fn peers_left(transfers: &[PairTransfer]) -> impl Iterator<Item = Rank> {
    transfers.iter().filter(|x| !x.done).map(|x| x.peer)
}

#[cold]
fn wait(
    t: &Transport,
    pairs: &mut Pairs,
    transfers: &mut [PairTransfer],
    progress: &mut TransferProgress,
) -> Result<()> {
    let mut waiting = progress.waiting;
    let at_work = RefCell::new((&mut *pairs, &mut *transfers, &mut *progress));
    let attempt = || {
        let (pairs, transfers, progress) = &mut *at_work.borrow_mut();
        advance_all(t, pairs, transfers, progress)
    };
    // The peers of unfinished transfers, which the watch checks.
    let needed = || peers_left(at_work.borrow().1).collect::<Vec<Rank>>();
    let watch = || {
        t.check_abort()?;
        t.check_alarm()?;
        t.watch_ranks(needed().into_iter()).or_else(|_| {
            // A peer that has left may have done its part since the last attempt, while another's is not done.
            attempt();
            t.check_ranks(needed().into_iter())
        })
    };
    let expired = || {
        let mut ranks = needed();
        ranks.dedup();
        Error::timeout(format!(
            "transfers did not finish within {}; waiting for {}{}; if they are only slow, raise PENNY_TIMEOUT or \
             timeoutMs",
            super::watch::seconds(t.timeout_ns()),
            t.who(&ranks),
            t.of_this_process(&ranks)
        ))
    };
    let ended = t.wait_or_leave(&mut waiting, attempt, watch, expired);
    progress.waiting = waiting;
    ended.map_err(|e| match e.code {
        Code::Timeout => e.with_message(e.message.clone() + &ungrouped(t, pairs, transfers)),
        _ => e,
    })
}

/// Tells that the peer of a send sends to this rank, too, and waits as this rank does. Empty where it does not.
fn ungrouped(t: &Transport, pairs: &mut Pairs, transfers: &[PairTransfer]) -> String {
    let unmet = |send| transfers.iter().filter(move |x| !x.done && x.send == send).map(|x| x.peer);
    let mut mirrored = unmet(true).filter(|&peer| unmet(false).all(|from| from != peer));
    let found = mirrored.find_map(|peer| Some((peer, pair::waiting_message(t, pairs, peer)?)));
    found.map_or(String::new(), |(peer, what)| {
        format!(
            "; rank {peer} has sent ({what}) to rank {me}, which has not received it: where two ranks send to each other, each puts its \
             send and its receive into one group (pennyGroupStart, pennyGroupEnd)",
            me = t.rank()
        )
    })
}
