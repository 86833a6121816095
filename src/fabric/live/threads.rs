//! Which presence each thread of this process holds at which machine.
//!
//! ```text
//!     thread    first call on the machine       calls           ends
//!     line      taken (or a new one)  PRESENT   INSIDE PRESENT  LEAVING --> the next thread's, or nobody's
//! ```
//!
//! A thread that works for another, as those that Penny starts for a group do, borrows a presence instead ([`Activity`]).

use super::clock_segment::{
    AWAY, BLOCKED, ClockSegment, LEAVING, LENT, NOBODY, PRESENT, THREADS, ThreadLine,
};
use super::participant::Participant;
use super::presence::is_counted;
use super::process_ranks::ProcessRanks;
use crate::error::{Error, Result};
use crate::sync::lock::Mutex;
use crate::sync::prim::{AtomicU32, AtomicU64, Ordering};
use crate::sys::waiting::{self, WaitNote};
use crate::sys::{clock, fork, process};
use crate::types::Rank;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// `ThreadLine::tid` of a presence whose thread waits for threads that borrow others in its place.
pub(super) const PARKED: u32 = u32::MAX;

thread_local! {
    static HELD: RefCell<Held> = const { RefCell::new(Held { own: Vec::new(), borrowed: Vec::new() }) };
}

/// Threads of this process that hold a presence at some machine, or borrow one.
static KNOWN: Mutex<BTreeMap<u32, KnownThread>> = Mutex::new(BTreeMap::new());

/// A thread that has called on a machine.
#[derive(Clone)]
pub(super) struct KnownThread {
    /// What it writes down about its waits.
    pub note: Arc<WaitNote>,
    /// The jobs in which it holds or borrows a presence, by number.
    jobs: Vec<u64>,
    /// Its errands that have not ended.
    errands: u32,
}

impl KnownThread {
    /// Tells whether it has called in a job.
    pub fn is_of(&self, job: u64) -> bool {
        self.jobs.contains(&job)
    }

    /// Tells whether it has an errand, whose activities count until they end.
    pub fn is_on_errand(&self) -> bool {
        self.errands > 0
    }
}

/// From now on the calling thread is known in a job.
fn become_known(job: u64) {
    let note = waiting::own();
    let mut known = KNOWN.lock();
    known
        .entry(process::tid())
        .or_insert_with(|| KnownThread { note, jobs: Vec::new(), errands: 0 })
        .jobs
        .push(job);
}

/// Takes back one [`become_known`].
fn become_strange(job: u64) {
    let (tid, mut known) = (process::tid(), KNOWN.lock());
    let Some(thread) = known.get_mut(&tid) else { return };
    if let Some(at) = thread.jobs.iter().rposition(|&of| of == job) {
        thread.jobs.remove(at);
    }
    if thread.jobs.is_empty() {
        known.remove(&tid);
    }
}

/// An errand of a thread begins or has ended.
fn note_errand(tid: u32, count: impl Fn(u32) -> u32) {
    if let Some(thread) = KNOWN.lock().get_mut(&tid) {
        thread.errands = count(thread.errands);
    }
}

/// Tells whether a thread is a stream's that has nothing to do.
pub(super) fn is_idle(known: &BTreeMap<u32, KnownThread>, tid: u32) -> bool {
    known.get(&tid).is_some_and(|thread| thread.note.is_idle())
}

/// Returns all threads of this process that have called on a machine.
pub(super) fn known() -> BTreeMap<u32, KnownThread> {
    KNOWN.lock().clone()
}

struct Held {
    own: Vec<Own>,
    /// Seat's number and line, the latest last.
    borrowed: Vec<(u64, u32)>,
}

struct Own {
    /// The process whose thread it is: a forked child has no part in its parent's presences.
    generation: u32,
    participant: u64,
    line: u32,
    place: Rank,
    clock_segment: Weak<ClockSegment>,
    process_ranks: Arc<ProcessRanks>,
}

/// Returns a number that no other participant of this process has.
pub(super) fn next_number() -> u64 {
    static SEATS: AtomicU64 = AtomicU64::new(0);
    SEATS.fetch_add(1, Ordering::Relaxed)
}

impl Held {
    fn line(&self, participant: u64) -> Option<u32> {
        let borrowed = self.borrowed.iter().rev().find(|(of, _)| *of == participant).map(|(_, line)| *line);
        borrowed.or_else(|| self.own.iter().find(|own| own.participant == participant).map(|own| own.line))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for own in self.own.iter().filter(|own| own.generation == fork::generation()) {
            if let Some(clock_segment) = own.clock_segment.upgrade() {
                end(&clock_segment, own);
            }
        }
        if !self.own.is_empty() {
            KNOWN.lock().remove(&process::tid());
        }
    }
}

