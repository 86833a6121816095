//! The tasks in a stream's queue, and what each does.

use super::event::Point;
use super::failures::Failures;
use super::turn;
use crate::comm::group::batch::{Batch, HEAVY};
use crate::comm::group::polled::PolledBatch;
use crate::comm::progress::Awaits;
use crate::comm::registry::{self, Entry};
use crate::comm::shared::CommShared;
use crate::error::{Error, Result};
use crate::fabric::live::program_time::{self, Moment};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A task in a stream's queue.
pub(super) enum StreamTask {
    /// Make calls when their turns on their communicators have come.
    Calls(Calls),
    /// An event is recorded: it tells how it went so far. The time at which it was queued.
    Record(Arc<Point>, Moment),
    /// A point that only the first stream of a group waits for; the group's communicators on this one, and what the thread knew that
    /// queued it.
    Pass(Arc<Point>, Timed, Moment),
    /// Wait for what another stream does.
    Await(Arc<Point>, Awaited),
    /// Call a function of the program; taken out when it is called.
    Call(Option<Box<dyn FnOnce() + Send>>),
    /// The last task of a stream.
    End,
}

/// What a stream waits for.
pub(super) enum Awaited {
    /// An event: on a declared machine the stream has come to its time then.
    Event,
    /// Other streams of a group, whose times are their own.
    Streams,
    /// The calls of a group, of which these are made for this stream.
    Group(Timed),
}

/// The communicators of a stream's share in calls that take a declared machine's time; otherwise none.
#[derive(Default)]
pub(super) struct Timed(Vec<Arc<CommShared>>);

impl Timed {
    /// Takes those that stand on a declared machine.
    pub fn of(comms: impl Iterator<Item = Arc<CommShared>>) -> Timed {
        Timed(comms.filter(|comm| comm.timing.is_declared()).collect())
    }

    /// Their ranks begin what comes at this time or later.
    pub fn begin_after(&self, moment: Moment) {
        self.0.iter().for_each(|comm| comm.timing.begin_after(moment));
    }

    /// Returns the time to which their ranks have come.
    pub fn moment(&self) -> Moment {
        self.0.iter().fold(Moment::default(), |moment, comm| moment.later(comm.timing.moment()))
    }
}

/// Calls and what they have to do with others.
pub(super) struct Calls {
    work: Work,
    name: &'static str,
    /// Its turn on each communicator.
    turns: Vec<(u64, Arc<CommShared>)>,
    /// The failures of the group's other streams.
    others: Vec<Arc<Failures>>,
    /// The point that reports the completion and the outcome of the calls to these streams and to waiting threads.
    over: Option<Arc<Point>>,
    /// They take a declared machine's time.
    is_timed: bool,
    /// The communicators among them that are of this stream.
    timed: Timed,
    /// What the thread knew that queued them: they begin no earlier.
    queued: Moment,
    /// As in [`Calls::bytes`].
    bytes: usize,
}

enum Work {
    /// Not begun.
    Batch(Batch),
    /// Polled.
    UnderWay(PolledBatch),
    Over,
}

/// What came of going on with a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advance {
    /// It is over.
    Over,
    /// It waits for other ranks or streams.
    Pending,
    /// It waits for the stream's worker, which alone may do it.
    WorkerOnly,
}

impl StreamTask {
    /// Goes on with the task, without waiting. Functions of the program are called by the stream's own thread, as are calls
    /// that take a declared machine's time; those wait.
    pub fn go_on(&mut self, failures: &Failures, reached: &mut Moment, in_place: bool) -> Advance {
        match self {
            StreamTask::Calls(calls) => return calls.go_on(failures, reached, in_place),
            StreamTask::Record(point, queued) => {
                *reached = reached.later(*queued);
                point.decide(*reached, failures.unrecorded());
            }
            StreamTask::Pass(point, timed, queued) => {
                timed.begin_after(reached.later(*queued));
                point.pass(Moment::default(), None);
            }
            StreamTask::Await(point, _) if !point.is_passed() => return Advance::Pending,
            StreamTask::Await(_, Awaited::Streams) => {}
            StreamTask::Await(point, Awaited::Event) => *reached = reached.later(point.moment()),
            StreamTask::Await(_, Awaited::Group(timed)) => *reached = reached.later(timed.moment()),
            StreamTask::Call(_) | StreamTask::End if !turn::is_worker() => return Advance::WorkerOnly,
            StreamTask::Call(function) => {
                let Some(function) = function.take() else { return Advance::Over };
                program_time::stand_at(*reached);
                if catch_unwind(AssertUnwindSafe(function)).is_err() {
                    failures.add(&Error::internal("a function that a stream has called panicked"));
                }
            }
            StreamTask::End => {}
        }
        Advance::Over
    }

    /// Returns what to wait for before the task can go on.
    pub fn awaits(&self) -> Awaits {
        match self {
            StreamTask::Calls(Calls { work: Work::UnderWay(batch), .. }) => {
                let bell = batch.bell().map(|(transport, nap)| Awaits::Ranks(transport, nap));
                bell.unwrap_or_else(Awaits::a_thread)
            }
            StreamTask::Calls(Calls { turns, .. }) => {
                match turns.iter().find(|(turn, comm)| !comm.turns.has_come(*turn)).cloned() {
                    Some((turn, comm)) => Awaits::Threads(Box::new(move |most| comm.turns.sleep(turn, most))),
                    None => Awaits::a_thread(),
                }
            }
            StreamTask::Await(point, _) => {
                let point = point.clone();
                Awaits::Threads(Box::new(move |most| point.sleep(most)))
            }
            _ => Awaits::a_thread(),
        }
    }
}

