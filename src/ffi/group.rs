//! Groups: calls that are made together, and recordings: calls that are made again and again.

use super::guard::{Out, Parameter};
use super::handle::{pennyComm_t, pennyStream_t, to_c};
use super::window::pennyWindow_t;
use crate::comm::{self, CommHandle, RecordingHandle, WindowHandle};
use crate::error::Result;
use std::cell::RefCell;
use std::mem::ManuallyDrop;

/// The incomplete type to which a pennyRecording_t points.
pub struct pennyRecording {
    _opaque: [u8; 0],
}

/// A handle of recorded calls. It may be copied. It is valid until pennyRecordingDestroy; later calls refuse it with
/// pennyInvalidArgument.
pub type pennyRecording_t = *mut pennyRecording;

/// A handle that a call in a group has written, and where.
enum Promise {
    Comm(Out<pennyComm_t>, CommHandle),
    Window(Out<pennyWindow_t>, WindowHandle),
}

impl Promise {
    /// Writes NULL if what was promised was not made.
    fn settle(self) -> Result<()> {
        match self {
            // A communicator that joins in the background, or has failed in that, has a state.
            Promise::Comm(at, handle) if comm::state(handle).is_err() => at.set(std::ptr::null_mut()),
            Promise::Window(at, handle) if !comm::is_window(handle) => at.set(std::ptr::null_mut()),
            _ => Ok(()),
        }
    }
}

thread_local! {
    /// What the open group's calls have promised. Never dropped: a group may be opened by destructors that run after those of this
    /// thread's own. Without an open group it has no memory.
    static PROMISED: ManuallyDrop<RefCell<Vec<Promise>>> =
        const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

fn promise(promise: impl FnOnce() -> Promise) {
    if comm::is_group_open() {
        PROMISED.with(|promised| promised.borrow_mut().push(promise()));
    }
}

/// Hands out a communicator. In a group it is not made yet; if it is not made at the group's end, NULL takes its place.
pub(super) fn hand_out(at: Out<pennyComm_t>, made: CommHandle) -> Result<()> {
    promise(|| Promise::Comm(at, made));
    at.set(to_c(made))
}

/// Hands out a window in the same way. `None`: there is none.
pub(super) fn hand_out_window(at: Out<pennyWindow_t>, made: Option<WindowHandle>) -> Result<()> {
    let Some(made) = made else { return at.set(std::ptr::null_mut()) };
    promise(|| Promise::Window(at, made));
    at.set(to_c(made))
}

/// Takes back the handles that the group has promised and not made, if the outermost has ended.
pub(super) fn settle<T>(ended: Result<T>) -> Result<T> {
    if !comm::is_group_open() {
        PROMISED.with(|promised| promised.take()).into_iter().try_for_each(Promise::settle)?;
    }
    ended
}

impl Parameter for pennyRecording_t {
    type Admitted = RecordingHandle;
    unsafe fn admit(self, _name: &'static str) -> Result<RecordingHandle> {
        // NULL is as stale as any other.
        Ok(RecordingHandle::from_bits(self.addr() as u64))
    }
}

c_api! {
    /// Opens a group on the calling thread. Until the matching pennyGroupEnd the thread's collectives, transfers, puts and
    /// waits for signals are checked and queued, and return before they have run; their buffers must stay as they are
    /// until then. Groups nest.
    fn pennyGroupStart() {
        comm::group_start()
    }

    /// Closes the innermost group of the calling thread; the outermost runs what was queued and returns when it is done.
    /// Calls to the same peer keep their order; calls to different peers run at the same time.
    ///
    /// If a queued call was refused for its arguments, this function returns that result again and runs no call of the
    /// group. Handles of communicators and windows that the group has not made become NULL, where its calls have written them.
    /// Without an open group: pennyInvalidUsage.
    fn pennyGroupEnd() {
        settle(comm::group_end())
    }

    /// Begins to record calls of the calling thread. Until pennyRecordEnd its collectives, transfers, puts and waits for signals
    /// are checked and kept, and none of them runs; their stream must be NULL. A group that is open stays as it is meanwhile.
    /// Groups and further recordings may be opened and closed inside.
    fn pennyRecordStart() {
        comm::record_start()
    }

    /// Ends the recording that the calling thread began last. If a call of it was refused for its arguments, this function returns
    /// that result again, and there is no recording. Communicators cannot be made in one: pennyInvalidUsage.
    ///
    /// recording: written on success; the caller owns it until pennyRecordingDestroy.
    ///
    /// The recording keeps the arguments of its calls. An operation of pennyRedOpCreatePreMulSum may be destroyed; a number that it
    /// reads when a call runs (pennyScalarDevice), buffers, windows and communicators must be there at each launch.
    fn pennyRecordEnd(#[out] recording: *mut pennyRecording_t) {
        recording.set(to_c(settle(comm::record_end())?))
    }

    /// Makes the calls of a recording, as those of one group. The same recording may be launched again before the calls of a launch
    /// have completed, and by any thread. In a group it adds its calls to the group.
    ///
    /// stream: NULL: the calls are complete when it returns. Else it queues them and returns.
    ///
    /// A communicator of the recording that was destroyed: pennyInvalidArgument, and no call is made.
    fn pennyRecordingLaunch(recording: pennyRecording_t, stream: pennyStream_t) {
        comm::recording_launch(recording, stream)
    }

    /// Frees a recording. Calls of its launches that have not completed do.
    ///
    /// recording: NULL does nothing and succeeds.
    fn pennyRecordingDestroy(#[or_null] recording: pennyRecording_t) {
        recording.map_or(Ok(()), comm::recording_destroy)
    }
}
