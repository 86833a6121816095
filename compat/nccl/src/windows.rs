//! Windows, puts and signals.

use crate::boundary::{Failure, Outcome, done, kept, place};
use crate::collectives::{datatype_is_known, on_stream};
use crate::types::*;
use crate::{cuda, group};
use penny_sys as penny;
use std::ffi::{c_int, c_uint, c_void};

/// A window that is registered at the end of a group.
pub struct Registration {
    comm: ncclComm_t,
    buff: *mut c_void,
    size: usize,
    win: *mut ncclWindow_t,
    flags: c_int,
}

// SAFETY: the addresses are the program's, which keeps them valid until the group ends; handles are numbers.
unsafe impl Send for Registration {}

impl Registration {
    fn make(&self) -> Outcome {
        // SAFETY: the caller's promise.
        done(unsafe { penny::pennyCommWindowRegister(self.comm, self.buff, self.size, self.win, self.flags) })
    }
}

/// Registers the windows of a group: those of each communicator in their order, the communicators at once.
pub fn register_all(windows: Vec<Registration>) -> Outcome {
    let mut by_comm: Vec<Vec<Registration>> = Vec::new();
    for window in windows {
        match by_comm.iter_mut().find(|of| of[0].comm == window.comm) {
            Some(of) => of.push(window),
            None => by_comm.push(vec![window]),
        }
    }
    let each = |windows: Vec<Registration>| {
        // The sentence is the thread's.
        windows.iter().try_for_each(Registration::make).map_err(kept)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = by_comm.into_iter().map(|windows| scope.spawn(move || each(windows))).collect();
        let defect =
            || Err(Failure::Own(ncclInternalError, "a thread that registered a window panicked".into()));
        let results: Vec<_> =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| defect())).collect();
        results.into_iter().collect()
    })
}

nccl_api! {
    /// Opens memory of this rank to the puts of the others. Between ncclGroupStart and ncclGroupEnd it is done at the group's end.
    fn ncclCommWindowRegister, pncclCommWindowRegister(
        comm: ncclComm_t, buff: *mut c_void, size: usize, win: *mut ncclWindow_t, winFlags: c_int,
    ) {
        group::queued(|| {
            place(win, "win")?;
            cuda::on_host(buff, "buff")?;
            let window = Registration { comm, buff, size, win, flags: winFlags };
            match group::is_open() {
                true => group::register(window),
                false => window.make()?,
            }
            Ok(())
        })
    }

    /// Closes a window; NULL does nothing.
    fn ncclCommWindowDeregister, pncclCommWindowDeregister(comm: ncclComm_t, win: ncclWindow_t) {
        if win.is_null() {
            return Ok(());
        }
        // SAFETY: Penny checks both handles.
        done(unsafe { penny::pennyCommWindowDeregister(comm, win) })
    }

    /// Reads the memory that this rank has registered.
    fn ncclWinGetUserPtr, pncclWinGetUserPtr(comm: ncclComm_t, win: ncclWindow_t, outUserPtr: *mut *mut c_void) {
        // SAFETY: the caller's promise; Penny refuses NULL.
        done(unsafe { penny::pennyWinGetUserPtr(comm, win, outUserPtr) })
    }

    /// Writes to a rank's window, then signals it.
    fn ncclPutSignal, pncclPutSignal(
        localbuff: *const c_void, count: usize, datatype: ncclDataType_t, peer: c_int, peerWin: ncclWindow_t,
        peerWinOffset: usize, sigIdx: c_int, ctx: c_int, flags: c_uint, comm: ncclComm_t, stream: cudaStream_t,
    ) {
        group::queued(|| {
            datatype_is_known(datatype)?;
            cuda::on_host(localbuff, "localbuff")?;
            // SAFETY: the caller's promise.
            on_stream(comm, stream, |on| unsafe {
                penny::pennyPutSignal(
                    localbuff, count, datatype, peer, peerWin, peerWinOffset, sigIdx, ctx, flags, comm, on,
                )
            })
        })
    }

    /// Signals a rank.
    fn ncclSignal, pncclSignal(
        peer: c_int, sigIdx: c_int, ctx: c_int, flags: c_uint, comm: ncclComm_t, stream: cudaStream_t,
    ) {
        // SAFETY: Penny checks the arguments.
        group::queued(|| on_stream(comm, stream, |on| unsafe { penny::pennySignal(peer, sigIdx, ctx, flags, comm, on) }))
    }

    /// Waits for signals.
    fn ncclWaitSignal, pncclWaitSignal(
        nDesc: c_int, signalDescs: *const ncclWaitSignalDesc_t, comm: ncclComm_t, stream: cudaStream_t,
    ) {
        group::queued(|| {
            // SAFETY: the caller's promise: there are nDesc descriptors.
            on_stream(comm, stream, |on| unsafe { penny::pennyWaitSignal(nDesc, signalDescs.cast_mut(), comm, on) })
        })
    }
}
