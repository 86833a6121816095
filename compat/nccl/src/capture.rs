//! Calls on a stream that is being captured: each is recorded by Penny, which checks it, and launched with the graph.
//!
//! ```text
//!     call outside of groups     a recording, a step of the stream's graph
//!     calls in a group           recordings; at the group's end those of each capture become one step of its graph
//! ```
//!
//! A graph is launched by itself. Where one thread captures a stream for each of several ranks, each graph has the calls of its rank,
//! and they meet on their streams when all graphs have been launched. So the calls of one communicator in a group belong to one capture.

use crate::boundary::{Outcome, call as guarded, done, kept, last_error, usage};
use crate::cuda::{self, CaptureNumber, DeviceStream};
use crate::group;
use crate::types::*;
use penny_sys::{self as penny, pennyRecording_t, pennyResult_t, pennyStream_t};
use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};

/// Calls that Penny has recorded.
pub struct Recording(pennyRecording_t);

impl Recording {
    /// Records what the function calls, with NULL for the stream.
    fn of(calls: impl FnOnce() -> Outcome) -> Outcome<Recording> {
        // SAFETY: the function has no arguments.
        done(unsafe { penny::pennyRecordStart() })?;
        let made = calls().map_err(kept);
        let mut recording = null_mut();
        // SAFETY: the place is a local one.
        let ended = done(unsafe { penny::pennyRecordEnd(&mut recording) }).map(|()| Recording(recording));
        made.and(ended)
    }

    fn launch(&self, stream: pennyStream_t) -> Outcome {
        // SAFETY: Penny checks both handles.
        done(unsafe { penny::pennyRecordingLaunch(self.0, stream) })
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // SAFETY: Penny checks the handle.
        unsafe { penny::pennyRecordingDestroy(self.0) };
    }
}

/// A call of a group that is captured.
pub struct Captured {
    number: CaptureNumber,
    stream: DeviceStream,
    /// The number of the inner group that it is of.
    inner: u32,
    call: Recording,
}

/// Records a call on a captured stream: as a step of its graph, or with the other calls of the open group at its end.
pub fn record(
    number: CaptureNumber,
    stream: DeviceStream,
    call: impl FnOnce(pennyStream_t) -> pennyResult_t,
) -> Outcome {
    let call = Recording::of(|| done(call(null_mut())))?;
    if group::is_open() {
        group::captured(|inner| Captured { number, stream, inner, call });
        return Ok(());
    }
    hand_over(stream, call)
}

/// Records the calls of a group, a step for each capture.
pub fn record_group(mut calls: Vec<Captured>) -> Outcome {
    if calls.iter().any(|one| cuda::captured_in(one.stream) != Some(one.number)) {
        return Err(ended());
    }
    let mut steps = Vec::new();
    while let Some(&Captured { number, stream, .. }) = calls.first() {
        let (together, others): (Vec<_>, Vec<_>) = calls.into_iter().partition(|one| one.number == number);
        // A recording that is launched in another is added to that.
        let add = || {
            together.chunk_by(|a, b| a.inner == b.inner).try_for_each(|inner| {
                group::all(|| inner.iter().try_for_each(|one| one.call.launch(null_mut())))
            })
        };
        steps.push((stream, Recording::of(add)?));
        calls = others;
    }
    steps.into_iter().try_for_each(|(stream, step)| hand_over(stream, step))
}

fn ended() -> crate::boundary::Failure {
    usage("stream is not captured any more; end its capture after the group's end")
}

fn hand_over(stream: DeviceStream, step: Recording) -> Outcome {
    let step = Box::into_raw(Box::new(step));
    if cuda::capture(stream, replay, step.cast(), forget) {
        return Ok(());
    }
    // SAFETY: the runtime has not taken it.
    drop(unsafe { Box::from_raw(step) });
    Err(ended())
}

/// Makes the calls of a step on the stream of a launch: NULL, or the sentence of the refusal. A call that fails later is told by the
/// stream.
unsafe extern "C" fn replay(step: *mut c_void, stream: *mut c_void) -> *const c_char {
    // SAFETY: the runtime passes what it was given, before `forget`.
    let launch = || unsafe { &*step.cast::<Recording>() }.launch(stream.cast());
    match guarded("cudaGraphLaunch", launch) {
        ncclSuccess => null(),
        _ => last_error(),
    }
}

unsafe extern "C" fn forget(step: *mut c_void) {
    // SAFETY: the runtime calls it once, with what it was given.
    drop(unsafe { Box::from_raw(step.cast::<Recording>()) });
}
