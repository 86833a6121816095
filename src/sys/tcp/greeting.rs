//! How connections are made: by either side, with a greeting that is answered.
//!
//! Where both connect at the same time, one connection serves: that of the lesser name, if it is made.

use super::peer::{PeerState, TcpPeer};
use super::socket::TcpSocket;
use super::wire::{self, HELLO_WORDS, Name, Standing, WELCOME_WORDS};
use super::{TcpEndpoint, network};
use crate::sys::clock;
use crate::sys::endpoint::Report;
use std::io;
use std::os::fd::RawFd;

/// Connections of others that may wait to say whose they are.
const MOST_GUESTS: usize = 256;
/// Peers at most.
const MOST_PEERS: usize = 1 << 14;
/// How long such a connection may be silent.
const SILENT_NS: u64 = 5_000_000_000;
/// The time between two looks for connections that others make, while no other is being made.
const LOOK_NS: u64 = 1_000_000;
/// Connections that are accepted in one look.
const ACCEPTED: usize = 32;

/// A connection of another that has not said as a whole whose it is.
pub struct Guest {
    stream: TcpSocket,
    words: [u64; HELLO_WORDS],
    filled: usize,
    since: u64,
    is_second: bool,
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
        Some(0) => Err(io::ErrorKind::UnexpectedEof.into()),
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
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

impl TcpEndpoint {
    fn own_name(&self, is_second: bool) -> Option<Name> {
        let door = if is_second { &self.second } else { &self.door };
        door.as_ref().map(|door| door.name)
    }

    /// Finds a peer.
    pub(super) fn find(&self, name: Name, is_second: bool) -> Option<usize> {
        self.peers.iter().position(|peer| peer.is_second == is_second && peer.name == name)
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
                if let Some(watched) = &self.watched {
                    let _ = watched.watch(stream.descriptor(), None, true);
                }
                peer.state = PeerState::Connecting(stream, now);
            }
            Err(error) => drop(peer.failed(&error, now)),
        }
    }

    /// Goes on with the connections that are not open.
    #[cold]
    pub(super) fn look_after_connections(&mut self, sink: &mut dyn FnMut(Report<'_>)) {
        self.accept();
        self.hear_guests(sink);
        let now = clock::now_ns();
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
        self.is_restless = !self.guests.is_empty() || self.peers.iter().any(TcpPeer::is_opening);
        self.next_look_ns = clock::coarse_ns() + LOOK_NS;
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
            if let Some(watched) = &self.watched {
                let _ = watched.watch(stream.descriptor(), None, false);
            }
            let PeerState::Connecting(stream, since) = std::mem::replace(&mut peer.state, PeerState::None)
            else {
                return Ok(());
            };
            peer.state =
                PeerState::Greeting { stream, answer: Box::new([0; WELCOME_WORDS]), filled: 0, since };
        }
        let PeerState::Greeting { stream, answer, filled, .. } = &mut peer.state else { return Ok(()) };
        if !fill(stream, &mut answer[..], filled)? {
            return Ok(());
        }
        let Some(its) = wire::welcome_of(**answer) else { return Err(io::ErrorKind::InvalidData.into()) };
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
            self.lose(at, format!("{why}; {lost} of the messages to it were on their way"), sink);
            return;
        }
        if let Some(watched) = &self.watched {
            let _ = watched.watch(stream.descriptor(), Some(at as u32), !peer.queue.is_empty());
        }
        peer.open(stream, self.most);
        self.open.push(at as u32);
    }

    /// Takes in connections that others have made.
    fn accept(&mut self) {
        for (door, is_second) in [(&self.door, false), (&self.second, true)] {
            let Some(door) = door else { continue };
            for _ in 0..ACCEPTED {
                let Ok(Some(stream)) = network::accept(&door.listener) else { break };
                let Ok(stream) = TcpSocket::accepted(stream) else { continue };
                if let Some(watched) = &self.watched {
                    let _ = watched.watch(stream.descriptor(), None, false);
                }
                let since = clock::now_ns();
                self.guests.push(Guest { stream, words: [0; HELLO_WORDS], filled: 0, since, is_second });
            }
        }
    }

    /// Hears who the others are.
    fn hear_guests(&mut self, sink: &mut dyn FnMut(Report<'_>)) {
        if self.guests.is_empty() {
            return;
        }
        let now = clock::now_ns();
        let surplus = self.guests.len().saturating_sub(MOST_GUESTS);
        for (at, mut guest) in std::mem::take(&mut self.guests).into_iter().enumerate() {
            let is_silent = now.saturating_sub(guest.since) > SILENT_NS;
            match fill(&guest.stream, &mut guest.words, &mut guest.filled) {
                Ok(true) => self.welcome(guest, sink),
                // Of too many the oldest go.
                Ok(false) if at >= surplus && !is_silent => self.guests.push(guest),
                _ => self.send_away(&guest),
            }
        }
    }

    fn send_away(&self, guest: &Guest) {
        if let Some(watched) = &self.watched {
            watched.forget(guest.descriptor());
        }
    }

    /// Answers a greeting, if it is that of a peer.
    fn welcome(&mut self, guest: Guest, sink: &mut dyn FnMut(Report<'_>)) {
        let hello = wire::hello_of(guest.words);
        let own = self.own_name(guest.is_second);
        let (Some((token, name, its)), Some(own)) = (hello, own) else { return self.send_away(&guest) };
        if token != own.token {
            return self.send_away(&guest);
        }
        let at = match self.find(name, guest.is_second) {
            Some(at) => at,
            None if self.peers.len() >= MOST_PEERS => return self.send_away(&guest),
            // It was told of this rank before this rank was told of it, or is only heard.
            None => {
                self.peers.push(TcpPeer::new(name, guest.is_second, None));
                self.peers.len() - 1
            }
        };
        // It may have lain here since before the peer has accepted a connection of this side's.
        let is_old = its.number <= self.peers[at].its_number;
        let is_given_up = match &self.peers[at].state {
            _ if is_old => true,
            PeerState::Greeting { .. } => own.words() < name.words(),
            PeerState::Lost => true,
            PeerState::None | PeerState::Connecting(..) | PeerState::Open(..) => false,
        };
        if is_given_up {
            return self.send_away(&guest);
        }
        let peer = &mut self.peers[at];
        if let PeerState::Open(_, intake) = &peer.state {
            peer.taken = intake.taken;
        }
        let state = std::mem::replace(&mut peer.state, PeerState::None);
        peer.number += 1;
        if say(&guest.stream, &wire::welcome(peer.standing())).is_err() {
            self.send_away(&guest);
            self.close(at, state);
            return;
        }
        self.close(at, state);
        self.open_by(at, guest.stream, its, sink);
    }
}
