//! A connection to the server, from the knock to the farewell.

use std::os::fd::OwnedFd;
use std::time::Instant;

use super::frame::Answer;
use crate::error::Error;
use crate::sys::socket;

/// How far a guest has come.
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
        /// Whom it is told of next.
        next: u32,
        /// Not before this.
        pause: Option<Instant>,
    },
    /// To be closed.
    Gone,
}

/// One connection.
pub struct Guest {
    /// The socket.
    pub connection: OwnedFd,
    /// Who is at its other end.
    pub pid: i32,
    /// How far it has come.
    pub stage: Stage,
}

impl Guest {
    /// The meeting whose members it is being told.
    pub fn fed_by(&self) -> Option<u64> {
        match self.stage {
            Stage::Fed { serial, .. } => Some(serial),
            _ => None,
        }
    }

    /// Tell it the verdict, or close without if it does not take it.
    pub fn tell(&mut self, error: &Error) {
        let _ = socket::send(&self.connection, &Answer::Verdict(error.clone()).encode(), &[]);
        self.stage = Stage::Gone;
    }

    /// The time is over while it is being told the members.
    pub fn give_up(&mut self) {
        self.tell(&Error::timeout(
            "all ranks have come, but not all of them took what they were told in time; check that none is stopped",
        ));
    }
}
