//! Calls on a stream that is being captured: each is recorded as a step of the graph, and made at each launch.
//!
//! The calls of a group are one step, in the capture of the first call's stream: a graph runs its steps one after another on one
//! stream, and calls that wait for each other need a group there, too.

use crate::boundary::{Outcome, call as guarded, done, usage};
use crate::types::cudaStream_t;
use crate::{cuda, group};
use penny_sys::{self as penny, pennyResult_t, pennyStream_t};
use std::ffi::c_void;

/// A call of the program with all its arguments but the stream.
pub type Recorded = Box<dyn Fn(pennyStream_t) -> pennyResult_t>;

/// A step of a graph.
struct Step {
    calls: Vec<Recorded>,
    is_group: bool,
}

/// Records a call on a captured stream: now, or with the other calls of the open group at its end.
pub fn record(stream: cudaStream_t, call: Recorded) -> Outcome {
    if group::is_open() {
        group::captured(stream, call);
        return Ok(());
    }
    hand_over(stream, Step { calls: vec![call], is_group: false })
}

/// Records the calls of a group.
pub fn record_group(calls: Vec<(cudaStream_t, Recorded)>) -> Outcome {
    let Some(&(stream, _)) = calls.first() else { return Ok(()) };
    let calls = calls.into_iter().map(|(_, call)| call).collect();
    hand_over(stream, Step { calls, is_group: true })
}

fn hand_over(stream: cudaStream_t, step: Step) -> Outcome {
    let step = Box::into_raw(Box::new(step));
    if cuda::capture(stream, replay, step.cast(), forget) {
        return Ok(());
    }
    // SAFETY: the runtime has not taken it.
    drop(unsafe { Box::from_raw(step) });
    Err(usage("stream is not captured any more; end its capture after the group's end"))
}

/// Makes the calls of a step on the stream of a launch. A call that is refused is told by ncclGetLastError and NCCL_DEBUG, not by the
/// launch: the runtime takes no result. One that fails later is told by the stream.
unsafe extern "C" fn replay(step: *mut c_void, stream: *mut c_void) {
    guarded("cudaGraphLaunch", || {
        // SAFETY: the runtime passes what it was given, before `forget`.
        let step = unsafe { &*step.cast::<Step>() };
        let stream: pennyStream_t = stream.cast();
        if !step.is_group {
            return step.calls.iter().try_for_each(|call| done(call(stream)));
        }
        // SAFETY: the function has no arguments.
        done(unsafe { penny::pennyGroupStart() })?;
        let made = step.calls.iter().try_for_each(|call| done(call(stream)));
        // SAFETY: the function has no arguments.
        made.and(done(unsafe { penny::pennyGroupEnd() }))
    });
}

unsafe extern "C" fn forget(step: *mut c_void) {
    // SAFETY: the runtime calls it once, with what it was given.
    drop(unsafe { Box::from_raw(step.cast::<Step>()) });
}
