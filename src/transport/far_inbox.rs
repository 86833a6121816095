//! Frames that have come from far peers take effect.

use super::STEP_BITS;
use super::arrival::{Offer, store_arrival};
use super::far::FarRanks;
use super::link::{self, Body, Frame, LifeLine, News, OwnedBody, RestOfMessage};
use super::net_link::LARGEST_ADDRESS;
use super::pair::far::message_frame;
use crate::error::{Error, Result};
use crate::kernels;
use crate::memory::control::{FAILED, LEFT, PAIR_SLOT, largest_payload};
use crate::memory::view::Payload;
use crate::sync::prim::Ordering;
use crate::types::Rank;
use std::collections::BTreeMap;

/// Frames of one peer that may have come before one that is missing.
const WINDOW: u64 = 1 << 16;

/// The frames of one peer.
#[derive(Default)]
pub struct FarInbox {
    /// The number of the next frame that takes effect.
    next: u64,
    /// Frames that came before it.
    early: BTreeMap<u64, OwnedBody>,
    /// The peer has withdrawn bytes, which its counters would show from then on.
    has_withdrawn: bool,
    /// Ends of messages that have come past the frames; `u64::MAX`: none can come any more.
    rests: u64,
    /// The peer has left, and more of those are under way: who waits for one must not hear before that it has left.
    leaving: Option<LifeLine>,
}

impl FarRanks {
    /// Takes in a frame, which may have come before others of its sender.
    pub(super) fn take(&self, inboxes: &mut [FarInbox], frame: Frame<'_>) -> Result<()> {
        let Frame { from, number, body } = frame;
        if !self.has(from) {
            return Err(Error::remote(format!(
                "a frame names rank {from} as its sender, which is no rank of another host; make a new communicator"
            )));
        }
        let fault = |what: &str| {
            Err(Error::remote(format!(
                "rank {from} sent a frame that {what}; the rank or its network is faulty: make a new communicator"
            )))
        };
        match body {
            Body::Data { at, bytes, counter } => {
                let staging = self.mirror.staging_bytes();
                if at > staging || bytes.bytes() > staging - at {
                    return fault("does not fit its staging memory");
                }
                if !self.is_past(counter >> STEP_BITS) {
                    kernels::copy(self.mirror.staging(from, at, bytes.bytes()), bytes, false);
                }
            }
            Body::Arrival { payload, .. } if payload.bytes() > largest_payload(self.nranks()) => {
                return fault("is larger than an arrival may be");
            }
            Body::Piece { bytes, .. } if bytes.bytes() > PAIR_SLOT => {
                return fault("is larger than a piece of a message may be");
            }
            Body::Shrink { endpoint, .. } if endpoint.bytes() > LARGEST_ADDRESS => {
                return fault("is larger than the address of an endpoint may be");
            }
            _ => {}
        }
        let inbox = &mut inboxes[from as usize];
        match number.checked_sub(inbox.next) {
            None => return fault("came twice"),
            Some(ahead) if ahead >= WINDOW => return fault("is far ahead of one that is missing"),
            Some(0) => {}
            Some(_) => {
                // The bytes of a slot have their place already.
                let rest = if let Body::Data { counter, .. } = body { Body::Counter(counter) } else { body };
                return match inbox.early.insert(number, OwnedBody::of(rest)) {
                    None => Ok(()),
                    Some(_) => fault("came twice"),
                };
            }
        }
        // A frame that is refused does not hold up those behind it, which may be the sender's last words.
        let mut ended = self.take_next(inbox, from, body);
        // BOUND: the frames that have come.
        while let Some(mut held) = inbox.early.remove(&inbox.next) {
            let taken = self.take_next(inbox, from, held.body());
            ended = ended.and(taken);
        }
        ended
    }

    /// The next frame of a peer takes effect, if it may.
    #[inline]
    fn take_next(&self, inbox: &mut FarInbox, from: Rank, body: Body<'_>) -> Result<()> {
        inbox.next += 1;
        if let Body::Data { counter, .. } | Body::Counter(counter) = body {
            inbox.has_withdrawn |= counter == link::WITHDRAWN;
            if inbox.has_withdrawn {
                return Ok(());
            }
        }
        if let Body::Life(line) = body
            && line.state == LEFT
            && line.rests > inbox.rests
        {
            inbox.leaving = Some(line);
            return Ok(());
        }
        self.apply(from, body)
    }

    /// Takes in the end of a message that has come past the frames.
    pub(super) fn take_rest(&self, inboxes: &mut [FarInbox], from: Rank, rest: RestOfMessage) -> Result<()> {
        let RestOfMessage { index, args, count } = rest;
        let body = Body::Piece { index, args, count, bytes: Payload::EMPTY };
        message_frame(&self.mirror, &self.near, self.rank, from, body);
        let Some(inbox) = inboxes.get_mut(from as usize) else { return Ok(()) };
        inbox.rests = inbox.rests.saturating_add(1);
        match inbox.leaving.take_if(|line| line.rests <= inbox.rests) {
            Some(line) => self.apply(from, Body::Life(line)),
            None => Ok(()),
        }
    }

