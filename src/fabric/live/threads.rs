//! Which presence each thread of this process holds at which machine.
//!
//! ```text
//!     thread    first call on the machine       calls           ends
//!     line      taken (or a new one)  PRESENT   INSIDE PRESENT  LEAVING --> the next thread's, or nobody's
//! ```
//!
//! A thread that works for another, as those that Penny starts for a group do, borrows a presence instead ([`Activity`]).

use super::participant::{Participant, lock};
use super::presence::is_counted;
use crate::error::{Error, Result};
use crate::memory::clock_segment::{
    AWAY, BLOCKED, ClockSegment, LEAVING, NOBODY, PRESENT, THREADS, ThreadLine,
};
use crate::sync::prim::{AtomicU32, AtomicU64, Ordering};
use crate::sys::{clock, fork, process};
use crate::types::Rank;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, Weak};

/// `ThreadLine::tid` of a presence whose thread waits for threads that borrow others in its place.
pub(super) const PARKED: u32 = u32::MAX;

thread_local! {
    static HELD: RefCell<Held> = const { RefCell::new(Held { own: Vec::new(), borrowed: Vec::new() }) };
}

/// Threads of this process that hold a presence at some machine.
static KNOWN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

struct Held {
    own: Vec<Own>,
    /// Seat's number and line, the latest last.
    borrowed: Vec<(u64, u32)>,
}

struct Own {
    /// The process whose thread it is: a forked child has no part in its parent's presences.
    generation: u32,
    seat: u64,
    line: u32,
    place: Rank,
    board: Weak<ClockSegment>,
}

/// A number that no other seat of this process has.
pub(super) fn next_number() -> u64 {
    static SEATS: AtomicU64 = AtomicU64::new(0);
    SEATS.fetch_add(1, Ordering::Relaxed)
}

/// Does a thread of this process hold a presence at some machine?
pub(super) fn is_known(tid: u32) -> bool {
    lock(&KNOWN).contains(&tid)
}

impl Held {
    fn line(&self, seat: u64) -> Option<u32> {
        let borrowed = self.borrowed.iter().rev().find(|(of, _)| *of == seat).map(|(_, line)| *line);
        borrowed.or_else(|| self.own.iter().find(|own| own.seat == seat).map(|own| own.line))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for own in self.own.iter().filter(|own| own.generation == fork::generation()) {
            if let Some(board) = own.board.upgrade() {
                end(&board, own.place, own.line);
            }
        }
        if !self.own.is_empty() {
            lock(&KNOWN).remove(&process::tid());
        }
    }
}

/// The thread ends. Its end may wake others that wait in a join, so these are counted until the kernel has let go of it.
fn end(board: &ClockSegment, place: Rank, line: u32) {
    let lines = board.all_threads(place);
    let running = &board.header().running;
    for other in lines.iter().filter(|other| other.now() == BLOCKED && is_watched(other)) {
        running.fetch_add(1, Ordering::AcqRel);
        if !other.turns(BLOCKED, PRESENT) {
            // Not the last that runs: this thread does.
            running.fetch_sub(1, Ordering::AcqRel);
        }
    }
    let own = &lines[line as usize];
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

/// Is there a thread behind a line that the kernel can be asked about?
pub(super) fn is_watched(line: &ThreadLine) -> bool {
    !matches!(line.tid.load(Ordering::Acquire), 0 | PARKED)
}

/// Has nobody taken this presence, or has its thread ended?
fn is_vacant(line: &ThreadLine) -> bool {
    let tid = line.tid.load(Ordering::Acquire);
    match line.now() {
        PRESENT => tid == 0,
        AWAY | LEAVING => tid == 0 || (tid != PARKED && process::has_ended(tid)),
        _ => false,
    }
}

impl Participant {
    /// The calling thread's presence here; it gets one if it has none.
    pub(super) fn presence(&self) -> Result<u32> {
        let held = HELD.try_with(|held| held.borrow().line(self.number)).ok().flatten();
        held.map_or_else(|| self.take_presence(), Ok)
    }

    #[cold]
    fn take_presence(&self) -> Result<u32> {
        let tid = process::tid();
        let line = {
            let _desk = lock(&self.desk);
            let lines = self.board().threads(self.place()).iter();
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
            seat: self.number,
            line,
            place: self.place(),
            board: Arc::downgrade(self.shared_board()),
        };
        let kept = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            held.own.retain(|own| own.board.strong_count() > 0);
            held.own.push(own);
        });
        if kept.is_ok() {
            lock(&KNOWN).insert(tid);
        }
        Ok(line)
    }

    /// One presence more, counted as running. The caller holds the desk.
    fn new_line(&self, tid: u32) -> Result<u32> {
        let lines = self.board().all_threads(self.place());
        let number = lines.iter().position(|line| line.now() == NOBODY).ok_or_else(|| {
            Error::usage(format!(
                "more than {THREADS} threads of rank {} have called on the declared machine and not ended; let fewer call",
                self.place()
            ))
        })?;
        let line = &lines[number];
        line.tid.store(tid, Ordering::Relaxed);
        line.since_ns.store(clock::now_ns(), Ordering::Relaxed);
        self.board().header().running.fetch_add(1, Ordering::AcqRel);
        line.presence.store(PRESENT, Ordering::Release);
        self.board().place(self.place()).threads_used.fetch_max(number as u32 + 1, Ordering::AcqRel);
        Ok(number as u32)
    }
}

