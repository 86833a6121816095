//! Messages of few bytes between ranks of one host: one slot, of which a transfer keeps until it is full that it has begun.
//!
//! They move as larger ones do, through the same slots: whatever is out of the ordinary is left to the way of these.

use super::places::PLACED_FROM;
use super::{FETCHED_TOGETHER, PairTransfer, Peer};
use crate::kernels::{self, hints};
use crate::memory::control::{PAIR_INLINE, PAIR_SLOTS};
use crate::sync::prim::Ordering;
use crate::transport::Transport;

impl PairTransfer<'_> {
    /// Tells whether the message is small. Those of hosts that are one of several take the long way.
    #[inline(always)]
    pub(super) fn is_small(&self, t: &Transport) -> bool {
        self.data.bytes() < PLACED_FROM && !t.has_far()
    }

    /// Sends a small message. `false`: nothing of it is done, because it waits for room, or has done so before.
    #[inline(always)]
    pub(super) fn send_small(&mut self, t: &Transport, peer: &mut Peer, alone: bool) -> bool {
        let index = peer.filled;
        if self.first.is_some() || index >= peer.taken_by_peer + PAIR_SLOTS as u64 {
            return false;
        }
        self.begin_to_send(peer, alone);
        let (head, slot) = t.control().pair_slot(t.rank(), self.peer, index, self.data.bytes());
        kernels::copy(slot, self.data, false);
        self.fill_slot(head, index, 0);
        t.after_post();
        self.demote_slot(t, index, self.data.bytes());
        peer.filled = index + 1;
        self.claim_slots(t, index + 1, 1);
        self.done = true;
        true
    }

    /// Receives a small message if it is there. `false`: it is another one, of which nothing is taken.
    #[inline(always)]
    pub(super) fn take_small(&mut self, t: &Transport, peer: &mut Peer) -> bool {
        let index = peer.taken;
        self.first = Some(index);
        let (head, slot) = t.control().pair_slot(self.peer, t.rank(), index, self.data.bytes());
        // ORDER: partner of the store in `fill_slot`.
        if head.full.load(Ordering::Acquire) != index + 1 {
            // Less lies in the line that was just asked for.
            if (PAIR_INLINE + 1..=FETCHED_TOGETHER).contains(&self.data.bytes()) {
                hints::prefetch(slot);
            }
            return true;
        }
        let (args, count) = (head.args.load(Ordering::Relaxed), head.count.load(Ordering::Relaxed));
        if (args, count) != (self.kind(), self.count as u64) {
            return false;
        }
        kernels::copy(self.data, slot, false);
        peer.places.has_read(args, index, self.data.bytes(), self.data.bytes());
        die_point!(73 "pair_read");
        peer.taken = index + 1;
        if peer.is_to_be_told() {
            peer.tell_taken(t.control().pair(self.peer, t.rank()));
            t.after_post();
        }
        self.done = true;
        true
    }
}
