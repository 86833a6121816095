//! What a link still holds: writes from callers' memory, and all that is behind.

use super::peer::FarPeer;
use super::{Others, State, trailer};
use crate::memory::control::lines::Lines;
use crate::sys::endpoint::PeerId;
use crate::types::Rank;

impl State {
    /// Tells whether writes from callers' memory are still to be sent to peers that are alive.
    pub(super) fn holds_lent(&mut self) -> bool {
        self.has_lent() && {
            self.give_back_lent_to_dead();
            self.has_lent()
        }
    }

    /// The same, those to dead peers among them.
    fn has_lent(&self) -> bool {
        let queued = |peer: &FarPeer| peer.lost.is_none() && peer.holds_lent();
        self.others.takes_lent && self.rails[0].holds_lent() || self.others.peers.iter().flatten().any(queued)
    }

    /// Withdraws the frames of such writes, which may be sent with other bytes now.
    #[cold]
    pub(super) fn give_back_lent(&mut self) {
        self.give_back_lent_to(|_, _| true);
    }

    /// Withdraws the frames of writes to peers that have died. A provider may never report such a write if the peer died while the
    /// connection was being made.
    #[cold]
    fn give_back_lent_to_dead(&mut self) {
        self.give_back_lent_to(|mirror, rank| mirror.life(rank).node.died());
    }

    /// Withdraws the frames of writes to the peers that `is_meant` chooses.
    fn give_back_lent_to(&mut self, is_meant: impl Fn(&Lines, Rank) -> bool) {
        let Others { takes_lent: true, mirror, peers, ranks, .. } = &mut self.others else { return };
        let is_to_meant = |id: PeerId| ranks.get(id.index()).is_none_or(|&rank| is_meant(mirror, rank));
        self.rails[0].give_back_lent(&is_to_meant, &trailer::withdraw);
        for (_, peer) in (0..).zip(peers).filter(|(rank, _)| is_meant(mirror, *rank)) {
            peer.iter_mut().for_each(FarPeer::give_back_lent);
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
