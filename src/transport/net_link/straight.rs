//! What is left of a message, on its way from the sender's buffer to the receiver's.
//!
//! ```text
//!     receiver    opens its buffer, and tells: message k, memory, name of the second endpoint     -> sender
//!     sender      pieces by the ring as before, until it has heard that; then one write           -> the receiver's buffer, trailer: piece
//! ```
//!
//! These writes go by a second endpoint of both ranks. Who fails while its buffer may be written to, or is being read, closes its second
//! endpoint, and the buffer is its caller's again: nothing else is lost by that. Messages then go by the ring alone. A second endpoint that
//! cannot be reached costs nothing but that either.

use super::peer::immediate;
use super::rails::Rails;
use super::trailer::{TRAILER, TRAILERS, trailer};
use super::wire::{self, Item, LARGEST_FRAME};
use super::{FULL, NetLink, Others, State};
use crate::error::Result;
use crate::memory::view::Payload;
use crate::sys::clock;
use crate::sys::endpoint::{PeerId, RemoteMemory};
use crate::transport::link::{RestOfMessage, StraightLink, WantedMessage, bytes_of, copied, words_of};
use crate::types::Rank;

/// This rank's end of the way.
pub enum Straight {
    /// It was not needed yet.
    Closed,
    /// The second endpoint has this name, in words, and the name's length in bytes.
    Open(Vec<u64>, usize),
    /// It was closed for good, or could not be opened.
    Over,
}

/// A peer's end of it.
#[derive(Default)]
pub struct StraightPeer {
    /// The name of its second endpoint.
    name: Vec<u8>,
    id: Option<PeerId>,
    /// The message for which it has opened its buffer, and the buffer.
    wanted: Option<(WantedMessage, RemoteMemory)>,
    /// The key of the buffer that is open to it.
    opened: Option<u64>,
    /// A write to it has failed: when, and why.
    pub cut: Option<(u64, String)>,
}

impl StraightPeer {
    /// Notes that it has opened a buffer for a message.
    pub fn opens(&mut self, message: WantedMessage, memory: RemoteMemory, name: Payload<'_>) {
        if self.name.is_empty() {
            self.name = bytes_of(&copied(name), name.bytes());
        }
        self.wanted = Some((message, memory));
    }

    /// Tells whether a number is that of its second endpoint.
    pub fn is_reached_at(&self, id: PeerId) -> bool {
        self.id == Some(id)
    }
}

impl Others {
    /// Opens the second endpoint, unless that was done.
    fn open_second(&mut self, rails: &mut Rails) -> Result<()> {
        if let Straight::Closed = self.straight {
            self.straight = Straight::Over;
            let name = rails[0].open_second()?;
            self.straight = Straight::Open(words_of(&name).collect(), name.len());
        }
        Ok(())
    }

    /// Closes it for good.
    fn end_straight(&mut self, rails: &mut Rails) {
        for peer in self.peers.iter_mut().flatten() {
            // Writes that were abandoned never complete: the tally of lost frames (docs/decisions/0085) must not count them as lost.
            peer.posted -= peer.straight.id.map_or(0, |id| rails[0].held_by_second(id) as u64);
            peer.come += u64::from(peer.straight.opened.take().is_some());
        }
        rails[0].shut_second();
        self.straight = Straight::Over;
    }

    fn open_to(
        &mut self,
        rails: &mut Rails,
        from: Rank,
        message: WantedMessage,
        into: Payload<'_>,
    ) -> Result<bool> {
        let takes = self.peer(from).is_some_and(|peer| peer.address.with_trailers && !peer.is_gone());
        if !self.takes_lent || !takes || matches!(self.straight, Straight::Over) {
            return Ok(false);
        }
        self.open_second(rails)?;
        let memory = rails[0].open_to_others(&into.lend())?;
        if let Some(peer) = self.peer(from) {
            peer.straight.opened = Some(memory.key);
        }
        let Straight::Open(name, bytes) = &self.straight else { return Ok(false) };
        let (mut name, bytes) = (name.clone(), *bytes);
        self.make_room(rails, from, FULL - LARGEST_FRAME - name.len())?;
        let Some(peer) = self.peer(from) else { return Ok(false) };
        let name = Payload::from(&mut name[..]).part(0, bytes);
        wire::put(&mut peer.held, &Item::Opened(message, memory, name), false);
        self.send_held_for(rails, from).map(|()| true)
    }

