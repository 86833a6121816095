//! What carries a rank's lines to ranks with which it shares no memory.
//!
//! A rank numbers its frames to each far rank from 0 on. A link may deliver them in any order; the receiver puts them in
//! order (see [`far`](super::far)). So an engine needs no more than to deliver each frame once.

mod owned;
mod straight;

use crate::error::Result;
use crate::memory::view::Payload;
use crate::memory::word::Change;
use crate::types::Rank;
pub use owned::{OwnedBody, bytes_of, copied, words_of};
use std::os::fd::RawFd;
use std::time::Duration;
pub use straight::{RestOfMessage, StraightLink, WantedMessage};

/// Carries frames from this rank to far ranks, and theirs to this one.
pub trait Link: Send + Sync {
    /// Hands a frame over for a far rank, without waiting for it. It may be held back until the next poll. What the frame borrows may change as soon as this returns,
    /// but for bytes in the control segment: those of [`Body::Data`] stay until the receiver's counter has passed their reading
    /// step, the payload of [`Body::Arrival`] until the receiver has arrived at a later call, those of [`Body::Piece`] until the receiver has
    /// taken the slot.
    /// Where the link [takes lent bytes](Self::takes_lent), those of [`Body::Data`] and [`Body::Arrival`] may lie anywhere; they stay until it
    /// [holds none](Self::holds_lent).
    fn post(&self, to: Rank, frame: Frame<'_>) -> Result<()>;
    /// Tells whether something that was posted waits for peers that take in what comes. Polling sends it.
    fn is_behind(&self) -> bool {
        false
    }
    /// May bytes that are posted lie in the caller's memory? The number of bytes from which on a part of an arrival's payload may be
    /// posted in place of all of it, if so. A payload of no more than that is copied when it is posted.
    fn takes_lent(&self) -> Option<usize> {
        None
    }
    /// Tells whether bytes of a caller's memory are still to be sent. Polling sends them.
    fn holds_lent(&self) -> bool {
        false
    }
    /// The caller's memory may change before it is sent: no receiver takes what is sent of it for its bytes. The frames come nevertheless.
    fn give_back_lent(&self) {}
    /// The way from buffer to buffer, if the link has one.
    fn straight(&self) -> Option<&dyn StraightLink> {
        None
    }
    /// Returns a bit for each of several networks that is cut, and used no more.
    fn cut_rails(&self) -> u32 {
        0
    }
    /// The rank's call is over: arrivals that were held back to travel with other frames go now.
    fn flush(&self) -> Result<()> {
        Ok(())
    }
    /// The rank posts nothing more: waits, not for long, until each peer has taken in all that was posted to it. What comes meanwhile is lost.
    fn finish(&self) {}
    /// Passes on what has come since the last poll. Each frame comes once and whole, in any order. Bytes that the link has written
    /// to the mirror itself, at the sender's own offset, are not in it: `Data` comes as `Counter` then, and the payload or the piece is empty.
    fn poll(&self, sink: &mut dyn FnMut(Incoming<'_>)) -> Result<()>;
    /// Tells whether a thread can sleep until a poll would find something, or could send on.
    fn has_descriptor(&self) -> bool {
        false
    }
    /// Opens the descriptor that becomes readable then, or returns that which is open. What comes is dearer until it is
    /// [closed](Self::close_descriptor). `None`: there is none now.
    fn open_descriptor(&self) -> Option<RawFd> {
        None
    }
    /// Closes it.
    fn close_descriptor(&self) {}
    /// How long a thread may sleep on the descriptor; `None`: it has to poll first.
    fn may_sleep(&self) -> Option<Duration> {
        None
    }
}

/// What a link tells.
#[derive(Clone, Copy)]
#[cfg_attr(not(test), allow(dead_code))]
pub enum Incoming<'a> {
    /// A frame has come.
    Frame(Frame<'a>),
    /// What was left of a message has come to the buffer that was opened for it; its number is that of no frame.
    Rest(Rank, RestOfMessage),
    /// A far rank's process has ended.
    Death(Rank),
}

/// A change of one rank's lines, on its way to one other.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    /// The rank whose lines change.
    pub from: Rank,
    /// The frame's number among those from this sender to this receiver.
    pub number: u64,
    /// What changes.
    pub body: Body<'a>,
}

/// The counter of a [`Body::Counter`] in the place of bytes that its sender has withdrawn. No counter of the sender that comes behind it counts:
/// it would show the receiver what was in the bytes' place before.
pub const WITHDRAWN: u64 = 0;

/// What of a rank's lines changes.
#[derive(Clone, Copy)]
pub enum Body<'a> {
    /// A range of its staging memory, and the program counter that makes it visible.
    Data {
        /// Where the range begins in the rank's staging memory.
        at: usize,
        /// The range.
        bytes: Payload<'a>,
        /// The program counter.
        counter: u64,
    },
    /// Its program counter alone.
    Counter(u64),
    /// Its arrival line and record of a call, with the payload.
    Arrival {
        /// The call.
        seq: u64,
        /// As in `Arrival::args`, without places in a heap that the receiver cannot reach.
        args: u64,
        /// As in `Arrival::count`.
        count: u64,
        /// As in `Arrival::trail`.
        trail: u64,
        /// The whole input, if the arrival offers a copy of it; or a part.
        payload: Payload<'a>,
        /// Where the part begins in the whole, and the bytes of the whole. Not told to the receiver.
        part: Option<[usize; 2]>,
        /// The receiver can go on without for now. Not told to it.
        may_wait: bool,
    },
    /// A slot of its ring to the receiver.
    Piece {
        /// The slot's index, counted over the communicator's life.
        index: u64,
        /// As in `PairSlot::args`.
        args: u64,
        /// As in `PairSlot::count`.
        count: u64,
        /// The slot's part of the message.
        bytes: Payload<'a>,
    },
    /// What it says of the receiver's ring to it.
    Taken(TakenLine),
    /// Its life line.
    Life(LifeLine),
    /// Words that it has stored in the header for all.
    News(News),
    /// The words of its life line about a smaller communicator, and the address of its endpoint there once it has one.
    Shrink {
        /// As in `Life::shrink`.
        words: [u64; 2],
        /// The address.
        endpoint: Payload<'a>,
    },
    /// One-sided access to the receiver's memory, or what becomes of the receiver's own.
    Access(FarAccess<'a>),
}

impl<'a> Body<'a> {
    /// Its bytes.
    pub fn bytes(self) -> Payload<'a> {
        match self {
            Body::Data { bytes, .. } | Body::Piece { bytes, .. } => bytes,
            Body::Arrival { payload, .. } => payload,
            Body::Shrink { endpoint, .. } => endpoint,
            Body::Access(access) => access.bytes(),
            Body::Counter(_) | Body::Taken(_) | Body::Life(_) | Body::News(_) => Payload::EMPTY,
        }
    }
}

/// The most bytes of one access.
pub const LARGEST_ACCESS: usize = 8 << 10;

/// One-sided access to a far rank's memory. Offsets are those of its shareable heap.
#[derive(Clone, Copy)]
pub enum FarAccess<'a> {
    /// Bytes to store.
    Put {
        /// Where they go.
        at: u64,
        /// The bytes.
        bytes: Payload<'a>,
        /// Another access follows at once: it need not be sent before. Not told to the receiver.
        more: bool,
    },
    /// A change of a word.
    Change {
        /// The word.
        at: u64,
        /// It has 8 bytes, not 4.
        wide: bool,
        /// The change.
        change: Change,
        /// The answer's ticket; 0: none is wanted.
        ticket: u64,
        /// As in `Put`.
        more: bool,
    },
    /// Bytes to read.
    Get {
        /// Where they are.
        at: u64,
        /// Their number.
        bytes: u64,
        /// The answer's ticket.
        ticket: u64,
    },
    /// A signal of this rank to count.
    Signal {
        /// The signal's context.
        context: u32,
        /// Its index there.
        index: u32,
    },
    /// Something for one of the receiver's services.
    Ask {
        /// The service.
        of: u64,
        /// What is asked, in the service's own words.
        words: [u64; 3],
        /// Bytes that belong to it.
        bytes: Payload<'a>,
        /// The answer's ticket; 0: none is wanted.
        ticket: u64,
        /// As in `Put`.
        more: bool,
    },
    /// The sender wants to know how many of its accesses are done: all above are counted.
    HowFar,
    /// The number of the receiver's accesses that are done.
    Done(u64),
    /// The answer to an access of the receiver.
    Answer {
        /// Of that access.
        ticket: u64,
        /// What was asked for.
        bytes: Payload<'a>,
    },
}

