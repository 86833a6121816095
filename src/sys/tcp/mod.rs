//! Communication between hosts by TCP alone.
//!
//! ```text
//!     listens      a port of the local address, and one more once the second endpoint is open
//!     connects     when something is first to be sent to a peer: the one that has to send first, and if both do, the one with the lesser address
//!     greets       with the peer's token and its own address: strangers are closed
//!     sends        at once into the socket; what this has no room for waits in a queue, one for each peer
//!     polls        by receiving from each socket while they are few, which finds what comes sooner than to ask which have something
//! ```
//!
//! A connection that is lost is made anew. Both sides then tell how many items they have taken in: where that is as many as the other has sent, nothing
//! was lost; otherwise the peer is [lost](Report::Lost).

mod door;
mod greeting;
mod intake;
mod memories;
mod moving;
mod peer;
mod socket;
#[cfg(all(test, not(loom)))]
mod tests;
mod unsent;
mod wire;

use super::endpoint::{
    Endpoint, LentRange, MappedRegion, MemoryId, PeerId, Place, RemoteMemory, Report, SourceRange, Use,
};
use super::watched::Watched;
use super::{clock, network};
use crate::error::{Error, Result};
use door::{ListeningPort, listen};
use greeting::Guest;
use memories::Memories;
use peer::{PeerState, TcpPeer};
use socket::TcpSocket;
use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;
use wire::Name;

/// Connections up to which each is looked at in every poll.
const FEW: usize = 4;
/// How long a thread sleeps that the system cannot wake.
const BLIND: Duration = Duration::from_millis(1);

/// An endpoint on a local address.
pub struct TcpEndpoint {
    address: IpAddr,
    /// Where it may listen; `None`: at any port.
    ports: Option<RangeInclusive<u16>>,
    /// Words of the longest message.
    most: usize,
    name: Vec<u8>,
    /// `None`: the endpoint is shut.
    door: Option<ListeningPort>,
    second: Option<ListeningPort>,
    peers: Vec<TcpPeer>,
    /// The places there of those that the caller knows.
    ids: Vec<u32>,
    /// Connections of others that have not said yet whose they are.
    guests: Vec<Guest>,
    memories: Memories,
    /// Peers to which there is a connection.
    open: Vec<u32>,
    /// Messages and writes that wait in queues.
    queued: usize,
    /// The system cannot watch all that is to be watched.
    is_blind: bool,
    /// Until when nothing is accepted; 0: something is.
    deaf_until: u64,
    /// Is there while there are many connections or a thread may sleep on its descriptor.
    watched: Option<Watched>,
    is_slept_on: bool,
    polls: u32,
    /// Some connections are being made. When it is looked for new ones, if none is.
    is_restless: bool,
    next_look_ns: u64,
    /// A message with its head.
    words: Vec<u64>,
    ready: Vec<u32>,
}

impl TcpEndpoint {
    /// Opens an endpoint at a local address, for messages of up to `words` words of 8 bytes. `ports`: where it may listen.
    pub fn open(address: IpAddr, words: usize, ports: Option<&RangeInclusive<u16>>) -> Result<TcpEndpoint> {
        let door = listen(address, ports)?;
        Ok(TcpEndpoint {
            address,
            ports: ports.cloned(),
            most: words,
            name: door.name.bytes(),
            door: Some(door),
            second: None,
            peers: Vec::new(),
            ids: Vec::new(),
            guests: Vec::new(),
            memories: Memories::default(),
            open: Vec::new(),
            queued: 0,
            is_blind: false,
            deaf_until: 0,
            watched: None,
            is_slept_on: false,
            polls: 0,
            is_restless: false,
            next_look_ns: 0,
            words: Vec::new(),
            ready: Vec::new(),
        })
    }

    /// Returns the place of a peer.
    fn place_of(&self, id: PeerId) -> usize {
        self.ids[id.index()] as usize
    }

    /// Ends the connection to a peer, and all that waits for it.
    fn leave(&mut self, at: usize, then: PeerState) {
        let peer = &mut self.peers[at];
        let state = std::mem::replace(&mut peer.state, then);
        self.queued -= peer.queue.len();
        peer.queue.clear();
        self.close(at, state);
    }

