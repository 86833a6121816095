//! A stream's queue, and going on with its present task, by its worker or by a thread that waits.

use super::failures::Failures;
use super::helping::StreamHelp;
use super::task::{Advance, StreamTask};
use super::turn;
use crate::comm::progress::{self, Awaits, Drivable, drive_until};
use crate::comm::registry::unless_interrupted;
use crate::error::{Error, Result};
use crate::fabric::live::program_time::{Moment, Unfinished};
use crate::sync::biased::{BiasedGuard, BiasedMutex};
use crate::sync::event_count::EventCount;
use crate::sync::listed::Listed;
use crate::sync::lock::{Mutex, MutexGuard};
use crate::sync::prim::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sys::fork;
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Tasks that are queued and not under way.
type Tasks = VecDeque<(StreamTask, Option<Unfinished>)>;

/// The tasks of a stream on which no other thread can queue.
pub(super) type HeldTasks<'a> = BiasedGuard<'a, Tasks>;

/// The task that is under way.
type Present = Option<(StreamTask, Option<Unfinished>)>;

/// A stream: tasks in their order, of which one is under way.
#[repr(align(128))]
pub(super) struct StreamQueue {
    tasks: BiasedMutex<Tasks>,
    /// The task that is under way. Who holds the lock goes on with it.
    present: Mutex<Present>,
    /// It is among the work that threads which wait go on with ([`progress`]).
    listed: Listed,
    /// Only the worker may run the next task: it need not wait whether another thread takes it up.
    pub is_worker_only: AtomicBool,
    /// Whether it has more to do than the thread that waits for it can do.
    pub help: StreamHelp,
    /// A thread that waits for the stream waits inside one of its calls just now.
    pub is_in_place: AtomicBool,
    /// Threads of the program that wait for it now.
    waiting: AtomicU32,
    /// How often other threads have gone on with it.
    pub driven_by_others: AtomicU64,
    /// That number when it was asked for last by [`Drivable::has_gone_on`].
    seen: AtomicU64,
    /// Tasks that have been queued.
    pub queued: EventCount,
    /// Tasks that are over.
    pub done: EventCount,
    /// On a declared machine, the time that it has reached.
    reached: Reached,
    pub failures: Arc<Failures>,
    /// Its end is queued, and nothing can be queued behind that. Changes while streams are queued on.
    pub ended: AtomicBool,
    pub worker: Mutex<Option<JoinHandle<()>>>,
    /// The process that made it: a forked child has no worker.
    pub generation: u32,
}

/// A [`Moment`] that one thread writes at a time.
#[derive(Default)]
struct Reached {
    job: AtomicU64,
    ps: AtomicU64,
}

pub(super) const NOT_LIVE: &str = "stream is not a live stream: it was destroyed already, or never created by pennyStreamCreate; a \
                        call whose stream is NULL is made in the calling thread";

/// How far a thread came with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driven {
    /// All that was queued is over.
    Idle,
    /// Its end has come.
    Ended,
    /// The present task waits for other ranks or streams.
    Pending,
    /// Only the worker may run the present task.
    WorkerOnly,
    /// Another thread holds the present task.
    Busy,
}

impl StreamQueue {
    /// Makes an empty queue.
    pub fn new(generation: u32) -> StreamQueue {
        StreamQueue {
            tasks: BiasedMutex::default(),
            present: Mutex::default(),
            listed: Listed::default(),
            is_worker_only: AtomicBool::new(false),
            help: StreamHelp::default(),
            is_in_place: AtomicBool::new(false),
            waiting: AtomicU32::new(0),
            driven_by_others: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            queued: EventCount::default(),
            done: EventCount::default(),
            reached: Reached::default(),
            failures: Arc::default(),
            ended: AtomicBool::new(false),
            worker: Mutex::default(),
            generation,
        }
    }

    /// Checks that calls may be queued.
    pub fn is_open(&self) -> Result<()> {
        if self.ended.load(Ordering::Relaxed) { Err(Error::argument(NOT_LIVE)) } else { Ok(()) }
    }

    /// Queues a task, if it [is open](Self::is_open).
    pub fn push(self: &Arc<Self>, task: StreamTask) {
        self.push_behind(self.tasks.lock(), task);
    }

    /// Queues a task behind these, which are the stream's own.
    pub fn push_behind(self: &Arc<Self>, mut tasks: HeldTasks<'_>, task: StreamTask) {
        // The end is for the worker alone.
        let is_end = matches!(task, StreamTask::End);
        self.help.queued(&task);
        tasks.push_back((task, Unfinished::begin()));
        self.queued.raise(self.queued.get() + 1);
        drop(tasks);
        if !is_end {
            progress::list(self);
        }
    }

