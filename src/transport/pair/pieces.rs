//! How a message is cut into pieces, and where a piece lies.
//!
//! ```text
//!     ring of slots      | 0 | 1 | ... | 7 |        a slot: its line, and room for a piece
//!     places in turn     | 0 0 0 0 | 1 1 1 1 | ...  a slot's own places, one for each time round, where ranks rotate
//! ```
//!
//! Ranks that rotate (`transport/rotation.rs`) write pieces to places in turn, unless they write around the caches. The slot's line says
//! which it is. A slot that is free has no piece in any of its places that is still to be read.

use super::{FINE, IN_HEAP, IN_TURN, MEDIUM};
use crate::error::Result;
use crate::kernels::hints;
use crate::memory::control::{PAIR_SLOT, PAIR_SLOTS, PairSlot};
use crate::memory::view::Payload;
use crate::transport::pace::Pace;
use crate::transport::{Transport, rotation};
use crate::types::Rank;

/// Returns the flag of a message of `bytes` bytes that is cut into smaller pieces than slots hold; 0: it is not.
pub(super) fn cut(bytes: usize) -> u64 {
    match bytes {
        0x4000..=0x8000 if hints::limits().cut >= 0x8000 => FINE,
        0x8001..=0x20000 if hints::limits().cut >= 0x20000 => MEDIUM,
        _ => 0,
    }
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

/// A place for a piece.
pub(super) struct PiecePlace<'a> {
    pub head: &'a PairSlot,
    pub payload: Payload<'a>,
    /// Write it around the caches?
    pub around: bool,
    /// [`IN_TURN`], or 0.
    pub way: u64,
}

impl Transport {
    /// Returns where this rank writes a piece of `bytes` bytes into slot `index` towards a peer, which is free.
    #[inline(always)]
    pub(super) fn place_for_piece(
        &self,
        to: Rank,
        index: u64,
        bytes: usize,
        pace: &mut Pace,
    ) -> PiecePlace<'_> {
        let (head, slot) = self.control().pair_slot(self.rank(), to, index, bytes);
        match bytes > rotation::STAY && self.has_places_for_pieces() {
            true => self.place_at_pace(head, slot, [self.rank(), to], index, pace),
            false => PiecePlace { head, payload: slot, around: pace.non_temporal(slot), way: 0 },
        }
    }

    /// Returns the place in turn, or the slot's own if pieces are written around the caches now.
    #[inline(never)]
    fn place_at_pace<'a>(
        &'a self,
        head: &'a PairSlot,
        slot: Payload<'a>,
        [from, to]: [Rank; 2],
        index: u64,
        pace: &mut Pace,
    ) -> PiecePlace<'a> {
        let in_turn = |index| self.control().piece_in_turn(from, to, index, slot.bytes());
        // What the peer has read a few hundred kilobytes ago.
        let before = ((PAIR_SLOT / slot.bytes()).max(1) * PAIR_SLOTS) as u64;
        let lately = index.checked_sub(before).filter(|_| !pace.is_around()).map(in_turn);
        match pace.non_temporal(lately.unwrap_or(slot)) {
            true => PiecePlace { head, payload: slot, around: true, way: 0 },
            false => PiecePlace { head, payload: in_turn(index), around: false, way: IN_TURN },
        }
    }

    /// Returns where a piece lies that has come from a peer. `args`: of its line.
    #[inline(always)]
    pub(super) fn piece_from(&self, from: Rank, index: u64, bytes: usize, args: u64) -> Payload<'_> {
        let lines = self.lines(from);
        match args & IN_TURN != 0 && self.has_places_for_pieces() {
            true => lines.piece_in_turn(from, self.rank(), index, bytes),
            false => lines.pair_slot(from, self.rank(), index, bytes).1,
        }
    }

    /// Tells whether pieces have places in turn. All of a host's ranks tell the same.
    #[inline]
    fn has_places_for_pieces(&self) -> bool {
        self.rotates() && self.control().layout().has_places_for_pieces()
    }

    /// Makes sure that this rank can write pieces of `bytes` bytes towards a peer. `reserved`: whether it has done so before.
    #[inline]
    pub(super) fn reserve_places_for_pieces(
        &self,
        to: Rank,
        bytes: usize,
        reserved: &mut bool,
    ) -> Result<()> {
        let needs = bytes > rotation::STAY && self.has_places_for_pieces();
        if needs && !std::mem::replace(reserved, true) {
            self.control().reserve_places_for_pieces(self.rank(), to)?;
        }
        Ok(())
    }
}
