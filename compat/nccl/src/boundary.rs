//! Defines every exported function under both of its names, so that none can be without its checks.
//!
//! ```text
//!     extern "C" fn ncclX, pncclX(c parameters) -> ncclResult_t
//!         run the body                     yields an Outcome
//!         Ok             -> ncclSuccess
//!         Err(Penny(n))  -> n              the sentence is Penny's, in NCCL's words
//!         Err(Own(..))   -> its number     the sentence begins with the function's name
//!         panic          -> ncclInternalError
//!     each failure but ncclInProgress: the process's last error is set, and NCCL_DEBUG=WARN prints it
//! ```

use crate::debug::{self, Level};
use crate::types::*;
use crate::version;
use penny_sys as penny;
use penny_sys::sentence;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// Defines exported functions. See the head of this file.
macro_rules! nccl_api {
    () => {};
    (
        $(#[$doc:meta])*
        fn $name:ident, $twin:ident($($arg:ident: $ty:ty),* $(,)?) $body:block
        $($rest:tt)*
    ) => {
        const _: () = {
            #[allow(clippy::too_many_arguments)]
            unsafe fn body($($arg: $ty),*) -> $crate::boundary::Outcome $body

            $(#[$doc])*
            #[unsafe(no_mangle)]
            #[allow(clippy::too_many_arguments)]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> $crate::types::ncclResult_t {
                // SAFETY: the caller's promises are the body's.
                $crate::boundary::call(stringify!($name), || unsafe { body($($arg),*) })
            }

            /// The same, for libraries that interpose the other name.
            #[unsafe(no_mangle)]
            #[allow(clippy::too_many_arguments)]
            pub unsafe extern "C" fn $twin($($arg: $ty),*) -> $crate::types::ncclResult_t {
                // SAFETY: the caller's promises are the body's.
                $crate::boundary::call(stringify!($name), || unsafe { body($($arg),*) })
            }
        };
        nccl_api! { $($rest)* }
    };
    // A function that returns something else: its value when it cannot do its work comes first.
    (
        $(#[$doc:meta])*
        or $otherwise:expr, fn $name:ident, $twin:ident($($arg:ident: $ty:ty),* $(,)?) -> $returns:ty $body:block
        $($rest:tt)*
    ) => {
        const _: () = {
            unsafe fn body($($arg: $ty),*) -> $returns $body

            $(#[$doc])*
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> $returns {
                // SAFETY: the caller's promises are the body's.
                $crate::boundary::value(|| unsafe { body($($arg),*) }).unwrap_or($otherwise)
            }

            /// The same, for libraries that interpose the other name.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $twin($($arg: $ty),*) -> $returns {
                // SAFETY: the caller's promises are the body's.
                $crate::boundary::value(|| unsafe { body($($arg),*) }).unwrap_or($otherwise)
            }
        };
        nccl_api! { $($rest)* }
    };
}

/// What a function's body yields.
pub type Outcome<T = ()> = Result<T, Failure>;

/// A failure on its way to the program.
#[derive(Clone)]
pub enum Failure {
    /// Penny's result; this thread's last error in Penny is the sentence.
    Penny(penny::pennyResult_t),
    /// A refusal of this library.
    Own(ncclResult_t, String),
}

/// Refuses an argument that is wrong by itself.
pub fn argument(sentence: impl Into<String>) -> Failure {
    Failure::Own(ncclInvalidArgument, sentence.into())
}

/// Refuses a use.
pub fn usage(sentence: impl Into<String>) -> Failure {
    Failure::Own(ncclInvalidUsage, sentence.into())
}

/// Returns a failure's number and sentence. Penny's is taken now: the next failure of this thread will replace it.
pub fn own(failure: Failure) -> (ncclResult_t, String) {
    match failure {
        Failure::Own(result, text) => (result, text),
        Failure::Penny(result) => {
            // SAFETY: the function takes NULL, and its text is valid until the next failing call of this thread.
            let text = unsafe { CStr::from_ptr(penny::pennyGetLastError(std::ptr::null_mut())) };
            (number(result), sentence::in_nccls_words(&text.to_string_lossy()))
        }
    }
}

/// Keeps a failure for later: with its sentence, which the next failure of this thread would replace.
pub fn kept(failure: Failure) -> Failure {
    let (result, text) = own(failure);
    Failure::Own(result, text)
}

/// Converts a result of Penny.
#[inline]
pub fn done(result: penny::pennyResult_t) -> Outcome {
    match result {
        penny::pennySuccess => Ok(()),
        failure => Err(Failure::Penny(failure)),
    }
}

/// Converts the number of a result of Penny. A deadline that passed is `ncclTimeout`, which NCCL has from 2.30 on; before, it is the
/// result for ranks that are out of reach: what a program does about them, abort, is what helps.
pub fn number(result: penny::pennyResult_t) -> ncclResult_t {
    match result {
        penny::pennyTimeout if version::code().unwrap_or(version::DEFAULT) < 23000 => ncclRemoteError,
        penny::pennyTimeout => ncclTimeout,
        other => other,
    }
}

/// Refuses a place for a result that is NULL.
pub fn place<T>(at: *mut T, name: &str) -> Outcome {
    match at.is_null() {
        true => Err(argument(format!("{name} is NULL; pass the place for the result"))),
        false => Ok(()),
    }
}

/// Refuses a place for a handle that is NULL, and writes NULL there: what NCCL leaves behind if it makes nothing.
pub fn none_yet<T>(at: *mut *mut T, name: &str) -> Outcome {
    place(at, name)?;
    // SAFETY: the caller of the exported function promises a place.
    unsafe { at.write_unaligned(std::ptr::null_mut()) };
    Ok(())
}

/// Runs a body and reports its failure.
#[inline]
pub fn call(name: &'static str, body: impl FnOnce() -> Outcome) -> ncclResult_t {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => ncclSuccess,
        failure => fail(name, failure),
    }
}

/// Runs a body that returns something else than a result. `None`: it panicked.
pub fn value<T>(body: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(body)).map_err(std::mem::forget).ok()
}