impl Calls {
    pub fn new(
        batch: Batch,
        turns: Vec<(u64, Arc<CommShared>)>,
        others: Vec<Arc<Failures>>,
        over: Option<Arc<Point>>,
        timed: Timed,
    ) -> Calls {
        let is_timed = turns.iter().any(|(_, comm)| comm.timing.is_declared());
        let bytes = batch.bytes();
        let (name, work, queued) = (batch.name(), Work::Batch(batch), program_time::queue());
        Calls { name, work, turns, others, over, is_timed, timed, queued, bytes }
    }

    /// Calls on no declared machine, whose turns have come. `bytes`: of the longest block; 0: they are small.
    pub fn begun(
        name: &'static str,
        batch: PolledBatch,
        turns: Vec<(u64, Arc<CommShared>)>,
        bytes: usize,
    ) -> Calls {
        let (work, others) = (Work::UnderWay(batch), Vec::new());
        let (timed, queued) = (Timed::default(), Moment::default());
        Calls { name, work, turns, others, over: None, is_timed: false, timed, queued, bytes }
    }

    /// Returns the bytes of the longest block; 0 of small calls that have begun.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Tells how many threads of this process may be at work on its communicator's ranks; `None`: the calls are small.
    pub fn threads_for_heavy(&self) -> Option<u32> {
        // They move much ([`helping`](super::helping)).
        let (_, comm) = self.turns.first().filter(|_| self.bytes >= HEAVY)?;
        Some(comm.transport.cores_here())
    }

    pub fn go_on(&mut self, failures: &Failures, reached: &mut Moment, in_place: bool) -> Advance {
        // Once they have begun, each communicator looks after itself.
        let has_begun = !matches!(self.work, Work::Batch(_));
        if !has_begun && !self.turns.iter().all(|(turn, comm)| comm.turns.has_come(*turn)) {
            return Advance::Pending;
        }
        let comms = self.turns.iter().map(|(_, comm)| comm);
        if self.is_timed && turn::is_worker() {
            self.timed.begin_after(reached.later(self.queued));
        }
        let ended = match catch_unwind(AssertUnwindSafe(|| self.work.go_on(self.is_timed, in_place))) {
            Ok(Err(step)) => return step,
            Ok(Ok(ended)) => ended.map_err(|error| tell(self.name, error, comms)),
            Err(panic) => {
                let defect = defect(&*panic, comms.clone());
                // Lets the communicators go that the panic was not in.
                self.work = Work::Over;
                Err(tell(self.name, defect, self.turns.iter().map(|(_, comm)| comm)))
            }
        };
        self.end(failures, reached, ended)
    }

    fn end(&mut self, failures: &Failures, reached: &mut Moment, ended: Result<()>) -> Advance {
        // Before the next turn comes.
        self.work = Work::Over;
        *reached = reached.later(self.timed.moment());
        if let Err(error) = &ended {
            failures.add(error);
            self.others.iter().for_each(|other| other.add(error));
        }
        self.turns.iter().for_each(|(turn, comm)| comm.turns.end(*turn));
        if let Some(over) = &self.over {
            over.pass(*reached, ended.err());
        }
        Advance::Over
    }
}

impl Work {
    /// Goes on with calls whose turn has come: how they ended, or that they have not. `in_place`: one that is alone may wait.
    fn go_on(&mut self, timed: bool, in_place: bool) -> Result<Result<()>, Advance> {
        if let Work::Batch(batch) = self {
            if timed && !turn::is_worker() {
                return Err(Advance::WorkerOnly);
            }
            if in_place && let Some(ended) = batch.run_alone(Entry::Turn) {
                return Ok(ended);
            }
            let Work::Batch(batch) = std::mem::replace(self, Work::Over) else { return Ok(Ok(())) };
            if timed {
                return Ok(batch.run(Entry::Turn));
            }
            *self = Work::UnderWay(batch.polled(Entry::Turn));
        }
        match self {
            Work::UnderWay(batch) => {
                if batch.poll() {
                    Ok(batch.ended())
                } else {
                    Err(Advance::Pending)
                }
            }
            Work::Batch(_) | Work::Over => Ok(Err(Error::internal("a stream's calls were lost"))),
        }
    }
}

/// Makes calls at once for streams, and tells their communicators if they fail.
pub(super) fn run(batch: Batch, comms: &[Arc<CommShared>]) -> Result<()> {
    let name = batch.name();
    let ended = program_time::apart(|| catch_unwind(AssertUnwindSafe(|| batch.run(Entry::Caller))));
    let ended = ended.unwrap_or_else(|panic| Err(defect(&*panic, comms.iter())));
    ended.map_err(|error| tell(name, error, comms.iter()))
}

/// Tells the communicators of calls that they failed, and returns the error as the stream has it.
pub(super) fn tell<'a>(name: &str, error: Error, comms: impl Iterator<Item = &'a Arc<CommShared>>) -> Error {
    let error = on_stream(name, error);
    comms.for_each(|comm| comm.turns.failed(&error));
    error
}

fn on_stream(name: &str, error: Error) -> Error {
    error.with_message(format!("{name} on a stream: {}", error.message))
}

/// Breaks the communicators of a call that has panicked.
fn defect<'a>(panic: &(dyn Any + Send), comms: impl Iterator<Item = &'a Arc<CommShared>>) -> Error {
    let error = Error::panicked(panic);
    comms.into_iter().for_each(|comm| registry::poison(comm.handle, &error.message));
    error
}