impl<'a> FarAccess<'a> {
    /// Its bytes.
    pub fn bytes(self) -> Payload<'a> {
        match self {
            FarAccess::Put { bytes, .. } | FarAccess::Ask { bytes, .. } | FarAccess::Answer { bytes, .. } => {
                bytes
            }
            _ => Payload::EMPTY,
        }
    }

    /// Need it not be sent at once? Another access follows, or its sender polls for the answer.
    pub fn may_be_held(self) -> bool {
        match self {
            FarAccess::Put { more, .. } => more,
            FarAccess::Change { more, ticket, .. } | FarAccess::Ask { more, ticket, .. } => {
                more || ticket != 0
            }
            FarAccess::Get { .. } => true,
            _ => false,
        }
    }

    /// The same with other bytes.
    pub fn with<'b>(self, other: Payload<'b>) -> FarAccess<'b> {
        match self {
            FarAccess::Put { at, more, .. } => FarAccess::Put { at, bytes: other, more },
            FarAccess::Change { at, wide, change, ticket, more } => {
                FarAccess::Change { at, wide, change, ticket, more }
            }
            FarAccess::Get { at, bytes, ticket } => FarAccess::Get { at, bytes, ticket },
            FarAccess::Signal { context, index } => FarAccess::Signal { context, index },
            FarAccess::Ask { of, words, ticket, more, .. } => {
                FarAccess::Ask { of, words, bytes: other, ticket, more }
            }
            FarAccess::HowFar => FarAccess::HowFar,
            FarAccess::Done(done) => FarAccess::Done(done),
            FarAccess::Answer { ticket, .. } => FarAccess::Answer { ticket, bytes: other },
        }
    }
}

