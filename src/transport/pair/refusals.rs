//! Transfers whose two ends disagree: the sentences, and refusals of messages whose sender has left its call.

use super::pieces::slots_of;
use super::{OF_COLLECTIVE, PairTransfer, Pairs, Peer, WAY};
use crate::error::{Error, Result};
use crate::sync::prim::Ordering;
use crate::transport::Transport;
use crate::types::{DataType, Rank};

pub(super) fn text(kind: u64, count: u64) -> String {
    let name = DataType::from_c(kind as i32).map_or("unknown", DataType::name);
    let whose = if kind & OF_COLLECTIVE == 0 { "" } else { ", of a collective" };
    format!("count {count}, type {name}{whose}")
}

fn mismatch(t: &Transport, sender: Rank, sends: String, receiver: Rank, receives: String) -> Error {
    let found = Error::usage(format!(
        "ranks disagree in a transfer: rank {sender} sends ({sends}), rank {receiver} receives ({receives}); both ends \
         must pass the same count and type"
    ));
    t.cause_of_disagreement(&found).unwrap_or(found)
}

impl PairTransfer<'_> {
    /// Ends a message that its receiver has refused. Returns the error of this transfer.
    pub(super) fn refused(&mut self, t: &Transport, peer: &mut Peer, end: u64) -> Error {
        let pair = t.lines(self.peer).pair(t.rank(), self.peer);
        peer.filled = end;
        peer.refusal_seen = pair.refused.load(Ordering::Relaxed);
        let theirs = pair.refused_args.each_ref().map(|w| w.load(Ordering::Relaxed));
        self.done = true;
        mismatch(t, t.rank(), self.text(), self.peer, text(theirs[0], theirs[1]))
    }

    /// Refuses the peer's message, whose first slot has these words. Returns the error of this transfer.
    pub(super) fn refuse(
        &mut self,
        t: &Transport,
        peer: &mut Peer,
        first: u64,
        args: u64,
        count: u64,
    ) -> Result<Error> {
        let (me, kind) = (t.rank(), args & !WAY);
        let pair = t.control().pair(self.peer, me);
        let size = DataType::from_c(kind as i32).map_or(1, DataType::size) as u64;
        // No message fills more than memory; the slots of one that says so cannot be counted.
        let bytes = count.checked_mul(size).filter(|&bytes| bytes < 1 << 56).ok_or_else(|| {
            Error::remote(format!(
                "rank {} sent a message of {count} elements, which no memory holds; destroy the communicator",
                self.peer
            ))
        })?;
        peer.taken = first + slots_of(bytes as usize, args & WAY);
        pair.refused_args[0].store(self.kind(), Ordering::Relaxed);
        pair.refused_args[1].store(self.count as u64, Ordering::Relaxed);
        die_point!(75 "pair_refusal");
        pair.refused.store(first + 1, Ordering::Release);
        die_point!(76 "pair_refused");
        t.control().header().refusals.fetch_add(1, Ordering::Release);
        die_point!(77 "pair_refusals");
        pair.taken.store(peer.taken, Ordering::Release);
        if t.is_far(self.peer) {
            t.send_taken(self.peer, false);
        }
        t.after_post();
        self.close_buffer();
        self.done = true;
        Ok(mismatch(t, self.peer, text(kind, count), me, self.text()))
    }
}

/// Was an earlier message refused after we had left the call that sent it?
pub fn late_refusal(t: &Transport, pairs: &mut Pairs) -> Option<Error> {
    let refusals = t.control().header().refusals.load(Ordering::Acquire);
    if refusals == pairs.refusals {
        return None;
    }
    pairs.refusals = refusals;
    let mut found = None;
    for (to, peer) in (0..t.nranks()).zip(&mut pairs.peers) {
        let pair = t.lines(to).pair(t.rank(), to);
        let refused = pair.refused.load(Ordering::Acquire);
        if refused > peer.refusal_seen && refused <= peer.filled {
            peer.refusal_seen = refused;
            let theirs = pair.refused_args.each_ref().map(|w| w.load(Ordering::Relaxed));
            found = Some(Error::usage(format!(
                "an earlier message from rank {} to rank {} was refused: rank {} received it as ({})",
                t.rank(),
                to,
                to,
                text(theirs[0], theirs[1])
            )));
        }
    }
    found
}
