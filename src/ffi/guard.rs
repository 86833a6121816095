//! Defines every exported function, so that none can be without its checks.
//!
//! [`c_api!`] takes functions with their C parameters and writes, for each:
//!
//! ```text
//!     extern "C" fn name(c parameters) -> pennyResult_t
//!         admit each parameter, in order    NULL, enum range, stream: Parameter::admit; the body sees admitted values
//!         run the body                      yields Result<()>
//!         Ok    -> pennySuccess             nothing else is touched: a success costs no more than the body
//!         Err   -> the failure is filed     last error of the thread and communicator; the open group, if it was a
//!         panic -> pennyInternalError       call that a group may queue; and a panic poisons the communicator
//! ```
//!
//! A parameter is admitted by its type, unless an attribute says otherwise: `#[out]` is a place for a result, which must
//! not be NULL and is written only by [`Out::set`]; `#[or_null]` may be NULL and is admitted as an `Option`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use super::types::pennyResult_t;
use crate::comm::{self, CommHandle};
use crate::error::{Error, Result};
use crate::memory::view::Address;

/// Defines exported functions. See the head of this file.
macro_rules! c_api {
    () => {};
    (
        $(#[$doc:meta])*
        fn $name:ident($($(#[$how:ident])? $arg:ident: $ty:ty),* $(,)?) $body:block
        $($rest:tt)*
    ) => {
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> $crate::ffi::pennyResult_t {
            let outcome = ::std::panic::catch_unwind(::std::panic::AssertUnwindSafe(
                || -> $crate::error::Result<()> {
                    $crate::comm::refuse_in_callback()?;
                    $(
                        // SAFETY: the caller's promise, which is the documentation of this function.
                        #[allow(unused_variables)]
                        let $arg = unsafe {
                            $crate::ffi::guard::Parameter::admit(
                                $crate::ffi::guard::as_declared!($($how)? $arg),
                                ::std::stringify!($arg),
                            )?
                        };
                    )*
                    $body
                },
            ));
            match outcome {
                Ok(Ok(())) => $crate::ffi::pennySuccess,
                failure => {
                    #[allow(unused_mut)]
                    let mut site = $crate::ffi::guard::CallSite::of(::std::stringify!($name));
                    $($crate::ffi::guard::Parameter::describe(
                        &$crate::ffi::guard::as_declared!($($how)? $arg),
                        &mut site,
                    );)*
                    site.fail(failure)
                }
            }
        }
        c_api! { $($rest)* }
    };
    (
        $(#[$doc:meta])*
        fn $name:ident($arg:ident: $ty:ty) -> *const c_char $body:block
        $($rest:tt)*
    ) => {
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($arg: $ty) -> *const ::std::ffi::c_char {
            let text = || -> *const ::std::ffi::c_char { $body };
            ::std::panic::catch_unwind(text).unwrap_or(c"a defect in Penny; please report it".as_ptr())
        }
        c_api! { $($rest)* }
    };
}

/// A parameter as its attribute declares it.
macro_rules! as_declared {
    ($arg:ident) => {
        $arg
    };
    (out $arg:ident) => {
        $crate::ffi::guard::Out($arg)
    };
    (or_null $arg:ident) => {
        $crate::ffi::guard::OrNull($arg)
    };
}
pub(super) use as_declared;

/// A type that crosses the boundary as a parameter.
pub(super) trait Parameter: Sized {
    /// The type with which the body of the function works.
    type Admitted;
    /// Checks the value; the sentence of a refusal begins with `name`, the parameter's.
    ///
    /// # Safety
    /// A pointer that is not NULL must be valid for what the function's documentation does with it.
    unsafe fn admit(self, name: &'static str) -> Result<Self::Admitted>;
    /// Adds what this parameter tells about the call, for the record of a failure.
    fn describe(&self, _site: &mut CallSite) {}
}

macro_rules! admitted_as_they_are {
    ($($ty:ty),*) => {$(
        impl Parameter for $ty {
            type Admitted = $ty;
            unsafe fn admit(self, _name: &'static str) -> Result<$ty> {
                Ok(self)
            }
        }
    )*};
}
admitted_as_they_are!(c_int, c_uint, usize, isize, u64, *const c_int, *const usize);

impl Parameter for *const c_void {
    type Admitted = Address<'static>;
    unsafe fn admit(self, _name: &'static str) -> Result<Address<'static>> {
        // SAFETY: the promise to `admit`. Whether NULL is allowed depends on the call; `comm` knows.
        Ok(unsafe { Address::from_raw(self.cast()) })
    }
}

impl Parameter for *mut c_void {
    type Admitted = Address<'static>;
    unsafe fn admit(self, name: &'static str) -> Result<Address<'static>> {
        // SAFETY: the promise to `admit`.
        unsafe { self.cast_const().admit(name) }
    }
}

/// A word that ranks share is reached like any other payload: through its address.
macro_rules! admitted_as_addresses {
    ($($ty:ty),*) => {$(
        impl Parameter for $ty {
            type Admitted = Address<'static>;
            unsafe fn admit(self, name: &'static str) -> Result<Address<'static>> {
                // SAFETY: the promise to `admit`.
                unsafe { self.cast::<c_void>().admit(name) }
            }
        }
    )*};
}
admitted_as_addresses!(*const u64, *mut u64);

impl Parameter for OrNull<*mut u64> {
    type Admitted = Option<Out<u64>>;
    unsafe fn admit(self, _name: &'static str) -> Result<Option<Out<u64>>> {
        Ok((!self.0.is_null()).then_some(Out(self.0)))
    }
}

/// The place for a result: not NULL, written once, on success. C may have aligned it badly.
#[derive(Clone, Copy)]
pub(super) struct Out<T>(pub *mut T);

impl<T> Parameter for Out<T> {
    type Admitted = Out<T>;
    unsafe fn admit(self, name: &'static str) -> Result<Out<T>> {
        match self.0.is_null() {
            true => Err(Error::argument(format!("{name} is NULL; pass the place for the result"))),
            false => Ok(self),
        }
    }
}

impl<T> Out<T> {
    /// Writes the result: the last act of a body.
    pub fn set(self, value: T) -> Result<()> {
        // SAFETY: an Out reaches a body only through `admit`, where its validity was promised and NULL was refused.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }
    /// Writes consecutive results.
    ///
    /// # Safety
    /// There must be room for all of them.
    pub unsafe fn set_all(self, values: impl Iterator<Item = T>) -> Result<()> {
        for (i, value) in values.enumerate() {
            // SAFETY: the promise to `set_all`.
            unsafe { self.0.add(i).write_unaligned(value) };
        }
        Ok(())
    }
}

/// A parameter that may be NULL.
#[derive(Clone, Copy)]
pub(super) struct OrNull<T>(pub T);

/// Where a failure happened.
pub(super) struct CallSite {
    function: &'static str,
    /// The communicator that was passed, live or not.
    pub comm: Option<CommHandle>,
    /// A group may queue calls of this function.
    pub queued: bool,
}

impl CallSite {
    pub fn of(function: &'static str) -> CallSite {
        CallSite { function, comm: None, queued: false }
    }

    /// Returns the name that the program has given the communicator, for a sentence.
    fn named(&self) -> String {
        let name = self.comm.and_then(comm::name);
        name.map_or(String::new(), |name| format!("communicator {name}: "))
    }

    /// Records the failure and returns its number. Must not unwind into C.
    #[cold]
    pub fn fail(self, failure: thread::Result<Result<()>>) -> pennyResult_t {
        let error = match failure {
            Ok(Ok(())) => return super::types::pennySuccess,
            // This is no failure: a program that polls keeps the sentence of its last failure.
            Ok(Err(error)) if error.is_pending() => return super::types::pennyInProgress,
            Ok(Err(error)) => {
                error.with_message(format!("{}: {}{}", self.function, self.named(), error.message))
            }
            Err(panic) => {
                let error = Error::panicked(&*panic);
                let error = error.with_message(format!("{}: {}", self.function, error.message));
                // The payload is foreign: dropping it might panic again.
                std::mem::forget(panic);
                let _ = catch_unwind(|| self.comm.map(|comm| comm::poison(comm, &error.message)));
                error
            }
        };
        let code = pennyResult_t(error.code as c_int);
        let _ = catch_unwind(AssertUnwindSafe(|| {
            if self.queued {
                comm::group_fail(&error);
            }
            LAST.try_with(|last| last.borrow_mut().file(self.comm, &error.message))
        }));
        code
    }
}

/// Files the sentence of a failure that a function reads, and does not have itself.
pub(super) fn file(comm: CommHandle, failure: &Error) {
    if !failure.is_pending() {
        let _ = LAST.try_with(|last| last.borrow_mut().file(Some(comm), &failure.message));
    }
}

thread_local! {
    static LAST: RefCell<LastErrors> = RefCell::default();
}

/// The sentences of one thread's failures: the newest, and the newest of each other live communicator.
///
/// Only the newest may be about a communicator that is gone, so the store is bounded by the live ones.
#[derive(Default)]
struct LastErrors {
    newest: Option<(Option<CommHandle>, CString)>,
    older: HashMap<CommHandle, CString>,
}

impl LastErrors {
    fn file(&mut self, comm: Option<CommHandle>, message: &str) {
        let text = CString::new(message.replace('\0', " ")).unwrap_or_default();
        if let Some((Some(of), text)) = self.newest.replace((comm, text)) {
            // Moving a CString leaves its bytes in place: a pointer that C still holds stays good.
            self.older.insert(of, text);
            self.older.retain(|&live, _| Some(live) != comm && comm::count(live).is_ok());
        }
    }

    fn of(&self, comm: Option<CommHandle>) -> &CStr {
        match (&self.newest, comm) {
            (Some((of, text)), _) if comm.is_none() || of.is_none() || *of == comm => text,
            (_, Some(comm)) => self.older.get(&comm).map_or(c"", CString::as_c_str),
            _ => c"",
        }
    }
}

/// Returns the sentence of this thread's newest failure, on `comm` if given; a failure of a call that takes no communicator
/// counts for every communicator. It is empty if there was none.
pub(super) fn last_error(comm: Option<CommHandle>) -> *const std::ffi::c_char {
    LAST.try_with(|last| last.borrow().of(comm).as_ptr()).unwrap_or(c"".as_ptr())
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
