//! How far the others are, as far as this rank knows.

use super::combine::Pieces;
use crate::error::Result;
use crate::memory::control::arrivals::{BEHIND, LARGEST_HALF};
use crate::transport::arrival::Offer;
use crate::transport::pace::Pace;
use crate::transport::rotation::PayloadUse;
use crate::transport::{Scope, Transport};
use crate::types::Rank;

/// The largest payload whose lines a rank claims that waits for nobody.
const CLAIMED_BY_THE_BUSY: usize = 16 << 10;

/// The progress of the other ranks, as far as this rank knows it, kept between calls.
pub struct PeerProgress {
    /// The newest call that all ranks have completed.
    pub done: u64,
    /// The way in which staged copies are written.
    pub(super) pace: Pace,
    /// The last call in which this rank has waited for the arrivals of all others.
    met: u64,
    /// The call of the offers.
    call: u64,
    /// The offer of each rank in that call, present once its arrival has been checked.
    offers: Vec<Option<Offer>>,
    /// The last call that has used each block of this rank's payloads.
    used: [u64; 2 * LARGEST_HALF],
    /// The largest payload for which the places that two ranks take in turns are reserved.
    reserved: usize,
    /// How many arrivals in a row were there when this rank looked for the first time.
    ready: u32,
    /// Memory for operands that are read from peers' private memory.
    pub(super) pieces: Pieces,
    /// Where its payloads lie in its staging memory.
    pub(super) payload_use: PayloadUse,
}

impl Default for PeerProgress {
    fn default() -> PeerProgress {
        let (pace, offers, used) = (Pace::default(), Vec::new(), [0; 2 * LARGEST_HALF]);
        let (pieces, payload_use) = (Pieces::default(), PayloadUse::default());
        PeerProgress {
            done: 0,
            met: 0,
            ready: 0,
            reserved: 0,
            pace,
            call: 0,
            offers,
            used,
            pieces,
            payload_use,
        }
    }
}

impl PeerProgress {
    /// Forgets the offers of the calls before `seq`.
    #[inline]
    pub(super) fn begin(&mut self, seq: u64, nranks: u32) {
        if self.call != seq {
            self.call = seq;
            self.offers.clear();
            self.offers.resize(nranks as usize, None);
        }
    }

    /// Returns a rank's offer, checked against our arguments the first time.
    #[inline(always)]
    pub(super) fn offer(&mut self, rank: Rank, t: &Transport, scope: &mut Scope) -> Result<Offer> {
        match self.offers[rank as usize] {
            Some(offer) => Ok(offer),
            None => self.meet(rank, t, scope),
        }
    }

    #[inline(never)]
    fn meet(&mut self, rank: Rank, t: &Transport, scope: &mut Scope) -> Result<Offer> {
        let offer = t.meet(rank, scope)?;
        self.offers[rank as usize] = Some(offer);
        Ok(offer)
    }

    /// Notes whether the arrival of a rank of which this one only reads was there at once. Tells whether such ranks run ahead.
    #[inline]
    pub(super) fn is_far_ahead(&mut self, ready: bool) -> bool {
        self.ready = if ready { self.ready.saturating_add(1) } else { 0 };
        self.ready > 8
    }

    /// Notes that this rank has waited for the arrivals of all others in call `seq`.
    #[inline]
    pub(super) fn have_met(&mut self, seq: u64) {
        (self.done, self.met) = (self.done.max(seq - 1), seq);
    }

    /// Tells whether this rank makes one call after the other that sends much and waits for nobody, of which `seq` is one: lines that it
    /// would claim for the next one are overwritten at once, which takes less than a claim.
    #[inline]
    pub(super) fn is_busy_with(&self, bytes: usize, seq: u64) -> bool {
        bytes > CLAIMED_BY_THE_BUSY && self.met + 1 < seq
    }

