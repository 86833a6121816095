//! The machine's time as the program's threads know it.
//!
//! ```text
//!     thread     synchronizes with rank 0 at 41 us, with rank 1 at 43 us     queues calls of ranks 0 and 1
//!     knows      41 us                              43 us                    neither begins before 43 us
//! ```
//!
//! A thread that has waited for a rank knows the time at which that was done, and what it asks of another rank of the same machine does
//! not begin before. So one thread may drive many ranks.
//!
//! `penny run --virtual-time` lets the clock that the program reads follow this time. Then what the threads of all processes have seen
//! goes into the clock segment: a machine has one time, and a thread that reads the clock learns what any of them knows. A thread that
//! comes to know a time goes on when the other hosts' segments have it, too: they may learn from it by ways that Penny does not see.

use super::clock_segment::ClockSegment;
use super::host_messages::HostMessage;
use super::hosts::ClockHosts;
use super::participant::Participant;
use super::polls;
use crate::error::{Error, Result};
use crate::sync::lock::Mutex;
use crate::sync::prim::{AtomicBool, AtomicU32, Ordering};
use crate::sys::clock;
use crate::sys::program_clock::{self, ProgramClock};
use crate::types::Rank;
use std::cell::Cell;
use std::sync::{Arc, Weak};

/// A time on the clock of a job's machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The job's number in this process, from 1 on; 0: before any job.
    pub job: u64,
    /// Picoseconds.
    pub ps: u64,
}

impl Moment {
    /// Returns the later of two times. Times of different jobs have nothing to do with each other, unless the program's clock follows
    /// both; the newer job's stands then.
    pub fn later(self, other: Moment) -> Moment {
        if self.job == other.job || is_followed() {
            return Moment { job: self.job.max(other.job), ps: self.ps.max(other.ps) };
        }
        if self.job > other.job { self } else { other }
    }

    /// Returns the earliest time at which a thread that knows this can begin something in a job.
    fn in_job(self, job: u64) -> u64 {
        if self.job == job || is_followed() { self.ps } else { 0 }
    }
}

thread_local! {
    /// What the thread knows.
    static KNOWN: Cell<Moment> = const { Cell::new(Moment { job: 0, ps: 0 }) };
    /// What it has found over without waiting, and would know if it read the clock.
    static FOUND: Cell<Moment> = const { Cell::new(Moment { job: 0, ps: 0 }) };
    /// How it looks at the clock between the calls that it queues.
    static QUEUEING: Cell<Queueing> = const { Cell::new(Queueing { since_look: false, looks: 0, last_ps: 0 }) };
    /// It is no thread of the program, or works for a stream: what it knows is not known to the program.
    static IS_APART: Cell<bool> = const { Cell::new(false) };
}

/// A thread that queues calls and looks at the clock between.
#[derive(Clone, Copy)]
struct Queueing {
    /// It has queued something since its last look.
    since_look: bool,
    /// Looks with something queued before each, between which the clock has not moved by more than such a look.
    looks: u32,
    /// What it read last.
    last_ps: u64,
}

/// Looks between queued calls that do not count as a wait for the clock. A loop that queues calls until a time has come must end.
const LOOKS_BETWEEN_CALLS: u32 = 4096;
/// The most by which a look moves the clock.
const A_LOOK_PS: u64 = 1_000_000;

impl Queueing {
    /// The thread looks at the clock: tells whether it does so between calls that it queues.
    fn look(&mut self, ps: u64) -> bool {
        self.looks = if ps > self.last_ps + A_LOOK_PS { 0 } else { self.looks.saturating_add(1) };
        self.last_ps = ps;
        std::mem::take(&mut self.since_look) && self.looks <= LOOKS_BETWEEN_CALLS
    }
}

/// The program's clock follows the machine's.
static IS_FOLLOWED: AtomicBool = AtomicBool::new(false);
/// Queued work that is not over.
static UNFINISHED: AtomicU32 = AtomicU32::new(0);
/// The clock segments of this process's jobs.
static JOBS: Mutex<Vec<Weak<ClockSegment>>> = Mutex::new(Vec::new());
/// The ranks of this process in jobs that run on several hosts.
static ACROSS_HOSTS: Mutex<Vec<Weak<Participant>>> = Mutex::new(Vec::new());
/// The longest time that is waited for other hosts' clocks: until then one that has ended is noticed.
const PATIENCE_NS: u64 = 5_000_000_000;
/// The time between two looks at them.
const A_LOOK_NS: u64 = 20_000;

