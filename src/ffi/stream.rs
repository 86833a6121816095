//! Streams and events: calls that are made while the program goes on.

use std::ffi::{c_float, c_void};

use super::guard::Parameter;
use super::handle::{pennyStream_t, to_c};
use crate::comm::{self, EventHandle};
use crate::error::{Error, Result};

/// What a pennyEvent_t pretends to point at.
pub struct pennyEvent {
    _opaque: [u8; 0],
}

/// A point in a stream's work. Copy it freely; it is good until pennyEventDestroy, and refused with pennyInvalidArgument
/// ever after.
pub type pennyEvent_t = *mut pennyEvent;

/// A function that a stream calls.
pub type pennyHostFn_t = Option<unsafe extern "C" fn(userData: *mut c_void)>;

impl Parameter for pennyEvent_t {
    type Admitted = EventHandle;
    unsafe fn admit(self, name: &'static str) -> Result<EventHandle> {
        match self.is_null() {
            true => Err(Error::argument(format!("{name} is NULL; pass an event of pennyEventCreate"))),
            false => Ok(EventHandle::from_bits(self.addr() as u64)),
        }
    }
}

impl Parameter for pennyHostFn_t {
    type Admitted = unsafe extern "C" fn(*mut c_void);
    unsafe fn admit(self, name: &'static str) -> Result<Self::Admitted> {
        self.ok_or_else(|| Error::argument(format!("{name} is NULL; pass the function to be called")))
    }
}

/// A call of the program's own function, on its way to a stream's thread.
struct HostCall(unsafe extern "C" fn(*mut c_void), *mut c_void);

// SAFETY: the caller of pennyStreamLaunchHostFunc promised that the stream's thread may call it with this pointer.
unsafe impl Send for HostCall {}

impl HostCall {
    fn make(self) {
        // SAFETY: as above.
        unsafe { self.0(self.1) }
    }
}

c_api! {
    /// Makes a stream: calls that name it are checked, queued, and return at once; its own thread makes them in order.
    /// Their buffers must stay as they are until then. Destroy it with pennyStreamDestroy.
    ///
    /// Calls of one communicator run in the order in which they were queued, over all its streams, and a call on it
    /// without a stream first waits for them. What fails after it was queued is told by the next event of the stream, by the
    /// next pennyStreamSynchronize, and by pennyCommGetAsyncError of the communicator; calls behind it are made all the same.
    ///
    /// A group with calls on a stream is queued as a whole when it ends: it begins when all its streams have come to it, and
    /// they go on when it is over. If it also has calls without a stream, pennyGroupEnd returns when it is over.
    fn pennyStreamCreate(#[out] stream: *mut pennyStream_t) {
        comm::stream_create().and_then(|made| stream.set(to_c(made)))
    }

    /// Ends a stream when all that is queued on it is over, and tells its first failure that was not told before.
    fn pennyStreamDestroy(#[or_null] stream: pennyStream_t) {
        stream.map_or(Ok(()), comm::stream_destroy)
    }

    /// Waits until all that is queued on the stream is over, and tells the first failure since it was last asked.
    fn pennyStreamSynchronize(#[or_null] stream: pennyStream_t) {
        comm::stream_synchronize(stream)
    }

    /// The same without waiting: pennyInProgress if something is not over, which leaves the last error as it is.
    fn pennyStreamQuery(#[or_null] stream: pennyStream_t) {
        comm::stream_query(stream)
    }

    /// Whatever is queued on the stream from now on waits for the event, as it was last recorded before this call; not at
    /// all if it never was. stream NULL: the caller waits.
    fn pennyStreamWaitEvent(#[or_null] stream: pennyStream_t, event: pennyEvent_t) {
        comm::stream_wait_event(stream, event)
    }

    /// Has the stream's thread call fn(userData) when it comes to it; stream NULL: it is called here. It must not wait for
    /// streams, or for calls that are queued on them: pennyInvalidUsage there.
    fn pennyStreamLaunchHostFunc(
        #[or_null] stream: pennyStream_t,
        hostFn: pennyHostFn_t,
        userData: *mut c_void,
    ) {
        // SAFETY: the address is handed back to the function that it came with, and not looked at.
        let call = HostCall(hostFn, std::ptr::with_exposed_provenance_mut(userData.get()));
        comm::stream_host_function(stream, move || call.make())
    }

    /// Makes an event, which counts as over until it is recorded. Destroy it with pennyEventDestroy.
    fn pennyEventCreate(#[out] event: *mut pennyEvent_t) {
        comm::event_create().and_then(|made| event.set(to_c(made)))
    }

    /// Gives an event back, even before a stream has come to it.
    fn pennyEventDestroy(event: pennyEvent_t) {
        comm::event_destroy(event)
    }

    /// The event is over when all is that was queued on the stream before. It may be recorded again: the last time counts.
    fn pennyEventRecord(event: pennyEvent_t, #[or_null] stream: pennyStream_t) {
        comm::event_record(event, stream)
    }

    /// pennySuccess if the event is over, pennyInProgress if not (which leaves the last error as it is), or the first failure of
    /// what its stream ran since the event recorded before it there: an event after each call tells how that call went.
    fn pennyEventQuery(event: pennyEvent_t) {
        comm::event_query(event)
    }

    /// Waits until the event is over; then as pennyEventQuery.
    fn pennyEventSynchronize(event: pennyEvent_t) {
        comm::event_synchronize(event)
    }

    /// Milliseconds between two events that are over, by this machine's clock (not a declared machine's).
    fn pennyEventElapsedTime(#[out] ms: *mut c_float, start: pennyEvent_t, end: pennyEvent_t) {
        comm::event_elapsed_ms(start, end).and_then(|elapsed| ms.set(elapsed as c_float))
    }
}