    fn close_to(&mut self, rails: &mut Rails, from: Rank) {
        if let Some(key) = self.peer(from).and_then(|peer| peer.straight.opened.take()) {
            rails[0].close_to_others(key);
        }
    }

    fn post_to(
        &mut self,
        rails: &mut Rails,
        to: Rank,
        slot: RestOfMessage,
        bytes: Payload<'_>,
        at: usize,
    ) -> Result<bool> {
        let rank = self.rank;
        let first = self.near.layout().reserved() - self.near.layout().bytes_at();
        self.open_second(rails)?;
        let Some(peer) = self.peers.get_mut(to as usize).and_then(Option::as_mut) else { return Ok(false) };
        let Some((_, buffer)) = peer.straight.wanted.filter(|_| !peer.is_gone() && peer.has_room()) else {
            return Ok(false);
        };
        let id = match peer.straight.id {
            Some(id) => id,
            None => {
                let id = rails[0].insert(&peer.straight.name)?;
                self.ranks.push(to);
                *peer.straight.id.insert(id)
            }
        };
        let mut frames = Vec::new();
        wire::put(&mut frames, &Item::Rest(slot), false);
        let (number, header, mut words) = (peer.written, peer.header(rank), [0; TRAILER]);
        let trailer = trailer(&mut words, number, header, &peer.ahead(), &frames);
        let [_, behind] = peer.places(number, 0, 0, 0, first + rank as usize * TRAILERS * 8);
        let places = [buffer.place(at), behind];
        if !rails[0].write_by_second(id, &bytes.lend(), trailer, places, immediate(rank, number))? {
            return Ok(false);
        }
        peer.straight.wanted = None;
        peer.wrote(0, 0, 0, 0, &frames);
        peer.tell(header);
        peer.posted += 1;
        peer.rails.sent(0, clock::now_ns);
        Ok(true)
    }
}

impl StraightLink for NetLink {
    fn open_to(&self, from: Rank, message: WantedMessage, into: Payload<'_>) -> bool {
        let State { rails, others, .. } = &mut *self.state.lock();
        let opened = others.open_to(rails, from, message, into).unwrap_or(false);
        if !opened {
            others.close_to(rails, from);
        }
        opened
    }

    fn close_to(&self, from: Rank) {
        let State { rails, others, .. } = &mut *self.state.lock();
        others.close_to(rails, from);
    }

    fn is_open_at(&self, to: Rank, message: WantedMessage) -> bool {
        let State { others, .. } = &mut *self.state.lock();
        let wanted = |peer: &mut super::FarPeer| peer.straight.wanted.is_some_and(|(its, _)| its == message);
        others.takes_lent && !matches!(others.straight, Straight::Over) && others.peer(to).is_some_and(wanted)
    }

    fn post_to(&self, to: Rank, slot: RestOfMessage, bytes: Payload<'_>, at: usize) -> bool {
        let State { rails, others, .. } = &mut *self.state.lock();
        let posted = others.post_to(rails, to, slot, bytes, at);
        posted.unwrap_or_else(|_| {
            others.end_straight(rails);
            false
        })
    }

    fn sends_to(&self, to: Rank) -> bool {
        let State { rails, others, .. } = &mut *self.state.lock();
        let id = others.peer(to).and_then(|peer| peer.straight.id);
        id.is_some_and(|id| rails[0].held_by_second(id) > 0)
    }

    fn end(&self) {
        let State { rails, others, .. } = &mut *self.state.lock();
        others.end_straight(rails);
    }
}
