//! How a message is cut into pieces, and whether a piece lies in its slot or in a place (see `places.rs`).

use super::places::{ANSWERED, LATELY, PLACED_FROM, PiecePlaces, is_placed};
use super::{FINE, IN_HEAP, MEDIUM, Peer};
use crate::error::{Error, Result};
use crate::kernels::hints;
use crate::memory::control::{PAIR_SLOT, PairSlot};
use crate::memory::view::Payload;
use crate::transport::Transport;
use crate::transport::pace::Pace;
use crate::types::Rank;
use std::ops::Range;

/// Returns the flag of a message of `bytes` bytes that is cut into smaller pieces than slots hold; 0: it is not.
pub(super) fn cut(bytes: usize) -> u64 {
    match bytes {
        0x4000..=0x8000 if hints::limits().cut >= 0x8000 => FINE,
        0x8001..=0x20000 if hints::limits().cut >= 0x20000 => MEDIUM,
        _ => 0,
    }
}

/// Returns the way of a message that begins: pieces that nobody waits for and that go around the caches fill their slots.
pub(super) fn uncut(way: u64, awaited: bool, pace: &Pace) -> u64 {
    if pace.is_around() && !awaited { way & !MEDIUM } else { way }
}

/// Returns how many bytes of a message a slot takes: the receiver copies a piece while the sender writes the next. `way`: see
/// [`WAY`](super::WAY).
pub(super) const fn piece_bytes(way: u64) -> usize {
    if way & FINE != 0 {
        8 << 10
    } else if way & MEDIUM != 0 {
        16 << 10
    } else {
        PAIR_SLOT
    }
}

/// Returns how many slots a message takes.
pub(super) fn slots_of(bytes: usize, way: u64) -> u64 {
    if way & IN_HEAP != 0 { 1 } else { bytes.div_ceil(piece_bytes(way)).max(1) as u64 }
}

/// A piece that is sent next.
pub(super) struct NextPiece {
    /// Its slot, which is free.
    pub index: u64,
    pub bytes: usize,
    /// Pieces of its message from this one on.
    pub left: u64,
    /// The peer has answered the message before.
    pub awaited: bool,
    /// Bytes of the whole message.
    pub of: usize,
}

/// Where a piece is written.
pub(super) struct PieceTarget<'a> {
    pub head: &'a PairSlot,
    pub payload: Payload<'a>,
    /// Write it around the caches?
    pub around: bool,
    /// What the slot's line says of the place; 0: the piece lies in the slot.
    pub place: u64,
}

/// Bytes of the messages that two ranks answer where they were read, on processors where nothing else of messages has places
/// (docs/decisions/0105).
const ANSWERED_IN_PLACE: Range<usize> = (128 << 10) + 1..hints::STREAMED_FROM;

/// Larger pieces have places also where nobody answers them: up to here messages are quickest through few lines.
const STAY: usize = 4 << 10;

impl Transport {
    /// Returns where this rank writes a piece towards a peer.
    #[inline(always)]
    pub(super) fn target_of_piece(&self, to: Rank, piece: NextPiece, peer: &mut Peer) -> PieceTarget<'_> {
        let (head, slot) = self.control().pair_slot(self.rank(), to, piece.index, piece.bytes);
        match piece.bytes >= PLACED_FROM && peer.places.all > 0 && self.has_places(piece.of) {
            true => self.target_in_place(to, piece, (head, slot), peer),
            false => {
                PieceTarget { head, payload: slot, around: peer.pace.non_temporal(slot, false), place: 0 }
            }
        }
    }

    /// Returns a place, or the slot if pieces are written around the caches now.
    #[inline(never)]
    fn target_in_place<'a>(
        &'a self,
        to: Rank,
        piece: NextPiece,
        (head, slot): (&'a PairSlot, Payload<'a>),
        peer: &mut Peer,
    ) -> PieceTarget<'a> {
        let NextPiece { index, bytes, left, awaited, .. } = piece;
        let Peer { places, pace, taken, .. } = peer;
        let answers = || self.answers(to, *taken);
        // The receiver can answer in the places of a message's last pieces: where pieces go around the caches else, only these do not.
        let is_last = left <= ANSWERED;
        let mut found =
            if is_last || !pace.is_around() { places.take_read(index, bytes, *taken) } else { None };
        let is_answered = awaited && is_last && places.has_answers;
        let takes_next = is_answered || self.rotates() && bytes > STAY;
        if found.is_none() && !is_answered {
            let is_probe = takes_next && !pace.is_around() && pace.leaves_lines(bytes);
            let lately = if is_probe { places.read_lately(index, bytes, answers()) } else { None };
            let lately = lately
                .map(|at| self.control().piece_place(self.rank(), to, at, bytes).expect("within the places"));
            if pace.non_temporal(lately.unwrap_or(slot), false) {
                return PieceTarget { head, payload: slot, around: true, place: 0 };
            }
        }
        if found.is_none() && takes_next {
            found = places.take_next(index, bytes, answers());
        }
        let (payload, place) = match found {
            Some(args) => (self.place_of([self.rank(), to], bytes, args).expect("within the places"), args),
            None => (slot, 0),
        };
        PieceTarget { head, payload, around: false, place }
    }

    /// Returns where a piece lies that has come from a peer. `args`: of its line.
    #[inline]
    pub(super) fn piece_from(&self, from: Rank, index: u64, bytes: usize, args: u64) -> Result<Payload<'_>> {
        match is_placed(args) {
            true => self.place_of([from, self.rank()], bytes, args).ok_or_else(|| misplaced(from, bytes)),
            false => Ok(self.lines(from).pair_slot(from, self.rank(), index, bytes).1),
        }
    }

    /// Tells whether pieces of a message of `bytes` bytes may lie in places: all where the ranks rotate, else those of large messages of
    /// two ranks on cores of their own, which are answered there.
    #[inline]
    fn has_places(&self, bytes: usize) -> bool {
        self.rotates()
            || self.swaps() && ANSWERED_IN_PLACE.contains(&bytes) && self.single_copy().has_own_cores()
    }

    /// Makes sure that this rank can write pieces of a message of `bytes` bytes to places, if any of them may take one.
    #[inline]
    pub(super) fn reserve_places(&self, to: Rank, bytes: usize, places: &mut PiecePlaces) -> Result<()> {
        let rotates = self.rotates();
        if bytes >= PLACED_FROM
            && places.all == 0
            && (rotates || places.has_answers)
            && self.has_places(bytes)
        {
            let all = self.control().layout().bytes_for_pieces();
            // A rank that rotates looks at what was read that long ago.
            if all == 0 || rotates && all <= LATELY {
                return Ok(());
            }
            match self.control().reserve_places_for_pieces(self.rank(), to) {
                Ok(()) => places.all = all,
                Err(why) if rotates => return Err(why),
                // There is no memory for what would only be quicker.
                Err(_) => {}
            }
        }
        Ok(())
    }
}

#[cold]
fn misplaced(from: Rank, bytes: usize) -> Error {
    Error::remote(format!(
        "rank {from} sent {bytes} bytes of a message that lie outside of the memory for messages; destroy the communicator"
    ))
}
