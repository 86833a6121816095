//! Point-to-point: a ring of slots from each rank to each other.
//!
//! A message takes one slot for each piece of 8, 16 or 32 KiB (see `pieces.rs`), or a single slot that says where it lies in the sender's heap. A slot's line
//! carries its own index, so the receiver polls the very line that brings a small message's data. Slots are counted
//! over the communicator's life; both ends skip the rest of a refused message by counting.
//!
//! ```text
//!     sender --[k]--[k+1]--[k+2]--> receiver      the receiver tells back how many it has taken (`Pair`)
//! ```

pub mod far;
mod pieces;
mod places;
mod probe;
mod refusals;
mod slots;
mod small;
mod straight;

use pieces::{NextPiece, PieceTarget, piece_bytes, slots_of};
use places::{PLACE, PiecePlaces};
pub(super) use probe::waiting_message;
pub use probe::{Arrived, are_at_rest, arrived};
pub use refusals::late_refusal;
use refusals::text;
use straight::{STRAIGHT_FROM, StraightBuffer};

use super::Transport;
use super::pace::Pace;
use crate::error::{Error, Result};
use crate::kernels::{self, divided, hints};
use crate::memory::control::PAIR_SLOTS;
use crate::memory::view::Payload;
use crate::sync::prim::Ordering;
use crate::sync::wait::while_at_work;
use crate::types::{DataType, Rank};

/// Messages of this size and more are read from the sender's heap, if they lie there.
pub const HEAP_FROM: usize = 16 << 10;
/// The largest message whose data the receiver asks for while it polls the slot's line.
const FETCHED_TOGETHER: usize = 256;
/// Messages that the sender moves towards the shared cache; of larger ones the receiver's processor foresees the next lines itself.
const DEMOTED: std::ops::RangeInclusive<usize> = 33..=16 << 10;
/// The largest message that is copied out four pages side by side, where that pays.
const MOST_SIDE_BY_SIDE: usize = 512 << 10;
/// The flag in `PairSlot::args` above the element type's number.
const IN_HEAP: u64 = 1 << 32;
/// The flag of a collective's messages, so that no receive of the caller's takes one, nor the reverse.
const OF_COLLECTIVE: u64 = 1 << 33;
/// The flags of a message that is cut into smaller pieces ([`piece_bytes`]): the sender's processor decides.
const FINE: u64 = 1 << 34;
const MEDIUM: u64 = 1 << 35;
/// The flag of a slot that stands for all that is left of a message, which has come to the receiver's buffer (see `straight.rs`).
const STRAIGHT: u64 = 1 << 37;
/// The flags that say how a message comes; the others say what it is.
const WAY: u64 = IN_HEAP | FINE | MEDIUM | STRAIGHT | PLACE;

/// The progress of this rank with each of its peers.
pub struct Pairs {
    peers: Vec<Peer>,
    /// Refusals of all ranks that have been looked at.
    refusals: u32,
}

#[derive(Clone, Default)]
struct Peer {
    /// Slots filled towards the peer.
    filled: u64,
    /// Slots the peer has taken, as far as we know.
    taken_by_peer: u64,
    /// Slots taken from the peer.
    taken: u64,
    /// The same when the last message to the peer began.
    taken_before: u64,
    /// The last refusal that was reported here.
    refusal_seen: u64,
    /// Space of the rings is reserved: towards the peer, from the peer.
    reserved: [bool; 2],
    /// Where pieces lie that are not in their slots.
    places: PiecePlaces,
    /// It has opened its buffer for the last large message to it.
    opens: bool,
    /// The way in which slots towards the peer are written.
    pace: Pace,
}

/// One half of a transfer, as far as it has come.
pub struct PairTransfer<'a> {
    /// Sending, else receiving.
    pub send: bool,
    /// The other end.
    pub peer: Rank,
    data: Payload<'a>,
    dtype: DataType,
    count: usize,
    /// The message's place in the sender's heap.
    heap: Option<u64>,
    of_collective: bool,
    /// How the message comes ([`WAY`]). A receiver learns it from the first slot.
    way: u64,
    /// Index of the message's first slot, once it has begun.
    first: Option<u64>,
    /// The peer has answered the message before and may be waiting for this one.
    awaited: bool,
    /// Slots done.
    slots: u64,
    /// Its buffer is open to the peer, or is sent to the peer's.
    straight: Option<StraightBuffer>,
    /// Complete.
    pub done: bool,
}

impl Pairs {
    /// Makes the progress for a communicator of `nranks` ranks.
    pub fn new(nranks: u32) -> Pairs {
        Pairs { peers: vec![Peer::default(); nranks as usize], refusals: 0 }
    }
}

