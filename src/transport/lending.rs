//! Bytes of a caller's buffers that far ranks are sent from where they lie.
//!
//! What a rank sends to far ranks otherwise lies in its control segment, where it may stay after the call. A call that waits within itself may
//! lend its buffers instead, where the link takes such bytes. Before it changes what it has lent, and before it returns, it waits until all of it
//! is sent. A call that fails gives the link a moment for that, and then has it withdraw the frames that make the bytes visible. Behind such a
//! frame the sender's counters show the receiver nothing more, so a call that needs the bytes fails there, too.

use super::arrival::{Offer, store_arrival};
use super::far::FarRanks;
use super::link::Body;
use super::posting::arrival;
use super::{Scope, Transport};
use crate::error::{Error, Result};
use crate::memory::view::Payload;
use crate::sys::{clock, cpu};
use crate::types::Rank;
use std::ops::Range;

/// How long a call that fails waits until what it has posted is sent.
const PARTING_NS: u64 = 20_000_000;

impl FarRanks {
    /// Tells whether bytes of a caller's memory are still to be sent.
    fn holds_lent(&self) -> bool {
        self.takes_lent.is_some() && self.link.holds_lent()
    }
}

impl Transport {
    /// May a call lend its buffers?
    #[inline]
    pub fn lends(&self, scope: &Scope) -> bool {
        scope.polls.is_none() && self.far.as_ref().is_some_and(|far| far.takes_lent.is_some())
    }

    /// Tells whether all other ranks are far.
    #[inline]
    pub fn has_far_only(&self) -> bool {
        self.far.as_ref().is_some_and(|far| far.are_all)
    }

    /// Enters a call as [`arrive`](Self::arrive) does, and lends the payload, which is the call's input. `read_by`: the part of it that a
    /// rank reads.
    #[inline(never)]
    pub fn arrive_lending(
        &self,
        scope: &Scope,
        offer: &Offer,
        input: Payload<'_>,
        read_by: impl Fn(Rank) -> Range<usize>,
    ) {
        let (mine, whole) = ([scope.mine[0] | offer.pack(), scope.mine[1]], input.bytes());
        store_arrival(&self.control, self.rank, scope.seq, mine, scope.trail, offer);
        let Some(far) = self.far_to_post() else { return };
        let least = far.takes_lent.unwrap_or(usize::MAX);
        for rank in (0..self.nranks).filter(|&rank| far.has(rank)) {
            let read = read_by(rank);
            let (at, bytes) = match read.len() {
                0 => (0, 0),
                some if some > least => (read.start, some),
                _ => (0, whole),
            };
            far.post(rank, arrival(scope, offer, input.part(at, bytes), Some([at, whole])));
        }
    }

    /// Sends a far rank lent bytes as a range of this rank's staging memory, and the program counter that makes it visible.
    pub fn send_lent(&self, to: Rank, at: usize, bytes: Payload<'_>, counter: u64) {
        if let Some(far) = self.far_to_post() {
            far.post(to, Body::Data { at, bytes, counter });
        }
    }

    /// Tells whether an arrival's payload of this length, if it is lent, is still to be sent when it has been posted: a shorter one is copied then.
    #[inline]
    pub fn stays_lent(&self, bytes: usize) -> bool {
        self.far.as_ref().and_then(|far| far.takes_lent).is_some_and(|least| bytes > least)
    }

    /// Waits until everything that the call has lent is sent.
    #[inline]
    pub fn settle_lent(&self, scope: &mut Scope) -> Result<()> {
        match &self.far {
            Some(far) if far.holds_lent() => self.wait(scope, || !far.holds_lent()),
            _ => Ok(()),
        }
    }

    /// The call has failed, and its buffers are its caller's again. `is_usable`: other calls may follow. Then it waits until all is sent: the
    /// provider ends a connection if what it sends by it was freed.
    #[cold]
    pub fn give_back_lent(&self, scope: &Scope, is_usable: bool) {
        let Some(far) = self.far.as_ref().filter(|far| far.holds_lent()) else { return };
        if is_usable {
            let deadline_ns = if scope.deadline_ns == 0 { self.deadline() } else { scope.deadline_ns };
            let watch = || self.check_abort().and_then(|()| self.check_alarm());
            let _ = self.wait_watching(deadline_ns, || !far.holds_lent(), watch, Error::pending);
        }
        far.link.give_back_lent();
    }

    /// Waits until far ranks were sent all that was posted, or until a time. What a rank says when it fails is behind what it has sent before, and
    /// the process may end at once.
    #[cold]
    pub(super) fn send_all_until(&self, until_ns: u64) {
        let Some(far) = &self.far else { return };
        // BOUND: the time.
        while far.link.is_behind() && clock::now_ns() < until_ns {
            far.poll();
            cpu::yield_now();
        }
    }

