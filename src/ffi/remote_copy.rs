//! Remote copies: bytes that one rank pushes to another, counted by semaphores on both sides.

use std::ffi::{c_int, c_void};

use super::handle::pennyComm_t;
use super::semaphore::{given, pennyDevice_t, pennySemaphore_t};
use crate::comm::{self, RemoteCopyCall};
use crate::error::{Error, Result};
use crate::ffi::guard::Parameter;

/// A description of a copy to another rank's memory. All ranks may describe the same copy; the program decides which rank
/// starts it and which rank waits for which half.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pennyRemoteCopy_t {
    /// Source: any memory of this rank.
    pub src: *const c_void,
    /// Destination: symmetric memory, named by this rank's own address of it. In a copy to this rank itself, any memory.
    pub dst: *mut c_void,
    /// Length in bytes.
    pub bytes: usize,
    /// Semaphore of kind pennySemaphoreDma that counts the sent bytes on this rank. NULL: none, allowed in a copy to this
    /// rank itself.
    pub sendSem: pennySemaphore_t,
    /// Index within sendSem.
    pub sendIndex: c_int,
    /// Semaphore of kind pennySemaphoreDma that counts the received bytes on the destination.
    pub recvSem: pennySemaphore_t,
    /// Index within recvSem.
    pub recvIndex: c_int,
    /// Destination rank.
    pub device: pennyDevice_t,
}

c_api! {
    /// Starts the copy. Nothing is written if an argument is wrong. src must stay as it is until pennyRemoteCopyWaitSend,
    /// the destination may read dst after pennyRemoteCopyWaitRecv.
    ///
    /// copy: read during the call only.
    fn pennyRemoteCopyStart(comm: pennyComm_t, copy: *const pennyRemoteCopy_t) {
        comm::remote_copy(comm, &copy, |copy| copy.start())
    }

    /// Waits until the copy's bytes have been sent from this rank, and subtracts them from sendSem. NULL for sendSem:
    /// returns at once.
    fn pennyRemoteCopyWaitSend(comm: pennyComm_t, copy: *const pennyRemoteCopy_t) {
        comm::remote_copy(comm, &copy, |copy| copy.wait_send())
    }

    /// Waits until as many bytes as the copy has arrived at this rank, from any rank, and subtracts them from recvSem. src
    /// and dst are not used. Fails as pennySemaphoreWait does.
    fn pennyRemoteCopyWaitRecv(comm: pennyComm_t, copy: *const pennyRemoteCopy_t) {
        comm::remote_copy(comm, &copy, |copy| copy.wait_recv())
    }

    /// Calls pennyRemoteCopyWaitSend, then pennyRemoteCopyWaitRecv.
    fn pennyRemoteCopyWait(comm: pennyComm_t, copy: *const pennyRemoteCopy_t) {
        comm::remote_copy(comm, &copy, |copy| copy.wait())
    }

    /// Tests whether pennyRemoteCopyWait would return at once. If so, the bytes are subtracted from both semaphores; else
    /// neither changes.
    ///
    /// done: 1 or 0, written on success.
    fn pennyRemoteCopyTest(comm: pennyComm_t, copy: *const pennyRemoteCopy_t, #[out] done: *mut c_int) {
        done.set(comm::remote_copy(comm, &copy, |copy| copy.test())? as c_int)
    }
}

impl Parameter for *const pennyRemoteCopy_t {
    type Admitted = RemoteCopyCall;
    unsafe fn admit(self, name: &'static str) -> Result<RemoteCopyCall> {
        if self.is_null() {
            return Err(Error::argument(format!("{name} is NULL; pass a pennyRemoteCopy_t")));
        }
        // SAFETY: the promise to `admit`.
        let copy = unsafe { self.read_unaligned() };
        let recv = given(copy.recvSem).ok_or_else(|| {
            Error::argument(format!("{name}->recvSem is NULL; pass a semaphore of kind pennySemaphoreDma"))
        })?;
        // SAFETY: the promise to `admit`, which holds for what the description names too.
        unsafe {
            Ok(RemoteCopyCall {
                src: copy.src.admit("src")?,
                dst: copy.dst.admit("dst")?,
                bytes: copy.bytes,
                send: given(copy.sendSem).map(|send| (send, copy.sendIndex)),
                recv: (recv, copy.recvIndex),
                device: copy.device.admit("device")?,
            })
        }
    }
}
