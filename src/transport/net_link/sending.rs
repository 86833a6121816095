//! What goes to far peers: frames are put together, held back, queued.

use super::peer::{FarPeer, Outgoing, WriteRange, immediate};
use super::polling::patience_of;
use super::rails::{self, Rails};
use super::trailer::{TRAILER, TRAILERS, trailer};
use super::wire::{self, AHEAD, HEADER, Item, LARGEST_FRAME, MessageHeader};
use super::{FULL, GRACE_NS, Others, SMALL, SMALL_PIECE};
use crate::error::{Error, Result};
use crate::memory::control::ALIVE;
use crate::memory::view::Payload;
use crate::sync::prim::Ordering;
use crate::sys::clock;
use crate::sys::endpoint::{MemoryId, SourceRange};
use crate::transport::link::{Body, Frame};
use crate::types::Rank;

/// Words of a trailer that frames may take.
const TRAILING: usize = TRAILER - 1;
const _: () = assert!(HEADER + AHEAD + LARGEST_FRAME <= TRAILING && HEADER + 2 + LARGEST_FRAME <= FULL);

impl Others {
    pub(super) fn peer(&mut self, rank: Rank) -> Option<&mut FarPeer> {
        self.peers.get_mut(rank as usize)?.as_mut()
    }

    /// Returns the number of far ranks on a machine.
    pub(super) fn ranks_of(&self, machine: u64) -> usize {
        self.peers.iter().flatten().filter(|peer| peer.address.machine == machine).count()
    }

    /// Sends a frame, or has it wait, or holds it back.
    pub(super) fn post(&mut self, rails: &mut Rails, to: Rank, posted: Frame<'_>) -> Result<()> {
        let Some(peer) = self.peer(to) else {
            return Err(Error::internal(format!("a frame for rank {to}, which is not far")));
        };
        peer.posted += 1;
        if peer.is_gone() {
            return Ok(());
        }
        let (bytes, patience) = (posted.body.bytes(), patience_of(posted.body));
        let item = Item::Line(posted.number, posted.body);
        let most = if let Body::Piece { .. } = posted.body { SMALL_PIECE } else { SMALL };
        if bytes.bytes() > most || self.follows_a_write(to, posted.body, bytes) {
            return self.post_write(rails, to, &posted, bytes);
        }
        let words = LARGEST_FRAME + bytes.bytes().div_ceil(8);
        self.make_room(rails, to, FULL - words)?;
        let Some(peer) = self.peer(to) else { return Ok(()) };
        wire::put(&mut peer.held, &item, false);
        if let Some(patience) = patience {
            let others = if std::mem::replace(&mut self.holds, true) { self.patience } else { patience };
            self.patience = patience.min(others);
            self.holds_arrival |= matches!(posted.body, Body::Arrival { may_wait: false, .. });
            return Ok(());
        }
        self.send_held_for(rails, to)
    }

    /// Would the bytes of a frame be overwritten, if they came by a message, by a write to their place that comes later by another rail?
    fn follows_a_write(&self, to: Rank, body: Body<'_>, bytes: Payload<'_>) -> bool {
        let has_place = matches!(body, Body::Data { .. } | Body::Arrival { .. } | Body::Piece { .. });
        if self.interfaces.len() == 1 || !has_place || bytes.is_empty() {
            return false;
        }
        let at = self.near.offset_of(bytes).map(|at| self.mirror.mirrored(self.rank, to, at));
        let peer = self.peers.get(to as usize).and_then(Option::as_ref);
        at.zip(peer).is_some_and(|(at, peer)| peer.is_under_way(at, bytes.bytes()))
    }

    /// Sends something that is no frame of the rank's.
    pub(super) fn say(&mut self, rails: &mut Rails, to: Rank, item: &Item<'_>) -> Result<()> {
        self.make_room(rails, to, FULL - LARGEST_FRAME)?;
        let Some(peer) = self.peer(to).filter(|peer| !peer.is_gone()) else { return Ok(()) };
        wire::put(&mut peer.held, item, false);
        self.send_held_for(rails, to)
    }

