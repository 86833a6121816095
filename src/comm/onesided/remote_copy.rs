//! Remote copies by the handles of their semaphores.

use super::semaphore::{SemaphoreHandle, with};
use crate::comm::registry::CommHandle;
use crate::error::Result;
use crate::memory::view::Address;
use crate::onesided::{self, ByteSemaphore, Device};

/// A copy to a rank's memory, as C describes it.
#[derive(Clone, Copy)]
pub struct RemoteCopyCall {
    /// Any memory of this rank.
    pub src: Address<'static>,
    /// This rank's own address of symmetric memory; to oneself any memory.
    pub dst: Address<'static>,
    /// The number of bytes.
    pub bytes: usize,
    /// Semaphore and index that count what was sent; `None`: a copy to oneself.
    pub send: Option<(SemaphoreHandle, i32)>,
    /// Semaphore and index that count what has come.
    pub recv: (SemaphoreHandle, i32),
    /// The destination.
    pub device: Device,
}

/// Uses a copy's semaphores from any thread.
#[inline]
pub fn remote_copy<T>(
    comm: CommHandle,
    copy: &RemoteCopyCall,
    body: impl FnOnce(&onesided::RemoteCopy<'_>) -> Result<T>,
) -> Result<T> {
    let &RemoteCopyCall { src, dst, bytes, device, .. } = copy;
    with("recvSem", copy.recv.0, Some(comm), |recv| {
        let recv = ByteSemaphore { of: recv, index: copy.recv.1 };
        let Some((send, index)) = copy.send else {
            return body(&onesided::RemoteCopy { src, dst, bytes, send: None, recv, device });
        };
        with("sendSem", send, Some(comm), |send| {
            let send = Some(ByteSemaphore { of: send, index });
            body(&onesided::RemoteCopy { src, dst, bytes, send, recv, device })
        })
    })
}
