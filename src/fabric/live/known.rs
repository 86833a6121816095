//! The calls under way that a process knows, and how calls are admitted that began before what was handled.
//!
//! ```text
//!     handled         ------ exits that ranks were told ------>|  events that are to come
//!     a new call           ^ entry                             |
//! ```
//!
//! A rank is told its exit when the engine has come there. While it goes on and posts its next call, or waits for another rank of its
//! process before it does, the engine goes on for the other ranks. So a call may begin before what was handled. The engine then goes
//! back to a state of before that time and handles all again with that call in its place. If every exit that was told comes out
//! as it was told, nobody can tell that the call came late. Otherwise, or if it would be too much to handle again, the call begins
//! when it came. What is too much follows from the log, so all processes decide alike.

use super::log::{Journal, Logged};
use super::runner::Runner;
use super::spec::CallSpec;
use crate::error::{Error, Result};
use crate::fabric::Finished;
use crate::fabric::world::World;
use std::collections::VecDeque;
use std::sync::Arc;

/// The most members that may have finished since a late call began.
const MOST_AGAIN: usize = 64;
/// The most messages that calls under way may have.
const MOST_MESSAGES: u64 = 128;
/// A state is saved after each of these numbers of members that finish, and as many states are kept as reach back [`MOST_AGAIN`].
const SAVED_AFTER: usize = 16;
const SAVED: usize = MOST_AGAIN / SAVED_AFTER + 2;

/// The world as of a position in the log.
pub(super) struct Known {
    pub world: World,
    epoch: u64,
    /// Words of the log that have been admitted.
    pub read: usize,
    /// The log's calls by their id in the world.
    pub calls: Vec<Arc<Logged>>,
    /// Members that are finished, in the order in which the world said so.
    finished: Vec<End>,
    /// Earlier states, the latest last.
    saved: VecDeque<Saved>,
    /// What came before `calls` and `finished`, in a world that is handled again: the number of each. Otherwise 0.
    earlier: [usize; 2],
}

/// A member that is finished, and the time of the event that told so.
#[derive(Clone, Copy, PartialEq)]
struct End {
    at_ps: u64,
    member: Finished,
}

/// A state, with the numbers of calls that were admitted and of members that had finished.
struct Saved {
    world: World,
    calls: usize,
    finished: usize,
}

/// A world with new calls.
pub(super) struct Admitted {
    pub known: Known,
    /// The new calls, with the entries that the log has to hold.
    pub new: Vec<Logged>,
    /// Members of the new calls that are done before what was handled.
    pub finished: Vec<Finished>,
    /// Members that begin later than they said.
    pub late: u64,
}

impl Known {
    /// Handles what happens before a time, until a member is finished.
    pub fn advance(&mut self, until_ps: u64) -> Result<Option<Finished>> {
        let Some(member) = self.world.advance(until_ps)? else { return Ok(None) };
        self.finished.push(End { at_ps: self.world.boundary_ps(), member });
        let [calls, finished] = self.lengths();
        if finished.is_multiple_of(SAVED_AFTER) && self.world.messages_under_way() <= MOST_MESSAGES {
            self.save(Saved { world: self.world.clone(), calls, finished });
        }
        Ok(Some(member))
    }

    /// Returns the numbers of calls that were admitted and of members that have finished.
    fn lengths(&self) -> [usize; 2] {
        [self.earlier[0] + self.calls.len(), self.earlier[1] + self.finished.len()]
    }

    fn save(&mut self, saved: Saved) {
        if self.saved.len() == SAVED {
            self.saved.pop_front();
        }
        self.saved.push_back(saved);
    }

    /// Returns the latest saved state of which nothing is later than a time.
    fn before(&self, at_ps: u64) -> Option<Known> {
        let saved = self.saved.iter().rfind(|saved| saved.world.boundary_ps() <= at_ps)?;
        Some(Known {
            world: saved.world.clone(),
            epoch: self.epoch,
            read: self.read,
            calls: Vec::new(),
            finished: Vec::new(),
            saved: VecDeque::new(),
            earlier: [saved.calls, saved.finished],
        })
    }

    /// Takes the place of what was handled since a state from which all was handled again.
    fn replace_end(&mut self, past: Known) {
        let [calls, finished] = past.earlier;
        self.world = past.world;
        self.calls.truncate(calls);
        self.calls.extend(past.calls);
        self.finished.truncate(finished);
        self.finished.extend(past.finished);
        self.saved.retain(|saved| saved.finished <= finished);
        past.saved.into_iter().for_each(|saved| self.save(saved));
    }
}

impl Runner {
    /// The world at the beginning of the log.
    fn beginning(&self, journal: &Journal<'_>) -> Known {
        Known {
            world: World::resume(self.network.clone(), journal.ports()),
            epoch: journal.epoch(),
            read: 0,
            calls: Vec::new(),
            finished: Vec::new(),
            saved: VecDeque::new(),
            earlier: [0; 2],
        }
    }

