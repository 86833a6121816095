//! A rank's connection to the meeting, which it keeps until it has joined.
//!
//! A meeting that all ranks have come to is not over: a rank may still die, or fail to attach to the others' memory. The
//! server sees its connection end, whatever PID namespace it is in, and tells all that have not joined themselves.

use std::os::fd::OwnedFd;
use std::time::Duration;

use super::frame::{self, Answer, MAX_BYTES};
use crate::error::{Error, Result};
use crate::sys::socket;

/// The connection of a rank that has met the others and attaches to their memory. Dropped without [`joined`](Self::joined),
/// it tells them that the rank gave up.
pub struct Attendance {
    connection: OwnedFd,
}

impl Attendance {
    pub(super) fn new(connection: OwnedFd) -> Attendance {
        Attendance { connection }
    }

    pub(super) fn connection(&self) -> &OwnedFd {
        &self.connection
    }

    /// Reads the verdict, if there is one: another rank has died or given up. Silent, too, where the server has ended.
    pub fn check(&self) -> Result<()> {
        let mut buffer = [0; MAX_BYTES];
        match socket::receive(&self.connection, &mut buffer) {
            Ok(packet) => match Answer::decode(&buffer[..packet.len]) {
                Some(Answer::Verdict(error)) => Err(error),
                _ => Ok(()),
            },
            Err(_) => Ok(()),
        }
    }

    /// Waits a moment for the verdict: where this rank has seen that another gave up, and the server is about to tell why.
    pub fn last_check(&self) -> Result<()> {
        let _ = socket::wait(
            &mut [socket::PollEntry::readable(&self.connection)],
            Some(Duration::from_millis(100)),
        );
        self.check()
    }

    /// Tells the server that this rank has joined.
    pub fn joined(self) {
        let _ = socket::send(&self.connection, &frame::encode_farewell(None), &[]);
    }

    /// Tells all others that this rank gives up, and why.
    pub fn give_up(self, why: &Error) {
        let _ = socket::send(&self.connection, &frame::encode_farewell(Some(why)), &[]);
    }
}