    /// The same for a moment.
    #[cold]
    pub(super) fn send_last_words(&self) {
        if self.far.is_some() {
            self.send_all_until(clock::now_ns() + PARTING_NS);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::kernels;
    use crate::sync::prim::Ordering;
    use crate::transport::in_process::{Delivery, transports};
    use crate::transport::{STEP_BITS, counter_end};
    use crate::types::{Collective, DataType, RedOp};

    fn call(seq: u64, count: u64) -> Scope {
        let mine = crate::transport::arrival::Fingerprint {
            collective: Collective::AllReduce,
            dtype: DataType::Uint8,
            op: RedOp::Sum,
            root: 0,
            algorithm: 0,
            padded: false,
            count,
        };
        Scope { arrival_is_all: true, ..Scope::new(seq, [mine.pack(), count], 0, None) }
    }

    #[test]
    fn a_rank_that_leaves_a_disagreement_before_its_payload_is_sent_has_arrived_nevertheless() {
        let mut words = [7u64; 2000];
        let (input, offer) = (Payload::from(&mut words[..]), Offer { payload: true, ..Offer::default() });
        // Rank 1 makes another call than the two others.
        let (ranks, _network) = transports(&[0, 1, 2], Delivery::Lent(1), 10_000);
        let [here, odd, like] = [&ranks[0], &ranks[1], &ranks[2]];
        here.arrive_lending(&call(1, 16_000), &offer, input, |_| 0..16_000);
        odd.arrive(&call(1, 9), &offer, 0, |_| true);
        like.arrive(&call(1, 16_000), &offer, 0, |_| true);
        here.give_back_lent(&call(1, 16_000), false);
        let told = [(odd, 9), (like, 16_000)].map(|(t, count)| t.meet(0, &mut call(1, count)).unwrap_err());
        for told in told {
            assert!(told.message.contains("ranks disagree in call #1"), "{told}");
        }
        // Rank 1 sees that rank 0 has entered call 1, so it does not wait for the end of rank 0's earlier calls.
        assert!(odd.has_arrived(0, 1));
    }

    #[test]
    fn a_call_after_which_others_may_follow_keeps_its_buffers_until_they_are_sent() {
        for seed in 0..20 {
            let mut words = [7u64; 2000];
            let (input, offer) = (Payload::from(&mut words[..]), Offer { payload: true, ..Offer::default() });
            let (ranks, _network) = transports(&[0, 1], Delivery::Lent(seed), 10_000);
            ranks[0].arrive_lending(&call(1, 16_000), &offer, input, |_| 0..16_000);
            ranks[0].give_back_lent(&call(1, 16_000), true);
            kernels::zero(input);
            ranks[1].arrive(&call(1, 16_000), &offer, 0, |_| true);
            ranks[1].meet(0, &mut call(1, 16_000)).unwrap();
            let mut come = [0u64; 2000];
            kernels::copy(Payload::from(&mut come[..]), ranks[1].payload_of(0, 1, 16_000, false), false);
            assert!(come.iter().all(|&word| word == 7), "{seed}");
        }
    }

    #[test]
    fn no_counter_shows_bytes_that_were_withdrawn() {
        let mut words = [7u64; 100];
        let bytes = Payload::from(&mut words[..]);
        let call = call(1, 800);
        let [first, second] = [1, 2].map(|step| (1 << STEP_BITS) + step);
        for seed in 0..20 {
            let (ranks, _network) = transports(&[0, 1], Delivery::Lent(seed), 10_000);
            let shown = || ranks[1].lines(0).progress(0).counter.load(Ordering::Acquire);
            ranks[0].send_counter(1, first);
            while shown() < first {
                ranks[1].poll_far();
            }
            ranks[0].send_lent(1, 0, bytes, second);
            ranks[0].give_back_lent(&call, false);
            ranks[0].send_counter(1, counter_end(1));
            ranks[0].fail(1);
            // The last words are behind the counter.
            while !ranks[1].has_given_up(0..1) {
                ranks[1].poll_far();
            }
            assert_eq!(shown(), first, "{seed}");
            let mut call = call;
            let told = ranks[1].await_counter(0, second, &mut call).unwrap_err();
            assert!(told.message.contains("gave up after an error in its call #1"), "{told}");
        }
    }

    #[test]
    fn who_waits_for_a_payload_that_was_withdrawn_hears_that_its_rank_has_given_up() {
        let mut words = [7u64; 2000];
        let (input, offer) = (Payload::from(&mut words[..]), Offer { payload: true, ..Offer::default() });
        let (ranks, _network) = transports(&[0, 1], Delivery::Lent(1), 10_000);
        ranks[0].arrive_lending(&call(1, 16_000), &offer, input, |_| 0..16_000);
        ranks[1].arrive(&call(1, 16_000), &offer, 0, |_| true);
        ranks[0].give_back_lent(&call(1, 16_000), false);
        ranks[0].fail(1);
        let told = ranks[1].meet(0, &mut call(1, 16_000)).unwrap_err();
        assert!(told.message.contains("gave up after an error in its call #1"), "{told}");
    }
}