    /// Keeps other threads from queuing, if nothing is queued or under way.
    pub fn hold_idle(&self) -> Option<HeldTasks<'_>> {
        let tasks = self.tasks.try_lock()?;
        let is_free =
            self.is_idle() && !self.ended.load(Ordering::Relaxed) && self.generation == fork::generation();
        is_free.then_some(tasks)
    }

    /// Returns the time of a declared machine that it has reached.
    pub fn reached(&self) -> Moment {
        Moment { job: self.reached.job.load(Ordering::Acquire), ps: self.reached.ps.load(Ordering::Acquire) }
    }

    /// It has reached a time of a declared machine. Called by who goes on with it, or makes calls for it while it is idle.
    pub fn reach(&self, moment: Moment) {
        let reached = self.reached().later(moment);
        self.reached.job.store(reached.job, Ordering::Release);
        self.reached.ps.store(reached.ps, Ordering::Release);
    }

    /// Waits until everything is over that has been queued so far.
    pub fn settle(self: &Arc<Self>) -> Result<()> {
        let queued = self.queued.get();
        let _sleep = progress::note_wait(self, move |stream| stream.done.get() >= queued);
        unless_interrupted(drive_until(Some(&**self), &self.done, queued))
    }

    /// Goes on with what is queued, as far as that can be done without waiting. `in_place_until`: as in [`Drivable::go_on`].
    pub fn drive(&self, in_place_until: u64) -> Driven {
        let Some(present) = self.present.try_lock() else { return Driven::Busy };
        if !turn::is_worker() {
            self.driven_by_others.fetch_add(1, Ordering::Relaxed);
        }
        let in_place = in_place_until > 0;
        let last = if in_place { in_place_until } else { self.queued.get() };
        self.drive_to(present, last, in_place)
    }

    /// Goes on with at most this number of tasks for a thread that is about to queue another. Returns whether they are over.
    pub fn catch_up(&self, tasks: u64) -> Driven {
        let Some(present) = self.present.try_lock() else { return Driven::Busy };
        let last = self.queued.get().min(self.done.get() + tasks);
        let driven = self.drive_to(present, last, false);
        match driven {
            // Its worker need not come for what others do in time; one that only queues does not wait for the rest.
            Driven::Idle => drop(self.driven_by_others.fetch_add(1, Ordering::Relaxed)),
            Driven::WorkerOnly => self.call_worker(),
            _ => {}
        }
        driven
    }

    fn drive_to(&self, mut present: MutexGuard<'_, Present>, last: u64, in_place: bool) -> Driven {
        // BOUND: what is queued now.
        while self.done.get() < last {
            if present.is_none() {
                *present = self.tasks.lock().pop_front();
            }
            let Some((task, _)) = present.as_mut() else { return Driven::Idle };
            if in_place {
                self.is_in_place.store(true, Ordering::Relaxed);
            }
            let before = self.reached();
            let mut reached = before;
            let advance = task.go_on(&self.failures, &mut reached, in_place);
            if reached != before {
                self.reach(reached);
            }
            if in_place {
                self.is_in_place.store(false, Ordering::Relaxed);
            }
            match advance {
                Advance::Pending => return Driven::Pending,
                Advance::WorkerOnly => return Driven::WorkerOnly,
                Advance::Over => {}
            }
            let task = present.take();
            task.iter().for_each(|(task, _)| self.help.done(task));
            // A program that has synchronized with the stream finds the event over, and one that has synchronized with the
            // event finds the stream idle.
            self.done.raise(self.done.get() + 1);
            match task {
                Some((StreamTask::Record(point, _), _)) => point.release(),
                Some((StreamTask::End, _)) => return Driven::Ended,
                _ => {}
            }
        }
        Driven::Idle
    }

    /// Lets the worker take up the present task, which it alone may.
    fn call_worker(&self) {
        if !self.is_worker_only.swap(true, Ordering::AcqRel)
            && let Some(worker) = &*self.worker.lock()
        {
            worker.thread().unpark();
        }
    }
}

impl Drivable for StreamQueue {
    fn go_on(&self, in_place_until: u64) -> bool {
        // A function of the program that asks for the state of a stream is a task of one itself.
        if turn::is_worker() || self.help.is_there() {
            return true;
        }
        let driven = self.drive(in_place_until);
        if driven == Driven::WorkerOnly {
            self.call_worker();
        }
        driven != Driven::Pending
    }

    fn awaits(&self) -> Option<Awaits> {
        match self.present.try_lock() {
            Some(present) => present.as_ref().map(|(task, _)| task.awaits()),
            None => Some(Awaits::Present),
        }
    }

    fn is_idle(&self) -> bool {
        self.done.get() == self.queued.get()
    }

    fn listed(&self) -> &Listed {
        &self.listed
    }

    fn attend(&self, thread: u64) {
        self.help.attend(thread);
    }

    fn waiting(&self) -> &AtomicU32 {
        &self.waiting
    }

    fn has_gone_on(&self) -> bool {
        let now = self.driven_by_others.load(Ordering::Relaxed);
        self.seen.swap(now, Ordering::Relaxed) != now
    }

    fn is_helped(&self) -> bool {
        self.help.is_there()
    }

    fn call_help(&self, thread: u64) -> bool {
        self.help.is_wanted(thread)
            && match &*self.worker.lock() {
                Some(worker) => self.help.call(worker.thread()),
                None => false,
            }
    }
}
