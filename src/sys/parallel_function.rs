//! A function of the program that runs a loop in threads of its own (`parallelFor` of `pennyConfig_t`).

use super::callback;
use crate::types::Rank;
use std::ffi::{c_int, c_void};
use std::io::Write;

/// A loop's body, as the function calls it: with the address that it was given beside it, and an index.
pub type LoopBody = unsafe extern "C" fn(*mut c_void, c_int);
/// The function: its own argument, the number of indices, the body, the body's argument.
pub type Function = unsafe extern "C-unwind" fn(*mut c_void, c_int, Option<LoopBody>, *mut c_void);

/// The function and its argument.
#[derive(Clone, Copy, Debug)]
pub struct ParallelFunction {
    function: Function,
    argument: *mut c_void,
}

// SAFETY: the promise to `new`: any thread may call it.
unsafe impl Send for ParallelFunction {}
// SAFETY: as above.
unsafe impl Sync for ParallelFunction {}

impl PartialEq for ParallelFunction {
    fn eq(&self, other: &ParallelFunction) -> bool {
        std::ptr::fn_addr_eq(self.function, other.function) && self.argument == other.argument
    }
}
impl Eq for ParallelFunction {}

impl ParallelFunction {
    /// Takes a function of the program.
    ///
    /// # Safety
    /// Any thread may call it with this argument, as long as a communicator has it among its settings.
    pub unsafe fn new(function: Function, argument: *mut c_void) -> ParallelFunction {
        ParallelFunction { function, argument }
    }

    /// Calls it. An exception that leaves it ends the process: nothing could carry it through the frames of this library, and the
    /// loop's pieces may be half done.
    ///
    /// # Safety
    /// `body` must be safe to call with `body_argument` from any thread, also after this has returned.
    pub unsafe fn call(&self, rank: Rank, indices: u32, body: LoopBody, body_argument: *mut c_void) {
        let _inside = callback::enter("parallelFor (pennyConfig_t)");
        let left_by_exception = LeftByException(rank);
        // SAFETY: the promises to `new` and to this function.
        unsafe { (self.function)(self.argument, indices as c_int, Some(body), body_argument) };
        std::mem::forget(left_by_exception);
    }
}

/// Ends the process with a sentence when an exception passes.
struct LeftByException(Rank);

impl Drop for LeftByException {
    fn drop(&mut self) {
        let _ = std::io::stderr().write_all(
            format!(
                "penny: rank {}: an exception left parallelFor, which no call can survive; catch it within parallelFor\n",
                self.0
            )
            .as_bytes(),
        );
        std::process::abort();
    }
}
