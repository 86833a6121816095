//! Groups: calls that are made together, and recordings: calls that are made again and again.

use super::guard::Parameter;
use super::handle::{pennyStream_t, to_c};
use crate::comm::{self, RecordingHandle};
use crate::error::Result;

/// The incomplete type to which a pennyRecording_t points.
pub struct pennyRecording {
    _opaque: [u8; 0],
}

/// A handle of recorded calls. It may be copied. It is valid until pennyRecordingDestroy; later calls refuse it with
/// pennyInvalidArgument.
pub type pennyRecording_t = *mut pennyRecording;

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
    /// group. Without an open group: pennyInvalidUsage.
    fn pennyGroupEnd() {
        comm::group_end()
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
        recording.set(to_c(comm::record_end()?))
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
    fn pennyRecordingDestroy(recording: pennyRecording_t) {
        comm::recording_destroy(recording)
    }
}
