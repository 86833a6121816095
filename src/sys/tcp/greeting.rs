//! How connections are made: by either side, with a greeting that is answered.
//!
//! Where both connect at the same time, one connection serves: that of the lesser address, if it is made.

use super::intake::Over;
use super::peer::{PeerState, TcpPeer};
use super::socket::TcpSocket;
use super::wire::{self, HELLO_WORDS, Name, Standing, WELCOME_WORDS};
use super::{TcpEndpoint, network};
use crate::sys::clock;
use crate::sys::endpoint::Report;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};

/// Connections of others that may wait to say whose they are.
const MOST_GUESTS: usize = 64;
/// Peers at most.
const MOST_PEERS: usize = 1 << 14;
/// How long such a connection may be silent.
const SILENT_NS: u64 = 5_000_000_000;
/// The time between two looks for connections that others make, while no other is being made.
const LOOK_NS: u64 = 1_000_000;
/// How long nothing is accepted where the process cannot open more files.
const DEAF_NS: u64 = 100_000_000;
/// How often it is looked after connections of others that are silent, while nothing else happens.
const GUESTS_NS: u64 = 1_000_000_000;
/// Connections that are accepted in one look.
const ACCEPTED: usize = 32;

/// A connection of another that has not said as a whole whose it is.
pub struct Guest {
    pub stream: TcpSocket,
    words: [u64; HELLO_WORDS],
    filled: usize,
    since: u64,
    pub is_second: bool,
}

impl Guest {
    pub fn descriptor(&self) -> RawFd {
        self.stream.descriptor()
    }

    /// It is as if it had been silent for long.
    #[cfg(test)]
    pub fn grow_old(&mut self) {
        self.since = 0;
    }
}

/// Receives into words until they are full. `Ok(false)`: not all has come.
fn fill(stream: &TcpSocket, words: &mut [u64], filled: &mut usize) -> io::Result<bool> {
    let all = size_of_val(words);
    match stream.receive(words, *filled, all - *filled)? {
        Some(0) => Err(io::Error::other(
            "the greeting is not answered: another process listens at the port, or the rank has given this one up",
        )),
        Some(bytes) => {
            *filled += bytes;
            Ok(*filled == all)
        }
        None => Ok(false),
    }
}

/// Sends a few words by a new connection, which has room for them.
fn say(stream: &TcpSocket, words: &[u64]) -> io::Result<()> {
    match stream.send(words)? {
        Some(bytes) if bytes == size_of_val(words) => Ok(()),
        _ => Err(io::Error::other("the socket has no room for a greeting")),
    }
}

impl TcpEndpoint {
    fn own_name(&self, is_second: bool) -> Option<Name> {
        let door = if is_second { &self.second } else { &self.door };
        door.as_ref().map(|door| door.name)
    }

    /// Finds a peer.
    pub(super) fn find(&self, at: SocketAddr, is_second: bool) -> Option<usize> {
        self.peers.iter().position(|peer| peer.is_second == is_second && peer.name.at == at)
    }

    /// A peer is to be reached.
    pub(super) fn want(&mut self, at: usize) {
        let peer = &mut self.peers[at];
        if matches!(peer.state, PeerState::None) && !peer.is_wanted {
            peer.is_wanted = true;
            self.is_restless = true;
            self.begin(at, clock::now_ns());
        }
    }

    /// Begins to connect to a peer, if it is time.
    fn begin(&mut self, at: usize, now: u64) {
        let peer = &mut self.peers[at];
        if !peer.is_due(now) {
            return;
        }
        peer.number += 1;
        match TcpSocket::connecting(self.address, peer.name.at) {
            Ok(stream) => {
                let descriptor = stream.descriptor();
                peer.state = PeerState::Connecting(stream, now);
                self.watch(descriptor, None, true);
            }
            Err(error) => drop(peer.failed(&error, now)),
        }
    }

