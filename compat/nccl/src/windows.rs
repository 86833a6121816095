//! Windows, puts and signals.

use crate::boundary::{done, none_yet};
use crate::collectives::{datatype_is_known, on_stream};
use crate::types::*;
use crate::{cuda, group};
use penny_sys as penny;
use std::ffi::{c_int, c_uint, c_void};

nccl_api! {
    /// Opens memory of this rank to the puts of the others. Between ncclGroupStart and ncclGroupEnd it is done at the group's end. If a rank's
    /// memory is not that of ncclMemAlloc or of Penny's CUDA runtime, no rank has a window, and `win` is NULL.
    fn ncclCommWindowRegister, pncclCommWindowRegister(
        comm: ncclComm_t, buff: *mut c_void, size: usize, win: *mut ncclWindow_t, winFlags: c_int,
    ) {
        group::queued(|| {
            none_yet(win, "win")?;
            cuda::on_host(buff, "buff")?;
            // SAFETY: the caller's promise.
            done(unsafe { penny::pennyCommWindowRegister(comm, buff, size, win, winFlags) })
        })
    }

    /// Closes a window; NULL does nothing.
    fn ncclCommWindowDeregister, pncclCommWindowDeregister(comm: ncclComm_t, win: ncclWindow_t) {
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
