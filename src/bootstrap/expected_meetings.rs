//! The meetings that a server expects: its owner adds them, the server takes each when its first rank comes.

use super::frame::Secret;
use std::collections::BTreeMap;
use std::time::Instant;

/// Meetings to which no rank has come yet, by their serials.
#[derive(Default)]
pub struct ExpectedMeetings {
    expected: BTreeMap<u64, Expected>,
    next: u64,
    closed: bool,
}

struct Expected {
    secret: Secret,
    until: Option<Instant>,
}

impl ExpectedMeetings {
    /// Expects one more meeting, until a rank comes or the time is over; returns its serial. `None`: the server has
    /// ended. Beyond `most` the eldest is forgotten.
    pub fn expect(&mut self, secret: Secret, until: Option<Instant>, most: usize) -> Option<u64> {
        if self.closed {
            return None;
        }
        let serial = self.next;
        self.next += 1;
        self.expected.insert(serial, Expected { secret, until });
        while self.expected.len() > most {
            self.expected.pop_first();
        }
        Some(serial)
    }

    /// Expects a meeting whose serial is agreed already. Returns `false` if the server has ended.
    pub fn expect_as(&mut self, serial: u64, secret: Secret, until: Option<Instant>) -> bool {
        if !self.closed {
            self.expected.insert(serial, Expected { secret, until });
        }
        !self.closed
    }

    /// Returns the secret of a meeting that is expected.
    pub fn secret(&self, serial: u64) -> Option<Secret> {
        self.expected.get(&serial).map(|e| e.secret)
    }

    /// Takes a meeting out of the list, and returns its secret; `None` if it is not expected or the secret shown is wrong.
    pub fn take(&mut self, serial: u64, shown: &Secret) -> Option<Secret> {
        self.expected.get(&serial).filter(|e| e.secret.admits(shown))?;
        self.expected.remove(&serial).map(|e| e.secret)
    }

    /// Forgets meetings whose time is over.
    pub fn forget_late(&mut self, now: Instant) {
        self.expected.retain(|_, e| e.until.is_none_or(|until| now < until));
    }

    /// The first time at which a meeting is forgotten.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.expected.values().filter_map(|e| e.until).min()
    }

    /// Admits no more meetings if none is expected, and returns whether that is so.
    pub fn close_if_empty(&mut self) -> bool {
        self.closed = self.expected.is_empty();
        self.closed
    }
}
