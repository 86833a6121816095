//! Presences: which threads the clock of all waits for, and for how long.
//!
//! ```text
//!     PRESENT --call--> INSIDE --over--> PRESENT        counted in `running`; in a call, while it does not wait there
//!     PRESENT --a waiter, after the grace period--> AWAY         the thread that makes the change counts it out
//!     PRESENT --a waiter of its process, by the kernel's word--> BLOCKED          (`bystanders.rs`)
//!     AWAY, BLOCKED --call--> INSIDE                             and its thread, when it calls, in again
//!     INSIDE --its thread lends it--> LENT --the last activity of all ends--> PRESENT         (`threads.rs`)
//!     PRESENT --its thread ends--> LEAVING --the kernel has let go of it--> NOBODY
//! ```
//!
//! A rank waits when all of its presences are in waits, and the engine runs when `running` is 0: when all ranks do. A
//! thread gets its presence with its first call on the machine (`threads.rs`); a rank has at least one, which the first
//! thread that calls takes over.
//!
//! A thread that comes back from being away enters no earlier than what the engine has told others: it is late, and
//! counted as such. As long as no thread stays in its own program for longer than [`GRACE_NS`] while others wait, the
//! outcome does not depend on wall time. A rank that died in its own program is counted out at once, as if it had left; one
//! that died in a call may have left anything half done, so no call on the machine can end any more.

use super::clock_segment::{AWAY, BLOCKED, INSIDE, LEAVING, NOBODY, PRESENT, ThreadLine};
use super::participant::Participant;
use super::threads::{is_idle, known as known_threads};
use crate::error::{Error, Result};
use crate::sync::prim::Ordering;
use crate::sys::clock;
use crate::types::Rank;

/// The default of the longest time that a thread outside of calls may hold the clock while ranks wait.
pub const GRACE_NS: u64 = 2_000_000_000;
/// The interval at which a waiting thread checks which rank holds the clock.
const A_GLANCE_NS: u64 = 20_000_000;

/// Reads `PENNY_FABRIC_GRACE`: seconds, 0 for never. In nanoseconds.
pub(super) fn parse_grace(text: &str) -> Result<u64> {
    let seconds = text.trim().parse::<f64>().ok().filter(|s| (0.0..=1e9).contains(s));
    seconds.map(|s| (s * 1e9).ceil() as u64).ok_or_else(|| {
        Error::argument(format!("PENNY_FABRIC_GRACE is `{text}`; it takes seconds such as 2.5, 0 for never"))
    })
}

/// The watch of a waiting thread over the ranks that hold the clock.
pub(super) struct Watchdog {
    since_ns: u64,
    next_ns: u64,
}

impl Watchdog {
    pub fn new() -> Watchdog {
        let since_ns = clock::now_ns();
        Watchdog { since_ns, next_ns: since_ns + A_GLANCE_NS }
    }
}

/// Tells whether such a presence counts as running unless it waits in a call.
pub(super) fn is_counted(presence: u32) -> bool {
    matches!(presence, PRESENT | LEAVING)
}

impl ThreadLine {
    /// Goes over from one state to another, if that is the state.
    pub(super) fn turns(&self, from: u32, to: u32) -> bool {
        self.presence.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
    pub(super) fn now(&self) -> u32 {
        self.presence.load(Ordering::Acquire)
    }
}

impl Participant {
    /// Enters a call with a thread, at its rank's clock or at `at_ps`. Returns the time.
    pub(super) fn go_in(&self, line: u32, at_ps: Option<u64>) -> u64 {
        let (place, header) = (self.clock_segment().place(self.place()), self.clock_segment().header());
        let line = &self.clock_segment().all_threads(self.place())[line as usize];
        // ORDER: partner of the exchanges that count a presence out: exactly one of both sides sees the other.
        let before = line.presence.swap(INSIDE, Ordering::AcqRel);
        if !is_counted(before) {
            header.running.fetch_add(1, Ordering::AcqRel);
        }
        let reached_ps = if before == AWAY { header.reached_ps.load(Ordering::Acquire) } else { 0 };
        let entry_ps = at_ps.unwrap_or_else(|| self.clock_ps());
        if entry_ps < reached_ps {
            header.late.fetch_add(1, Ordering::AcqRel);
            place.clock_ps.fetch_max(reached_ps, Ordering::AcqRel);
        }
        entry_ps.max(reached_ps)
    }

    /// The calling thread of the program acts: threads of streams that it may give something to do, and that were counted out because it
    /// was away, count again, as late as it is.
    pub fn come_back(&self) {
        let (board, mut known) = (self.clock_segment(), None);
        for &place in self.process_ranks.places().iter() {
            for line in board.threads(place).iter().filter(|line| line.now() == AWAY) {
                let known = known.get_or_insert_with(known_threads);
                let tid = line.tid.load(Ordering::Acquire);
                if is_idle(known, tid) {
                    let reached_ps = board.header().reached_ps.load(Ordering::Acquire);
                    board.place(place).clock_ps.fetch_max(reached_ps, Ordering::AcqRel);
                    line.since_ns.store(clock::now_ns(), Ordering::Relaxed);
                    self.count_again(line, AWAY);
                }
            }
        }
    }

    /// Its call is over. By now it is counted as running again.
    pub(super) fn go_out(&self, line: u32) {
        let line = &self.clock_segment().all_threads(self.place())[line as usize];
        line.since_ns.store(clock::now_ns(), Ordering::Relaxed);
        line.presence.store(PRESENT, Ordering::Release);
        self.look_soon();
    }

