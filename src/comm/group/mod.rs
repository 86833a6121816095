//! Groups of calls: queued on this thread between start and end, then run together (`batch.rs`), here or on a stream; or recorded
//! (`recording.rs`).

use super::join::pending::{self, Joining};
use super::recorder;
use super::registry::{CommHandle, Entry};
use super::stream::{self, Placed, StreamHandle};
use crate::bootstrap::UniqueId;
use crate::error::{Error, Result};
use crate::sync::prim::{AtomicBool, Ordering};
use at_end::AtEnd;
use batch::{Batch, Queued};
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;

#[derive(Default)]
struct Group {
    depth: u32,
    /// Inner groups that have ended.
    inner: u32,
    promised: Promised,
    queue: Vec<Placed>,
    failure: Option<Error>,
    /// Its calls are recorded, not made.
    recording: Option<Box<Recorder>>,
}

/// What a group does before its calls.
#[derive(Default)]
struct Promised {
    joining: Vec<Joining>,
    at_end: Vec<AtEnd>,
}

impl Promised {
    fn is_empty(&self) -> bool {
        self.joining.is_empty() && self.at_end.is_empty()
    }
    /// Does it. Returns whether some communicators join in the background.
    fn keep(self) -> Result<bool> {
        if self.is_empty() {
            return Ok(false);
        }
        let joined = pending::join_or_begin(self.joining);
        if joined.is_err() {
            self.at_end.iter().for_each(AtEnd::give_up);
        }
        let in_background = joined?;
        at_end::act(self.at_end)?;
        Ok(in_background)
    }
    /// Nothing of it is made.
    fn give_up(&self, why: &Error) {
        self.joining.iter().for_each(|joining| joining.give_up(why));
        self.at_end.iter().for_each(AtEnd::give_up);
    }
}

/// What a group that records has beside its calls.
struct Recorder {
    /// The group that was open when the recording began.
    outer: Group,
    /// Its calls belong to a group of the program.
    grouped: bool,
}

thread_local! {
    /// Never dropped: a group may be opened by destructors of the program's objects, which may run after those of this thread's own. A
    /// group that has ended keeps no memory.
    static GROUP: ManuallyDrop<RefCell<Group>> = ManuallyDrop::default();
}

/// The most calls for which a thread keeps memory between two groups.
const KEPT: usize = 16;

thread_local! {
    /// The empty list of the group that ended last.
    static EMPTY: Cell<Vec<Placed>> = const { Cell::new(Vec::new()) };
}

/// Keeps an empty list for the thread's next group.
fn keep_empty(queue: Vec<Placed>) {
    if (1..=KEPT).contains(&queue.capacity()) {
        let _ = EMPTY.try_with(|empty| empty.set(queue));
    }
}

/// Does something with the group of this thread.
fn with<T>(act: impl FnOnce(&mut Group) -> T) -> T {
    GROUP.with(|group| act(&mut group.borrow_mut()))
}

/// A group has been opened in this process: before that no call needs to look at its thread's own. Threads that open groups all the time
/// only read it.
static ANY_OPENED: AtomicBool = AtomicBool::new(false);

/// Tells whether a group is open on this thread.
#[inline]
pub(super) fn is_open() -> bool {
    ANY_OPENED.load(Ordering::Relaxed) && is_open_here()
}

fn is_open_here() -> bool {
    with(|g| g.depth > 0)
}

/// From now on calls look at their thread's group.
fn note_first() {
    if !ANY_OPENED.load(Ordering::Relaxed) {
        ANY_OPENED.store(true, Ordering::Relaxed);
    }
}

pub(super) fn start() -> Result<()> {
    with(|g| {
        g.depth += 1;
        g.recording.iter_mut().for_each(|recorder| recorder.grouped = true);
    });
    note_first();
    Ok(())
}

pub(super) fn fail(error: &Error) {
    with(|g| {
        if g.depth > 0 {
            g.failure.get_or_insert_with(|| error.clone());
        }
    });
}

/// Joins at the end of the group: several ranks of one thread can only join together.
pub(super) fn add_joining(joining: Joining) -> Option<CommHandle> {
    let handle = joining.handle();
    with(|g| g.promised.joining.push(joining));
    handle
}

/// Does something with all ranks of a communicator at the end of the group.
fn add_at_end(what: AtEnd) {
    with(|g| g.promised.at_end.push(what));
}