impl<'a> PairTransfer<'a> {
    /// A transfer that has not begun. `heap`: the buffer's offset in this process's heap.
    #[inline]
    pub fn new(
        send: bool,
        peer: Rank,
        data: Payload<'a>,
        dtype: DataType,
        count: usize,
        heap: Option<u64>,
    ) -> PairTransfer<'a> {
        let heap = heap.filter(|_| send && data.bytes() >= HEAP_FROM);
        let way = match heap {
            _ if !send => 0,
            Some(_) => IN_HEAP,
            None => pieces::cut(data.bytes()),
        };
        PairTransfer {
            send,
            peer,
            data,
            dtype,
            count,
            heap,
            of_collective: false,
            way,
            first: None,
            awaited: false,
            slots: 0,
            straight: None,
            done: false,
        }
    }

    /// The same as a part of a collective.
    pub fn of_collective(self) -> PairTransfer<'a> {
        PairTransfer { of_collective: true, ..self }
    }

    /// What is transferred, in words.
    pub fn text(&self) -> String {
        text(self.kind(), self.count as u64)
    }

    /// The element type, and the flag on which both ends must agree as well.
    fn kind(&self) -> u64 {
        self.dtype as u64 | if self.of_collective { OF_COLLECTIVE } else { 0 }
    }

    /// Elements, the bytes of each, and what else both ends must agree on.
    pub fn amount(&self) -> (u64, u64, u64) {
        (self.count as u64, self.dtype.size() as u64, self.kind())
    }

    /// The buffer.
    pub fn data(&self) -> Payload<'a> {
        self.data
    }

    #[inline]
    fn piece(&self, index: u64) -> Payload<'a> {
        let (bytes, piece) = (self.data.bytes(), piece_bytes(self.way));
        let at = (index as usize * piece).min(bytes);
        self.data.part(at, (bytes - at).min(piece))
    }

    /// Does what can be done without waiting. Returns the error that ends this transfer alone, such as a disagreement of its
    /// two ends; fails with one that ends all that run beside it, for it concerns the communicator. `alone`: none runs beside it.
    #[inline]
    pub fn advance(&mut self, t: &Transport, pairs: &mut Pairs, alone: bool) -> Result<Option<Error>> {
        let peer = &mut pairs.peers[self.peer as usize];
        let begins = self.first.is_none();
        let is_made = peer.reserved[!self.send as usize]
            && self.is_small(t)
            && if self.send { self.send_small(t, peer, alone) } else { self.take_small(t, peer) };
        let ended = if is_made { Ok(None) } else { self.go_on(t, peer, alone) };
        if begins && self.first.is_some() {
            // The peer reads this line: to take it back may take long, and a message that is sent should not wait for that.
            t.control().pair(self.peer, t.rank()).count(self.send);
        }
        ended
    }

    /// Does so, whatever kind of message it is.
    #[inline(never)]
    fn go_on(&mut self, t: &Transport, peer: &mut Peer, alone: bool) -> Result<Option<Error>> {
        if self.send && t.is_far(self.peer) {
            // Only the receiver could read the buffer where it lies.
            (self.heap, self.way) = (None, 0);
        }
        peer.reserve_ring(t, self.peer, self.send)?;
        if self.send && self.heap.is_none() {
            t.reserve_places(self.peer, self.data.bytes(), &mut peer.places)?;
        }
        if self.send { Ok(self.send_on(t, peer, alone)) } else { self.take(t, peer) }
    }

    /// Fills slots as far as there is room. The receiver is rung after the first and after the last of them.
    fn send_on(&mut self, t: &Transport, peer: &mut Peer, alone: bool) -> Option<Error> {
        let before = self.slots;
        let ended = self.fill(t, peer, alone);
        if self.slots > before + 1 {
            t.after_post();
        }
        ended
    }

    fn fill(&mut self, t: &Transport, peer: &mut Peer, alone: bool) -> Option<Error> {
        if self.straight.is_some() {
            self.leave_buffer();
            return None;
        }
        let (before, is_far) = (self.slots, t.is_far(self.peer));
        let pair = t.lines(self.peer).pair(t.rank(), self.peer);
        let first = match self.first {
            Some(first) => first,
            None => {
                let first = self.begin_to_send(peer, alone);
                self.way = pieces::uncut(self.way, self.awaited, &peer.pace);
                first
            }
        };
        let total = slots_of(self.data.bytes(), self.way);
        while self.slots < total {
            let index = first + self.slots;
            if index >= peer.taken_by_peer + PAIR_SLOTS as u64 {
                // ORDER: partner of the stores in `tell_taken` and `refuse`; the slot's old data has been read.
                let mut has_room = || {
                    peer.taken_by_peer = pair.taken.load(Ordering::Acquire).min(peer.filled);
                    index < peer.taken_by_peer + PAIR_SLOTS as u64
                };
                let _ = has_room() || self.slots > 0 && while_at_work(has_room);
                if pair.refused.load(Ordering::Relaxed) == first + 1 {
                    return Some(self.refused(t, peer, first + total));
                }
                if index >= peer.taken_by_peer + PAIR_SLOTS as u64 {
                    return None;
                }
            }
            if is_far
                && self.data.bytes() >= STRAIGHT_FROM
                && self.send_straight(t, peer, [first, index], alone)
            {
                peer.filled = index + 1;
                self.leave_buffer();
                return None;
            }
            let piece = if self.heap.is_some() { Payload::EMPTY } else { self.piece(self.slots) };
            let next = NextPiece {
                index,
                bytes: piece.bytes(),
                left: total - self.slots,
                awaited: self.awaited,
                of: self.data.bytes(),
            };
            let PieceTarget { head, payload, around, place } = t.target_of_piece(self.peer, next, peer);
            kernels::copy(payload, piece, around);
            peer.pace.written();
            self.fill_slot(head, index, place);
            if is_far {
                t.send_piece(self.peer, index, piece.bytes());
            } else if self.slots == before {
                t.after_post();
            }
            if !is_far && self.heap.is_none() {
                self.demote_slot(t, index, piece.bytes());
            }
            self.slots += 1;
            peer.filled = index + 1;
        }
        if self.heap.is_none() && !is_far {
            self.claim_slots(t, first + total, total);
        }
        if self.heap.is_some() {
            // The receiver reads the buffer itself: it may not be reused before that.
            peer.taken_by_peer = pair.taken.load(Ordering::Acquire).min(peer.filled);
            if peer.taken_by_peer < first + total {
                return None;
            }
            if pair.refused.load(Ordering::Relaxed) == first + 1 {
                return Some(self.refused(t, peer, first + total));
            }
        }
        self.done = true;
        None
    }

    /// Takes the slots that are full. The sender is rung after the first and after the last of them, if it is told at all.
    fn take(&mut self, t: &Transport, peer: &mut Peer) -> Result<Option<Error>> {
        let mut told = 0;
        let ended = self.empty(t, peer, &mut told);
        if told > 1 {
            t.after_post();
        }
        ended
    }

    /// `told`: how often the sender was told of slots that are free again.
    fn empty(&mut self, t: &Transport, peer: &mut Peer, told: &mut u32) -> Result<Option<Error>> {
        let me = t.rank();
        let pair = t.control().pair(self.peer, me);
        let begins = self.first.is_none();
        let first = *self.first.get_or_insert(peer.taken);
        let mut total = slots_of(self.data.bytes(), self.way);
        let is_streamed = self.data.bytes() >= hints::STREAMED_FROM;
        if begins && self.data.bytes() >= STRAIGHT_FROM && t.is_far(self.peer) {
            self.open_buffer(t, first);
        }
        while self.slots < total {
            let index = first + self.slots;
            let (head, _) = t.lines(self.peer).pair_slot(self.peer, me, index, 0);
            // ORDER: partner of the store in `fill_slot`.
            let is_full = || head.full.load(Ordering::Acquire) == index + 1;
            if !(is_full() || self.slots > 0 && while_at_work(is_full)) {
                if self.data.bytes() <= FETCHED_TOGETHER {
                    hints::prefetch(t.lines(self.peer).pair_slot(self.peer, me, index, self.data.bytes()).1);
                }
                return Ok(None);
            }
            let (args, count) = (head.args.load(Ordering::Relaxed), head.count.load(Ordering::Relaxed));
            let in_heap = args & IN_HEAP != 0;
            if self.slots == 0 {
                let kind = args & !WAY;
                if (kind, count) != (self.kind(), self.count as u64) {
                    return self.refuse(t, peer, first, args, count).map(Some);
                }
                self.way = args & WAY;
                total = slots_of(self.data.bytes(), self.way);
            }
            if args & STRAIGHT != 0 {
                self.came_straight()?;
                total = self.slots + 1;
            } else if in_heap {
                let source = t.heap(self.peer, head.heap.load(Ordering::Relaxed), self.data.bytes())?;
                divided::copy(t.threads_for(self.data.bytes()), self.data, source, is_streamed)?;
                t.check_borrowed()?;
                total = 1;
            } else {
                let piece = self.piece(self.slots);
                let place = t.piece_from(self.peer, index, piece.bytes(), args)?;
                // Of larger messages the receiver's own lines are no longer in its cache.
                if total > 1 && self.data.bytes() <= hints::limits().side_by_side.min(MOST_SIDE_BY_SIDE) {
                    hints::copy_side_by_side(piece, place);
                } else {
                    kernels::copy(piece, place, is_streamed);
                }
                peer.places.has_read(args, index, piece.bytes(), self.data.bytes());
            }
            die_point!(73 "pair_read");
            self.slots += 1;
            peer.taken = index + 1;
            if in_heap || peer.is_to_be_told() {
                peer.tell_taken(pair);
                if t.is_far(self.peer) {
                    // Its last free slot, as far as it knows, is the one that it fills before it waits.
                    let last = peer.taken + PAIR_SLOTS as u64 / 2 - 1;
                    let is_full = || {
                        t.lines(self.peer).pair_slot(self.peer, me, last, 0).0.full.load(Ordering::Relaxed)
                            == last + 1
                    };
                    t.send_taken(self.peer, self.slots == total && !is_full());
                }
                *told += 1;
                if *told == 1 {
                    t.after_post();
                }
            }
        }
        self.close_buffer();
        self.done = true;
        Ok(None)
    }
}
