//! Messages that have come and that no receive has taken.

use super::refusals::text;
use super::{OF_COLLECTIVE, Pairs, WAY};
use crate::error::{Error, Result};
use crate::sync::prim::Ordering;
use crate::transport::Transport;
use crate::types::{DataType, Rank};

/// A message that no receive has taken.
pub struct Arrived {
    /// Elements.
    pub count: u64,
    /// Their type.
    pub dtype: DataType,
}

/// Words the message of a peer that no receive has taken, be it a collective's. `None`: there is none.
pub fn waiting_message(t: &Transport, pairs: &mut Pairs, from: Rank) -> Option<String> {
    let (me, peer) = (t.rank(), &mut pairs.peers[from as usize]);
    peer.reserve_ring(t, from, false).ok()?;
    let (head, _) = t.lines(from).pair_slot(from, me, peer.taken, 0);
    // ORDER: partner of the store in `fill_slot`.
    (head.full.load(Ordering::Acquire) == peer.taken + 1)
        .then(|| text(head.args.load(Ordering::Relaxed) & !WAY, head.count.load(Ordering::Relaxed)))
}

/// Looks for a message of a peer, other than a collective's. Waits for nothing; fails where none can come any more.
pub fn arrived(t: &Transport, pairs: &mut Pairs, from: Rank) -> Result<Option<Arrived>> {
    let (me, peer) = (t.rank(), &mut pairs.peers[from as usize]);
    peer.reserve_ring(t, from, false)?;
    let look = || {
        let (head, _) = t.lines(from).pair_slot(from, me, peer.taken, 0);
        // ORDER: partner of the store in `fill_slot`.
        let full = head.full.load(Ordering::Acquire) == peer.taken + 1;
        full.then(|| (head.args.load(Ordering::Relaxed) & !WAY, head.count.load(Ordering::Relaxed)))
    };
    let mut found = look();
    if found.is_none() {
        t.check_abort()?;
        let watched = t.watch_ranks(std::iter::once(from));
        // A peer that has left may have sent since the last look.
        found = look();
        if found.is_none() {
            watched?;
        }
    }
    let Some((kind, count)) = found.filter(|(kind, _)| kind & OF_COLLECTIVE == 0) else { return Ok(None) };
    let dtype = DataType::from_c(kind as i32).ok_or_else(|| {
        Error::remote(format!(
            "rank {from} sent a message of elements of no known type; destroy the communicator"
        ))
    })?;
    Ok(Some(Arrived { count, dtype }))
}

/// Tells whether two ranks of this process have nothing to say to each other about earlier messages from the first to the second: all have been
/// taken, and no refusal is news. Nobody else may be inside of either.
pub fn are_at_rest([from, to]: [&Transport; 2], [sender, receiver]: [&Pairs; 2]) -> bool {
    let refusals = from.control().header().refusals.load(Ordering::Acquire);
    sender.refusals == refusals
        && receiver.refusals == refusals
        && sender.peers[to.rank() as usize].filled == receiver.peers[from.rank() as usize].taken
}