/// A receiver's words to a sender of messages.
#[derive(Clone, Copy)]
pub struct TakenLine {
    /// As in `Pair::taken`.
    pub taken: u64,
    /// As in `Pair::refused`.
    pub refused: u64,
    /// As in `Pair::refused_args`.
    pub refused_args: [u64; 2],
    /// The sender still has room: the words may travel with something else. Not told to it.
    pub may_wait: bool,
}

/// A life line without the word that only the kernel writes.
#[derive(Clone, Copy)]
pub struct LifeLine {
    /// As in `Life::pid`.
    pub pid: u32,
    /// As in `Life::start`.
    pub start: u64,
    /// As in `Life::state`.
    pub state: u32,
    /// As in `Life::failed_seq`.
    pub failed_seq: u64,
    /// The ends of messages that went to the receiver [past the frames](StraightLink), which may come later than this.
    pub rests: u64,
}

/// How a rank has ended the calls of all ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It has no communicator any more.
    Aborted,
    /// It keeps the communicator, to make another one of it.
    Revoked,
}

impl Ending {
    /// The bit of a revocation; the others are 1 + the rank.
    const REVOKED: u32 = 1 << 31;

    /// Returns the word that tells it.
    pub fn word(self, rank: Rank) -> u32 {
        let bit = if self == Ending::Revoked { Ending::REVOKED } else { 0 };
        bit | (rank + 1)
    }

    /// Reads the word. `None`: no rank has ended the calls.
    pub fn of(word: u32) -> Option<(Ending, Rank)> {
        let rank = (word & !Ending::REVOKED).checked_sub(1)?;
        Some((if word & Ending::REVOKED == 0 { Ending::Aborted } else { Ending::Revoked }, rank))
    }

    /// Returns the word for sentences.
    pub fn verb(self) -> &'static str {
        match self {
            Ending::Aborted => "aborted",
            Ending::Revoked => "revoked",
        }
    }
}

/// What a rank tells all others by the header. Words that are 0 tell nothing.
#[derive(Clone, Copy, Default, Debug)]
pub struct News {
    /// A call in which ranks disagree.
    pub disagreement: u64,
    /// The rank or process because of which the rank gives up.
    pub cause: u64,
    /// The first rank whose death the rank knows of.
    pub dead: Option<Rank>,
    /// How the calls on the communicator were ended, and by which rank.
    pub ending: Option<(Ending, Rank)>,
}
