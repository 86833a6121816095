//! The library itself: version, names of results, the last error.

use std::ffi::{CString, c_int, c_void};
use std::sync::LazyLock;

use super::guard::{self, Parameter};
use super::handle::{self, pennyComm_t};
use super::types::{PENNY_VERSION_CODE, pennyResult_t};
use crate::comm;
use crate::error::{Code, Result};

/// Every code, in the order of its number.
const CODES: [Code; 9] = [
    Code::Success,
    Code::UnhandledDeviceError,
    Code::SystemError,
    Code::InternalError,
    Code::InvalidArgument,
    Code::InvalidUsage,
    Code::RemoteError,
    Code::InProgress,
    Code::Timeout,
];

static DESCRIPTIONS: LazyLock<Vec<CString>> =
    LazyLock::new(|| CODES.iter().map(|&code| CString::new(described(code)).unwrap_or_default()).collect());

/// Describes a code to a C program: where there is more to know, it says which function has it.
fn described(code: Code) -> String {
    let more = match code {
        Code::InvalidArgument => " (pennyGetLastError names it)",
        Code::InvalidUsage | Code::SystemError => " (pennyGetLastError has the details)",
        _ => "",
    };
    code.describe().to_owned() + more
}

/// A function of the program that waiting calls invoke to ask whether to continue: it returns 0 to continue.
pub type pennyInterruptCheck_t = Option<unsafe extern "C" fn(userData: *mut c_void) -> c_int>;

/// A function of the program that waiting calls invoke so that another library makes progress.
pub type pennyProgress_t = Option<unsafe extern "C" fn(userData: *mut c_void)>;

impl Parameter for pennyInterruptCheck_t {
    type Admitted = pennyInterruptCheck_t;
    unsafe fn admit(self, _name: &'static str) -> Result<pennyInterruptCheck_t> {
        Ok(self)
    }
}

c_api! {
    /// Reads the version of the loaded library, encoded as PENNY_VERSION_CODE; compare it with the header's.
    ///
    /// version: written on success.
    fn pennyGetVersion(#[out] version: *mut c_int) {
        version.set(PENNY_VERSION_CODE as c_int)
    }

    /// Returns one fixed sentence for a result. It is never NULL and always valid; do not free it. A number that is no
    /// result gives a sentence that says so. May be called from any thread at any time.
    fn pennyGetErrorString(result: pennyResult_t) -> *const c_char {
        match usize::try_from(result.0).ok().and_then(|number| DESCRIPTIONS.get(number)) {
            Some(description) => description.as_ptr(),
            None => c"unknown result code".as_ptr(),
        }
    }

    /// Returns the sentence of the calling thread's newest failure on comm: the function, the argument, the rank, the
    /// remedy.
    ///
    /// comm: NULL means the newest failure of the thread on anything. A failure of a call that takes no communicator, such
    /// as pennyGroupEnd, counts for every communicator. A handle that is no longer valid is accepted.
    ///
    /// Returns the empty string if there was no failure, never NULL. Do not free it. It is valid until the next failing
    /// call of this thread on comm (any failing call, if comm is NULL) or the thread's end. A success changes nothing, but for
    /// a pennyCommGetAsyncError that reads a failure.
    fn pennyGetLastError(comm: pennyComm_t) -> *const c_char {
        guard::last_error(handle::from_c(comm))
    }

    /// Sets the calling thread's interrupt check, for programs whose signal handlers cannot run during a call, such as
    /// interpreters. While this thread waits in a call, check(userData) is called on it about five times a second. If it
    /// returns 0 the wait continues; else the call ends with pennyTimeout and a sentence that says so, and its
    /// communicators accept pennyCommAbort and pennyCommDestroy only. Later waits of the same call invoke it again; once it
    /// has returned another value than 0 it should do so until the call returns. A wait for a stream, an event or a queued
    /// call that is ended this way aborts the communicators of this process that have calls on streams.
    ///
    /// check: NULL removes the check. Within it the program may call getters and pennyCommAbort; its other calls must not
    /// wait. userData: passed to check unchanged. Other threads are not affected; the library installs no signal handlers.
    fn pennySetInterruptCheck(check: pennyInterruptCheck_t, userData: *mut c_void) {
        // SAFETY: the caller's promise: the function may be called on this thread with this address.
        unsafe { comm::set_interrupt_check(check, std::ptr::with_exposed_provenance_mut(userData.get())) };
        Ok(())
    }

    /// Sets the calling thread's progress hook, for programs that use another communication library beside Penny. An MPI
    /// library, for example, may move data only while some thread is inside one of its functions: without a hook, a rank that
    /// has begun a large MPI_Isend and then waits in a Penny call can hold up the peer that waits for that send. While this
    /// thread waits in a call, progress(userData) is called on it, every 16th time that it would give its core to another
    /// thread, and once more when the wait ends. Short waits do not call it. The thread does not sleep while it waits.
    ///
    /// progress: NULL removes the hook. It must return soon, and must not call Penny: every call in it returns
    /// pennyInvalidUsage. userData: passed to progress unchanged. Other threads are not affected, nor are the threads that
    /// Penny starts. On a declared machine, waits for streams and events and waits that last the machine's time do not call it.
    fn pennySetProgress(progress: pennyProgress_t, userData: *mut c_void) {
        // SAFETY: the caller's promise: the function may be called on this thread with this address.
        unsafe { comm::set_progress_hook(progress, std::ptr::with_exposed_provenance_mut(userData.get())) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn every_code_stands_at_its_number_and_has_a_description_of_its_own() {
        for (number, code) in CODES.iter().enumerate() {
            assert_eq!(*code as usize, number);
            // SAFETY: pennyGetErrorString returns a string that lives for ever.
            let text = unsafe { CStr::from_ptr(pennyGetErrorString(pennyResult_t(number as c_int))) };
            assert!(text.to_str().is_ok_and(|text| text.starts_with(code.describe())));
        }
    }

    #[test]
    fn a_number_that_is_no_result_is_described_as_unknown() {
        for number in [-1, CODES.len() as c_int, c_int::MAX, c_int::MIN] {
            // SAFETY: as above.
            let text = unsafe { CStr::from_ptr(pennyGetErrorString(pennyResult_t(number))) };
            assert_eq!(text, c"unknown result code");
        }
    }
}