    /// Closes what was a peer's connection.
    fn close(&mut self, at: usize, state: PeerState) {
        if let PeerState::Connecting(stream, _)
        | PeerState::Greeting { stream, .. }
        | PeerState::Open(stream, _) = &state
        {
            self.forget(stream);
        }
        if let PeerState::Open(..) = state {
            self.open.retain(|&open| open as usize != at);
        }
    }

    /// Watches all that the endpoint waits for.
    fn watch_all(&self, watched: &Watched) -> io::Result<()> {
        for door in self.door.iter().chain(&self.second) {
            watched.watch(door.listener.as_raw_fd(), None, false)?;
        }
        for guest in &self.guests {
            watched.watch(guest.descriptor(), None, false)?;
        }
        for (at, peer) in (0..).zip(&self.peers) {
            match &peer.state {
                PeerState::Connecting(stream, _) => watched.watch(stream.descriptor(), None, true)?,
                PeerState::Greeting { stream, .. } => watched.watch(stream.descriptor(), None, false)?,
                PeerState::Open(stream, _) => {
                    watched.watch(stream.descriptor(), Some(at), !peer.queue.is_empty())?;
                }
                PeerState::None | PeerState::Lost => {}
            }
        }
        Ok(())
    }

    /// Watches a descriptor, if others are watched.
    fn watch(&mut self, descriptor: RawFd, peer: Option<u32>, sends: bool) {
        let failed = self.watched.as_ref().is_some_and(|all| all.watch(descriptor, peer, sends).is_err());
        self.is_blind |= failed;
    }

    /// Watches a connection no more, which is about to be closed.
    fn forget(&self, stream: &TcpSocket) {
        self.watched.iter().for_each(|watched| watched.forget(stream.descriptor()));
    }

    /// Begins to watch, if that is worth while or wanted.
    fn begin_to_watch(&mut self) {
        if self.watched.is_none()
            && let Ok(watched) = Watched::new()
            && self.watch_all(&watched).is_ok()
        {
            self.watched = Some(watched);
        }
    }
}

impl Endpoint for TcpEndpoint {
    fn name(&self) -> &[u8] {
        &self.name
    }

    fn most_ranges(&self) -> usize {
        2
    }

    fn insert(&mut self, name: &[u8]) -> Result<PeerId> {
        let own = self.address;
        let Some(name) = Name::of_bytes(name) else {
            return Err(Error::remote(format!(
                "a peer's address has {} bytes that are none of TCP, with which this rank reaches others from {own}; set PENNY_NET to the same on \
                 all ranks",
                name.len()
            )));
        };
        if name.at.is_ipv4() != own.is_ipv4() {
            return Err(Error::remote(format!(
                "a peer's address is {}, and that of this rank {own}; use IPv4 or IPv6 addresses everywhere (PENNY_NET_IFACES)",
                name.at.ip()
            )));
        }
        // The names of a second endpoint come when the first is in use.
        let is_second = self.second.is_some();
        let id = PeerId(self.ids.len() as u32);
        let at = match self.find(name.at, is_second) {
            Some(at) => at,
            None => {
                self.peers.push(TcpPeer::new(name, is_second));
                self.peers.len() - 1
            }
        };
        // One that was heard before has not told its token.
        (self.peers[at].id, self.peers[at].name) = (Some(id), name);
        self.ids.push(at as u32);
        Ok(id)
    }

    fn obstacle(&self, to: PeerId) -> Option<String> {
        self.peers[self.place_of(to)].failure.clone()
    }

    fn register(
        &mut self,
        region: Box<dyn MappedRegion>,
        at: usize,
        bytes: usize,
        used: Use,
    ) -> Result<MemoryId> {
        Ok(self.memories.register(region, at, bytes, used))
    }

    fn remote(&self, memory: MemoryId) -> RemoteMemory {
        self.memories.remote(memory)
    }

    #[inline]
    fn send(&mut self, to: PeerId, message: &[u64]) -> Result<bool> {
        assert!(message.len() <= self.most, "a message larger than its buffer");
        Ok(self.send_message(self.place_of(to), message))
    }