    /// Sends a frame whose bytes are written to their place.
    fn post_write(
        &mut self,
        rails: &mut Rails,
        to: Rank,
        posted: &Frame<'_>,
        bytes: Payload<'_>,
    ) -> Result<()> {
        let length = bytes.bytes();
        let range = match self.near.offset_of(bytes) {
            Some(at) => WriteRange { at, bytes: length, lent: None },
            None => WriteRange { at: self.place_of(posted.body)?, bytes: length, lent: Some(bytes.lend()) },
        };
        self.make_room(rails, to, if self.with_trailers { TRAILING - LARGEST_FRAME - AHEAD } else { 0 })?;
        let Some(peer) = self.peer(to) else { return Ok(()) };
        wire::put(&mut peer.held, &Item::Line(posted.number, posted.body), true);
        let mut frames = peer.take_held();
        let sent = peer.is_free() && self.write(rails, to, range, &frames[HEADER..])?;
        let Some(peer) = self.peer(to) else { return Ok(()) };
        if sent {
            // The allocation serves again.
            frames.truncate(HEADER);
            if peer.held.len() == HEADER {
                peer.held = frames;
            }
            return Ok(());
        }
        let frame = frames.split_off(HEADER);
        self.wait(to, Outgoing::Write { range, frame })
    }

    /// Returns where in the control segment the bytes of a frame would lie that lie elsewhere.
    fn place_of(&self, body: Body<'_>) -> Result<usize> {
        let place = match body {
            Body::Data { at, bytes, .. } => Some(self.near.staging(self.rank, at, bytes.bytes())),
            Body::Arrival { seq, payload, part, .. } => {
                let bytes = payload.bytes();
                let [at, whole] = part.unwrap_or([0, bytes]);
                Some(self.near.payload(self.rank, seq, whole).part(at, bytes))
            }
            _ => None,
        };
        let place = place.filter(|_| self.takes_lent).and_then(|place| self.near.offset_of(place));
        place.ok_or_else(|| Error::internal("a large frame whose bytes are not in the control segment"))
    }

    /// Sends what is held back for a peer if it takes more than `most` words.
    pub(super) fn make_room(&mut self, rails: &mut Rails, to: Rank, most: usize) -> Result<()> {
        match self.peer(to) {
            Some(peer) if peer.held.len() > most.max(HEADER) => self.send_held_for(rails, to),
            _ => Ok(()),
        }
    }

    /// Sends what is held back for any peer.
    pub(super) fn send_held(&mut self, rails: &mut Rails) -> Result<()> {
        (self.holds, self.holds_arrival) = (false, false);
        for rank in 0..self.peers.len() as Rank {
            self.send_held_for(rails, rank)?;
        }
        Ok(())
    }

    /// Sends what is held back for a peer, or has it wait.
    pub(super) fn send_held_for(&mut self, rails: &mut Rails, to: Rank) -> Result<()> {
        let rank = self.rank;
        let Some(peer) = self.peer(to).filter(|peer| peer.held.len() > HEADER) else { return Ok(()) };
        if peer.lost.is_some() {
            peer.held.truncate(HEADER);
            return Ok(());
        }
        if peer.is_free() {
            let (header, words, rail) = (peer.next_header(rank), peer.held.len(), peer.rails.first());
            peer.held[..HEADER].copy_from_slice(&header.words());
            peer.held.extend(peer.ahead());
            if rails[rail].send(peer.id, &peer.held)? {
                peer.tell(header);
                if let Some(messages) = &mut peer.messages {
                    messages.sent(rail, &peer.held[HEADER..words]);
                }
                peer.is_reached = true;
                peer.rails.sent(rail, clock::now_ns);
                peer.held.truncate(HEADER);
                return Ok(());
            }
            peer.held.truncate(words);
        }
        let frames = peer.take_held().split_off(HEADER);
        self.wait(to, Outgoing::Message(frames))
    }

    /// Puts something into a peer's queue.
    fn wait(&mut self, to: Rank, outgoing: Outgoing) -> Result<()> {
        self.is_waiting = true;
        match self.peer(to).is_none_or(|peer| peer.enqueue(outgoing, FULL)) {
            true => Ok(()),
            false => Err(Error::remote(format!(
                "rank {to} takes in nothing, and too many messages wait for it; the rank or its network is faulty: make a new \
                 communicator"
            ))),
        }
    }