fn is_followed() -> bool {
    IS_FOLLOWED.load(Ordering::Relaxed)
}

/// Returns what the calling thread knows.
pub fn known() -> Moment {
    KNOWN.get()
}

/// The calling thread knows from now on that this time has come.
pub fn know(moment: Moment) {
    if moment.ps == 0 || IS_APART.get() {
        return;
    }
    let known = KNOWN.get().later(moment);
    KNOWN.set(known);
    if is_followed() {
        publish(known.ps);
    }
}

/// What the calling thread does for a stream next is done at this time.
pub fn stand_at(moment: Moment) {
    KNOWN.set(moment);
}

/// The calling thread has found something over that was done at this time. It knows the time when it reads the clock.
pub fn find(moment: Moment) {
    if moment.ps > 0 {
        FOUND.set(FOUND.get().later(moment));
    }
}

/// From now on the calling thread works for a stream.
pub fn work_apart() {
    IS_APART.set(true);
}

/// Does work of which the calling thread does not know afterwards when it was over, and which does not begin at what the thread knows.
pub fn apart<T>(work: impl FnOnce() -> T) -> T {
    let before = IS_APART.replace(true);
    let result = work();
    IS_APART.set(before);
    result
}

/// The calling thread queues work: returns what it knows. What it has found over meanwhile it has not looked at.
pub fn queue() -> Moment {
    FOUND.set(Moment::default());
    QUEUEING.set(Queueing { since_look: true, ..QUEUEING.get() });
    KNOWN.get()
}

/// Queued work, until it is dropped.
pub struct Unfinished(());

