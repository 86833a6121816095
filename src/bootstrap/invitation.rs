//! What a rank enters a meeting with: where it is served, and the secret that admits.

use std::io;

use super::connection::MeetingConnection;
use super::excuses::no_socket;
use super::frame::Secret;
use super::network::door::{Attempts, NetworkDoor, ports_text};
use super::who::Who;
use crate::error::Error;
use crate::sys::host::HostIdentity;
use crate::sys::socket;

/// The data with which a rank enters one meeting.
pub struct Invitation {
    /// Where it is served.
    pub door: Door,
    /// Which of the meetings there.
    pub serial: u64,
    /// The secret that admits to the meeting.
    pub secret: Secret,
    /// The process that made the id and has listened ever since; `None`: rank 0 will listen when it comes.
    pub creator: Option<u32>,
}

/// Where a meeting is served.
#[derive(Clone)]
pub enum Door {
    /// At a local socket with this abstract name.
    Local(Vec<u8>),
    /// On a host that other hosts reach.
    Network {
        /// Its addresses and ports.
        door: NetworkDoor,
        /// This process's host, as the others shall know it.
        host: HostIdentity,
    },
}

/// Why a rank has not come to the server.
pub enum Knock {
    /// No process listens.
    Nobody,
    /// It has no room for the moment.
    Busy,
    /// The network did not lead to the meeting, perhaps not yet.
    Astray(Attempts),
    /// It cannot be tried.
    Refused(Error),
}

impl Invitation {
    /// Returns the name of the local socket.
    #[cfg(test)]
    pub fn name(&self) -> &[u8] {
        match &self.door {
            Door::Local(name) => name,
            Door::Network { .. } => panic!("no local socket"),
        }
    }

    /// Connects to the server.
    pub fn knock(&self) -> std::result::Result<MeetingConnection, Knock> {
        match &self.door {
            Door::Local(name) => match socket::connect(name) {
                Ok(local) => Ok(MeetingConnection::Local(local)),
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => Err(Knock::Nobody),
                // Its queue is full.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => Err(Knock::Busy),
                Err(e) => Err(Knock::Refused(no_socket(e))),
            },
            Door::Network { door, host } => {
                match door.connect(self.serial, &self.secret, &Who::this(*host)) {
                    Ok(session) => Ok(MeetingConnection::Network(Box::new(session))),
                    Err(attempts) if attempts.is_busy() => Err(Knock::Busy),
                    Err(attempts) => Err(Knock::Astray(attempts)),
                }
            }
        }
    }

    /// Names the place where the ranks meet, after "rank 0" or the like; empty for a local one.
    pub fn at(&self) -> String {
        match &self.door {
            Door::Local(_) => String::new(),
            Door::Network { door, .. } => format!(" at {} port {}", door.host, ports_text(&door.ports)),
        }
    }
}
