//! How a thread sleeps until an endpoint has something to do.
//!
//! ```text
//!     socket --- the domain's epoll --- a descriptor's epoll        each message wakes through both, before its sender's call returns
//! ```
//!
//! A descriptor that is open makes every message dearer, to its sender where both are on one machine (docs/decisions/0074): the kernel passes each
//! arrival on to it, whether or not a thread sleeps there. So it is open only while one does. The tcp provider's descriptors stand for the whole domain,
//! so they are those of a queue that is opened beside the first and in which nothing completes. Other providers have the first queue's.

use super::abi::*;
use super::endpoint::OfiEndpoint;
use crate::error::Result;
use std::ffi::c_int;
use std::os::fd::RawFd;
use std::ptr::null_mut;

/// Completions that the queue has place for.
pub(super) const COMPLETIONS: usize = 4096;
/// The provider whose descriptors are readable whatever queue of the domain an event is for.
const OF_DOMAIN: &str = "tcp";

/// The descriptor of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wakeup {
    /// The provider has none.
    Nothing,
    /// That of the queue in which everything completes.
    OfQueue,
    /// That of a queue beside it.
    Beside,
}

/// Opens a queue.
fn open_queue(domain: *mut Domain, completions: usize, wait: c_int, made: &mut *mut Cq) -> c_int {
    // SAFETY: a live domain, attributes that are zero where nothing is asked, and a place for a queue.
    unsafe {
        let mut attr: CqAttr = std::mem::zeroed();
        attr.size = completions;
        attr.format = FI_CQ_FORMAT_DATA;
        attr.wait_obj = wait;
        ((*(*domain).ops).cq_open)(domain, &mut attr, made, null_mut())
    }
}

/// Returns the descriptor of a queue; `None`: it has none.
pub(super) fn descriptor_of(cq: *mut Cq) -> Option<RawFd> {
    let mut fd: c_int = -1;
    // SAFETY: a live queue, and a place for a descriptor.
    let result = unsafe { ((*(*cq).fid.ops).control)(&raw mut (*cq).fid, FI_GETWAIT, (&raw mut fd).cast()) };
    (result == 0 && fd >= 0).then_some(fd)
}

impl OfiEndpoint {
    /// Opens the queue in which everything completes.
    pub(super) fn make_queue(&mut self, provider: &str) -> Result<()> {
        let domain = self.objects.domain;
        let mut result = 0;
        if provider == OF_DOMAIN && self.try_descriptor() {
            self.wakeup = Wakeup::Beside;
            result = open_queue(domain, COMPLETIONS, FI_WAIT_NONE, &mut self.objects.cq);
            return self.check(result as isize, || "cannot open a completion queue".into());
        }
        for (wait, wakeup) in [(FI_WAIT_FD, Wakeup::OfQueue), (FI_WAIT_NONE, Wakeup::Nothing)] {
            self.wakeup = wakeup;
            result = open_queue(domain, COMPLETIONS, wait, &mut self.objects.cq);
            if result == 0 {
                break;
            }
        }
        self.check(result as isize, || "cannot open a completion queue".into())
    }

    /// Tells whether a queue beside the first can be opened that has a descriptor.
    fn try_descriptor(&mut self) -> bool {
        self.wakeup = Wakeup::Beside;
        let is_there = self.open_descriptor().is_some();
        self.close_descriptor();
        is_there
    }

    /// Tells whether the endpoint can have a descriptor.
    pub(super) fn has_descriptor(&self) -> bool {
        self.wakeup != Wakeup::Nothing
    }

    /// Opens a descriptor that becomes readable when something has come, or returns that which is open. `None`: the provider has none, or the process cannot
    /// open more files.
    pub(super) fn open_descriptor(&mut self) -> Option<RawFd> {
        match self.wakeup {
            Wakeup::Nothing => None,
            Wakeup::OfQueue => descriptor_of(self.objects.cq),
            Wakeup::Beside => {
                let beside = &mut self.objects.beside;
                if beside.is_null() && open_queue(self.objects.domain, 1, FI_WAIT_FD, beside) != 0 {
                    *beside = null_mut();
                    return None;
                }
                descriptor_of(*beside)
            }
        }
    }

    /// Closes it, if it is dearer to keep.
    pub(super) fn close_descriptor(&mut self) {
        let beside = std::mem::replace(&mut self.objects.beside, null_mut());
        if !beside.is_null() {
            // SAFETY: a live queue, closed once: it is not known any more, and nothing was bound to it.
            unsafe { ((*(*beside).fid.ops).close)(beside.cast()) };
        }
    }

    /// Tells whether a thread may sleep on the descriptor.
    pub(super) fn is_slept_on(&self) -> bool {
        self.wakeup == Wakeup::OfQueue || !self.objects.beside.is_null()
    }

    /// Tells whether the descriptor may be waited for: everything that has come has been polled.
    pub(super) fn may_sleep(&mut self) -> bool {
        let (fabric, cq) = (self.objects.fabric, self.objects.cq);
        // SAFETY: live objects.
        unsafe {
            let mut fid = &raw mut (*cq).fid;
            (*(*fabric).ops).trywait.is_some_and(|trywait| trywait(fabric, &mut fid, 1) == 0)
        }
    }
}
