//! Recordings: calls that are checked and kept, and made again at each launch.
//!
//! ```text
//!     record_start     the open group, if there is one, waits
//!     all_reduce(c)    checked, kept
//!     record_end       the recording; the group that waited is open again
//!     launch(on A)     the calls are queued on A, together
//!     launch(on A)     again
//! ```
//!
//! A recording has all that its calls need but their buffers and communicators: the factor of a scaled sum outlives the operation that
//! it was read from.

use super::batch::{Batch, Queued};
use super::{Group, Recorder};
use crate::comm::recorder;
use crate::comm::registry::{self, Entry};
use crate::comm::stream::{self, StreamHandle};
use crate::error::{Error, Result};
use crate::handle::{self, Objects, RecordingKind, Remembered};
use std::sync::Arc;

/// Names a recording of this process.
pub type RecordingHandle = handle::Handle<RecordingKind>;

/// Calls that are made together at each launch.
struct Recording {
    calls: Vec<Queued>,
    /// They belong to a group, even if there is only one.
    grouped: bool,
}

thread_local! {
    static LAST: Remembered<RecordingKind, Recording> = const { handle::nothing_remembered() };
}
static RECORDINGS: Objects<RecordingKind, Recording> = Objects::new(&LAST);

/// Begins to record the calls of this thread.
pub fn record_start() -> Result<()> {
    super::with(|group| {
        let recording = Some(Box::new(Recorder { outer: std::mem::take(group), grouped: false }));
        *group = Group { depth: 1, recording, ..Group::default() };
    });
    super::note_first();
    Ok(())
}

/// Ends the recording of this thread. A call that was refused fails it.
pub fn record_end() -> Result<RecordingHandle> {
    let (recorded, grouped) = super::with(|group| {
        if group.depth > 1 && group.recording.is_some() {
            return Err(Error::usage("a group of the recording is open; close it with pennyGroupEnd"));
        }
        let Some(recorder) = group.recording.take() else {
            return Err(Error::usage("nothing is recorded on this thread; pennyRecordStart comes first"));
        };
        let Recorder { outer, grouped } = *recorder;
        Ok((std::mem::replace(group, outer), grouped))
    })?;
    let why = match recorded.failure {
        Some(e) => {
            Err(e.with_message(format!("a call of the recording failed, so nothing was recorded: {e}")))
        }
        None if recorded.promised.is_empty() => Ok(()),
        None => Err(Error::usage(
            "making communicators and windows, and suspending and resuming, cannot be recorded; do it before pennyRecordStart",
        )),
    };
    why.inspect_err(|e| recorded.promised.give_up(e))?;
    let calls: Vec<_> = recorded.queue.into_iter().map(|(call, _)| call).collect();
    let grouped = grouped || calls.len() > 1;
    RECORDINGS.insert(Arc::new(Recording { calls, grouped })).ok_or_else(|| {
        Error::system(
            "this process has as many recordings as it can have; destroy some with pennyRecordingDestroy",
        )
    })
}

fn stale(recording: RecordingHandle) -> Error {
    recording.refusal(
        "recording",
        format_args!(
            "recording is not a live recording: it was destroyed already, or is none of pennyRecordEnd"
        ),
    )
}

/// Makes the calls of a recording, as one group: in the open group, on a stream, or here.
pub fn recording_launch(recording: RecordingHandle, stream: Option<StreamHandle>) -> Result<()> {
    let found = RECORDINGS.get(recording).ok_or_else(|| stale(recording))?;
    found.calls.iter().try_for_each(|call| registry::shared(call.comm())?.refuse_forked())?;
    if super::is_open() {
        return found.calls.iter().try_for_each(|call| super::add(call.clone(), stream));
    }
    let on = stream.map_or(0, StreamHandle::bits);
    let _recorded =
        recorder::record(|description| found.calls.iter().for_each(|call| call.describe(description, on)));
    let batch = || Batch { calls: found.calls.clone(), grouped: found.grouped };
    match (&found.calls[..], stream) {
        ([], None) => Ok(()),
        ([], Some(stream)) => stream::check(stream),
        (_, None) => batch().run(Entry::Caller),
        ([Queued::Collective(comm, call)], Some(on))
            if !found.grouped && stream::make_at_once(*comm, call, on) =>
        {
            Ok(())
        }
        (calls, Some(_)) => stream::queue(batch(), &vec![stream; calls.len()]),
    }
}

/// Frees a recording. Launches that are queued keep what they need.
pub fn recording_destroy(recording: RecordingHandle) -> Result<()> {
    RECORDINGS.remove(recording).map(drop).ok_or_else(|| stale(recording))
}