    /// Goes on with the connections that are not open.
    #[cold]
    pub(super) fn look_after_connections(&mut self, sink: &mut dyn FnMut(Report<'_>)) {
        let now = clock::now_ns();
        self.accept(now);
        self.hear_guests(now, sink);
        for at in 0..self.peers.len() {
            if matches!(self.peers[at].state, PeerState::None) {
                self.begin(at, now);
            }
            if let Err(error) = self.go_on(at, now, sink) {
                let state = std::mem::replace(&mut self.peers[at].state, PeerState::None);
                self.close(at, state);
                if self.peers[at].failed(&error, now) {
                    self.lose(at, format!("{error}, when it was made anew"), sink);
                }
            }
        }
        self.is_restless = self.peers.iter().any(TcpPeer::is_opening);
        self.next_look_ns = clock::coarse_ns() + LOOK_NS;
    }

    /// Returns when it has to be looked after connections that are not open, if nothing comes before.
    pub(super) fn next_due(&self) -> Option<u64> {
        let guests = self.guests.iter().map(|guest| guest.since + SILENT_NS + GUESTS_NS);
        let deaf = (self.deaf_until > 0).then_some(self.deaf_until);
        self.peers.iter().filter_map(TcpPeer::is_due_at).chain(guests).chain(deaf).min()
    }

    /// Goes on with a connection that this side has begun.
    pub(super) fn go_on(&mut self, at: usize, now: u64, sink: &mut dyn FnMut(Report<'_>)) -> io::Result<()> {
        let Some(own) = self.own_name(self.peers[at].is_second) else { return Ok(()) };
        let peer = &mut self.peers[at];
        if peer.is_late(now) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if let PeerState::Connecting(stream, _) = &peer.state {
            if !stream.is_connected(peer.name)? {
                return Ok(());
            }
            say(stream, &wire::hello(peer.name.token, own, peer.standing()))?;
            let descriptor = stream.descriptor();
            let PeerState::Connecting(stream, since) = std::mem::replace(&mut peer.state, PeerState::None)
            else {
                return Ok(());
            };
            peer.state =
                PeerState::Greeting { stream, answer: Box::new([0; WELCOME_WORDS]), filled: 0, since };
            self.watch(descriptor, None, false);
        }
        let peer = &mut self.peers[at];
        let PeerState::Greeting { stream, answer, filled, .. } = &mut peer.state else { return Ok(()) };
        if !fill(stream, &mut answer[..], filled)? {
            return Ok(());
        }
        let Some(its) = wire::welcome_of(**answer) else {
            return Err(io::Error::other("something else than a rank of this version answers the greeting"));
        };
        let PeerState::Greeting { stream, .. } = std::mem::replace(&mut peer.state, PeerState::None) else {
            return Ok(());
        };
        self.open_by(at, stream, its, sink);
        Ok(())
    }

    /// A connection to a peer is made, which stands where `its` says.
    fn open_by(&mut self, at: usize, stream: TcpSocket, its: Standing, sink: &mut dyn FnMut(Report<'_>)) {
        let peer = &mut self.peers[at];
        peer.its_number = its.number;
        if peer.is_second {
            (peer.sent, peer.taken) = (0, 0);
        } else if let Some(lost) = peer.sent.checked_sub(its.taken).filter(|&lost| lost > 0) {
            let why = peer.failure.take().unwrap_or_else(|| "it was made anew".into());
            self.forget(&stream);
            self.lose(at, format!("{why}; {lost} of the messages to it were on their way"), sink);
            return;
        }
        if !peer.begin_again() {
            self.forget(&stream);
            self.lose(at, "a buffer that was being sent was taken back".into(), sink);
            return;
        }
        let (descriptor, waits) = (stream.descriptor(), !peer.queue.is_empty());
        peer.open(stream, self.most);
        self.open.push(at as u32);
        self.watch(descriptor, Some(at as u32), waits);
    }

    /// Takes in connections that others have made.
    fn accept(&mut self, now: u64) {
        if now < self.deaf_until {
            return;
        }
        let was_deaf = std::mem::take(&mut self.deaf_until) > 0;
        for is_second in [false, true] {
            let door = if is_second { &self.second } else { &self.door };
            let Some(listener) = door.as_ref().map(|door| door.listener.as_raw_fd()) else { continue };
            if was_deaf {
                self.watch(listener, None, false);
            }
            for _ in 0..ACCEPTED {
                let door = if is_second { &self.second } else { &self.door };
                let accepted = door.as_ref().map(|door| network::accept(&door.listener));
                let Some(Ok(accepted)) = accepted else {
                    // No file can be opened: what waits at the door would wake a thread again and again.
                    self.deaf_until = now + DEAF_NS;
                    self.watched.iter().for_each(|watched| watched.forget(listener));
                    break;
                };
                let Some(stream) = accepted else { break };
                let Ok(stream) = TcpSocket::accepted(stream) else { continue };
                let descriptor = stream.descriptor();
                let guest = Guest { stream, words: [0; HELLO_WORDS], filled: 0, since: now, is_second };
                self.guests.push(guest);
                self.watch(descriptor, None, false);
            }
        }
    }

    /// Hears who the others are.
    fn hear_guests(&mut self, now: u64, sink: &mut dyn FnMut(Report<'_>)) {
        if self.guests.is_empty() {
            return;
        }
        let surplus = self.guests.len().saturating_sub(MOST_GUESTS);
        for (at, mut guest) in std::mem::take(&mut self.guests).into_iter().enumerate() {
            let is_silent = now.saturating_sub(guest.since) > SILENT_NS;
            match fill(&guest.stream, &mut guest.words, &mut guest.filled) {
                Ok(true) => self.welcome(guest, sink),
                // Of too many the oldest go.
                Ok(false) if at >= surplus && !is_silent => self.guests.push(guest),
                _ => self.forget(&guest.stream),
            }
        }
    }

    /// Answers a greeting, if it is that of a peer.
    fn welcome(&mut self, guest: Guest, sink: &mut dyn FnMut(Report<'_>)) {
        let hello = wire::hello_of(guest.words);
        let own = self.own_name(guest.is_second);
        let (Some((token, from, its)), Some(own)) = (hello, own) else { return self.forget(&guest.stream) };
        // One that has given up meanwhile has closed its end.
        let is_closed = !matches!(guest.stream.peek(), Ok(None | Some(1..)));
        if token != own.token || is_closed {
            return self.forget(&guest.stream);
        }
        let at = match self.find(from, guest.is_second) {
            Some(at) => at,
            None if self.peers.len() >= MOST_PEERS => return self.forget(&guest.stream),
            // It was told of this rank before this rank was told of it, or is only heard.
            None => {
                let name = Name { at: from, token: 0 };
                self.peers.push(TcpPeer::new(name, guest.is_second));
                self.peers.len() - 1
            }
        };
        // It may have lain here since before the peer has accepted a connection of this side's.
        let is_old = its.number <= self.peers[at].its_number;
        let is_given_up = match &self.peers[at].state {
            _ if is_old => true,
            PeerState::Greeting { .. } => own.comes_before(from),
            PeerState::Lost => true,
            PeerState::None | PeerState::Connecting(..) | PeerState::Open(..) => false,
        };
        if is_given_up {
            return self.forget(&guest.stream);
        }
        // What lies in the socket of the connection that this one replaces has come.
        if self.take_all(at, sink).is_err_and(|over| matches!(over, Over::Nonsense)) {
            self.forget(&guest.stream);
            return self.over(at, Over::Nonsense, sink);
        }
        let peer = &mut self.peers[at];
        let state = std::mem::replace(&mut peer.state, PeerState::None);
        peer.number += 1;
        let standing = peer.standing();
        self.close(at, state);
        match say(&guest.stream, &wire::welcome(standing)) {
            Ok(()) => self.open_by(at, guest.stream, its, sink),
            Err(_) => {
                self.forget(&guest.stream);
                self.peers[at].is_wanted = true;
            }
        }
    }
}