    /// Writes a range of the control segment to its place in a peer's mirror, with the frames that belong to it. False: not now.
    fn write(&mut self, rails: &mut Rails, to: Rank, range: WriteRange, frames: &[u64]) -> Result<bool> {
        let rank = self.rank;
        let there = self.mirror.mirrored(rank, to, range.at);
        let Some(peer) = self.peer(to) else { return Ok(true) };
        if peer.is_under_way(there, range.bytes) {
            return self.ask(rails, to).map(|()| false);
        }
        if !peer.has_room() {
            return Ok(false);
        }
        let number = peer.written;
        let Some(rail) = self.write_number(rails, to, number, range, there, frames)? else {
            return Ok(false);
        };
        let Some(peer) = self.peer(to) else { return Ok(true) };
        peer.wrote(there, range.at, range.bytes, rail, frames);
        if self.with_trailers {
            return Ok(true);
        }
        // What is behind the first of these belongs to the write. It goes before anything that waits: later writes may wait for it.
        let mut words = Vec::new();
        wire::put(&mut words, &Item::OfWrite(number), false);
        words.extend(frames);
        if !self.send_message(rails, to, &words)?
            && let Some(peer) = self.peer(to)
        {
            peer.queue.push_front(Outgoing::Message(words));
            self.is_waiting = true;
        }
        Ok(true)
    }

    /// Writes a range of the control segment as the write of this number, and returns the rail that it goes by. `None`: not now.
    fn write_number(
        &mut self,
        rails: &mut Rails,
        to: Rank,
        number: u32,
        range: WriteRange,
        there: usize,
        frames: &[u64],
    ) -> Result<Option<usize>> {
        let (rank, with_trailers) = (self.rank, self.with_trailers);
        let layout = self.near.layout();
        let (begin, trailers) = (layout.bytes_at(), layout.reserved() + rank as usize * TRAILERS * 8);
        let source = match &range.lent {
            Some(lent) => SourceRange::Lent(lent),
            None => self.source(range.at, range.bytes)?,
        };
        let Some(peer) = self.peer(to) else { return Ok(None) };
        let header = peer.header(rank);
        let mut words = [0; TRAILER];
        let trailer =
            if with_trailers { trailer(&mut words, number, header, &peer.ahead(), frames) } else { &[][..] };
        let rail = peer.rails.lightest();
        let places = peer.places(number, rail, there, begin, trailers);
        if !rails[rail].write(peer.id, source, trailer, places, immediate(rank, number))? {
            return Ok(None);
        }
        peer.is_reached = true;
        peer.rails.sent(rail, clock::now_ns);
        if with_trailers {
            peer.tell(header);
        }
        Ok(Some(rail))
    }