    /// Leaves the machine for good. What other hosts have to know of it is told when this returns.
    pub fn depart(&self) {
        if let Some(hosts) = &self.hosts {
            hosts.inbox.lock().is_closed = true;
        }
        if self.clock_segment().place(self.place()).left.swap(1, Ordering::AcqRel) == 0 {
            // Even where nobody was counted: that it will not come back may leave the others without hope.
            let counted = self.dismiss(self.place());
            self.process_ranks.leave(self.place());
            self.rest_of(counted);
        }
    }

    /// Ends all presences of a rank that has left or died; tells how many were counted.
    fn dismiss(&self, place: Rank) -> u32 {
        let lines = self.clock_segment().threads(place).iter();
        lines.map(|line| is_counted(line.presence.swap(NOBODY, Ordering::AcqRel)) as u32).sum()
    }

    /// Watches, during a wait, for ranks that hold the clock and will not release it.
    pub(super) fn look_out(&self, watchdog: &mut Watchdog) {
        self.watch_own();
        let now_ns = clock::now_ns();
        if now_ns < watchdog.next_ns {
            return;
        }
        watchdog.next_ns = now_ns + A_GLANCE_NS;
        self.look_for_deaths();
        self.count_out_stragglers(watchdog.since_ns);
    }

    /// Counts threads out that have been in their own programs for longer than the grace period, all of it after `wait_ns`.
    pub(super) fn count_out_stragglers(&self, wait_ns: u64) {
        if self.machine().grace_ns == 0 {
            return;
        }
        let now_ns = clock::now_ns();
        for place in 0..self.clock_segment().places() {
            let line = self.clock_segment().place(place);
            if line.left.load(Ordering::Acquire) == 0 && !line.died() {
                for thread in self.clock_segment().threads(place) {
                    let since_ns = thread.since_ns.load(Ordering::Relaxed).max(wait_ns);
                    if now_ns.saturating_sub(since_ns) > self.machine().grace_ns
                        && (thread.turns(PRESENT, AWAY) || thread.turns(LEAVING, AWAY))
                    {
                        self.rest();
                    }
                }
            }
        }
    }

    /// Looks for ranks that have died; fails if the clock cannot go on without one.
    pub fn check_deaths(&self) -> Result<()> {
        self.look_for_deaths();
        self.check()
    }

    /// Counts ranks out that have died in their own programs. For one that died in a call, ends all calls on the machine.
    fn look_for_deaths(&self) {
        let runner = self.clock_segment().header().runner.load(Ordering::Acquire);
        for place in 0..self.clock_segment().places() {
            let line = self.clock_segment().place(place);
            if line.left.load(Ordering::Acquire) != 0 || !line.died() {
                continue;
            }
            let in_call = || self.clock_segment().threads(place).iter().any(|thread| thread.now() == INSIDE);
            if in_call() || runner == place + 1 {
                self.halt(&self.death(self.first_dead(place)));
            } else if line.left.swap(1, Ordering::AcqRel) == 0 {
                // Even where nobody was counted: that the rank will not come back may leave the others without hope.
                self.rest_of(self.dismiss(place));
            }
        }
    }

    /// Counts a presence as running again, because its thread may have continued.
    pub(super) fn count_unblocked(&self, line: &ThreadLine) {
        self.count_again(line, BLOCKED);
    }

    /// Counts a presence as running again that was in this state.
    pub(super) fn count_again(&self, line: &ThreadLine, state: u32) {
        self.clock_segment().header().running.fetch_add(1, Ordering::AcqRel);
        if !line.turns(state, PRESENT) {
            // It has counted itself in.
            self.rest();
        }
    }

    /// Records the rank whose death made a communicator of this one fail; with `None`, that it has a new communicator.
    pub fn fail_for(&self, dead: Option<Rank>) {
        let word = dead.map_or(0, |place| place + 1);
        self.clock_segment().place(self.place()).fails_for.store(word, Ordering::Release);
    }

    /// Returns the rank whose death was first, if one that died had failed because of another's.
    pub(super) fn first_dead(&self, mut place: Rank) -> Rank {
        for _ in 0..self.clock_segment().places() {
            match self.clock_segment().place(place).fails_for.load(Ordering::Acquire).checked_sub(1) {
                Some(earlier) if earlier < self.clock_segment().places() => place = earlier,
                _ => break,
            }
        }
        place
    }

    /// Makes the error that all ranks get about a rank that died.
    pub(super) fn death(&self, place: Rank) -> Error {
        Error::remote(format!(
            "rank {place} (pid {}) died, and the clock of the declared machine cannot go on without it; abort the \
             communicators on it and make new ones among the survivors",
            self.clock_segment().place(place).pid.load(Ordering::Relaxed)
        ))
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        self.depart();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grace_period_is_a_number_of_seconds() {
        assert_eq!(parse_grace("2").unwrap(), GRACE_NS);
        assert_eq!(parse_grace("0").unwrap(), 0);
        assert_eq!(parse_grace("0.25").unwrap(), 250_000_000);
        for wrong in ["", "-1", "soon", "2s", "inf", "NaN"] {
            let sentence = parse_grace(wrong).unwrap_err().message.clone();
            assert!(sentence.contains("PENNY_FABRIC_GRACE") && sentence.contains("seconds"), "{sentence}");
        }
    }
}
