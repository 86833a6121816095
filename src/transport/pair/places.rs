//! Places in which pieces of messages lie apart from their slots, and which two ranks write by turns.
//!
//! ```text
//!     rank 0 sends to 1     0 writes a place of its own, 1 reads it         the slot's line says whose place it is, and where
//!     rank 1 answers        1 writes the place that it has read, 0 reads    it is rank 0's again
//! ```
//!
//! Where lines that another core has read are slow to write, they are quick for the core that has read them (docs/decisions/0093). So
//! a rank writes first to places that it has read, those of the peer and its own that have come back, and else to the next one of its
//! own (docs/decisions/0075). On other processors two ranks do so in large messages alone: what finds no place that was read lies in its
//! slot, but for the last pieces, whose places the answer will take (docs/decisions/0105).
//!
//! Flow control of places follows from the numbers of slots, without an acknowledgement of its own. The receiver of a piece may write one
//! answer to the piece's place, until it has taken [`ANSWERED`] more slots. The owner may overwrite the place in two cases: it has read an answer
//! there, or it sends a piece [`APART`] slots later. In the second case the ring's flow control guarantees that the receiver has taken more than
//! [`ANSWERED`] slots. Then an answer in the place, if there is one, is already in the ring, where [`PiecePlaces::is_free`] finds it.

use crate::memory::control::{PAIR_SLOT, PAIR_SLOTS, PLACES_APART, place_bytes};
use crate::memory::view::Payload;
use crate::sync::prim::Ordering;
use crate::transport::Transport;
use crate::types::Rank;
use std::collections::VecDeque;
use std::ops::Range;

/// The flag of a piece that lies in a place, and of one that lies in a place of its receiver.
const PLACED: u64 = 1 << 36;
const OF_RECEIVER: u64 = 1 << 38;
/// Where in `PairSlot::args` is said where the place lies among those of its owner, as a multiple of [`PLACES_APART`].
const AT_SHIFT: u32 = 40;
/// All of `PairSlot::args` that says where a piece lies.
pub(super) const PLACE: u64 = PLACED | OF_RECEIVER | !0 << AT_SHIFT;

/// The smallest piece that is written to a place that its writer has read.
pub(super) const PLACED_FROM: usize = 1 << 10;

/// Slots that a receiver may take after a piece until it writes no answer in its place any more.
pub(super) const ANSWERED: u64 = 16;
/// Slots after which a place is the owner's again, whether or not there was an answer.
const APART: u64 = ANSWERED + PAIR_SLOTS as u64;
/// How far behind the next place of its own lie those that a peer has read and whose answers are over.
pub(super) const LATELY: usize = 1 << 20;

/// The places of this rank's pieces to a peer, and those that it has read.
#[derive(Clone, Default)]
pub(super) struct PiecePlaces {
    /// Bytes of its own places; 0: none are reserved.
    pub all: usize,
    /// The last message that this rank has read was large enough for a place.
    pub has_answers: bool,
    /// Where the next place of its own lies.
    next: usize,
    /// Places that this rank has read and may write, the first one that it read first.
    read: VecDeque<ReadPlace>,
    /// Places of its own that were written again out of their turn, and the slots of those pieces.
    again: VecDeque<(u64, Range<usize>)>,
}

/// A place with a piece that has been read.
#[derive(Clone)]
struct ReadPlace {
    /// It is the peer's, who wrote the piece to slot `index`; else this rank's own.
    of_peer: bool,
    index: u64,
    at: usize,
    bytes: usize,
}

impl PiecePlaces {
    /// Notes that the piece of a slot from the peer has been read, of a message of `of` bytes.
    #[inline]
    pub fn has_read(&mut self, args: u64, index: u64, bytes: usize, of: usize) {
        self.has_answers = of >= PLACED_FROM;
        if is_placed(args) {
            self.keep(ReadPlace { of_peer: args & OF_RECEIVER == 0, index, at: offset(args), bytes });
        }
    }

    #[inline(never)]
    fn keep(&mut self, place: ReadPlace) {
        if self.read.len() as u64 == ANSWERED {
            self.read.pop_front();
        }
        self.read.push_back(place);
    }