    /// No more of those come: peers that have left have left.
    pub(super) fn stop_waiting_for_rests(&self, inboxes: &mut [FarInbox]) {
        for (from, inbox) in (0..).zip(inboxes) {
            inbox.rests = u64::MAX;
            if let Some(line) = inbox.leaving.take() {
                let _ = self.apply(from, Body::Life(line));
            }
        }
    }

    /// Tells whether this rank is in a later call than `seq`. Then the bytes of `seq` came too late to be needed, and later ones may have been
    /// written to their place.
    #[inline]
    fn is_past(&self, seq: u64) -> bool {
        let next = seq.saturating_add(1);
        self.near.arrival(self.rank, next).seq.load(Ordering::Acquire) >= next
    }

    /// A frame takes effect: all before it have.
    fn apply(&self, from: Rank, body: Body<'_>) -> Result<()> {
        match body {
            Body::Data { counter, .. } | Body::Counter(counter) => {
                // ORDER: publishes the slots of this frame and those before; partner: `await_counter`.
                self.mirror.progress(from).counter.fetch_max(counter, Ordering::Release);
            }
            Body::Arrival { seq, args, count, trail, payload, .. } => {
                if !self.is_past(seq) {
                    kernels::copy(self.mirror.payload(from, seq, payload.bytes()), payload, false);
                }
                let offer = Offer { payload: Offer::unpack(args, [0; 2]).payload, ..Offer::default() };
                store_arrival(&self.mirror, from, seq, [args, count], trail, &offer);
            }
            Body::Piece { .. } | Body::Taken(_) => {
                message_frame(&self.mirror, &self.near, self.rank, from, body)
            }
            Body::Life(line) => {
                let life = self.mirror.life(from);
                life.pid.store(line.pid, Ordering::Relaxed);
                life.start.store(line.start, Ordering::Relaxed);
                life.failed_seq.store(line.failed_seq, Ordering::Relaxed);
                life.state.store(line.state, Ordering::Release);
                if line.state >= FAILED {
                    self.near.header().gave_up.fetch_add(1, Ordering::Release);
                }
            }
            Body::Shrink { words, endpoint } => self.shrink_frame(from, words, endpoint),
            Body::News(News { disagreement, cause, dead, ending }) => {
                let header = self.near.header();
                header.disagreement.fetch_max(disagreement, Ordering::AcqRel);
                if cause != 0 {
                    let _ = header.cause.compare_exchange(0, cause, Ordering::AcqRel, Ordering::Acquire);
                }
                self.hear_of_endings(dead, ending);
            }
            Body::Access(access) => return self.access(from, access),
        }
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::transport::far::Far;
    use crate::transport::in_process::{Delivery, transports};

    fn leaves(number: u64, rests: u64) -> Frame<'static> {
        let line = LifeLine { pid: 1, start: 1, state: LEFT, failed_seq: 0, rests };
        Frame { from: 0, number, body: Body::Life(line) }
    }

    #[test]
    fn a_rank_has_left_when_the_ends_of_its_messages_have_come() {
        let (ranks, _network) = transports(&[0, 1], Delivery::InOrder, 60_000);
        let far = ranks[1].far.as_ref().map(Far::shared).unwrap();
        let rest = |index| RestOfMessage { index, args: 0, count: 0 };
        let mut inboxes = [FarInbox::default(), FarInbox::default()];
        far.take_rest(&mut inboxes, 0, rest(0)).unwrap();
        far.take(&mut inboxes, leaves(0, 3)).unwrap();
        far.take_rest(&mut inboxes, 0, rest(1)).unwrap();
        assert!(!ranks[1].has_left(0), "one of its messages is under way");
        far.take_rest(&mut inboxes, 0, rest(2)).unwrap();
        assert!(ranks[1].has_left(0));
    }

    #[test]
    fn a_rank_has_left_where_nothing_comes_past_the_frames_any_more() {
        for ends_first in [false, true] {
            let (ranks, _network) = transports(&[0, 1], Delivery::InOrder, 60_000);
            let far = ranks[1].far.as_ref().map(Far::shared).unwrap();
            let mut inboxes = [FarInbox::default(), FarInbox::default()];
            if ends_first {
                far.stop_waiting_for_rests(&mut inboxes);
            }
            far.take(&mut inboxes, leaves(0, 1)).unwrap();
            assert_eq!(ranks[1].has_left(0), ends_first);
            far.stop_waiting_for_rests(&mut inboxes);
            assert!(ranks[1].has_left(0));
        }
    }
}
