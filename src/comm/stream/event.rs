//! Events: points in a stream's work, which anybody may wait for.
//!
//! An event tells the first failure of what its stream ran between the event that was recorded before it there and itself:
//! one after each call tells how that call went. It may be recorded again: who waits meanwhile waits for what it was then.

use super::turn::{refuse_forked, refuse_worker};
use crate::comm::progress::{drive_once, drive_until, note_in_vain, note_over, note_wait};
use crate::comm::recorder;
use crate::comm::registry::unless_interrupted;
use crate::error::{Error, Result};
use crate::fabric::live::program_time::{self, Moment};
use crate::handle::{self, EventKind, Objects, Remembered};
use crate::sync::event_count::EventCount;
use crate::sync::lock::Mutex;
use crate::sys::{clock, fork};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Names an event of this process.
pub type EventHandle = handle::Handle<EventKind>;

/// One recording of an event on a stream, with the outcome of the calls before it.
#[derive(Default)]
pub(super) struct Point {
    /// 1: the stream has come to it.
    passed: EventCount,
    outcome: OnceLock<Outcome>,
}

struct Outcome {
    at_ns: u64,
    /// On a declared machine, the machine's time.
    moment: Moment,
    failure: Option<Error>,
}

impl Point {
    /// Lets those go on that wait for the stream to come here, which it does at this time of a declared machine.
    pub fn pass(&self, moment: Moment, failure: Option<Error>) {
        self.decide(moment, failure);
        self.release();
    }

    /// Says how it went. Threads that wait go on after [`release`](Self::release), which follows at once.
    pub fn decide(&self, moment: Moment, failure: Option<Error>) {
        let _ = self.outcome.set(Outcome { at_ns: clock::now_ns(), moment, failure });
    }

    /// Returns the time of a declared machine at which it was passed.
    pub fn moment(&self) -> Moment {
        self.outcome.get().map_or(Moment::default(), |outcome| outcome.moment)
    }

    /// Lets those go on that wait.
    pub fn release(&self) {
        self.passed.raise(1);
    }

    /// Waits until it is released; it is decided.
    fn reach(&self) {
        self.passed.reach(1);
    }

    /// Waits until streams have come to it.
    pub fn await_passed(self: &Arc<Self>) -> Result<()> {
        let _sleep = note_wait(self, Point::is_passed);
        unless_interrupted(drive_until(None, &self.passed, 1))?;
        program_time::know(self.moment());
        Ok(())
    }

    /// Returns the outcome; an error of code `InProgress` if the stream has not reached the point.
    pub fn outcome(&self) -> Result<()> {
        match self.outcome.get() {
            None => Err(Error::pending()),
            Some(outcome) => outcome.failure.clone().map_or(Ok(()), Err),
        }
    }

    /// Sleeps until streams have come to it, or for `most`. Returns false if they have come already.
    pub fn sleep(&self, most: Duration) -> bool {
        let is_awaited = !self.is_passed();
        if is_awaited {
            self.passed.reach_within(1, most);
        }
        is_awaited
    }

    pub fn is_passed(&self) -> bool {
        self.passed.get() == 1
    }
}

/// An event: its last recording and its outcome (see the head of this file).
pub(super) struct EventState {
    /// The last time that it was to be recorded; `None`: never.
    last: Mutex<Option<Arc<Point>>>,
    /// The process that made it: a forked child has no worker that could come to it.
    generation: u32,
}

thread_local! {
    static LAST: Remembered<EventKind, EventState> = const { handle::nothing_remembered() };
}
static EVENTS: Objects<EventKind, EventState> = Objects::new(&LAST);

impl EventState {
    /// Makes a new point for the next recording.
    pub fn record(&self) -> Arc<Point> {
        self.last.lock().insert(Arc::default()).clone()
    }

    /// Returns the point of the last recording, complete or pending.
    pub fn point(&self) -> Option<Arc<Point>> {
        self.last.lock().clone()
    }
}

pub(super) fn find(event: EventHandle) -> Result<Arc<EventState>> {
    let found = EVENTS.get(event).ok_or_else(|| {
        event.refusal(
            "event",
            format_args!(
                "event is not a live event: it was destroyed already, or never created by pennyEventCreate"
            ),
        )
    })?;
    refuse_forked(found.generation, "event")?;
    Ok(found)
}

/// Makes an event, which counts as over until it is recorded.
pub fn event_create() -> Result<EventHandle> {
    fork::watch();
    let event = EventState { last: Mutex::default(), generation: fork::generation() };
    let made = EVENTS.insert(Arc::new(event));
    made.ok_or_else(|| Error::system("this process has as many events as it can have; destroy some"))
}

/// Gives an event back. Streams that still have to come to it do so without harm.
pub fn event_destroy(event: EventHandle) -> Result<()> {
    find(event)?;
    EVENTS.remove(event);
    Ok(())
}

/// Waits until an event is over; the first failure since the event before it on its stream.
pub fn event_synchronize(event: EventHandle) -> Result<()> {
    let _recorded = recorder::record(|d| d.await_event(event.bits(), 0));
    let Some(point) = find(event)?.point() else { return Ok(()) };
    if point.is_passed() {
        program_time::know(point.moment());
    } else {
        refuse_worker()?;
        point.await_passed()?;
    }
    point.outcome()
}

/// Tests an event without waiting: an error of code `InProgress` if it is not complete.
pub fn event_query(event: EventHandle) -> Result<()> {
    let Some(point) = find(event)?.point() else { return Ok(()) };
    if point.outcome.get().is_none() {
        drive_once();
    }
    let is_over = point.outcome.get().is_some();
    if is_over {
        note_over(&point);
        // BOUND: the stream's thread is between `decide` and `release`; after that the stream does not count it as to come.
        point.reach();
        program_time::find(point.moment());
        let _recorded = recorder::record(|d| d.await_event(event.bits(), 0));
    } else {
        note_in_vain(&point, |point| point.outcome.get().is_some());
    }
    point.outcome()
}

/// Milliseconds between two events that are over: of a declared machine, if the streams' calls were made there, else of this one.
pub fn event_elapsed_ms(start: EventHandle, end: EventHandle) -> Result<f64> {
    let times = |event, name| {
        let never = || Error::usage(format!("event {name} was never recorded"));
        let point = find(event)?.point().ok_or_else(never)?;
        point.outcome.get().map(|outcome| (outcome.at_ns, outcome.moment)).ok_or_else(Error::pending)
    };
    let ((start_ns, start), (end_ns, end)) = (times(start, "start")?, times(end, "end")?);
    let job = start.job.max(end.job);
    if job > 0 && [start.job, end.job].iter().all(|one| [0, job].contains(one)) {
        return Ok((end.ps as f64 - start.ps as f64) / 1e9);
    }
    Ok((end_ns as f64 - start_ns as f64) / 1e6)
}
