//! Events: points in a stream's work, which anybody may wait for.
//!
//! An event tells the first failure of what its stream ran between the event that was recorded before it there and itself:
//! one after each call tells how that call went.

use super::super::registry::Handle;
use super::super::table::{Remembered, Table};
use super::{in_progress, lock, refuse_worker};
use crate::error::{Error, Result};
use crate::sync::count::Count;
use crate::sync::prim::{AtomicU64, Ordering};
use crate::sys::clock;
use std::cell::RefCell;
use std::sync::{Arc, Mutex};

/// Names an event of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHandle(pub Handle);

/// See the head of this file. It may be recorded again and again: only the last time counts.
#[derive(Default)]
pub(super) struct Event {
    /// How often it was to be recorded.
    announced: AtomicU64,
    /// The last time that it was.
    completed: Count,
    outcome: Mutex<Outcome>,
}

#[derive(Default)]
struct Outcome {
    number: u64,
    at_ns: u64,
    failure: Option<Error>,
}

thread_local! {
    static LAST: Remembered<Event> = const { RefCell::new(None) };
}
static EVENTS: Table<Event> = Table::new(&LAST);

impl Event {
    /// It is going to be recorded; which time this is.
    pub fn announce(&self) -> u64 {
        self.announced.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The last time that it was to be recorded. 0: never.
    pub fn announced(&self) -> u64 {
        self.announced.load(Ordering::Relaxed)
    }

    /// Its stream has come to it.
    pub fn complete(&self, number: u64, failure: Option<Error>) {
        let mut outcome = lock(&self.outcome);
        // Recorded on two streams, it may be overtaken by its later self.
        if number > outcome.number {
            *outcome = Outcome { number, at_ns: clock::now_ns(), failure };
            self.completed.raise(number);
        }
    }

    /// Wait until it has been recorded for this time.
    pub fn reach(&self, number: u64) {
        self.completed.reach(number);
    }

    /// How it went.
    pub fn outcome(&self) -> Result<()> {
        lock(&self.outcome).failure.clone().map_or(Ok(()), Err)
    }

    fn is_completed(&self) -> bool {
        self.completed.get() >= self.announced()
    }

    fn at_ns(&self, name: &str) -> Result<u64> {
        match self.announced() {
            0 => Err(Error::usage(format!("event {name} was never recorded"))),
            _ if !self.is_completed() => Err(in_progress()),
            _ => Ok(lock(&self.outcome).at_ns),
        }
    }
}

pub(super) fn find(event: EventHandle) -> Result<Arc<Event>> {
    EVENTS.get(event.0).ok_or_else(|| {
        Error::argument(
            "event is not a live event: it was destroyed already, or never created by pennyEventCreate",
        )
    })
}

/// Make an event, which counts as over until it is recorded.
pub fn event_create() -> Result<EventHandle> {
    let made = EVENTS.insert(Arc::default()).map(EventHandle);
    made.ok_or_else(|| Error::system("this process has as many events as it can have; destroy some"))
}

/// Give an event back. Streams that still have to come to it do so without harm.
pub fn event_destroy(event: EventHandle) -> Result<()> {
    find(event)?;
    EVENTS.remove(event.0);
    Ok(())
}

/// Wait until an event is over; the first failure since the event before it on its stream.
pub fn event_synchronize(event: EventHandle) -> Result<()> {
    let event = find(event)?;
    if !event.is_completed() {
        refuse_worker()?;
        event.reach(event.announced());
    }
    event.outcome()
}

/// The same without waiting: an error of code `InProgress` where it is not over.
pub fn event_query(event: EventHandle) -> Result<()> {
    let event = find(event)?;
    if !event.is_completed() {
        return Err(in_progress());
    }
    event.outcome()
}

/// Milliseconds of this machine's clock between two events that are over.
pub fn event_elapsed_ms(start: EventHandle, end: EventHandle) -> Result<f64> {
    let (start, end) = (find(start)?.at_ns("start")?, find(end)?.at_ns("end")?);
    Ok((end as f64 - start as f64) / 1e6)
}
