//! Where in its staging memory a rank writes.
//!
//! ```text
//!     even calls   | 2 | 4 | 6 | ... |     A call takes the half of its number, and in it the place behind that of the call before,
//!     odd calls    | 1 | 3 | 5 | ... |     if the rank rotates; else the first.
//! ```
//!
//! What a peer has read lies in that peer's cache. Some processors take long to take such lines back, and little to take them from the
//! cache behind it, where they are when a few hundred other kilobytes have been written and read (docs/decisions/0075). There ranks rotate, all of a
//! host or none.

use super::Transport;
use crate::kernels::hints::{self, Rotation};
use crate::memory::control::arrivals::BEHIND;
use crate::memory::control::{StagingKind, place_bytes};
use crate::memory::view::Payload;
use crate::types::Rank;

/// Payloads that rotate are larger: up to here lines that stay in the first-level caches pass quicker.
const STAY: usize = 4 << 10;
/// The same where all that is staged rotates.
const STAY_OF_ALL: usize = 2 << 10;

/// Places in each rank's staging memory, which are used in turn.
#[derive(Clone, Copy)]
pub struct Places {
    /// Bytes of a half.
    half: usize,
    /// Bytes of a place.
    bytes: usize,
    /// How many a half has.
    count: u64,
}

impl Places {
    /// Returns where the place lies that call `seq` takes after `laps` others.
    #[inline]
    pub fn at(self, seq: u64, laps: u64) -> usize {
        let place = (seq / 2).wrapping_add(laps) % self.count;
        (seq % 2) as usize * self.half + place as usize * self.bytes
    }

    /// Returns the newest call of the half of call `seq` whose place is another one, and which all have read: they are done with call
    /// `done`. `seq` itself: there is none.
    #[inline]
    pub fn read_before(self, seq: u64, done: u64) -> u64 {
        let newest = done.min(seq.saturating_sub(2));
        let of_half = newest - (newest + seq) % 2 * (newest > 0) as u64;
        if of_half > 0 && seq - of_half < 2 * self.count { of_half } else { seq }
    }
}

/// The places that a rank's payloads have taken in its staging memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct PayloadUse {
    /// Bytes from one place to the next.
    place: usize,
    /// The first call since which all have been that large.
    since: u64,
}

impl PayloadUse {
    /// Returns the last call whose peers may still read what call `seq` is about to overwrite: a payload in one of `places` places of
    /// `place` bytes in a half.
    fn last_reader(&self, place: usize, places: u64, seq: u64) -> u64 {
        let last = match self.place == place {
            true => seq.saturating_sub(2 * places).max(self.since - 1),
            false => seq,
        };
        // The call before has the other half.
        last.min(seq.saturating_sub(2))
    }

    /// Notes that call `seq` takes a place.
    pub fn take(&mut self, place: usize, seq: u64) {
        if self.place != place {
            *self = PayloadUse { place, since: seq };
        }
    }

    /// Notes that a program has written there.
    pub fn forget(&mut self) {
        *self = PayloadUse::default();
    }
}

impl Transport {
    /// Tells whether the slots of programs, and pieces of messages, have places in turn.
    #[inline]
    pub fn rotates(&self) -> bool {
        self.rotation == Rotation::All
    }

    /// Returns the kind of the staging memory of a communicator of these ranks.
    pub fn staging_kind(&self, ranks: &[Rank]) -> StagingKind {
        let is_far = |&rank: &Rank| self.is_far(rank);
        StagingKind::of(ranks.iter().any(is_far) && !ranks.iter().all(is_far), self.rotates())
    }

    /// Returns the places in each rank's staging memory of `bytes` bytes each, for the slots of a program; one if it does not rotate.
    #[inline]
    pub fn places(&self, bytes: usize, rotates: bool) -> Places {
        let places = self.places_in_turn(bytes);
        if rotates { places } else { Places { count: 1, ..places } }
    }

    #[inline]
    fn places_in_turn(&self, bytes: usize) -> Places {
        let half = self.control.layout().staging_bytes() / 2;
        Places { half, bytes, count: (half / bytes.max(1)).max(1) as u64 }
    }

    /// Returns the places of payloads of `bytes` bytes; `None`: these lie with the arrivals.
    #[inline]
    fn payload_places(&self, bytes: usize) -> Option<Places> {
        let stay = match self.rotation {
            Rotation::Nothing => return None,
            Rotation::Payloads => STAY,
            Rotation::All => STAY_OF_ALL,
        };
        if bytes <= stay {
            return None;
        }
        let places = self.places_in_turn(place_bytes(bytes));
        (places.bytes <= places.half).then_some(places)
    }

