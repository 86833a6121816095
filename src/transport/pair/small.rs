//! Messages of few bytes between ranks of one host: one slot, of which a transfer keeps until it is full that it has begun.
//!
//! They move as larger ones do, through the same slots: whatever is out of the ordinary is left to the way of these.

use super::places::PLACED_FROM;
use super::{DEMOTED, FETCHED_TOGETHER, PairTransfer, Peer};
use crate::kernels::{self, hints};
use crate::memory::control::{PAIR_INLINE, PAIR_SLOTS, Pair, PairSlot};
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
        peer.places.has_read(args, index, self.data.bytes());
        die_point!(73 "pair_read");
        peer.taken = index + 1;
        if peer.is_to_be_told() {
            peer.tell_taken(t.control().pair(self.peer, t.rank()));
            t.after_post();
        }
        self.done = true;
        true
    }

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
