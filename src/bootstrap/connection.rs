//! A connection between a rank and the server of a meeting: a local socket, or TCP between hosts.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use super::network::session::Session;
use super::who::Who;
use crate::sys::socket::{self, Datagram, PollEntry};

/// One end of a connection.
pub enum MeetingConnection {
    /// Within a host: it carries descriptors.
    Local(OwnedFd),
    /// Between hosts.
    Network(Box<Session>),
}

impl MeetingConnection {
    /// Sends one packet, whole or not at all. `WouldBlock` if the other side has not read enough of what was sent before. Descriptors
    /// do not pass between hosts.
    pub fn send(&self, packet: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        match self {
            MeetingConnection::Local(local) => socket::send(local, packet, fds),
            MeetingConnection::Network(session) => session.send(packet),
        }
    }

    /// Receives one packet; `len` 0 means that the other side has closed. `WouldBlock` if there is none yet.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Datagram> {
        match self {
            MeetingConnection::Local(local) => socket::receive(local, buffer),
            MeetingConnection::Network(session) => {
                let len = session.receive(buffer)?;
                Ok(Datagram { len, fds: Vec::new(), cut: false, fds_lost: false })
            }
        }
    }

    /// Waits until something has come or the other side has closed, for at most `timeout`.
    pub fn wait(&self, timeout: Option<Duration>) -> io::Result<()> {
        socket::wait(&mut [self.watched()], timeout)
    }

    /// What a server watches of it: what comes, and room for what is kept to be sent.
    pub fn watched(&self) -> PollEntry<'_> {
        match self {
            MeetingConnection::Network(session) if session.has_unsent() => PollEntry::both(self),
            _ => PollEntry::readable(self),
        }
    }

    /// Sends what was kept because the other side had no room for it.
    pub fn flush(&self) -> io::Result<()> {
        match self {
            MeetingConnection::Local(_) => Ok(()),
            MeetingConnection::Network(session) => session.flush(),
        }
    }

    /// Tells the other end nothing, so that it is missed if its host is gone.
    pub fn ping(&self, packet: &[u8]) -> io::Result<()> {
        match self {
            MeetingConnection::Local(_) => Ok(()),
            MeetingConnection::Network(session) => session.ping(packet),
        }
    }

    /// Returns who is at the other end; `None`: it has not proved yet that it may be here.
    pub fn peer(&self) -> Option<Who> {
        match self {
            MeetingConnection::Local(local) => {
                socket::peer(local).ok().map(|peer| Who::here(peer.pid as u32))
            }
            MeetingConnection::Network(session) => session.peer(),
        }
    }

    /// Tells whether it leads to another host, or could.
    pub fn is_network(&self) -> bool {
        matches!(self, MeetingConnection::Network(_))
    }
}

impl AsFd for MeetingConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            MeetingConnection::Local(local) => local.as_fd(),
            MeetingConnection::Network(session) => session.as_fd(),
        }
    }
}
