//! Groups: calls that are made together.

use crate::comm;

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
}