#[cold]
fn fail(name: &'static str, failure: std::thread::Result<Outcome>) -> ncclResult_t {
    let reported = catch_unwind(AssertUnwindSafe(|| match failure {
        Ok(Ok(())) => ncclSuccess,
        Ok(Err(Failure::Penny(penny::pennyInProgress))) => ncclInProgress,
        Ok(Err(failure)) => {
            let (result, text) = own(failure);
            report(name, &text, result)
        }
        Err(panic) => {
            // The payload is foreign: dropping it might panic again.
            std::mem::forget(panic);
            report(name, "a defect in Penny's NCCL library; please report it", ncclInternalError)
        }
    }));
    reported.unwrap_or(ncclInternalError)
}

/// Files a sentence and prints it.
fn report(name: &'static str, text: &str, result: ncclResult_t) -> ncclResult_t {
    let text = format!("{name}: {text}");
    *LAST.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) =
        Some(CString::new(text.replace('\0', " ")).unwrap_or_default());
    debug::line(Level::Warn, &text);
    result
}

/// Files the sentence of a communicator's failure that a call on a stream has met, unless it is the newest already.
pub fn file(name: &'static str, comm: penny::pennyComm_t, state: penny::pennyResult_t) {
    // SAFETY: Penny checks the handle; its text is valid until the next failing call of this thread.
    let text = unsafe { CStr::from_ptr(penny::pennyGetLastError(comm)) };
    let text = sentence::in_nccls_words(&text.to_string_lossy());
    let newest = LAST.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone().unwrap_or_default();
    if !text.is_empty() && !newest.to_bytes().ends_with(text.as_bytes()) {
        report(name, &text, number(state));
    }
}

/// The newest sentence of this process: NCCL keeps one for all threads.
static LAST: Mutex<Option<CString>> = Mutex::new(None);

thread_local! {
    /// The text that this thread was handed.
    static HANDED: RefCell<CString> = RefCell::default();
}

/// Returns the process's newest sentence. The text is this thread's copy, valid until the thread asks again: another thread's failure
/// does not change it.
pub fn last_error() -> *const c_char {
    let newest = LAST.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone().unwrap_or_default();
    HANDED
        .try_with(|handed| {
            let mut handed = handed.borrow_mut();
            if *handed != newest {
                *handed = newest;
            }
            handed.as_ptr()
        })
        .unwrap_or(c"".as_ptr())
}