    /// Where the payload of a rank's arrival lies: it is written before [`arrive`](Self::arrive). `mutual`: in this call each rank sends a
    /// payload, and reads those of all others.
    #[inline(always)]
    pub fn payload_of(&self, rank: Rank, seq: u64, bytes: usize, mutual: bool) -> Payload<'_> {
        if self.is_swapped(bytes, mutual) {
            return self.swapped_payload(rank, seq, bytes);
        }
        if bytes > STAY_OF_ALL
            && let Some(payload) = self.staged_payload(rank, seq, bytes)
        {
            return payload;
        }
        self.lines(rank).payload(rank, seq, bytes)
    }

    /// Returns where the payload of a rank's arrival lies in its staging memory; `None`: it lies with the arrival.
    #[inline(never)]
    pub(super) fn staged_payload(&self, rank: Rank, seq: u64, bytes: usize) -> Option<Payload<'_>> {
        let places = self.payload_places(bytes)?;
        Some(self.staging(rank, places.at(seq, 0), bytes))
    }

    /// Returns the bytes of the place that a payload takes in staging memory, and the last call whose peers may still read what is there
    /// now; `None`: it lies with the arrival.
    #[inline]
    pub fn last_reader(&self, payload_use: &PayloadUse, seq: u64, bytes: usize) -> Option<(usize, u64)> {
        let places = self.payload_places(bytes)?;
        Some((places.bytes, payload_use.last_reader(places.bytes, places.count, seq)))
    }

    /// Returns how many calls a rank whose payloads have `bytes` bytes may be ahead of those that read them.
    pub fn calls_ahead(&self, bytes: usize) -> u64 {
        let layout = self.control.layout();
        let half = || layout.half.places(bytes);
        let ahead = match bytes {
            0..=BEHIND => layout.depth,
            _ => 2 * self.payload_places(bytes).map_or_else(half, |places| places.count as usize),
        };
        ahead.min(layout.depth) as u64
    }

    /// Returns memory of this rank that peers have read not long before call `seq`, and that is free. `payload`: where the call's goes;
    /// `mutual`: see [`Transport::payload_of`].
    #[inline]
    pub fn read_lately<'a>(&'a self, payload: Payload<'a>, seq: u64, done: u64, mutual: bool) -> Payload<'a> {
        match self.payload_places(payload.bytes()) {
            Some(places) if !(mutual && self.swaps()) => {
                self.staging(self.rank, places.at(places.read_before(seq, done), 0), payload.bytes())
            }
            _ => payload,
        }
    }
}

/// The most ranks of which payloads alone rotate: more have too few places.
const MOST_RANKS: u32 = 8;

/// Returns what rotates on this processor where `nranks` ranks share memory. In the library's own tests all does, on every processor.
#[inline]
pub fn here(nranks: u32) -> Rotation {
    match hints::limits().rotation {
        _ if cfg!(test) => Rotation::All,
        Rotation::Payloads if nranks > MOST_RANKS => Rotation::Nothing,
        rotation => rotation,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each call overwrites has been read by all when the call that it waits for is done.
    #[test]
    fn no_payload_overwrites_one_that_may_be_read() {
        const HALF: usize = 4000;
        let sizes = [100, 100, 100, 1500, 1500, 100, 1500, 700, 700, 700, 700, 700, 700, 100];
        let mut payload_use = PayloadUse::default();
        let mut written: Vec<(u64, std::ops::Range<usize>)> = Vec::new();
        for (seq, place) in (1..).zip(sizes.iter().cycle().take(400).copied()) {
            let places = (HALF / place) as u64;
            let done = payload_use.last_reader(place, places, seq);
            assert!(done + 2 <= seq.max(2), "call {seq} waits for its own peers");
            let at = (seq % 2) as usize * HALF + (seq / 2 % places) as usize * place;
            let range = at..at + place;
            for (other, before) in &written {
                let apart = before.end <= range.start || range.end <= before.start;
                assert!(apart || *other <= done, "call {seq} overwrites call {other}, only {done} is done");
            }
            payload_use.take(place, seq);
            written.push((seq, range));
        }
        // Payloads of one size wait for a call long ago.
        assert!((401..440).all(|seq| {
            let (done, _) = (payload_use.last_reader(100, 40, seq), payload_use.take(100, seq));
            seq < 403 || done < seq - 2
        }));
    }
}
