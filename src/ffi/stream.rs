//! Streams and events: calls that are made while the program goes on.

use std::ffi::{c_float, c_void};

use super::guard::Parameter;
use super::handle::{pennyStream_t, to_c};
use crate::comm::{self, EventHandle};
use crate::error::{Error, Result};

/// The incomplete type to which a pennyEvent_t points.
pub struct pennyEvent {
    _opaque: [u8; 0],
}

/// A handle of a point in a stream's work. It may be copied. It is valid until pennyEventDestroy; later calls refuse it
/// with pennyInvalidArgument.
pub type pennyEvent_t = *mut pennyEvent;

/// A function of the program that a stream calls.
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

/// Also for the hook of pennySetProgress, where NULL is right.
impl Parameter for pennyHostFn_t {
    type Admitted = pennyHostFn_t;
    unsafe fn admit(self, _name: &'static str) -> Result<Self::Admitted> {
        Ok(self)
    }
}

/// A queued call of the program's own function.
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
    /// Makes a stream: calls that name it are checked, queued, and return at once; threads that wait for them, or the
    /// stream's own thread, run them in order. Their buffers must stay as they are until then. Destroy it with pennyStreamDestroy.
    ///
    /// Calls of one communicator run in the order in which they were queued, over all its streams, and a call on it
    /// without a stream first waits for them. A failure after queuing is reported by the next event of the stream, by the
    /// next pennyStreamSynchronize, and by pennyCommGetAsyncError of the communicator; calls queued behind it still run.
    ///
    /// A group with calls on a stream is queued as a whole when it ends: it begins when all its streams have reached it,
    /// and they continue when it has completed. If it also has calls without a stream, pennyGroupEnd returns when it has
    /// completed.
    fn pennyStreamCreate(#[out] stream: *mut pennyStream_t) {
        comm::stream_create().and_then(|made| stream.set(to_c(made)))
    }

    /// Destroys a stream when all work queued on it has completed, and returns its first failure since the last
    /// synchronization, also one that an event has told.
    ///
    /// stream: NULL does nothing and succeeds.
    fn pennyStreamDestroy(#[or_null] stream: pennyStream_t) {
        stream.map_or(Ok(()), comm::stream_destroy)
    }

    /// Waits until all work queued on the stream has completed, and returns the first failure since the last
    /// synchronization.
    fn pennyStreamSynchronize(#[or_null] stream: pennyStream_t) {
        comm::stream_synchronize(stream)
    }

    /// Tests, without waiting, whether all work queued on the stream has completed: pennyInProgress if not, which leaves
    /// the last error unchanged.
    fn pennyStreamQuery(#[or_null] stream: pennyStream_t) {
        comm::stream_query(stream)
    }

    /// Makes work that is queued on the stream from now on wait for the event, as it was last recorded before this call; an
    /// event that was never recorded is not waited for. stream NULL: the caller waits.
    fn pennyStreamWaitEvent(#[or_null] stream: pennyStream_t, event: pennyEvent_t) {
        comm::stream_wait_event(stream, event)
    }

    /// Queues a call of fn(userData), which the stream's thread makes in its turn; stream NULL: it is called at once. fn
    /// must not wait for streams, or for calls that are queued on them: such a wait returns pennyInvalidUsage.
    fn pennyStreamLaunchHostFunc(
        #[or_null] stream: pennyStream_t,
        hostFn: pennyHostFn_t,
        userData: *mut c_void,
    ) {
        let hostFn = hostFn.ok_or_else(|| Error::argument("hostFn is NULL; pass the function to be called"))?;
        // SAFETY: the address is handed back to the function that it came with, and not looked at.
        let call = HostCall(hostFn, std::ptr::with_exposed_provenance_mut(userData.get()));
        comm::stream_host_function(stream, move || call.make())
    }

    /// Creates an event, which counts as complete until it is recorded. Destroy it with pennyEventDestroy.
    fn pennyEventCreate(#[out] event: *mut pennyEvent_t) {
        comm::event_create().and_then(|made| event.set(to_c(made)))
    }

    /// Destroys an event, even before a stream has reached it.
    ///
    /// event: NULL does nothing and succeeds.
    fn pennyEventDestroy(#[or_null] event: pennyEvent_t) {
        event.map_or(Ok(()), comm::event_destroy)
    }

    /// Records an event on a stream: it is complete when all work that was queued on the stream before has completed. It
    /// may be recorded again: the last time counts.
    fn pennyEventRecord(event: pennyEvent_t, #[or_null] stream: pennyStream_t) {
        comm::event_record(event, stream)
    }

    /// Tests an event: pennySuccess if it is complete, pennyInProgress if not (which leaves the last error unchanged), or
    /// the first failure of the stream's work since the event recorded before it on that stream. An event after each call
    /// gives the result of that call.
    fn pennyEventQuery(event: pennyEvent_t) {
        comm::event_query(event)
    }

    /// Waits until the event is complete; then returns as pennyEventQuery does.
    fn pennyEventSynchronize(event: pennyEvent_t) {
        comm::event_synchronize(event)
    }

    /// Computes the milliseconds between two complete events: by the clock of the simulated cluster (declared machine) if calls of
    /// one were made on their streams or known to the threads that recorded them, otherwise by this host's.
    fn pennyEventElapsedTime(#[out] ms: *mut c_float, start: pennyEvent_t, end: pennyEvent_t) {
        comm::event_elapsed_ms(start, end).and_then(|elapsed| ms.set(elapsed as c_float))
    }
}
