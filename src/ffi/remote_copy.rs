//! Remote copies: bytes that one rank pushes to another, counted by semaphores on both sides.

use std::ffi::{c_int, c_void};

use super::handle::pennyComm_t;
use super::semaphore::{given, pennyDevice_t, pennySemaphore_t};
use crate::comm::{self, RemoteCopyCall};
use crate::error::{Error, Result};
use crate::ffi::guard::Parameter;

/// A copy to another rank's memory. All ranks may describe the same one; who starts it and who awaits which half is theirs
/// to say.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pennyRemoteCopy_t {
    /// From here: any memory of this rank.
    pub src: *const c_void,
    /// To there: symmetric memory, named by this rank's own address of it. In a copy to this rank itself any memory.
    pub dst: *mut c_void,
    /// How much.
    pub bytes: usize,
    /// Of kind pennySemaphoreDma: counts here the bytes that were sent. NULL: none, in a copy to this rank itself.
    pub sendSem: pennySemaphore_t,
    /// Which of sendSem.
    pub sendIndex: c_int,
    /// Of kind pennySemaphoreDma: counts there the bytes that have come.
    pub recvSem: pennySemaphore_t,
    /// Which of recvSem.
    pub recvIndex: c_int,
    /// To whom.
    pub device: pennyDevice_t,
}

c_api! {
    /// Starts the copy. Nothing is written if an argument is wrong. src must stay as it is until pennyRemoteCopyWaitSend,
    /// dst may be read over there after pennyRemoteCopyWaitRecv.
    ///
    /// copy: read during the call only.
    fn pennyRemoteCopyStart(comm: pennyComm_t, copy: *const pennyRemoteCopy_t) {
        comm::remote_copy(comm, &copy, |copy| copy.start())
    }

    /// Waits until bytes bytes have been sent from this rank, and takes them off sendSem. NULL for sendSem: nothing to wait for.
    fn pennyRemoteCopyWaitSend(comm: pennyComm_t, copy: *const pennyRemoteCopy_t) {
        comm::remote_copy(comm, &copy, |copy| copy.wait_send())
    }

    /// Waits until bytes bytes have come to this rank, from whomever, and takes them off recvSem. src and dst are not
    /// looked at. Ends with an error as pennySemaphoreWait does.
    fn pennyRemoteCopyWaitRecv(comm: pennyComm_t, copy: *const pennyRemoteCopy_t) {
        comm::remote_copy(comm, &copy, |copy| copy.wait_recv())
    }

    /// pennyRemoteCopyWaitSend, then pennyRemoteCopyWaitRecv.
    fn pennyRemoteCopyWait(comm: pennyComm_t, copy: *const pennyRemoteCopy_t) {
        comm::remote_copy(comm, &copy, |copy| copy.wait())
    }

    /// Would pennyRemoteCopyWait return at once? Then the bytes are taken off both semaphores, as by it; else nothing is.
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
