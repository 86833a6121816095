//! What this rank sends to far ranks.

use super::arrival::Offer;
use super::link::{Body, Ending, LifeLine, News};
use super::{Scope, Transport};
use crate::memory::view::Payload;
use crate::sync::prim::Ordering;
use crate::types::Rank;

/// Returns what a far rank is sent of an arrival. `part`: where a payload that is lent begins in the input, and the bytes of that.
pub(super) fn arrival<'a>(
    scope: &Scope,
    offer: &Offer,
    payload: Payload<'a>,
    part: Option<[usize; 2]>,
) -> Body<'a> {
    let args = scope.mine[0] | Offer { input: None, output: None, ..*offer }.pack();
    let (seq, count, trail, may_wait) = (scope.seq, scope.mine[1], scope.trail, scope.arrival_may_wait);
    Body::Arrival { seq, args, count, trail, payload, part, may_wait }
}

impl Transport {
    /// Tells far ranks of an arrival. Where there are none, the code of the call goes on without it.
    #[cold]
    pub(super) fn arrive_far(
        &self,
        scope: &Scope,
        offer: &Offer,
        bytes: usize,
        reads: impl Fn(Rank) -> bool,
    ) {
        self.post_arrivals(scope, offer, bytes, reads);
    }

    /// Does so: with far ranks it is as hot as the call.
    #[inline(never)]
    fn post_arrivals(&self, scope: &Scope, offer: &Offer, bytes: usize, reads: impl Fn(Rank) -> bool) {
        let Some(far) = self.far_to_post() else { return };
        let bytes = if offer.payload { bytes } else { 0 };
        for rank in (0..self.nranks).filter(|&rank| far.has(rank)) {
            let bytes = if reads(rank) { bytes } else { 0 };
            let payload = self.control.payload(self.rank, scope.seq, bytes);
            far.post(rank, arrival(scope, offer, payload, None));
        }
    }

    /// Sends a far rank a range of this rank's staging memory, and the program counter that makes it visible.
    pub fn send_slot(&self, to: Rank, at: usize, bytes: usize, counter: u64) {
        if let Some(far) = self.far_to_post() {
            far.post(to, Body::Data { at, bytes: self.control.staging(self.rank, at, bytes), counter });
        }
    }

    /// Sends a far rank this rank's program counter.
    pub fn send_counter(&self, to: Rank, counter: u64) {
        if let Some(far) = self.far_to_post() {
            far.post(to, Body::Counter(counter));
        }
    }

    /// Sends all far ranks this rank's program counter.
    #[cold]
    pub(super) fn send_counter_to_all(&self, counter: u64) {
        if let Some(far) = self.far_to_post() {
            far.post_to_all(Body::Counter(counter));
        }
    }

    /// Sends all far ranks this rank's life line as it is now.
    pub(super) fn send_life(&self) {
        let Some(far) = self.far_to_post() else { return };
        let life = self.control.life(self.rank);
        let line = |rank| LifeLine {
            pid: life.pid.load(Ordering::Relaxed),
            start: life.start.load(Ordering::Relaxed),
            state: life.state.load(Ordering::Acquire),
            failed_seq: life.failed_seq.load(Ordering::Relaxed),
            rests: far.rests_to(rank),
        };
        far.post_to_each(|rank| Body::Life(line(rank)));
    }

    /// Sends all far ranks what this rank has stored in the header.
    pub(super) fn send_news(&self, news: News) {
        if let Some(far) = self.far_to_post() {
            far.post_to_all(Body::News(news));
        }
    }

    /// Makes every rank's current and future calls fail. How this rank calls it counts if no other rank has ended them before.
    pub fn end_calls(&self, ending: Ending) {
        if let Some(cause) = self.cause() {
            self.publish_cause(cause);
        }
        die_point!(50 "abort_begun");
        let word = &self.control.header().ended_by;
        let own = ending.word(self.rank);
        let _ = word.compare_exchange(0, own, Ordering::Release, Ordering::Relaxed);
        die_point!(51 "abort_told");
        self.tell_endings();
        self.ring_all();
        die_point!(52 "abort_rung");
        // The rank that sleeps inside a call may be this very one.
        self.wake_own();
    }
}