    /// Waits until this rank may write its arrival line, and a payload of `payload` bytes. `mutual`: see [`Transport::payload_of`].
    #[inline(always)]
    pub fn await_place(
        &mut self,
        payload: usize,
        mutual: bool,
        t: &Transport,
        scope: &mut Scope,
    ) -> Result<()> {
        let line = scope.seq.saturating_sub(t.control().layout().depth as u64);
        if t.is_swapped(payload, mutual) {
            return self.await_swapped_place(payload, t, scope);
        }
        match payload <= BEHIND {
            true => self.await_done(line, t, scope),
            false => self.await_place_in_turn(payload, line, t, scope),
        }
    }

    /// Waits until this rank may write a payload to a place that it uses in turn with others, and its arrival line; `line`: the call
    /// that has used that one.
    fn await_place_in_turn(
        &mut self,
        payload: usize,
        line: u64,
        t: &Transport,
        scope: &mut Scope,
    ) -> Result<()> {
        if let Some((place, last)) = t.last_reader(&self.payload_use, scope.seq, payload) {
            t.control().reserve_staging(t.writes_to())?;
            self.await_done(line.max(last), t, scope)?;
            self.payload_use.take(place, scope.seq);
            return Ok(());
        }
        t.control().reserve_payloads(t.writes_to(), payload)?;
        let blocks = t.control().layout().half.payload_blocks(scope.seq, payload);
        let last = self.used[blocks.clone()].iter().fold(line, |last, &used| last.max(used));
        self.await_done(last, t, scope)?;
        self.used[blocks].fill(scope.seq);
        Ok(())
    }

    /// Waits until this rank may write a payload to the place that two ranks take in turns.
    fn await_swapped_place(&mut self, payload: usize, t: &Transport, scope: &mut Scope) -> Result<()> {
        if payload > self.reserved {
            t.control().reserve_payloads(t.writes_to(), payload)?;
            self.reserved = payload;
        }
        self.await_done(scope.seq.saturating_sub(2), t, scope)?;
        // What this rank writes to its own places in other calls waits for the reader of this payload.
        self.used[t.swapped_blocks(scope.seq, payload)].fill(scope.seq);
        Ok(())
    }

    /// Waits until all ranks are done with call `seq`, which they show by arriving at the next.
    #[inline(always)]
    pub fn await_done(&mut self, seq: u64, t: &Transport, scope: &mut Scope) -> Result<()> {
        if seq <= self.done { Ok(()) } else { self.await_others(seq, t, scope) }
    }

    #[inline(never)]
    fn await_others(&mut self, seq: u64, t: &Transport, scope: &mut Scope) -> Result<()> {
        let others = || (0..t.nranks()).filter(|&r| r != t.rank());
        // A root that runs ahead looks at the others once in a while, not at every call.
        let further = seq.midpoint(scope.seq);
        let ahead = further + 1 < scope.seq && others().all(|r| t.has_arrived(r, further + 1));
        let done = if ahead { further } else { seq };
        let latest = scope.seq - !t.has_arrived(t.rank(), scope.seq) as u64;
        for r in others() {
            if !ahead {
                t.wait(scope, || t.has_arrived(r, seq + 1))?;
            }
            // The lines of those calls will be written anew.
            scope.doubt |= t.trails_differ(r, done + 1, latest);
        }
        self.done = done;
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_far_ahead_when_many_of_its_arrivals_in_a_row_were_there_at_once() {
        let mut peers = PeerProgress::default();
        let mut ahead = |ready| peers.is_far_ahead(ready);
        assert!((0..8).all(|_| !ahead(true)));
        assert!(ahead(true) && ahead(true));
        assert!(!ahead(false) && !ahead(true), "it has been waited for");
    }

    #[test]
    fn a_rank_is_busy_with_large_payloads_until_it_has_waited_for_all_in_the_call_before() {
        let mut peers = PeerProgress::default();
        peers.have_met(6);
        let busy = |seq| peers.is_busy_with(CLAIMED_BY_THE_BUSY + 1, seq);
        assert!(!busy(7) && busy(8));
        assert!(!peers.is_busy_with(CLAIMED_BY_THE_BUSY, 8), "a claim of few lines pays in any case");
    }
}
