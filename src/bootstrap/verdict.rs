//! What a meeting came to that failed, and who has yet to hear it.
//!
//! A program may end as soon as its own rank has heard that it cannot join, and the thread that serves the meeting ends with it. So
//! the ranks of that process hear it last.

use super::rendezvous::Rendezvous;
use crate::error::Error;
use crate::types::MAX_RANKS;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The time for which a verdict is kept for ranks that come later, and for which a rank that cannot join tries to tell the others.
/// On a loaded machine the last process of a job can start seconds after the first.
pub const LINGER: Duration = Duration::from_secs(10);
/// The longest time that the ranks of the serving process wait until the other ranks have heard the verdict.
const HOLD: Duration = Duration::from_secs(2);

/// A failed meeting's error and those who have not heard it.
pub struct Verdict {
    /// The error that all ranks are told.
    pub error: Error,
    until: Instant,
    deaf: BTreeSet<u32>,
    /// A caller with another's number, or with one that there is not, has come: so one of the deaf never will.
    is_one_astray: bool,
    /// The latest time at which the ranks of this process are told; `None`: at once.
    hold_until: Option<Instant>,
}

impl Verdict {
    /// Makes the verdict of a meeting, which the ranks that are in it hear now. `by`: the rank that knows it already, and the
    /// number of ranks that it expects: a rank that cannot join may be the first to come.
    pub fn of(rendezvous: &Rendezvous, error: Error, by: Option<(u32, u32)>, now: Instant) -> Verdict {
        let is_late = rendezvous.overdue(now).is_some();
        let (by, expected) = by.map_or((None, 0), |(rank, nranks)| (Some(rank), nranks.min(MAX_RANKS)));
        let nranks = if is_late { 0 } else { rendezvous.nranks().max(expected) };
        let deaf = (0..nranks).filter(|&r| rendezvous.member(r).is_none() && by != Some(r)).collect();
        let is_one_astray =
            by.is_some_and(|by| expected > 0 && (by >= nranks || rendezvous.member(by).is_some()));
        // If all ranks have come, none comes later.
        let linger = if rendezvous.complete() { Duration::ZERO } else { LINGER };
        let hold_until = rendezvous.deadline().map_or(now + HOLD, |deadline| deadline.min(now + HOLD));
        Verdict { error, until: now + linger, deaf, is_one_astray, hold_until: Some(hold_until) }
    }

    /// Makes the verdict that all ranks but 0 are told, whose process is this one.
    pub fn of_rank_0(nranks: u32, error: Error, now: Instant) -> Verdict {
        let deaf = (1..nranks).collect();
        Verdict { error, until: now + LINGER, deaf, is_one_astray: false, hold_until: None }
    }

    /// Notes that a rank is told.
    pub fn tell(&mut self, rank: u32) {
        self.deaf.remove(&rank);
    }

    /// Tells whether all ranks have heard it.
    pub fn is_known(&self) -> bool {
        self.deaf.len() <= usize::from(self.is_one_astray)
    }

    /// Tells whether the ranks of this process have to wait for others.
    pub fn holds(&self) -> bool {
        self.hold_until.is_some() && !self.is_known()
    }

    /// Tells whether it is kept no longer.
    pub fn is_over(&self, now: Instant) -> bool {
        self.until <= now
    }

    /// Ends the wait of this process's ranks, if it is time to.
    pub fn look_at_the_clock(&mut self, now: Instant) {
        self.hold_until.take_if(|until| *until <= now);
    }

    /// Returns when to look at it again.
    pub fn next_deadline(&self) -> Instant {
        self.hold_until.filter(|_| self.holds()).unwrap_or(self.until)
    }
}