    fn write(
        &mut self,
        to: PeerId,
        source: SourceRange<'_>,
        trailer: &[u64],
        places: [Place; 2],
        data: u32,
    ) -> Result<bool> {
        let (base, bytes, is_lent) = match source {
            SourceRange::Memory { memory, at, bytes } => {
                (self.memories.source(memory, at, bytes), bytes, false)
            }
            SourceRange::Lent(range) => (range.base(), range.bytes(), true),
        };
        Ok(self.send_write(self.place_of(to), (base, bytes), trailer, places, data, is_lent))
    }

    fn pending(&self) -> usize {
        self.queued
    }

    fn takes_lent(&self) -> bool {
        true
    }

    fn holds_lent(&self) -> bool {
        let is_lent = |peer: &TcpPeer| !peer.is_second && peer.queue.iter().any(|item| item.is_lent);
        self.queued > 0 && self.peers.iter().any(is_lent)
    }

    fn give_back_lent(&mut self, to: &dyn Fn(PeerId) -> bool, withdraw: &dyn Fn(&mut [u64])) {
        for peer in &mut self.peers {
            if !peer.is_second && !peer.queue.is_empty() && peer.id.is_some_and(to) {
                let lent = peer.queue.iter_mut().filter(|item| item.is_lent);
                lent.for_each(|item| item.give_back(withdraw));
            }
        }
    }

    #[inline]
    fn poll(&mut self, sink: &mut dyn FnMut(Report<'_>)) -> Result<()> {
        self.move_on(sink);
        Ok(())
    }

    fn has_descriptor(&self) -> bool {
        true
    }

    fn open_descriptor(&mut self) -> Option<RawFd> {
        self.begin_to_watch();
        self.is_slept_on = self.watched.is_some();
        self.watched.as_ref().map(Watched::descriptor)
    }

    fn close_descriptor(&mut self) {
        self.is_slept_on = false;
        if self.open.len() <= FEW {
            self.watched = None;
        }
    }

    fn may_sleep(&mut self) -> Option<Duration> {
        if self.is_blind {
            return Some(BLIND);
        }
        let due = self.next_due().map(|due| due.saturating_sub(clock::now_ns()));
        Some(due.map_or(Duration::MAX, Duration::from_nanos))
    }

    fn open_second(&mut self) -> Result<Vec<u8>> {
        let door = listen(self.address, self.ports.as_ref())?;
        self.watch(door.listener.as_raw_fd(), None, false);
        Ok(self.second.insert(door).name.bytes())
    }

    fn open_to_others(&mut self, range: &dyn LentRange) -> Result<RemoteMemory> {
        Ok(self.memories.open(range))
    }

    fn close_to_others(&mut self, key: u64) {
        self.memories.close(key);
        for peer in self.peers.iter_mut().filter(|peer| peer.is_second) {
            if let PeerState::Open(_, intake) = &mut peer.state {
                intake.close_to(key);
            }
        }
    }

    fn write_by_second(
        &mut self,
        to: PeerId,
        range: &dyn LentRange,
        trailer: &[u64],
        places: [Place; 2],
        data: u32,
    ) -> Result<bool> {
        Ok(self.send_write(self.place_of(to), (range.base(), range.bytes()), trailer, places, data, true))
    }

    fn held_by_second(&self, to: PeerId) -> usize {
        self.peers[self.place_of(to)].queue.len()
    }

    fn shut_second(&mut self) {
        self.memories.close_all();
        self.close_door(true);
    }

    fn shut(&mut self) {
        self.shut_second();
        self.close_door(false);
    }
}

impl TcpEndpoint {
    /// Closes one of the two endpoints for good.
    fn close_door(&mut self, is_second: bool) {
        let door = if is_second { self.second.take() } else { self.door.take() };
        if let (Some(door), Some(watched)) = (&door, &self.watched) {
            watched.forget(door.listener.as_raw_fd());
        }
        for at in 0..self.peers.len() {
            if self.peers[at].is_second == is_second {
                self.leave(at, PeerState::Lost);
                self.peers[at].is_wanted = false;
            }
        }
        for guest in self.guests.iter().filter(|guest| guest.is_second == is_second) {
            self.forget(&guest.stream);
        }
        self.guests.retain(|guest| guest.is_second != is_second);
    }
}