/// What threads do at once in the place of one that waits for all of them: each part an activity with a presence of its own.
struct Errand {
    seat: Arc<Participant>,
    /// The presence of the thread that waits, and that thread.
    line: u32,
    tid: u32,
    left: AtomicU32,
}

/// One of them; over when it is dropped.
pub struct Activity {
    errand: Arc<Errand>,
    line: u32,
}

impl Activity {
    /// So many activities of the calling thread, which waits until all of them are over.
    pub fn several(seat: &Arc<Participant>, count: u32) -> Result<Vec<Activity>> {
        let line = seat.presence()?;
        let mut all = Vec::new();
        {
            let _desk = lock(&seat.desk);
            for _ in 0..count {
                match seat.new_line(PARKED) {
                    Ok(line) => all.push(line),
                    Err(e) => {
                        all.into_iter().for_each(|line| seat.end_line(line));
                        return Err(e);
                    }
                }
            }
        }
        let own = &seat.board().all_threads(seat.place())[line as usize];
        let tid = own.tid.swap(PARKED, Ordering::AcqRel);
        seat.go_in(line, None);
        own.presence.store(BLOCKED, Ordering::Release);
        seat.rest();
        let errand = Arc::new(Errand { seat: seat.clone(), line, tid, left: AtomicU32::new(count) });
        Ok(all.into_iter().map(|line| Activity { errand: errand.clone(), line }).collect())
    }

    /// Its rank's clock.
    pub fn clock_ps(&self) -> u64 {
        self.errand.seat.clock_ps()
    }

    /// Do its part on the calling thread.
    pub fn act<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Back;
        impl Drop for Back {
            fn drop(&mut self) {
                let _ = HELD.try_with(|held| held.borrow_mut().borrowed.pop());
            }
        }
        let _ = HELD.try_with(|held| held.borrow_mut().borrowed.push((self.errand.seat.number, self.line)));
        let _back = Back;
        work()
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        let Errand { seat, line, tid, left } = &*self.errand;
        if left.fetch_sub(1, Ordering::AcqRel) == 1 {
            // The thread that waited goes on, and counts before the last activity does not.
            let own = &seat.board().all_threads(seat.place())[*line as usize];
            own.since_ns.store(clock::now_ns(), Ordering::Relaxed);
            seat.count_unblocked(own);
            own.tid.store(*tid, Ordering::Release);
        }
        seat.end_line(self.line);
    }
}

impl Participant {
    /// A presence that was lent to an activity ends.
    fn end_line(&self, line: u32) {
        let line = &self.board().all_threads(self.place())[line as usize];
        if is_counted(line.presence.swap(NOBODY, Ordering::AcqRel)) {
            self.rest();
        }
    }
}
