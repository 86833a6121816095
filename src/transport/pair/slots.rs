//! What becomes of a slot of a ring, whatever message it is of: its ring is reserved, it is filled, the peer is told that it is free, and
//! its lines are asked for before they are needed.

use super::{DEMOTED, PairTransfer, Peer};
use crate::error::Result;
use crate::kernels::hints;
use crate::memory::control::{PAIR_SLOTS, Pair, PairSlot};
use crate::sync::prim::Ordering;
use crate::transport::Transport;
use crate::types::Rank;

impl PairTransfer<'_> {
    /// Notes that the message to this peer begins.
    #[inline(always)]
    pub(super) fn begin_to_send(&mut self, peer: &mut Peer, alone: bool) -> u64 {
        self.awaited = alone && std::mem::replace(&mut peer.taken_before, peer.taken) != peer.taken;
        *self.first.insert(peer.filled)
    }

    /// Fills a slot whose data are in their place.
    #[inline(always)]
    pub(super) fn fill_slot(&self, head: &PairSlot, index: u64, place: u64) {
        die_point!(70 "pair_copied");
        head.args.store(self.kind() | self.way | place, Ordering::Relaxed);
        head.count.store(self.count as u64, Ordering::Relaxed);
        head.heap.store(self.heap.unwrap_or(0), Ordering::Relaxed);
        die_point!(71 "pair_line");
        // ORDER: publishes the slot; partners: the loads in `empty`, `take_small`, `answers`, `arrived` and `waiting_message`.
        head.full.store(index + 1, Ordering::Release);
        die_point!(72 "pair_full");
    }

    /// Moves a slot of `bytes` bytes for which the peer waits towards the cache that all cores share, where that helps.
    #[inline]
    pub(super) fn demote_slot(&self, t: &Transport, index: u64, bytes: usize) {
        if self.awaited && DEMOTED.contains(&self.data.bytes()) && hints::limits().demotes {
            hints::stored();
            hints::demote(t.control().pair_slot_bytes(t.rank(), self.peer, index, bytes));
        }
    }

    /// Takes the lines of the next message's slots out of the peer's caches, from slot `next` on: most messages are followed by others
    /// like them, and this rank waits for the answer now.
    #[inline]
    pub(super) fn claim_slots(&self, t: &Transport, next: u64, slots: u64) {
        let limits = hints::limits();
        if self.data.bytes() > if self.awaited { limits.claimed_awaited } else { limits.claimed_slots } {
            return;
        }
        // Half of the ring at most: the receiver is still reading the other half.
        for slot in 0..slots.min(PAIR_SLOTS as u64 / 2) {
            let bytes = self.piece(slot).bytes();
            hints::prefetch_for_write(t.control().pair_slot_bytes(t.rank(), self.peer, next + slot, bytes));
        }
    }
}

impl Peer {
    /// Makes sure that the ring between this rank and the peer, rank `of`, can be touched: the one of sends, or that of receives.
    pub(super) fn reserve_ring(&mut self, t: &Transport, of: Rank, send: bool) -> Result<()> {
        let is_reserved = &mut self.reserved[usize::from(!send)];
        if !*is_reserved {
            let (from, to) = if send { (t.rank(), of) } else { (of, t.rank()) };
            t.control().reserve_ring(from, to)?;
            *is_reserved = true;
        }
        Ok(())
    }

    /// Tells whether the sender is to be told of the slots that were taken: it has room for more, so a few at a time.
    #[inline]
    pub(super) fn is_to_be_told(&self) -> bool {
        self.taken.is_multiple_of(PAIR_SLOTS as u64 / 2)
    }

    /// Tells the sender how many slots were taken.
    #[inline]
    pub(super) fn tell_taken(&self, pair: &Pair) {
        // ORDER: the slot, or the sender's buffer, is free again; partner: the loads in `fill`.
        pair.taken.store(self.taken, Ordering::Release);
        die_point!(74 "pair_taken");
    }
}
