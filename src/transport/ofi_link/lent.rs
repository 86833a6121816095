//! What a link still holds: writes from callers' memory, and all that is behind.

use super::peer::FarPeer;
use super::{State, trailer};

impl State {
    /// Tells whether writes from callers' memory are still to be sent.
    pub(super) fn holds_lent(&self) -> bool {
        let queued = |peer: &FarPeer| peer.lost.is_none() && peer.holds_lent();
        self.others.takes_lent && self.rails[0].holds_lent() || self.others.peers.iter().flatten().any(queued)
    }

    /// Withdraws the frames of such writes, which may be sent with other bytes now.
    #[cold]
    pub(super) fn give_back_lent(&mut self) {
        if self.others.takes_lent {
            self.rails[0].give_back_lent(trailer::withdraw);
            self.others.peers.iter_mut().flatten().for_each(FarPeer::give_back_lent);
        }
    }

    /// Tells whether a peer that is alive has not been sent all that was posted to it, as far as is known.
    #[cold]
    pub(super) fn is_behind(&self) -> bool {
        let lives = |rank: usize| !self.others.mirror.life(rank as u32).node.died();
        let waits = |peer: &FarPeer| !peer.is_gone() && (!peer.queue.is_empty() || !peer.rails.are_open());
        let queued =
            |(rank, peer): (usize, &Option<FarPeer>)| peer.as_ref().is_some_and(waits) && lives(rank);
        self.others.holds
            || (0..self.rails.len()).any(|rail| self.rails[rail].pending() > 0)
            || self.others.peers.iter().enumerate().any(queued)
    }
}
