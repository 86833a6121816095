//! Messages between hosts: the slots of a ring travel as frames, and so does what their receiver says of them.

use crate::kernels;
use crate::memory::control::Control;
use crate::memory::control::lines::Lines;
use crate::sync::prim::Ordering;
use crate::transport::Transport;
use crate::transport::link::{Body, TakenLine};
use crate::types::Rank;

/// A frame about messages takes effect in this rank's mirror. `near`: its control segment.
pub fn message_frame(mirror: &Lines, near: &Control, me: Rank, from: Rank, body: Body<'_>) {
    match body {
        // The end of a message that this rank has refused. Pieces of later ones may have been written to the same places.
        Body::Piece { index, .. } if index < near.pair(from, me).taken.load(Ordering::Acquire) => {}
        Body::Piece { index, args, count, bytes } => {
            let (head, place) = mirror.pair_slot(from, me, index, bytes.bytes());
            kernels::copy(place, bytes, false);
            head.args.store(args, Ordering::Relaxed);
            head.count.store(count, Ordering::Relaxed);
            // ORDER: publishes the slot; partner: the load in `pair::empty`.
            head.full.store(index + 1, Ordering::Release);
        }
        Body::Taken(TakenLine { taken, refused, refused_args, .. }) => {
            let pair = mirror.pair(me, from);
            for (word, told) in pair.refused_args.iter().zip(refused_args) {
                word.store(told, Ordering::Relaxed);
            }
            if pair.refused.load(Ordering::Relaxed) != refused {
                pair.refused.store(refused, Ordering::Release);
                near.header().refusals.fetch_add(1, Ordering::Release);
            }
            pair.taken.store(taken, Ordering::Release);
        }
        _ => {}
    }
}

impl Transport {
    /// Sends a far rank a slot of the ring to it, which this rank has filled in.
    pub(in crate::transport) fn send_piece(&self, to: Rank, index: u64, bytes: usize) {
        if let Some(far) = self.far_to_post() {
            let (head, bytes) = self.control.pair_slot(self.rank, to, index, bytes);
            let (args, count) = (head.args.load(Ordering::Relaxed), head.count.load(Ordering::Relaxed));
            far.post(to, Body::Piece { index, args, count, bytes });
        }
    }

    /// Sends a far rank what this rank says of the ring from it. `may_wait`: it can go on without.
    pub(in crate::transport) fn send_taken(&self, to: Rank, may_wait: bool) {
        if let Some(far) = self.far_to_post() {
            let pair = self.control.pair(to, self.rank);
            far.post(
                to,
                Body::Taken(TakenLine {
                    taken: pair.taken.load(Ordering::Relaxed),
                    refused: pair.refused.load(Ordering::Relaxed),
                    refused_args: pair.refused_args.each_ref().map(|word| word.load(Ordering::Relaxed)),
                    may_wait,
                }),
            );
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "far_tests.rs"]
mod tests;
