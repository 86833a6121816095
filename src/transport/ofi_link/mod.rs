//! A link over libfabric.
//!
//! ```text
//!     lines, small slots    a message: token, sender, frames                                    -> handed on, then copied to the mirror
//!     large slots, payloads a write from the control segment to the mirror at the same offset,
//!                           and behind it, to this sender's trailers there, the frame           -> handed on without its bytes
//! ```
//!
//! A write tells its target 32 bits: the sender and the number of the write, which is the place of the trailer, too. The receiver says
//! in each message how many writes it has taken in, so a trailer is not written anew before it was read. Where a provider cannot fill
//! two ranges by one write, the frame comes by a message of its own, before or after the write.
//!
//! What the provider has no room for waits in a queue, one for each peer, and is sent at the next poll. Posting never waits.
//!
//! A link that is dropped says goodbye and waits, for [`LINGER_NS`] at most, until each peer has taken in all that was sent to it: a provider
//! may forget what is under way when its endpoint is closed.

mod address;
mod peer;
mod taking;
#[cfg(all(test, not(loom)))]
pub mod testing;
#[cfg(all(test, not(loom)))]
mod tests;
mod wire;

use super::far::Far;
use super::link::{Body, Frame, Incoming, Link};
use crate::env;
use crate::error::{Error, Result};
use crate::memory::control::lines::Lines;
use crate::memory::control::{ALIVE, Control};
use crate::memory::view::Payload;
use crate::sync::lock::Mutex;
use crate::sync::prim::Ordering;
use crate::sys::ofi::{Endpoint, MemoryId, Report, SourceRange, Use};
use crate::sys::{clock, cpu, fork, process};
use crate::types::Rank;
use address::RankAddress;
use peer::{FarPeer, Outgoing, TRAILER, TRAILERS, frame, trailer};
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;
use wire::{HEADER, Item, LARGEST_FRAME, MessageHeader};

/// Bytes up to which a slot or a payload goes into a message. Longer ones are written to their place.
const SMALL: usize = 8 << 10;
/// Words of the largest message.
const MESSAGE: usize = HEADER + LARGEST_FRAME + SMALL / 8;
/// How long a peer to which sending has failed may be before it is blamed: if it has died, that is told sooner.
const GRACE_NS: u64 = 3_000_000_000;
/// How long a queue may wait where the provider does not say that it has room again.
const RETRY: Duration = Duration::from_millis(5);
/// How long a link that is dropped waits for its peers.
const LINGER_NS: u64 = 2_000_000_000;

/// A link over libfabric.
pub struct OfiLink {
    state: Mutex<State>,
    /// The process that has made it.
    generation: u32,
}

struct State {
    endpoint: Endpoint,
    others: Others,
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
    /// By rank.
    peers: Vec<Option<FarPeer>>,
    /// The rank of each peer of the endpoint.
    ranks: Vec<Rank>,
    /// Something waits in a queue.
    is_waiting: bool,
    /// Some peer is lost.
    is_lost: bool,
    /// The link is being dropped.
    said_goodbye: bool,
    /// Messages, writes and frames that were not believed.
    refused: u64,
}

/// An endpoint that others can be told of, before they are known.
pub struct Prepared {
    endpoint: Endpoint,
    near: Arc<Control>,
    mirror: Arc<Lines>,
    rank: Rank,
    own: RankAddress,
}

impl OfiLink {
    /// Opens an endpoint for rank `rank` of `nranks` at a local address, with a provider of libfabric (`None`: that of `PENNY_NET`, else tcp).
    /// `near`: the control segment of this rank's host, whose layout is the same on all hosts.
    pub fn prepare(
        near: &Arc<Control>,
        rank: Rank,
        nranks: u32,
        address: IpAddr,
        provider: Option<&str>,
    ) -> Result<Prepared> {
        if nranks > 1 << (u32::BITS - peer::NUMBER_BITS) {
            return Err(Error::usage(format!(
                "{nranks} ranks are too many for several hosts, which can have {}",
                1 << (u32::BITS - peer::NUMBER_BITS)
            )));
        }
        let layout = near.layout();
        let users = env::get("PENNY_NET").filter(|_| provider.is_none());
        let mut endpoint = Endpoint::open(provider.or(users.as_deref()), address, MESSAGE)?;
        let behind = nranks as usize * TRAILERS * 8;
        let mirror = Arc::new(Lines::private(layout, behind)?);
        let (begin, end) = (layout.bytes_at(), layout.reserved() + behind);
        let written = mirror.segment().clone();
        let written = endpoint.register(Box::new(written), begin, end - begin, Use::Written)?;
        let own = RankAddress {
            endpoint: endpoint.name().to_vec(),
            memory: endpoint.remote(written),
            token: u64::from_ne_bytes(process::random()),
            with_trailers: endpoint.most_ranges() >= 2,
            total: layout.total() as u64,
        };
        Ok(Prepared { endpoint, near: near.clone(), mirror, rank, own })
    }
}

impl Prepared {
    /// What the far ranks have to know of this one, at most 200 bytes. Who knows it can write to this communicator's mirror.
    pub fn blob(&self) -> Vec<u8> {
        self.own.bytes()
    }

