//! Transfers whose two ends disagree: the sentences, and refusals of messages whose sender has left its call.

use super::{OF_COLLECTIVE, Pairs};
use crate::error::Error;
use crate::sync::prim::Ordering;
use crate::transport::Transport;
use crate::types::{DataType, Rank};

pub(super) fn text(kind: u64, count: u64) -> String {
    let name = DataType::from_c(kind as i32).map_or("unknown", DataType::name);
    let whose = if kind & OF_COLLECTIVE == 0 { "" } else { ", of a permutation" };
    format!("count {count}, type {name}{whose}")
}

pub(super) fn mismatch(
    t: &Transport,
    sender: Rank,
    sends: String,
    receiver: Rank,
    receives: String,
) -> Error {
    let found = Error::usage(format!(
        "ranks disagree in a transfer: rank {sender} sends ({sends}), rank {receiver} receives ({receives}); both ends \
         must pass the same count and type"
    ));
    t.cause_of_disagreement(&found).unwrap_or(found)
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
