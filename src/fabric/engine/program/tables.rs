//! The entries of a program's tables, with what is read at the same time side by side.
//!
//! How far a step is lies beside what it is: with a thousand ranks each look-up is a miss of the cache.

use crate::topology::PortId;
use crate::types::Rank;

/// One step of one rank. Half a line of the cache, as most events read or write one: what else is known of a step lies elsewhere.
#[repr(align(32))]
#[derive(Clone, Copy)]
pub struct ProgramStep {
    pub rank: Rank,
    /// Its operands that arrive are `operands[first_operand..][..operands]`.
    pub first_operand: u32,
    pub operands: u32,
    /// Its messages a slice are `sends[first_send..][..sends]`.
    pub first_send: u32,
    pub sends: u32,
    /// Index in `cuts`.
    pub cut: u32,
    /// The slice to be handed on next.
    pub next: u32,
    /// The number of things that the slice still needs: arrivals, and the rank's entry.
    pub missing: u32,
}

/// How a chunk is cut. A call has a few different ones.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ChunkCut {
    pub slices: u32,
    /// Index in `sizes` of every slice but the last.
    pub size: u32,
    /// Index in `sizes` of the last slice.
    pub last_size: u32,
}

/// An operand that arrives.
#[derive(Clone, Copy)]
pub struct ArrivingOperand {
    pub step: u32,
    pub from: Rank,
    /// Slices of it that are there.
    pub arrived: u32,
    /// The send that it is the other end of, above a bit: it arrives with the others of its step that a switch sums.
    pub(super) send: u32,
}

impl ArrivingOperand {
    /// Returns the send that it is the other end of.
    pub fn send(&self) -> u32 {
        self.send >> 1
    }
    /// Tells whether it arrives with the others of its step that a switch sums.
    pub fn summed(&self) -> bool {
        self.send & 1 != 0
    }
}

/// The message that a step sends to one reader.
#[derive(Clone, Copy, Default)]
pub struct Send {
    pub connection: u32,
    /// The operand that it becomes, above two bits: a switch copies it, and a switch sums it.
    pub(super) operand: u32,
}

impl Send {
    /// Returns the operand that it becomes.
    pub fn operand(self) -> u32 {
        self.operand >> 2
    }
    /// Tells whether a switch copies it: with the others of its step it leaves its first port once.
    pub fn copied(self) -> bool {
        self.operand & 1 != 0
    }
    /// Tells whether a switch sums it: with the others for its reader's step it takes its last port once.
    pub fn summed(self) -> bool {
        self.operand & 2 != 0
    }
}

/// The way from one rank to another on a lane, and the messages on it.
#[derive(Clone, Copy)]
pub struct Connection {
    pub post_ps: u64,
    /// The message passes `hops[first_hop..][..hops]`.
    pub first_hop: u32,
    pub hops: u32,
    /// Messages that may be under way.
    pub credits: u32,
    pub under_way: u32,
    /// The messages that wait for credits.
    pub first: u32,
    pub last: u32,
}

/// A port on a way. Calls of many ranks have millions, so that all but the port is in one number.
#[derive(Clone, Copy)]
pub struct Hop {
    pub port: PortId,
    /// The port's class above [`HOP_FLAGS`] bits.
    class: u32,
}

/// The lowest bits of [`Hop::class`]: the whole message must come through before it goes on, and the port has declared faults.
const HOP_FLAGS: u32 = 2;

impl Hop {
    pub(super) fn new(port: PortId, class: u32, whole: bool, faulty: bool) -> Hop {
        Hop { port, class: class << HOP_FLAGS | u32::from(faulty) << 1 | u32::from(whole) }
    }
    /// Returns the class of the port.
    pub fn class(self) -> u32 {
        self.class >> HOP_FLAGS
    }
    /// Tells whether the next step begins only when the whole message has come through: at a store-and-forward port, or at the end.
    pub fn whole(self) -> bool {
        self.class & 1 != 0
    }
    /// Tells whether the port has declared faults.
    pub fn faulty(self) -> bool {
        self.class & 2 != 0
    }
}

// A call of a thousand ranks has millions of each: a word more in one of them is ten megabytes more of each call that is priced.
const _: () = assert!(size_of::<ProgramStep>() == 32 && size_of::<ArrivingOperand>() == 16);
const _: () = assert!(size_of::<Send>() == 8 && size_of::<Connection>() == 32 && size_of::<Hop>() == 8);
