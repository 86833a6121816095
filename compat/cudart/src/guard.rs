//! Defines every exported function, so that none can be without its checks.
//!
//! [`cuda_api!`] takes functions with their C parameters. The body yields a [`Result`]. A fault is recorded as the thread's last
//! error; a panic is `cudaErrorUnknown` and does not leave the library.

use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{codes, error, real};

/// Why a function failed.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The result that the function returns.
    pub code: c_int,
    /// Names the argument and the remedy.
    pub sentence: String,
}

/// What a function of this library comes to.
pub type Result<T> = std::result::Result<T, Fault>;

/// Returns a fault.
pub fn fault<T>(code: c_int, sentence: impl Into<String>) -> Result<T> {
    Err(Fault { code, sentence: sentence.into() })
}

/// Returns the fault of an argument that is wrong by itself.
pub fn invalid<T>(sentence: impl Into<String>) -> Result<T> {
    fault(codes::cudaErrorInvalidValue, sentence)
}

/// Returns the fault of a function that needs what a host does not have.
pub fn unsupported<T>(sentence: impl Into<String>) -> Result<T> {
    fault(codes::cudaErrorNotSupported, sentence)
}

/// Defines exported functions. See the head of this file.
macro_rules! cuda_api {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> ::std::ffi::c_int {
            $crate::guard::call(stringify!($name), || -> $crate::guard::Result<()> { $body })
        }
    )*};
}
pub(crate) use cuda_api;

/// Makes the call of an exported function.
pub fn call(name: &'static str, body: impl FnOnce() -> Result<()>) -> c_int {
    match catch_unwind(AssertUnwindSafe(|| {
        real::warn_of_another();
        body()
    })) {
        Ok(Ok(())) => codes::cudaSuccess,
        Ok(Err(fault)) => error::record(name, fault),
        Err(panic) => {
            // The payload is foreign: dropping it might panic again.
            std::mem::forget(panic);
            let sentence = "a defect in this library; please report it".to_owned();
            error::record(name, Fault { code: codes::cudaErrorUnknown, sentence })
        }
    }
}

/// A place for a result.
pub struct Place<T>(*mut T);

/// Checks that there is a place for a result.
pub fn place<T>(at: *mut T, name: &str) -> Result<Place<T>> {
    if at.is_null() {
        return invalid(format!("{name} is NULL; pass the place for the result"));
    }
    Ok(Place(at))
}

impl<T> Place<T> {
    /// Writes the result.
    pub fn set(self, value: T) {
        // SAFETY: the caller of the exported function promises that the address takes a value; NULL was refused.
        unsafe { self.0.write_unaligned(value) };
    }

    /// Reads what the caller put there.
    pub fn get(&self) -> T
    where
        T: Copy,
    {
        // SAFETY: the caller of the exported function promises that the address has a value; NULL was refused.
        unsafe { self.0.read_unaligned() }
    }
}

/// Writes a result if the caller wants it.
pub fn set_if_wanted<T>(at: *mut T, value: T) {
    if !at.is_null() {
        Place(at).set(value);
    }
}

/// Reads a structure of the caller.
pub fn read<T: Copy>(at: *const T, name: &str) -> Result<T> {
    place(at.cast_mut(), name).map(|place| place.get())
}

/// Writes a text and its end into `room` bytes, cut off where it is too long.
pub fn set_text(at: *mut c_char, room: usize, text: &str) {
    let text = CString::new(text).unwrap_or_default();
    let bytes = &text.as_bytes()[..text.as_bytes().len().min(room.saturating_sub(1))];
    if at.is_null() || room == 0 {
        return;
    }
    for (i, byte) in bytes.iter().chain(&[0]).enumerate() {
        // SAFETY: the caller of the exported function promises `room` bytes, and the text was cut to fit.
        unsafe { at.add(i).write(*byte as c_char) };
    }
}
