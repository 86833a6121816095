//! A link between hosts, over TCP or a provider of libfabric.
//!
//! ```text
//!     lines, few bytes      a message: token, sender, frames                                    -> handed on, then copied to the mirror
//!     more bytes            a write from the control segment to their place in the mirror,
//!                           and behind it, to this sender's trailers there, the frame           -> handed on without its bytes
//! ```
//!
//! A write tells its target 32 bits: the sender and the number of the write, which is the place of the trailer, too. The receiver says
//! in each message how many writes it has taken in, so a trailer is not written anew before it was read. Where a provider cannot fill
//! two ranges by one write, the frame comes by a message of its own, before or after the write.
//!
//! Counters and arrivals without payload are held back until something else goes to the same peer, the next poll, or the end of the call:
//! mostly they travel with the next slot. What a receiver says of messages, where their sender can go on without for now, waits some polls longer: it
//! travels with the answer. What the provider has no room for waits in a queue, one for each peer, and is sent at the next
//! poll. Posting never waits.
//!
//! A link that is dropped says goodbye and waits, for 2 s at most (4 s with several rails), until each peer has taken in all that was sent to it: a provider
//! may forget what is under way when its endpoint is closed.

mod address;
#[cfg(all(test, not(loom)))]
mod cut_tests;
mod header;
#[cfg(all(test, not(loom)))]
mod held_tests;
mod lent;
mod lost_frames;
mod messages;
mod peer;
mod peer_rails;
mod polling;
mod prepared;
mod rails;
mod sending;
mod straight;
mod taking;
#[cfg(all(test, not(loom)))]
pub mod testing;
#[cfg(all(test, not(loom)))]
mod tests;
mod trailer;
mod watching;
mod wire;

use super::link::{Frame, Incoming, LARGEST_ACCESS, Link, StraightLink};
use crate::error::Result;
use crate::memory::control::Control;
use crate::memory::control::lines::Lines;
use crate::sync::lock::Mutex;
use crate::sync::prim::{AtomicBool, Ordering};
use crate::sys::endpoint::MemoryId;
use crate::sys::fork;
use crate::sys::network::Interface;
use crate::types::Rank;
use peer::FarPeer;
pub use prepared::Prepared;
use rails::Rails;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;
use straight::Straight;
use wire::{AHEAD, HEADER, LARGEST_FRAME};

/// Bytes up to which a slot or a payload goes into a message. Longer ones are written to their place.
const SMALL: usize = 8 << 10;
/// Bytes up to which a slot of the ring to the receiver goes into a message. Longer ones are written to the receiver's memory, which saves
/// a copy at the sender and one at the receiver.
const SMALL_PIECE: usize = 2 << 10;
/// Words of the largest message.
const MESSAGE: usize = FULL + AHEAD;
/// Words of a message at most before it is told which writes were taken in ahead of others.
const FULL: usize = HEADER + LARGEST_FRAME + SMALL / 8;
const _: () = assert!(LARGEST_ACCESS <= SMALL, "an access fits a message");
/// How long a peer to which sending has failed may be before it is blamed: if it has died, that is told sooner.
const GRACE_NS: u64 = 3_000_000_000;
/// How long a queue may wait where the provider does not say that it has room again.
const RETRY: Duration = Duration::from_millis(5);
/// How long the first connection to a peer may take.
const CONNECT_NS: u64 = 20_000_000_000;

/// Bytes of the longest address that a rank tells the others.
pub const LARGEST_ADDRESS: usize = 640;

/// A link between hosts.
pub struct NetLink {
    state: Mutex<State>,
    /// An arrival may be held back. Stored under the lock.
    may_hold_arrival: AtomicBool,
    /// The process that has made it.
    generation: u32,
}

struct State {
    rails: Rails,
    others: Others,
    /// Rails that are not polled, as if they were cut.
    #[cfg(test)]
    unpolled: u32,
}