    /// Makes far peers of the ranks whose blobs are given, by rank.
    pub fn connect(self, far: &[Option<Vec<u8>>]) -> Result<Far> {
        let is_far: Box<[bool]> = far.iter().map(Option::is_some).collect();
        let (rank, mirror) = (self.rank, self.mirror.clone());
        let near = self.near.clone();
        Far::new(&near, rank, is_far, mirror, Box::new(self.link(far)?))
    }

    fn link(mut self, far: &[Option<Vec<u8>>]) -> Result<OfiLink> {
        let layout = self.near.layout();
        let (mut peers, mut ranks) = (Vec::new(), Vec::new());
        for (rank, blob) in (0..).zip(far) {
            let Some(blob) = blob else {
                peers.push(None);
                continue;
            };
            let address = RankAddress::of(blob, rank, layout)?;
            let id = self.endpoint.insert(&address.endpoint)?;
            peers.push(Some(FarPeer::new(id, address)));
            ranks.push(rank);
        }
        let mut sources = Vec::new();
        for (at, bytes) in [layout.payloads_of(self.rank), layout.staging(self.rank)] {
            let segment = Box::new(self.near.segment().clone());
            sources.push((self.endpoint.register(segment, at, bytes, Use::Send)?, at, bytes));
        }
        let others = Others {
            rank: self.rank,
            near: self.near,
            mirror: self.mirror,
            sources,
            token: self.own.token,
            with_trailers: self.own.with_trailers,
            peers,
            ranks,
            is_waiting: false,
            is_lost: false,
            said_goodbye: false,
            refused: 0,
        };
        let state = Mutex::new(State { endpoint: self.endpoint, others });
        Ok(OfiLink { state, generation: fork::generation() })
    }
}

impl Link for OfiLink {
    fn post(&self, to: Rank, frame: Frame<'_>) -> Result<()> {
        let State { endpoint, others } = &mut *self.state.lock();
        others.post(endpoint, to, frame)
    }

    fn poll(&self, sink: &mut dyn FnMut(Incoming<'_>)) -> Result<()> {
        match self.state.try_lock() {
            Some(mut state) => state.poll(sink),
            None => Ok(()),
        }
    }

    fn descriptor(&self) -> Option<RawFd> {
        self.state.lock().endpoint.descriptor()
    }

    fn may_sleep(&self) -> Option<Duration> {
        let mut state = self.state.try_lock()?;
        let most = if state.others.is_waiting { RETRY } else { Duration::MAX };
        state.endpoint.may_sleep().then_some(most)
    }
}

impl State {
    fn poll(&mut self, sink: &mut dyn FnMut(Incoming<'_>)) -> Result<()> {
        let State { endpoint, others } = self;
        endpoint.poll(&mut |event| match event {
            Report::Message(words) => others.message(words, sink),
            Report::Written(data) => others.written(data, sink),
            Report::Lost(peer, why) => others.lost(peer, why),
        })?;
        if others.is_waiting {
            others.send_waiting(endpoint)?;
        }
        if others.is_lost { others.check_lost() } else { Ok(()) }
    }

    /// Says goodbye to all peers, and waits until they have taken in everything.
    fn linger(&mut self) -> Result<()> {
        let deadline = clock::now_ns() + LINGER_NS;
        for rank in 0..self.others.peers.len() as Rank {
            let Some(peer) = self.others.peer(rank).filter(|peer| !peer.is_gone()) else { continue };
            let goodbye = Item::Bye(peer.posted);
            self.others.send(&mut self.endpoint, rank, Outgoing::Message(frame(&goodbye, false)))?;
        }
        self.others.said_goodbye = true;
        // BOUND: the deadline.
        while self.others.awaits_peers() && clock::now_ns() < deadline {
            self.poll(&mut |_| ())?;
            cpu::yield_now();
        }
        Ok(())
    }
}

impl Drop for OfiLink {
    fn drop(&mut self) {
        // A forked child has nothing to say. What cannot be sent any more is lost with a peer that is lost.
        if self.generation == fork::generation() {
            let _ = self.state.lock().linger();
        }
    }
}

impl Others {
    fn peer(&mut self, rank: Rank) -> Option<&mut FarPeer> {
        self.peers.get_mut(rank as usize)?.as_mut()
    }

    fn post(&mut self, endpoint: &mut Endpoint, to: Rank, posted: Frame<'_>) -> Result<()> {
        let Some(peer) = self.peer(to) else {
            return Err(Error::internal(format!("a frame for rank {to}, which is not far")));
        };
        peer.posted += 1;
        let item = Item::Line(posted.number, posted.body);
        let outgoing = match posted.body {
            Body::Data { bytes, .. } | Body::Arrival { payload: bytes, .. } if bytes.bytes() > SMALL => {
                let frame = frame(&item, true);
                Outgoing::Write { at: self.offset_of(bytes)?, bytes: bytes.bytes(), frame }
            }
            _ => Outgoing::Message(frame(&item, false)),
        };
        self.send(endpoint, to, outgoing)
    }

