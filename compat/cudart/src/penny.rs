//! What this library calls of `penny.h`, with results of this library.

use std::ffi::{CStr, c_void};

use penny_sys::{self as sys, sentence};

use crate::codes;
use crate::guard::{Fault, Result, fault};

/// A stream of Penny.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PennyStream(usize);

/// An event of Penny.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PennyEvent(usize);

/// Returns the sentence of this thread's newest failure in Penny.
fn sentence() -> String {
    // SAFETY: NULL asks for the newest failure of the thread; the text is copied before the next call.
    let text = unsafe { CStr::from_ptr(sys::pennyGetLastError(std::ptr::null_mut())) };
    sentence::in_cudas_words(&text.to_string_lossy())
}

fn check(result: sys::pennyResult_t, otherwise: std::ffi::c_int) -> Result<()> {
    match result {
        sys::pennySuccess => Ok(()),
        sys::pennyInProgress => fault(codes::cudaErrorNotReady, "work has not completed yet"),
        _ => fault(otherwise, sentence()),
    }
}

/// Allocates memory that other ranks can reach.
pub fn allocate(bytes: usize) -> Result<usize> {
    let mut at = std::ptr::null_mut();
    // SAFETY: `at` takes the result.
    check(unsafe { sys::pennyMemAlloc(&mut at, bytes) }, codes::cudaErrorMemoryAllocation)?;
    Ok(at.expose_provenance())
}

/// Frees memory of [`allocate`].
pub fn free(at: usize) -> Result<()> {
    // SAFETY: Penny refuses an address that it did not give.
    check(
        unsafe { sys::pennyMemFree(std::ptr::with_exposed_provenance_mut(at)) },
        codes::cudaErrorInvalidValue,
    )
}

impl PennyStream {
    /// Makes a stream.
    pub fn create() -> Result<PennyStream> {
        let mut made = std::ptr::null_mut();
        // SAFETY: `made` takes the result.
        check(unsafe { sys::pennyStreamCreate(&mut made) }, codes::cudaErrorMemoryAllocation)?;
        Ok(PennyStream(made.addr()))
    }

    /// Returns the handle for functions of Penny.
    pub fn handle(self) -> sys::pennyStream_t {
        std::ptr::without_provenance_mut(self.0)
    }

    /// Destroys the stream when its work is over.
    pub fn destroy(self) {
        // SAFETY: Penny checks the handle.
        unsafe { sys::pennyStreamDestroy(self.handle()) };
    }

    /// Waits until the work is over.
    pub fn synchronize(self) -> Result<()> {
        // SAFETY: Penny checks the handle.
        check(unsafe { sys::pennyStreamSynchronize(self.handle()) }, codes::cudaErrorUnknown)
    }

    /// Tests whether the work is over.
    pub fn query(self) -> Result<()> {
        // SAFETY: Penny checks the handle.
        check(unsafe { sys::pennyStreamQuery(self.handle()) }, codes::cudaErrorUnknown)
    }

    /// Lets later work wait for an event.
    pub fn wait(self, event: PennyEvent) -> Result<()> {
        // SAFETY: Penny checks both handles.
        check(
            unsafe { sys::pennyStreamWaitEvent(self.handle(), event.handle()) },
            codes::cudaErrorInvalidResourceHandle,
        )
    }

    /// Lets later work wait for what another stream has to do by now.
    pub fn follow(self, other: PennyStream) -> Result<()> {
        let event = PennyEvent::create()?;
        let queued = event.record(Some(other)).and_then(|()| self.wait(event));
        event.destroy();
        queued
    }

    /// Queues a function.
    pub fn call(self, function: Box<dyn FnOnce() + Send>) -> Result<()> {
        let boxed = Box::into_raw(Box::new(function));
        // SAFETY: `run` takes the box back, once.
        let result = unsafe { sys::pennyStreamLaunchHostFunc(self.handle(), Some(run), boxed.cast()) };
        check(result, codes::cudaErrorInvalidResourceHandle).inspect_err(|_| {
            // SAFETY: Penny did not take it.
            drop(unsafe { Box::from_raw(boxed) });
        })
    }
}

unsafe extern "C" fn run(function: *mut c_void) {
    // SAFETY: the pointer is that of `call`, and Penny calls this once with it.
    let function = unsafe { Box::from_raw(function.cast::<Box<dyn FnOnce() + Send>>()) };
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(function)).is_err() {
        eprintln!("penny-cudart: a defect in this library ended an operation of a stream; please report it");
    }
}

impl PennyEvent {
    /// Makes an event.
    pub fn create() -> Result<PennyEvent> {
        let mut made = std::ptr::null_mut();
        // SAFETY: `made` takes the result.
        check(unsafe { sys::pennyEventCreate(&mut made) }, codes::cudaErrorMemoryAllocation)?;
        Ok(PennyEvent(made.addr()))
    }

    fn handle(self) -> sys::pennyEvent_t {
        std::ptr::without_provenance_mut(self.0)
    }

    /// Destroys the event.
    pub fn destroy(self) {
        // SAFETY: Penny checks the handle.
        unsafe { sys::pennyEventDestroy(self.handle()) };
    }

    /// Records the event on a stream; `None`: it is complete at once.
    pub fn record(self, stream: Option<PennyStream>) -> Result<()> {
        let stream = stream.map_or(std::ptr::null_mut(), PennyStream::handle);
        // SAFETY: Penny checks both handles.
        check(unsafe { sys::pennyEventRecord(self.handle(), stream) }, codes::cudaErrorInvalidResourceHandle)
    }

    /// Tests whether the event is complete.
    pub fn query(self) -> Result<()> {
        // SAFETY: Penny checks the handle.
        check(unsafe { sys::pennyEventQuery(self.handle()) }, codes::cudaErrorUnknown)
    }

    /// Waits until the event is complete.
    pub fn synchronize(self) -> Result<()> {
        // SAFETY: Penny checks the handle.
        check(unsafe { sys::pennyEventSynchronize(self.handle()) }, codes::cudaErrorUnknown)
    }

    /// Returns the milliseconds from this event to a later one.
    pub fn elapsed(self, end: PennyEvent) -> Result<f32> {
        let mut ms = 0.0;
        // SAFETY: `ms` takes the result; Penny checks both handles.
        let result = unsafe { sys::pennyEventElapsedTime(&mut ms, self.handle(), end.handle()) };
        check(result, codes::cudaErrorInvalidResourceHandle)?;
        Ok(ms)
    }
}

/// Is this result one that only says that work goes on?
pub fn is_pending(outcome: &Result<()>) -> bool {
    matches!(outcome, Err(Fault { code: codes::cudaErrorNotReady, .. }))
}
