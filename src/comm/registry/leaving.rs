//! The end of an aborted communicator: the threads that are inside leave it first.

use super::{HELD_PAUSE, enter, live, occupy, take_out};
use crate::comm::communicator::CommCore;
use crate::comm::progress::drive_once;
use crate::comm::shared::CommHandle;
use crate::error::{Error, Result};
use std::time::{Duration, Instant};

/// The longest time in which the threads inside an aborted communicator leave it.
const LEAVING: Duration = Duration::from_secs(5);

/// Enters an aborted communicator when the calls that are under way have left it.
pub(in crate::comm) fn enter_when_left<T>(
    handle: CommHandle,
    inside: impl FnOnce(&mut CommCore) -> Result<T>,
) -> Result<T> {
    let slot = live(handle)?;
    let until = Instant::now() + LEAVING;
    // BOUND: `LEAVING`.
    while Instant::now() < until {
        if let Some(mut body) = slot.body.try_lock().filter(|body| body.as_ref().is_none_or(|c| !c.is_held)) {
            return occupy(&mut body, handle, inside);
        }
        drive_once();
        std::thread::sleep(HELD_PAUSE);
    }
    enter(handle, inside)
}

/// Takes a communicator out that was aborted, when the thread that is inside has left it.
pub(in crate::comm) fn remove_aborted(handle: CommHandle) -> Result<CommCore> {
    let slot = live(handle)?;
    let until = Instant::now() + LEAVING;
    // BOUND: `LEAVING`. A signal handler may have interrupted the very call that has to end.
    loop {
        if let Some(body) = slot.body.try_lock() {
            return take_out(slot, body, handle);
        }
        if Instant::now() >= until {
            return Err(Error::usage(format!(
                "a call is inside the communicator and has not ended within {} s of its abort; is this a signal handler that \
                 interrupted it? The communicator is aborted: call pennyCommDestroy when the call has returned",
                LEAVING.as_secs()
            )));
        }
        std::thread::sleep(HELD_PAUSE);
    }
}