    /// Where bytes of this rank lie in the control segment.
    fn offset_of(&self, bytes: Payload<'_>) -> Result<usize> {
        let at = self.near.offset_of(bytes);
        at.ok_or_else(|| Error::internal("a large frame whose bytes are not in the control segment"))
    }

    /// Sends something, or has it wait.
    fn send(&mut self, endpoint: &mut Endpoint, to: Rank, outgoing: Outgoing) -> Result<()> {
        let Some(peer) = self.peer(to) else { return Ok(()) };
        if peer.is_gone() {
            return Ok(());
        }
        if peer.queue.is_empty() && self.try_to_send(endpoint, to, &outgoing)? {
            return Ok(());
        }
        self.is_waiting = true;
        match self.peer(to).is_none_or(|peer| peer.enqueue(outgoing, MESSAGE)) {
            true => Ok(()),
            false => Err(Error::remote(format!(
                "rank {to} takes in nothing, and too many messages wait for it; the rank or its network is faulty: make a new \
                 communicator"
            ))),
        }
    }

    /// Hands something to the provider. False: it has no room now.
    fn try_to_send(&mut self, endpoint: &mut Endpoint, to: Rank, outgoing: &Outgoing) -> Result<bool> {
        let (rank, with_trailers) = (self.rank, self.with_trailers);
        let layout = self.near.layout();
        let (begin, trailers) = (layout.bytes_at(), layout.reserved() + rank as usize * TRAILERS * 8);
        let sources = &self.sources;
        let Some(peer) = self.peers.get_mut(to as usize).and_then(Option::as_mut) else { return Ok(true) };
        let header = MessageHeader { token: peer.address.token, from: rank, seen: peer.seen() };
        let sent = match outgoing {
            Outgoing::Message(frames) => endpoint.send(peer.id, &[&header.words()[..], frames].concat())?,
            Outgoing::Write { at, bytes, frame } => {
                if !peer.has_room() {
                    return Ok(false);
                }
                let source = sources.iter().find(|(_, start, length)| {
                    at.checked_sub(*start).is_some_and(|within| within + bytes <= *length)
                });
                let Some(&(memory, start, _)) = source else {
                    return Err(Error::internal("a large frame of bytes that are not this rank's"));
                };
                let source = SourceRange { memory, at: at - start, bytes: *bytes };
                let trailer = match with_trailers {
                    true => trailer(peer.written, header, frame),
                    false => Vec::new(),
                };
                let places = peer.places(*at, begin, trailers);
                let sent = endpoint.write(peer.id, source, &trailer, places, peer.immediate(rank))?;
                if sent {
                    peer.written = peer.written.wrapping_add(1);
                }
                if sent && !with_trailers {
                    let mut frames = peer::frame(&Item::OfWrite(peer.written.wrapping_sub(1)), false);
                    frames.extend(frame);
                    // It follows the write, before anything else that waits.
                    peer.queue.push_front(Outgoing::Message(frames));
                    self.is_waiting = true;
                    return Ok(true);
                }
                sent
            }
        };
        if sent {
            peer.told = header.seen;
        }
        Ok(sent)
    }

    /// Sends what waits, as far as there is room.
    fn send_waiting(&mut self, endpoint: &mut Endpoint) -> Result<()> {
        self.is_waiting = false;
        for rank in 0..self.peers.len() as Rank {
            // BOUND: what waits.
            while let Some(outgoing) = self.next_for(rank) {
                if self.try_to_send(endpoint, rank, &outgoing)? {
                    continue;
                }
                if let Some(peer) = self.peer(rank) {
                    peer.queue.push_front(outgoing);
                }
                self.is_waiting = true;
                break;
            }
        }
        Ok(())
    }

    fn next_for(&mut self, rank: Rank) -> Option<Outgoing> {
        let peer = self.peer(rank)?;
        if peer.lost.is_some() {
            peer.queue.clear();
        }
        peer.queue.pop_front()
    }

    /// Does a peer that is alive have something to take in, or its word about it to send?
    fn awaits_peers(&self) -> bool {
        (0..).zip(&self.peers).any(|(rank, peer)| {
            let awaited = peer.as_ref().is_some_and(|peer| !peer.is_gone() && !peer.goodbye_taken);
            awaited && !self.mirror.life(rank).node.died()
        })
    }

    /// Blames a peer to which sending has failed, if nothing was told of its end meanwhile.
    #[cold]
    fn check_lost(&self) -> Result<()> {
        for (rank, peer) in (0..).zip(&self.peers) {
            let Some((when, why)) = peer.as_ref().and_then(|peer| peer.lost.as_ref()) else { continue };
            let life = self.mirror.life(rank);
            let ended = life.node.died() || life.state.load(Ordering::Acquire) > ALIVE;
            if !ended && clock::now_ns().saturating_sub(*when) > GRACE_NS {
                return Err(Error::remote(format!(
                    "the connection to rank {rank} was lost: {why}; check the network between the hosts, and make a new communicator"
                )));
            }
        }
        Ok(())
    }
}

const _: () = assert!(1 + HEADER + LARGEST_FRAME <= TRAILER);