/// Makes a call at the end of the group, on a stream if one is given.
pub(super) fn add(mut queued: Queued, stream: Option<StreamHandle>) -> Result<()> {
    stream.map_or(Ok(()), stream::check)?;
    with(|g| {
        if g.recording.is_some() && stream.is_some() {
            return Err(Error::usage(
                "stream is not NULL, and the call is recorded; pass NULL here, and the stream to pennyRecordingLaunch",
            ));
        }
        if let Queued::Transfer(.., inner) = &mut queued {
            *inner = g.inner;
        }
        if g.queue.capacity() == 0 {
            g.queue = EMPTY.try_with(Cell::take).unwrap_or_default();
        }
        g.queue.push((queued, stream));
        Ok(())
    })
}

/// Refuses to end a communicator that has calls in this thread's open group, which would find it gone.
pub(super) fn refuse_queued(comm: CommHandle) -> Result<()> {
    match is_open() && with(|g| g.queue.iter().any(|(queued, _)| queued.comm() == comm)) {
        true => Err(Error::usage(
            "comm has calls in this thread's open group, which are made when it is closed; close it with pennyGroupEnd before",
        )),
        false => Ok(()),
    }
}

/// Closes the group and runs it, if it is the outermost. [`Error::pending`]: some of its communicators join in the background.
pub(super) fn end() -> Result<()> {
    let (promised, mut queue) = close()?;
    let in_background = promised.keep()?;
    let ended = if in_background { Err(Error::pending()) } else { Ok(()) };
    if queue.is_empty() {
        return ended;
    }
    let _recorded = recorder::record(|description| {
        queue.iter().for_each(|(call, on)| call.describe(description, on.map_or(0, StreamHandle::bits)));
    });
    if let Some(made) = one_rank::make(&queue) {
        queue.clear();
        keep_empty(queue);
        return made.and(ended);
    }
    stream::make_group_at_once(&mut queue);
    if queue.is_empty() {
        keep_empty(queue);
        return ended;
    }
    let (calls, streams): (Vec<_>, Vec<_>) = queue.into_iter().unzip();
    let batch = Batch { calls, grouped: true };
    match streams.iter().all(Option::is_none) {
        true => batch.run(Entry::Caller)?,
        false => stream::queue(batch, &streams)?,
    }
    ended
}

/// Closes the group; tells what the outermost would take, instead of running it.
pub(super) fn simulate_end() -> Result<u64> {
    let (promised, queue) = close()?;
    if !promised.is_empty() {
        let e = Error::usage(
            "a group that makes communicators or windows, or suspends or resumes a communicator, cannot be simulated; close it with pennyGroupEnd",
        );
        promised.give_up(&e);
        return Err(e);
    }
    batch::estimate(queue.into_iter().map(|(call, _)| call).collect())
}

/// Ends the innermost group; of the outermost, returns its contents.
fn close() -> Result<(Promised, Vec<Placed>)> {
    let (promised, queue, failure) = with(|g| {
        if g.depth == 0 {
            return Err(Error::usage("no group is open on this thread; pennyGroupStart comes first"));
        }
        if g.depth == 1 && g.recording.is_some() {
            return Err(Error::usage("the innermost group is a recording; close it with pennyRecordEnd"));
        }
        g.depth -= 1;
        if g.depth > 0 {
            g.inner += 1;
            return Ok((Promised::default(), Vec::new(), None));
        }
        g.inner = 0;
        Ok((std::mem::take(&mut g.promised), std::mem::take(&mut g.queue), g.failure.take()))
    })?;
    if let Some(e) = failure {
        let e = Error::new(e.code, format!("a call of the group failed, so none of it was run: {e}"));
        promised.give_up(&e);
        return Err(e);
    }
    Ok((promised, queue))
}

/// An id is all zeros before `pennyGetUniqueId` has filled it.
pub(super) fn is_blank(id: &UniqueId) -> bool {
    id.0.iter().all(|&b| b == 0)
}
pub(in crate::comm) mod at_end;
pub(in crate::comm) mod batch;
pub(in crate::comm) mod both_halves;
mod helped;
pub(in crate::comm) mod one_pass;
pub(in crate::comm) mod one_rank;
pub(in crate::comm) mod polled;
pub(in crate::comm) mod recording;
mod shares;
mod stages;
