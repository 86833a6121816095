//! What C holds in place of Penny's objects: numbers in a pointer's clothes, never dereferenced.
//!
//! A handle's bits are those of [`handle`](crate::handle): a kind, a generation and an index. So a stale, foreign or invented one
//! is recognised and refused, and C still gets a type of its own that its compiler tells from any other.

use crate::comm::{CommHandle, StreamHandle};
use crate::error::{Error, Result};
use crate::ffi::group::pennyRecording_t;
use crate::ffi::guard::{CallSite, OrNull, Parameter};
use crate::ffi::mailbox::pennyMailbox_t;
use crate::ffi::semaphore::pennySemaphore_t;
use crate::ffi::stream::pennyEvent_t;
use crate::handle;

/// The incomplete type to which a pennyComm_t points.
pub struct pennyComm {
    _opaque: [u8; 0],
}

/// A handle of one rank's communicator. It may be copied. It is valid until pennyCommDestroy or pennyCommAbort; later calls
/// refuse it with pennyInvalidArgument.
pub type pennyComm_t = *mut pennyComm;

/// The incomplete type to which a pennyStream_t points.
pub struct pennyStream {
    _opaque: [u8; 0],
}

/// An ordered queue of calls with a thread of its own that makes them; see pennyStreamCreate. NULL: the call runs in the
/// caller's thread and is done when it returns.
pub type pennyStream_t = *mut pennyStream;

// LAYOUT: a handle's 64 bits fit a pointer.
const _: () = assert!(size_of::<pennyComm_t>() == size_of::<CommHandle>());

/// A handle type of C: of a communicator, a stream, an event, a mailbox and so on.
pub(super) fn to_c<K, T>(handle: handle::Handle<K>) -> *mut T {
    std::ptr::without_provenance_mut(handle.bits() as usize)
}

/// Converts C's handle; `None` for NULL.
pub(super) fn from_c(comm: pennyComm_t) -> Option<CommHandle> {
    (!comm.is_null()).then(|| CommHandle::from_bits(comm.addr() as u64))
}

fn stream_from_c(stream: pennyStream_t) -> Option<StreamHandle> {
    (!stream.is_null()).then(|| StreamHandle::from_bits(stream.addr() as u64))
}

impl Parameter for pennyComm_t {
    type Admitted = CommHandle;
    unsafe fn admit(self, name: &'static str) -> Result<CommHandle> {
        from_c(self).ok_or_else(|| Error::argument(format!("{name} is NULL; pass a communicator")))
    }
    fn describe(&self, site: &mut CallSite) {
        site.comm = from_c(*self);
    }
}

impl Parameter for OrNull<pennyComm_t> {
    type Admitted = Option<CommHandle>;
    unsafe fn admit(self, _name: &'static str) -> Result<Option<CommHandle>> {
        Ok(from_c(self.0))
    }
    fn describe(&self, site: &mut CallSite) {
        site.comm = from_c(self.0);
    }
}

impl Parameter for pennyStream_t {
    type Admitted = Option<StreamHandle>;
    unsafe fn admit(self, _name: &'static str) -> Result<Option<StreamHandle>> {
        Ok(stream_from_c(self))
    }
    /// A group queues every call that takes a stream parameter of this type.
    fn describe(&self, site: &mut CallSite) {
        site.queued = true;
    }
}

/// The stream parameter of a function that a group does not queue.
impl Parameter for OrNull<pennyStream_t> {
    type Admitted = Option<StreamHandle>;
    unsafe fn admit(self, _name: &'static str) -> Result<Option<StreamHandle>> {
        Ok(stream_from_c(self.0))
    }
}

/// Handles whose NULL some function takes.
macro_rules! admitted_unless_null {
    ($($ty:ty),*) => {$(
        impl Parameter for OrNull<$ty> {
            type Admitted = Option<<$ty as Parameter>::Admitted>;
            unsafe fn admit(self, name: &'static str) -> Result<Self::Admitted> {
                // SAFETY: the promise to `admit`.
                if self.0.is_null() { Ok(None) } else { unsafe { self.0.admit(name) }.map(Some) }
            }
        }
    )*};
}
admitted_unless_null!(pennyEvent_t, pennyMailbox_t, pennyRecording_t, pennySemaphore_t);