    /// Catches up with the calls that other processes have admitted and handled.
    pub(super) fn catch_up(&mut self, journal: &Journal<'_>) -> Result<Known> {
        let is_of_now = |known: &Known| known.epoch == journal.epoch() && journal.len() > 0;
        let known = self.known.take().filter(is_of_now);
        let mut known = known.unwrap_or_else(|| self.beginning(journal));
        let mut new = Vec::new();
        while known.read < journal.len() {
            let (logged, next) = journal.read(known.read)?;
            new.push(Arc::new(logged));
            known.read = next;
        }
        let first_ps = self.first_ps(new.iter().map(Arc::as_ref))?;
        if first_ps < known.world.boundary_ps() {
            let mut past = self.with_again(journal, &known, &new, first_ps)?;
            while past.advance(journal.handled_ps())?.is_some() {}
            known.replace_end(past);
            return Ok(known);
        }
        for logged in new {
            self.admit(&mut known, logged)?;
        }
        // Even where this world has been there already: calls that were admitted since may have begun before that.
        // BOUND: one turn per member that finishes by that time. The process that handled that time has reported them.
        while known.advance(journal.handled_ps())?.is_some() {}
        Ok(known)
    }

    /// Returns the latest state of which nothing is later than a time, with the calls that were admitted since and new ones.
    fn with_again(
        &mut self,
        journal: &Journal<'_>,
        known: &Known,
        new: &[Arc<Logged>],
        first_ps: u64,
    ) -> Result<Known> {
        let mut past = known.before(first_ps).unwrap_or_else(|| self.beginning(journal));
        for logged in known.calls[past.earlier[0]..].iter().chain(new) {
            self.admit(&mut past, logged.clone())?;
        }
        Ok(past)
    }

    /// Admits new calls: all when they began if that changes no exit that was told, otherwise each of which that holds.
    pub(super) fn admit_new(
        &mut self,
        journal: &Journal<'_>,
        known: Known,
        new: Vec<Logged>,
    ) -> Result<Admitted> {
        let mut admitted = Admitted { known, new: Vec::new(), finished: Vec::new(), late: 0 };
        if self.admit_in_time(journal, &mut admitted, &new)? {
            return Ok(admitted);
        }
        let is_too_much = new.len() > MOST_AGAIN;
        for mut logged in new {
            if !is_too_much && self.admit_in_time(journal, &mut admitted, std::slice::from_ref(&logged))? {
                continue;
            }
            let boundary_ps = admitted.known.world.boundary_ps();
            let least_ps = boundary_ps.saturating_sub(self.launch_ps(&spec_of(&logged)?));
            for member in logged.members.iter_mut().filter(|member| member.entry_ps < least_ps) {
                member.entry_ps = least_ps;
                admitted.late += 1;
            }
            self.admit(&mut admitted.known, Arc::new(logged.clone()))?;
            admitted.new.push(logged);
        }
        Ok(admitted)
    }

    /// Admits calls when they began. Returns false, and has changed nothing, if that would change an exit that was told.
    fn admit_in_time(
        &mut self,
        journal: &Journal<'_>,
        admitted: &mut Admitted,
        calls: &[Logged],
    ) -> Result<bool> {
        let first_ps = self.first_ps(calls.iter())?;
        if first_ps < admitted.known.world.boundary_ps() {
            let past = self.admit_in_the_past(journal, &admitted.known, calls, first_ps)?;
            let Some((past, finished)) = past else { return Ok(false) };
            admitted.known.replace_end(past);
            admitted.finished.extend(finished);
        } else {
            for logged in calls {
                self.admit(&mut admitted.known, Arc::new(logged.clone()))?;
            }
        }
        admitted.new.extend_from_slice(calls);
        Ok(true)
    }

    /// Handles what was handled since `first_ps` once more, with new calls among it. Returns the end of the world, and the members of
    /// new calls that are finished in it; `None` if another exit than one that was told comes out, or that is too much work.
    fn admit_in_the_past(
        &mut self,
        journal: &Journal<'_>,
        known: &Known,
        new: &[Logged],
        first_ps: u64,
    ) -> Result<Option<(Known, Vec<Finished>)>> {
        let earlier = known.finished.partition_point(|end| end.at_ps <= first_ps);
        if known.finished.len() - earlier > MOST_AGAIN || known.world.messages_under_way() > MOST_MESSAGES {
            return Ok(None);
        }
        let new: Vec<Arc<Logged>> = new.iter().cloned().map(Arc::new).collect();
        let mut past = self.with_again(journal, known, &new, first_ps)?;
        let mut told = known.finished[past.earlier[1]..].iter();
        let mut finished = Vec::new();
        // BOUND: one turn per member that finishes by that time.
        while let Some(now) = past.advance(journal.handled_ps())? {
            if now.call as usize >= known.calls.len() {
                finished.push(now);
            } else if told.next().is_none_or(|end| end.member != now) {
                return Ok(None);
            }
        }
        Ok(told.next().is_none().then_some((past, finished)))
    }

    /// Returns the time at which the first member of these calls begins.
    fn first_ps<'a>(&self, calls: impl Iterator<Item = &'a Logged>) -> Result<u64> {
        let mut first_ps = u64::MAX;
        for logged in calls {
            let (_, entries) = self.ends(&spec_of(logged)?, &logged.members);
            first_ps = entries.into_iter().fold(first_ps, u64::min);
        }
        Ok(first_ps)
    }

    fn admit(&mut self, known: &mut Known, logged: Arc<Logged>) -> Result<()> {
        let spec = spec_of(&logged)?;
        let (places, entries) = self.ends(&spec, &logged.members);
        let shared = self.call(&spec, &places)?;
        known.world.admit(&shared, &places, &entries)?;
        known.calls.push(logged);
        Ok(())
    }
}

/// Returns the call of an entry of the log.
pub(super) fn spec_of(logged: &Logged) -> Result<CallSpec> {
    CallSpec::read(logged.spec).ok_or_else(|| Error::internal("the log holds what is no call"))
}

#[cfg(test)]
#[path = "known_tests.rs"]
mod known_tests;
