//! What a server of meetings listens at.

use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::super::connection::MeetingConnection;
use super::super::network::session::Session;
use crate::sys::{network, socket};

/// What a server listens at.
pub enum Listener {
    /// A local socket.
    Local(OwnedFd),
    /// An address of this host, and how long a silent host is waited for.
    Network(TcpListener, Duration),
}

impl Listener {
    /// Takes one waiting connection; `None` if there is none.
    pub fn accept(&self) -> io::Result<Option<MeetingConnection>> {
        match self {
            Listener::Local(local) => Ok(socket::accept(local)?.map(MeetingConnection::Local)),
            Listener::Network(tcp, silence) => {
                let Some(stream) = network::accept(tcp)? else { return Ok(None) };
                // One that has gone again is as good as none, but others may wait behind it.
                Ok(Session::accepted(stream, *silence)
                    .map(|session| MeetingConnection::Network(Box::new(session)))
                    .ok())
            }
        }
    }

    /// What a server watches of it.
    pub fn watched(&self) -> socket::PollEntry<'_> {
        match self {
            Listener::Local(local) => socket::PollEntry::readable(local),
            Listener::Network(tcp, _) => socket::PollEntry::readable(tcp),
        }
    }
}
