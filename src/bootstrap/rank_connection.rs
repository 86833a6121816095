//! A connection to the server, from the knock to the farewell.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use super::frame::Answer;
use crate::error::Error;
use crate::sys::socket::{self, Datagram};

/// The state of a rank's connection.
#[derive(Clone, Copy)]
pub enum Stage {
    /// Has not said anything.
    Stranger,
    /// Has joined and waits for the others.
    Waiting {
        /// Which meeting.
        serial: u64,
        /// As whom.
        rank: u32,
    },
    /// Is being told the members.
    Fed {
        /// Which meeting.
        serial: u64,
        /// As whom.
        rank: u32,
        /// Whom it is told of next.
        next: u32,
        /// Not before this.
        pause: Option<Instant>,
    },
    /// Has been told all members and attaches to their memory. Its connection is open until it says how that went.
    Attaching {
        /// Which meeting.
        serial: u64,
        /// As whom.
        rank: u32,
    },
    /// To be closed.
    Gone,
}

/// One connection.
pub struct RankConnection {
    /// The socket.
    pub connection: OwnedFd,
    /// Who is at its other end.
    pub pid: i32,
    /// How far it has come.
    pub stage: Stage,
}

impl RankConnection {
    /// Reads the next packet. A rank that closes before it has read all packets sent to it leaves an error before its
    /// last packet.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Datagram> {
        match socket::receive(&self.connection, buffer) {
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => socket::receive(&self.connection, buffer),
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
            Stage::Waiting { serial, .. } | Stage::Attaching { serial, .. } => Some(serial),
            _ => self.fed_by(),
        }
    }

    /// Tells it the verdict, or close without if it does not take it.
    pub fn tell(&mut self, error: &Error) {
        let _ = socket::send(&self.connection, &Answer::Verdict(error.clone()).encode(), &[]);
        self.stage = Stage::Gone;
    }

    /// The time is over while it is being told the members. If it has been told, it knows best for whom it still waits.
    pub fn give_up(&mut self) {
        if matches!(self.stage, Stage::Attaching { .. }) {
            self.stage = Stage::Gone;
            return;
        }
        self.tell(&Error::timeout(
            "all ranks have come, but not all of them took what they were told in time; check that none is stopped",
        ));
    }
}
