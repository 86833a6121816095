//! A connection to the server, from the knock to the farewell.

use std::io;
use std::time::Instant;

use super::connection::MeetingConnection;
use super::frame::{Answer, MAX_BYTES};
use super::who::Who;
use crate::error::Error;
use crate::sys::socket::Datagram;

/// Packets at most that are read and passed over where a connection ends.
const MOST_UNREAD: usize = 64;

/// The state of a rank's connection.
#[derive(Clone, Copy)]
pub enum Stage {
    /// The rank has not sent anything.
    Stranger,
    /// The rank has joined and waits for the others.
    Waiting {
        /// The rendezvous.
        serial: u64,
        /// The rank.
        rank: u32,
    },
    /// The rank is being sent the members.
    Fed {
        /// The rendezvous.
        serial: u64,
        /// The rank.
        rank: u32,
        /// The member to send next.
        next: u32,
        /// The earliest time to continue.
        pause: Option<Instant>,
    },
    /// The rank has all members and attaches to their memory. Its connection stays open until it reports the outcome.
    Attaching {
        /// The rendezvous.
        serial: u64,
        /// The rank.
        rank: u32,
    },
    /// The rank has joined, and its connection tells whether it lives. Only connections between hosts come to this.
    Joined {
        /// The rendezvous.
        serial: u64,
        /// The rank.
        rank: u32,
    },
    /// The connection is to be closed.
    Gone,
}

/// One connection.
pub struct RankConnection {
    /// The socket.
    pub connection: MeetingConnection,
    /// The process at its other end.
    pub who: Who,
    /// The stage of the connection.
    pub stage: Stage,
}

impl RankConnection {
    /// Reads the next packet. A rank that closes before it has read all packets sent to it leaves an error before its
    /// last packet.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Datagram> {
        match self.connection.receive(buffer) {
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => self.connection.receive(buffer),
            received => received,
        }
    }

    /// Returns the meeting whose members it is being told.
    pub fn fed_by(&self) -> Option<u64> {
        match self.stage {
            Stage::Fed { serial, .. } => Some(serial),
            _ => None,
        }
    }

    /// Returns the meeting that it has joined and not left.
    pub fn is_in(&self) -> Option<u64> {
        match self.stage {
            Stage::Waiting { serial, .. }
            | Stage::Attaching { serial, .. }
            | Stage::Joined { serial, .. } => Some(serial),
            _ => self.fed_by(),
        }
    }

    /// Returns the meeting whose ranks it connects to, and its rank there.
    pub fn attaching(&self) -> Option<(u64, u32)> {
        match self.stage {
            Stage::Attaching { serial, rank } => Some((serial, rank)),
            _ => None,
        }
    }

    /// Returns the meeting that it has joined, and its rank there.
    pub fn joined(&self) -> Option<(u64, u32)> {
        match self.stage {
            Stage::Joined { serial, rank } => Some((serial, rank)),
            _ => None,
        }
    }

    /// Tells it the verdict, or close without if it does not take it.
    pub fn tell(&mut self, error: &Error) {
        let _ = self.connection.send(&Answer::Verdict(error.clone()).encode(), &[]);
        // Where something is left unread, the end of a connection takes away what was sent before. What comes from here on may do so yet.
        let mut buffer = [0; MAX_BYTES];
        let _ = (0..MOST_UNREAD)
            .take_while(|_| self.receive(&mut buffer).is_ok_and(|packet| packet.len > 0))
            .count();
        self.stage = Stage::Gone;
    }

    /// The time is over before it has joined. A rank of this host that attaches to the others' memory knows best for which it waits;
    /// one of another host must hear that the time is over, because it would take the end of its connection for a death.
    pub fn give_up(&mut self) {
        let late = match self.stage {
            Stage::Attaching { .. } if !self.connection.is_network() => {
                self.stage = Stage::Gone;
                return;
            }
            Stage::Attaching { .. } => "has connected to the others",
            _ => "took what it was told",
        };
        self.tell(&Error::timeout(format!(
            "all ranks have come, but not each {late} in time; check that none is stopped, or raise the timeout"
        )));
    }
}
