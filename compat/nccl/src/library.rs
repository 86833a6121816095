//! The library itself: its version, results in words, the last error.

use crate::boundary::{self, place, usage};
use crate::types::*;
use crate::{debug, version};
use std::ffi::{c_char, c_int};

nccl_api! {
    /// Reads the version as NCCL encodes it.
    fn ncclGetVersion, pncclGetVersion(version: *mut c_int) {
        place(version, "version")?;
        let code = version::code().map_err(usage)?;
        // SAFETY: the caller's promise.
        unsafe { version.write_unaligned(code) };
        Ok(())
    }

    /// Returns one fixed sentence for a result.
    or c"a defect in Penny's NCCL library".as_ptr(),
    fn ncclGetErrorString, pncclGetErrorString(result: ncclResult_t) -> *const c_char {
        let text = match result {
            ncclSuccess => c"success",
            ncclUnhandledCudaError => c"the CUDA runtime reported an error",
            ncclSystemError => c"the operating system refused memory, a socket, or a limit was reached; NCCL_DEBUG=WARN prints which",
            ncclInternalError => c"a defect in Penny; the communicator serves ncclCommAbort and ncclCommDestroy only",
            ncclInvalidArgument => c"an argument is wrong; NCCL_DEBUG=WARN prints which",
            ncclInvalidUsage => c"the call is not possible here or now, or ranks disagree; NCCL_DEBUG=WARN prints why",
            ncclRemoteError => c"another rank died, left, failed, or did not come in time",
            ncclInProgress => c"the call has not finished yet; poll ncclCommGetAsyncError",
            ncclTimeout => c"the deadline passed",
            _ => c"no result of this library",
        };
        text.as_ptr()
    }

    /// Returns the sentence of the newest failure in this process; `comm` is not used.
    or c"".as_ptr(),
    fn ncclGetLastError, pncclGetLastError(_comm: ncclComm_t) -> *const c_char {
        boundary::last_error()
    }

    /// Makes the next line of output read the NCCL_DEBUG variables again.
    or (),
    fn ncclResetDebugInit, pncclResetDebugInit() -> () {
        debug::reset();
    }
}