/// This rank and its far peers.
struct Others {
    rank: Rank,
    near: Arc<Control>,
    mirror: Arc<Lines>,
    /// Where the control segment's bytes are registered for sending: offset, length.
    sources: Vec<(MemoryId, usize, usize)>,
    token: u64,
    /// What others write to this rank ends with the frame.
    with_trailers: bool,
    /// Bytes may lie in the caller's memory: nothing of it has to be sent again by another rail, and trailers can be changed before they go.
    takes_lent: bool,
    /// This rank's end of the way from buffer to buffer.
    straight: Straight,
    /// The interface of each rail.
    interfaces: Vec<Interface>,
    /// Some peer has asked by a rail.
    owes_answers: bool,
    /// A bit for each rail that is not used any more, and for each that is to be closed.
    closed: u32,
    to_close: u32,
    /// The communicator is made from another, whose ranks have reached each other by each rail that was not cut.
    is_child: bool,
    /// When rails are looked after next.
    next_look_ns: u64,
    /// By rank.
    peers: Vec<Option<FarPeer>>,
    /// The rank of each peer of the endpoint.
    ranks: Vec<Rank>,
    /// Something waits in a queue.
    is_waiting: bool,
    /// Some frames are held back; an arrival is among them; polls that pass before they go.
    holds: bool,
    holds_arrival: bool,
    patience: u8,
    /// How long the first connection to a peer may take.
    patience_ns: u64,
    /// How long a peer may take to say that it has closed the rails that this rank has.
    settle_ns: u64,
    /// The time between two looks at what was posted, and how long frames may be late.
    look_ns: u64,
    late_ns: u64,
    /// Some peer is lost.
    is_lost: bool,
    /// The link is being dropped.
    said_goodbye: bool,
    /// Messages, writes and frames that were not believed.
    refused: u64,
}

impl Link for NetLink {
    fn post(&self, to: Rank, frame: Frame<'_>) -> Result<()> {
        let State { rails, others, .. } = &mut *self.state.lock();
        let posted = others.post(rails, to, frame);
        if others.holds_arrival {
            self.may_hold_arrival.store(true, Ordering::Relaxed);
        }
        posted
    }

    fn finish(&self) {
        let _ = self.state.lock().linger();
    }

    fn is_behind(&self) -> bool {
        self.state.lock().is_behind()
    }

    fn takes_lent(&self) -> Option<usize> {
        self.state.lock().others.takes_lent.then_some(SMALL)
    }

    fn holds_lent(&self) -> bool {
        self.state.lock().holds_lent()
    }

    fn give_back_lent(&self) {
        self.state.lock().give_back_lent();
    }

    fn straight(&self) -> Option<&dyn StraightLink> {
        Some(self)
    }

    fn cut_rails(&self) -> u32 {
        let others = &self.state.lock().others;
        others.closed | others.to_close
    }

    fn poll(&self, sink: &mut dyn FnMut(Incoming<'_>)) -> Result<()> {
        match self.state.try_lock() {
            Some(mut state) => state.poll(sink),
            None => Ok(()),
        }
    }

    fn flush(&self) -> Result<()> {
        // What other threads post meanwhile, they flush.
        if !self.may_hold_arrival.load(Ordering::Relaxed) {
            return Ok(());
        }
        let State { rails, others, .. } = &mut *self.state.lock();
        self.may_hold_arrival.store(false, Ordering::Relaxed);
        if others.holds_arrival { others.send_held(rails) } else { Ok(()) }
    }

    fn has_descriptor(&self) -> bool {
        self.state.lock().rails.have_descriptor()
    }

    fn open_descriptor(&self) -> Option<RawFd> {
        self.state.lock().rails.open_descriptor()
    }

    fn close_descriptor(&self) {
        self.state.lock().rails.close_descriptor();
    }

    fn may_sleep(&self) -> Option<Duration> {
        let mut state = self.state.try_lock()?;
        if state.others.holds {
            return None;
        }
        let most = if state.others.is_waiting { RETRY } else { state.others.until_look() };
        state.rails.may_sleep().map(|time| time.min(most))
    }
}

impl Drop for NetLink {
    fn drop(&mut self) {
        // A forked child has nothing to say. What cannot be sent any more is lost with a peer that is lost.
        if self.generation == fork::generation() {
            let _ = self.state.lock().linger();
        }
    }
}