/// The thread ends. Its end may wake others that wait in a join, so these are counted until the kernel has let go of it.
fn end(clock_segment: &ClockSegment, own: &Own) {
    let running = &clock_segment.header().running;
    let lines = own.process_ranks.lines(clock_segment);
    for other in lines.into_iter().filter(|other| other.now() == BLOCKED && is_watched(other)) {
        running.fetch_add(1, Ordering::AcqRel);
        if !other.turns(BLOCKED, PRESENT) {
            // Not the last that runs: this thread does.
            running.fetch_sub(1, Ordering::AcqRel);
        }
    }
    let own = &clock_segment.all_threads(own.place)[own.line as usize];
    own.since_ns.store(clock::now_ns(), Ordering::Relaxed);
    // BOUND: a second turn means that a waiter had just counted it out, or has taken that back.
    while !own.turns(PRESENT, LEAVING) && own.now() == BLOCKED {
        running.fetch_add(1, Ordering::AcqRel);
        if own.turns(BLOCKED, LEAVING) {
            break;
        }
        // Not the last: who took it back has counted it.
        running.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Tells whether a line has a thread about which the kernel can be asked.
pub(super) fn is_watched(line: &ThreadLine) -> bool {
    !matches!(line.tid.load(Ordering::Acquire), 0 | PARKED)
}

/// Tells whether this presence is free or its thread has ended.
fn is_vacant(line: &ThreadLine) -> bool {
    let tid = line.tid.load(Ordering::Acquire);
    match line.now() {
        PRESENT => tid == 0,
        AWAY | LEAVING => tid == 0 || (tid != PARKED && process::has_ended(tid)),
        _ => false,
    }
}

impl Participant {
    /// The calling thread of the program queues a call of this rank on a stream, or makes a group with one.
    pub fn note_caller(&self) {
        self.process_ranks.note_caller(self.place());
    }

    /// Tells whether the calling thread may call for other ranks of the job, too: it has done so, or no thread has; or it calls for this
    /// rank for the first time, and a thread before it has called for both.
    pub fn is_one_of_several(&self) -> bool {
        let (tid, own) = (process::tid(), self.process_ranks.callers(self.place()));
        let may_call_for = |&place: &Rank| {
            if place == self.place() {
                return false;
            }
            let callers = self.process_ranks.callers(place);
            let lines = || {
                self.clock_segment()
                    .threads(place)
                    .iter()
                    .filter(|line| !is_vacant(line) && line.now() != NOBODY)
            };
            let has_called =
                callers.contains(&tid) || lines().any(|line| line.tid.load(Ordering::Acquire) == tid);
            // A stream's thread may have a presence although nobody calls any more.
            let has_nobody = match &callers[..] {
                [] => !lines().any(is_watched),
                callers => callers.iter().all(|&caller| caller == 0),
            };
            let follows = !own.contains(&tid) && callers.iter().any(|caller| own.contains(caller));
            has_called || has_nobody || follows
        };
        self.process_ranks.places().iter().any(may_call_for)
    }

    /// Returns the calling thread's presence here; it gets one if it has none.
    pub(super) fn presence(&self) -> Result<u32> {
        let held = HELD.try_with(|held| held.borrow().line(self.number)).ok().flatten();
        held.map_or_else(|| self.take_presence(), Ok)
    }

    #[cold]
    fn take_presence(&self) -> Result<u32> {
        let tid = process::tid();
        let line = {
            let _desk = self.local_threads.lock();
            let lines = self.clock_segment().threads(self.place()).iter();
            match lines.enumerate().find(|(_, line)| is_vacant(line)) {
                Some((number, line)) => {
                    line.tid.store(tid, Ordering::Release);
                    line.turns(LEAVING, PRESENT);
                    number as u32
                }
                None => self.new_line(tid)?,
            }
        };
        let own = Own {
            generation: fork::generation(),
            participant: self.number,
            line,
            place: self.place(),
            clock_segment: Arc::downgrade(self.shared_board()),
            process_ranks: self.process_ranks.clone(),
        };
        let kept = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            held.own.retain(|own| own.clock_segment.strong_count() > 0);
            held.own.push(own);
        });
        if kept.is_ok() {
            become_known(self.process_ranks.number);
        }
        Ok(line)
    }

    /// Adds a presence that counts as running. The caller holds the lock of the local threads.
    fn new_line(&self, tid: u32) -> Result<u32> {
        let lines = self.clock_segment().all_threads(self.place());
        let number = lines.iter().position(|line| line.now() == NOBODY).ok_or_else(|| {
            Error::usage(format!(
                "more than {THREADS} threads of rank {} have called on the declared machine and not ended; let fewer call",
                self.place()
            ))
        })?;
        let line = &lines[number];
        line.tid.store(tid, Ordering::Relaxed);
        line.since_ns.store(clock::now_ns(), Ordering::Relaxed);
        self.clock_segment().header().running.fetch_add(1, Ordering::AcqRel);
        line.presence.store(PRESENT, Ordering::Release);
        self.clock_segment().place(self.place()).threads_used.fetch_max(number as u32 + 1, Ordering::AcqRel);
        Ok(number as u32)
    }
}