    /// Finds the registered memory in which a range of the control segment lies.
    fn source(&self, at: usize, bytes: usize) -> Result<SourceRange<'static>> {
        let within = |&(memory, start, length): &(MemoryId, usize, usize)| {
            let within = at.checked_sub(start).filter(|within| within + bytes <= length)?;
            Some(SourceRange::Memory { memory, at: within, bytes })
        };
        let source = self.sources.iter().find_map(within);
        source.ok_or_else(|| Error::internal("a large frame of bytes that are not this rank's"))
    }

    /// Sends a write again that went by a rail that is cut, if the peer has not taken it in.
    fn write_again(&mut self, rails: &mut Rails, to: Rank, number: u32) -> Result<bool> {
        let Some(write) = self.peer(to).and_then(|peer| peer.not_taken(number).cloned()) else {
            return Ok(true);
        };
        let range = WriteRange { at: write.at, bytes: write.bytes, lent: None };
        let rail = self.write_number(rails, to, number, range, write.there, &write.frames)?;
        if let (Some(rail), Some(peer)) = (rail, self.peer(to)) {
            peer.wrote_again(number, rail);
        }
        Ok(rail.is_some())
    }

    /// Sends a message again that went by a rail that is cut, if the peer has not taken it in.
    fn message_again(&mut self, rails: &mut Rails, to: Rank, number: u32) -> Result<bool> {
        let rank = self.rank;
        let Some(peer) = self.peer(to) else { return Ok(true) };
        let header = MessageHeader { number: Some(number), ..peer.header(rank) };
        let (ahead, first) = (peer.ahead(), peer.rails.first());
        let Some((rail, frames)) = peer.messages.as_mut().and_then(|messages| messages.kept(number)) else {
            return Ok(true);
        };
        let sent = rails[first].send(peer.id, &[&header.words()[..], &ahead, frames].concat())?;
        if sent {
            *rail = first;
            peer.tell(header);
            peer.rails.sent(first, clock::now_ns);
        }
        Ok(sent)
    }

    /// Asks a peer to tell when it has taken in all writes, unless it was asked already.
    fn ask(&mut self, rails: &mut Rails, to: Rank) -> Result<()> {
        let Some(peer) = self.peer(to) else { return Ok(()) };
        let until = peer.written;
        if peer.asked_until == Some(until) {
            return Ok(());
        }
        let mut words = Vec::new();
        wire::put(&mut words, &Item::Ask(until), false);
        if self.send_message(rails, to, &words)?
            && let Some(peer) = self.peer(to)
        {
            peer.asked_until = Some(until);
        }
        Ok(())
    }

    /// Sends what waits, as far as there is room.
    pub(super) fn send_waiting(&mut self, rails: &mut Rails) -> Result<()> {
        self.is_waiting = false;
        for rank in 0..self.peers.len() as Rank {
            if !self.greet(rails, rank)? {
                continue;
            }
            // BOUND: what waits.
            while let Some(outgoing) = self.next_for(rank) {
                let sent = match &outgoing {
                    Outgoing::Message(frames) => self.send_message(rails, rank, frames)?,
                    Outgoing::MessageAgain(number) => self.message_again(rails, rank, *number)?,
                    Outgoing::WriteAgain(number) => self.write_again(rails, rank, *number)?,
                    Outgoing::Write { range, frame } => self.write(rails, rank, *range, frame)?,
                };
                if sent {
                    continue;
                }
                let patience_ns = self.patience_ns;
                if let Some(peer) = self.peer(rank) {
                    peer.queue.push_front(outgoing);
                    let (id, rail) = (peer.id, peer.rails.first());
                    let to_it = || format!("to it{}", rails::obstacle(&rails[rail], id));
                    self.is_lost |= peer.gives_up(patience_ns, to_it);
                }
                self.is_waiting = true;
                break;
            }
        }
        Ok(())
    }

    fn send_message(&mut self, rails: &mut Rails, to: Rank, frames: &[u64]) -> Result<bool> {
        let rank = self.rank;
        let Some(peer) = self.peer(to) else { return Ok(true) };
        let (header, rail) = (peer.next_header(rank), peer.rails.first());
        let sent = rails[rail].send(peer.id, &[&header.words()[..], &peer.ahead(), frames].concat())?;
        if sent {
            peer.tell(header);
            if let Some(messages) = &mut peer.messages {
                messages.sent(rail, frames);
            }
            peer.is_reached = true;
            peer.rails.sent(rail, clock::now_ns);
        }
        Ok(sent)
    }

    fn next_for(&mut self, rank: Rank) -> Option<Outgoing> {
        let peer = self.peer(rank)?;
        if peer.lost.is_some() {
            peer.queue.clear();
        }
        peer.queue.pop_front()
    }

    /// Does a peer that is alive have something to take in, or its word about it to send?
    pub(super) fn awaits_peers(&self) -> bool {
        (0..).zip(&self.peers).any(|(rank, peer)| {
            let awaited = peer.as_ref().is_some_and(|peer| !peer.is_gone() && !peer.goodbye_taken);
            awaited && !self.mirror.life(rank).node.died()
        })
    }

    /// Blames a peer to which sending has failed, if nothing was told of its end meanwhile.
    #[cold]
    pub(super) fn check_lost(&self) -> Result<()> {
        for (rank, peer) in (0..).zip(&self.peers) {
            let Some((when, why)) =
                peer.as_ref().and_then(|peer| peer.lost.as_ref().or(peer.straight.cut.as_ref()))
            else {
                continue;
            };
            let life = self.mirror.life(rank);
            let ended = life.node.died() || life.state.load(Ordering::Acquire) > ALIVE;
            if !ended && clock::now_ns().saturating_sub(*when) > GRACE_NS {
                let on = self.on_host(rank);
                return Err(Error::remote(format!(
                    "rank {rank}{on} cannot be reached: {why}; check that the network between the hosts lets all ports pass, or choose another by \
                     PENNY_NET_IFACES, and make a new communicator"
                )));
            }
        }
        Ok(())
    }
}