impl Unfinished {
    /// Work is queued, which is of interest where the program's clock follows the machine's.
    pub fn begin() -> Option<Unfinished> {
        is_followed().then(|| {
            UNFINISHED.fetch_add(1, Ordering::AcqRel);
            Unfinished(())
        })
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        UNFINISHED.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Participant {
    /// Returns a time on this rank's clock as a moment.
    fn moment_at(&self, ps: u64) -> Moment {
        Moment { job: self.process_ranks.number + 1, ps }
    }

    /// The calling thread has come to a time of this rank's clock.
    pub fn know(&self, ps: u64) {
        know(self.moment_at(ps));
    }

    /// Returns this rank's clock as a moment.
    pub fn moment(&self) -> Moment {
        self.moment_at(self.clock_ps())
    }

    /// What the rank does from now on begins at this time or later.
    pub fn begin_after(&self, moment: Moment) {
        let ps = moment.in_job(self.process_ranks.number + 1);
        if ps > 0 {
            self.advance_clock(ps);
        }
    }

    /// Moves the rank's clock on to what the calling thread knows. Returns `at_ps`, at which it is to begin something, if that is later.
    pub fn begin_after_known(&self, at_ps: Option<u64>) -> Option<u64> {
        if IS_APART.get() {
            return at_ps;
        }
        let known = KNOWN.get();
        self.begin_after(known);
        at_ps.map(|at_ps| at_ps.max(known.in_job(self.process_ranks.number + 1)))
    }
}

/// Lets the program's clock follow the machine of a job that this process is of, too, if it follows any.
pub(super) fn attend(clock_segment: &Arc<ClockSegment>) -> Result<()> {
    match program_clock::follow(read, polls::wait_elsewhere) {
        ProgramClock::Real => return Ok(()),
        ProgramClock::Follows => IS_FOLLOWED.store(true, Ordering::Relaxed),
        ProgramClock::Inseparable => {
            return Err(Error::usage(
                "--virtual-time works with libpenny.so, but Penny is linked into this program, where the program's looks at the clock \
                 cannot be told from Penny's own; link the shared library",
            ));
        }
    }
    let mut jobs = JOBS.lock();
    jobs.retain(|job| job.strong_count() > 0);
    jobs.push(Arc::downgrade(clock_segment));
    Ok(())
}

/// Tells all processes of the jobs that a thread knows this time.
fn publish(ps: u64) {
    for job in JOBS.lock().iter().filter_map(Weak::upgrade) {
        job.header().known_ps.fetch_max(ps, Ordering::AcqRel);
    }
    let across: Vec<_> = ACROSS_HOSTS.lock().iter().filter_map(Weak::upgrade).collect();
    across.iter().for_each(|participant| participant.tell_known(ps));
}

impl Participant {
    /// Tells the clocks of programs on other hosts from now on what threads of this process know.
    pub fn share_known(self: &Arc<Participant>) {
        if is_followed() && self.hosts.is_some() {
            let mut across = ACROSS_HOSTS.lock();
            across.retain(|participant| participant.strong_count() > 0);
            across.push(Arc::downgrade(self));
        }
    }

    /// Returns when the programs' clocks of all hosts have reached a time.
    pub(super) fn tell_known(&self, ps: u64) {
        let Some(hosts) = &self.hosts else { return };
        let place = |rank: Rank| self.clock_segment().place(rank);
        if self.has_left() {
            return;
        }
        let is_news = place(hosts.here).known_ps.fetch_max(ps, Ordering::AcqRel) < ps;
        if is_news && self.say(hosts, &HostMessage::Known { host: hosts.here, ps, asks: true }).is_err() {
            return;
        }
        let knows =
            |host: Rank| place(host).known_ps.load(Ordering::Acquire) >= ps || self.have_left(hosts, host);
        let can_come = || self.check().and_then(|()| self.check_engine()).is_ok();
        let until_ns = clock::now_ns() + PATIENCE_NS;
        // BOUND: the patience.
        while !hosts.others().all(knows) && can_come() && clock::now_ns() < until_ns {
            clock::sleep_until(clock::now_ns() + A_LOOK_NS);
        }
    }

    /// A thread of another host knows this time.
    pub(super) fn hear_known(&self, hosts: &ClockHosts, host: Rank, ps: u64, asks: bool) {
        let board = self.clock_segment();
        board.header().known_ps.fetch_max(ps, Ordering::AcqRel);
        for host in [host, hosts.here] {
            board.place(host).known_ps.fetch_max(ps, Ordering::AcqRel);
        }
        if asks {
            let _ = self.say(hosts, &HostMessage::Known { host: hosts.here, ps, asks: false });
        }
    }
}

/// Reads the program's clock.
fn read(at_least_ps: u64) -> (u64, bool) {
    let mut known = KNOWN.get().later(FOUND.get());
    known.ps = known.ps.max(at_least_ps);
    // A function that a stream calls reads the stream's time.
    if !IS_APART.get() {
        polls::come_back();
        for job in JOBS.lock().iter().filter_map(Weak::upgrade) {
            known.ps = known.ps.max(job.header().known_ps.load(Ordering::Acquire));
        }
    }
    // What is told in whole nanoseconds is what calls begin at, or a time between two looks at the clock would be of more than them.
    known.ps = known.ps.next_multiple_of(1000);
    if IS_APART.get() {
        stand_at(known)
    } else {
        know(known)
    }
    let mut queueing = QUEUEING.get();
    let queues = queueing.look(known.ps);
    QUEUEING.set(queueing);
    (known.ps, queues || UNFINISHED.load(Ordering::Acquire) > 0)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn looks_between_queued_calls_cost_nothing_as_long_as_the_loop_can_end() {
        let mut thread = Queueing { since_look: true, looks: 0, last_ps: 0 };
        assert!(thread.look(5) && !thread.look(5), "nothing is queued before the second");
        let mut free = || {
            thread.since_look = true;
            thread.look(5 + A_LOOK_PS)
        };
        let looks = (0..2 * LOOKS_BETWEEN_CALLS).filter(|_| free()).count();
        assert_eq!(looks as u32, LOOKS_BETWEEN_CALLS - 2);
        thread.since_look = true;
        assert!(thread.look(6 + 2 * A_LOOK_PS), "it has waited for something");
    }
}