/// Work that several threads do at once for a thread that waits for all of them: each part is an activity with its own
/// presence. The thread may call for several ranks, and goes on with none of them before all parts have ended.
struct Errand {
    /// The presence of the thread that waits at each rank that has a part, and the thread.
    lent: Vec<(Arc<Participant>, u32, u32)>,
    left: AtomicU32,
    /// The thread that waits.
    tid: u32,
}

/// One part of an errand; it ends when it is dropped.
pub struct Activity {
    errand: Arc<Errand>,
    participant: Arc<Participant>,
    line: u32,
}

impl Activity {
    /// Makes one activity for each of these, of which some may be the same, for the calling thread, which waits until all have ended.
    pub fn several(participants: &[&Arc<Participant>]) -> Result<Vec<Activity>> {
        let mut lent: Vec<(Arc<Participant>, u32, u32)> = Vec::new();
        let mut lines = Vec::new();
        let mut begin = || {
            for &participant in participants {
                if !lent.iter().any(|(other, ..)| Arc::ptr_eq(other, participant)) {
                    lent.push((participant.clone(), participant.presence()?, PARKED));
                }
                let _desk = participant.local_threads.lock();
                lines.push(participant.new_line(PARKED)?);
            }
            Ok(())
        };
        if let Err(e) = begin() {
            participants.iter().zip(lines).for_each(|(participant, line)| participant.end_line(line));
            return Err(e);
        }
        for (participant, line, tid) in &mut lent {
            let own = &participant.clock_segment().all_threads(participant.place())[*line as usize];
            *tid = own.tid.swap(PARKED, Ordering::AcqRel);
            participant.go_in(*line, None);
            // A look at this thread from before must not take the line for one that it has counted out.
            own.presence.store(LENT, Ordering::Release);
            participant.rest();
        }
        let tid = process::tid();
        note_errand(tid, |errands| errands + 1);
        let errand = Arc::new(Errand { lent, left: AtomicU32::new(lines.len() as u32), tid });
        let activity = |(&participant, line)| Activity {
            errand: errand.clone(),
            participant: Arc::clone(participant),
            line,
        };
        Ok(participants.iter().zip(lines).map(activity).collect())
    }

    /// Its rank's clock.
    pub fn clock_ps(&self) -> u64 {
        self.participant.clock_ps()
    }

    /// Runs its part on the calling thread.
    pub fn act<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Back(u64);
        impl Drop for Back {
            fn drop(&mut self) {
                let _ = HELD.try_with(|held| held.borrow_mut().borrowed.pop());
                become_strange(self.0);
            }
        }
        let participant = &self.participant;
        let _ = HELD.try_with(|held| held.borrow_mut().borrowed.push((participant.number, self.line)));
        let job = participant.process_ranks.number;
        become_known(job);
        let _back = Back(job);
        work()
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        let Errand { lent, left, tid: waits } = &*self.errand;
        if left.fetch_sub(1, Ordering::AcqRel) == 1 {
            // The thread that waited goes on, and counts before the last activity does not.
            for (participant, line, tid) in lent {
                let own = &participant.clock_segment().all_threads(participant.place())[*line as usize];
                own.since_ns.store(clock::now_ns(), Ordering::Relaxed);
                participant.count_again(own, LENT);
                own.tid.store(*tid, Ordering::Release);
            }
            note_errand(*waits, |errands| errands.saturating_sub(1));
        }
        self.participant.look_at_woken();
        self.participant.end_line(self.line);
    }
}

impl Participant {
    /// Ends a presence that was lent to an activity.
    fn end_line(&self, line: u32) {
        let line = &self.clock_segment().all_threads(self.place())[line as usize];
        if is_counted(line.presence.swap(NOBODY, Ordering::AcqRel)) {
            self.rest();
        }
    }
}
