//! Waiting inside a call, and leaving it instead.
//!
//! A call that is made in place waits for what it needs. A call that is polled returns [`Error::pending`] there; it is made
//! again from that place, finds ready what it has found before, and comes back to the same wait.

use super::{Scope, Transport};
use crate::error::{Error, Result};
use crate::sync::prim::Ordering;
use crate::sync::wait::{NAP, Neighbours, Waiter, eagerly};
use crate::sys::interrupt::Interrupted;
use crate::sys::{clock, cpu};
use std::time::Duration;

/// The way in which a call waits: `None` if it waits within the call, else the number of polls that have found nothing ready.
pub type Polls = Option<u32>;

/// Polls in vain between two looks at the watch and the clock.
const POLLS_A_LOOK: u32 = 16;

/// The state of a wait that may be left and taken up again.
#[derive(Clone, Copy)]
pub struct Waiting {
    /// As in [`Scope`].
    pub polls: Polls,
    /// When to give up; 0: not settled yet.
    pub deadline_ns: u64,
}

impl Scope {
    /// The state of a wait of this call.
    pub(super) fn waiting(&self) -> Waiting {
        Waiting { polls: self.polls, deadline_ns: self.deadline_ns }
    }

    /// The call goes on after that wait.
    pub(super) fn go_on(&mut self, waiting: Waiting) {
        (self.polls, self.deadline_ns) = (waiting.polls, waiting.deadline_ns);
    }
}

impl Neighbours for Transport {
    fn are_on_this_core(&self) -> bool {
        self.is_on_this_core(|rank| rank != self.rank)
    }

    fn falls_asleep(&self) {
        self.leave_link_to_attendant();
    }
}

impl Transport {
    /// Tells the other ranks on which core this one runs. Returns what they read; `None`: the system does not say.
    #[inline]
    pub fn tell_core(&self) -> Option<u32> {
        let here = cpu::current()?.checked_add(1)?;
        let told = &self.control.life(self.rank).core;
        if told.load(Ordering::Relaxed) != here {
            told.store(here, Ordering::Relaxed);
        }
        Some(here)
    }

    /// Tells whether one of the ranks that a function chooses was seen on this core last.
    pub fn is_on_this_core(&self, of: impl Fn(u32) -> bool) -> bool {
        let Some(here) = self.tell_core() else { return true };
        (0..self.nranks).any(|r| self.lines(r).life(r).core.load(Ordering::Relaxed) == here && of(r))
    }

    /// Waits for anything, watching all ranks.
    #[inline]
    pub fn wait(&self, scope: &mut Scope, mut ready: impl FnMut() -> bool) -> Result<()> {
        // What a far rank has sent is not there before this rank polls its link.
        if self.far.is_none() && eagerly(&mut ready) {
            return Ok(());
        }
        self.wait_further(scope, ready)
    }

    /// Waits as [`wait`](Self::wait) does, after its first polls.
    pub(super) fn wait_further(&self, scope: &mut Scope, ready: impl FnMut() -> bool) -> Result<()> {
        let (seen, mut waiting) = (*scope, scope.waiting());
        let ended = self.wait_or_leave(&mut waiting, ready, || self.watch(&seen), || self.expired(&seen));
        scope.go_on(waiting);
        ended
    }

    /// Waits with a caller's own watch; or, in a call that is polled, looks once and returns [`Error::pending`].
    #[cold]
    pub fn wait_or_leave(
        &self,
        waiting: &mut Waiting,
        mut ready: impl FnMut() -> bool,
        mut watch: impl FnMut() -> Result<()>,
        expired: impl FnOnce() -> Error,
    ) -> Result<()> {
        if waiting.polls.is_none() && self.far.is_some() {
            return self.wait_polling_far(waiting, ready, watch, expired);
        }
        if waiting.deadline_ns == 0 {
            waiting.deadline_ns = self.deadline();
        }
        let Some(polls) = &mut waiting.polls else {
            return self.wait_watching(waiting.deadline_ns, ready, watch, expired);
        };
        self.poll_far();
        *polls = polls.wrapping_add(1);
        let bad_news = match polls.is_multiple_of(POLLS_A_LOOK) {
            false => None,
            true => watch().err().or_else(|| (clock::now_ns() >= waiting.deadline_ns).then(expired)),
        };
        // What was posted before the bad news still counts.
        if ready() { Ok(()) } else { Err(bad_news.unwrap_or_else(Error::pending)) }
    }

    /// Waits with a caller's own watch.
    #[inline]
    pub fn wait_watching(
        &self,
        deadline_ns: u64,
        mut ready: impl FnMut() -> bool,
        watch: impl FnMut() -> Result<()>,
        expired: impl FnOnce() -> Error,
    ) -> Result<()> {
        let ready = || {
            self.poll_far();
            ready()
        };
        self.waiter(deadline_ns, NAP).until(ready, watch, expired)
    }

    /// Waits where far ranks may be waited for. Mostly that is over before the clock is read.
    #[inline(never)]
    fn wait_polling_far(
        &self,
        waiting: &mut Waiting,
        mut ready: impl FnMut() -> bool,
        watch: impl FnMut() -> Result<()>,
        expired: impl FnOnce() -> Error,
    ) -> Result<()> {
        let mut ready = || {
            self.poll_far();
            ready()
        };
        if self.backoff.spin(&mut ready) {
            return Ok(());
        }
        if waiting.deadline_ns == 0 {
            waiting.deadline_ns = self.deadline();
        }
        self.waiter(waiting.deadline_ns, NAP).until_after_spinning(ready, watch, expired)
    }

    fn waiter(&self, deadline_ns: u64, nap: Duration) -> Waiter<'_> {
        Waiter {
            backoff: &self.backoff,
            doorbell: self.control.doorbell(self.rank),
            sleepers: &self.control.header().sleepers,
            deadline_ns,
            nap,
            neighbours: Some(self),
            time: Some(&self.control.counters(self.rank).waits),
        }
    }

    /// Waits until calls that are polled are over. They watch their ranks and deadlines themselves. `nap`: the longest sleep,
    /// where not all that they wait for rings here.
    pub fn wait_polling(&self, nap: Duration, poll: impl FnMut() -> bool) -> Result<(), Interrupted> {
        self.waiter(u64::MAX, nap).until(poll, || Ok(()), || Interrupted)
    }
}