    /// Takes a place that this rank has read, for a piece of `bytes` bytes in slot `index`. `taken`: slots taken from the peer.
    /// Returns what the slot's line says of it.
    pub fn take_read(&mut self, index: u64, bytes: usize, taken: u64) -> Option<u64> {
        let serves =
            |place: &ReadPlace| place.bytes >= bytes && (!place.of_peer || taken <= place.index + ANSWERED);
        let place = loop {
            let place = self.read.pop_front()?;
            if serves(&place) {
                break place;
            }
        };
        if place.of_peer {
            return Some(PLACED | OF_RECEIVER | word(place.at));
        }
        self.forget_before(index);
        self.again.push_back((index, place.at..place.at + place_bytes(place.bytes)));
        Some(PLACED | word(place.at))
    }

    /// Takes this rank's next place, for a piece of `bytes` bytes in slot `index`; `None`: it may still be read.
    /// `answers`: see [`Transport::answers`].
    pub fn take_next(&mut self, index: u64, bytes: usize, answers: impl Iterator<Item = u64>) -> Option<u64> {
        let place = place_bytes(bytes);
        let at = if self.next + place > self.all { 0 } else { self.next };
        self.next = at + place;
        self.read
            .retain(|read| read.of_peer || !overlap(&(at..at + place), &(read.at..read.at + read.bytes)));
        self.is_free(at..at + place, index, answers).then(|| PLACED | word(at))
    }

    /// Returns where `bytes` bytes lie that the peer has read lately and reads no more, when slot `index` is to be written.
    pub fn read_lately(
        &mut self,
        index: u64,
        bytes: usize,
        answers: impl Iterator<Item = u64>,
    ) -> Option<usize> {
        let at = (self.next + self.all.saturating_sub(LATELY)) % self.all / PLACES_APART * PLACES_APART;
        let place = at..at + bytes;
        (self.all > LATELY
            && index >= LATELY as u64 / PAIR_SLOT as u64
            && place.end <= self.all
            && self.is_free(place.clone(), index, answers))
        .then_some(at)
    }

    /// Tells whether nothing of this rank's memory there is still to be read: neither a piece that was written out of turn, nor an answer.
    fn is_free(&mut self, place: Range<usize>, index: u64, answers: impl Iterator<Item = u64>) -> bool {
        self.forget_before(index);
        let is_again = self.again.iter().any(|(_, again)| overlap(again, &place));
        !is_again
            && !answers
                .filter(|args| args & (PLACED | OF_RECEIVER) == PLACED | OF_RECEIVER)
                .any(|args| overlap(&place, &(offset(args)..offset(args) + PAIR_SLOT)))
    }

    /// Forgets what was written out of turn so long before slot `index` that its turn may come.
    fn forget_before(&mut self, index: u64) {
        while self.again.front().is_some_and(|&(again, _)| again + APART <= index) {
            self.again.pop_front();
        }
    }
}

/// Tells whether a piece lies in a place, as its line says; else it lies in its slot.
#[inline]
pub(super) fn is_placed(args: u64) -> bool {
    args & PLACED != 0
}

#[inline]
fn offset(args: u64) -> usize {
    (args >> AT_SHIFT) as usize * PLACES_APART
}

#[inline]
fn word(at: usize) -> u64 {
    ((at / PLACES_APART) as u64) << AT_SHIFT
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

impl Transport {
    /// Returns what the lines say of slots that have come from a peer and are not taken yet. `taken`: how many are.
    pub(super) fn answers(&self, from: Rank, taken: u64) -> impl Iterator<Item = u64> {
        (taken..taken + PAIR_SLOTS as u64).map_while(move |index| {
            let (head, _) = self.lines(from).pair_slot(from, self.rank(), index, 0);
            // ORDER: partner of the store in `fill_slot`.
            (head.full.load(Ordering::Acquire) == index + 1).then(|| head.args.load(Ordering::Relaxed))
        })
    }

    /// Returns the place of a piece of `bytes` bytes from one rank to another, by its slot's line; `None`: the line names none that exists.
    #[inline]
    pub(super) fn place_of(&self, [from, to]: [Rank; 2], bytes: usize, args: u64) -> Option<Payload<'_>> {
        let owners = if args & OF_RECEIVER == 0 { [from, to] } else { [to, from] };
        self.lines(owners[0]).piece_place(owners[0], owners[1], offset(args), bytes)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "places_tests.rs"]
mod tests;
