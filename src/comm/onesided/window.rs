//! Windows: memory that every rank of a communicator opens to the others, each its own place and size.
//!
//! ```text
//!     rank 0   tell all "window over my heap's 4096.., 100 bytes"  -> all well? -> window
//!     rank 1   tell all "window over my heap's 8192.., 500 bytes"  -> all well? -> window
//! ```
//!
//! What a rank cannot do it tells like anything else, so that no other waits for it: either all ranks have the window, or
//! each knows whose fault it is that none has. Memory that the others do not reach is no fault: then no rank has a window, and all go on
//! without. In a group, windows are registered at its end, so that one thread can register those of several ranks.
//!
//! A window is deregistered on each rank by itself.

use super::window_table::{WINDOWS, Window, WindowHandle, with};
use crate::comm::agree::{Proposal, Subject};
use crate::comm::communicator::CommCore;
use crate::comm::registry::{self, CommHandle};
use crate::error::{Error, Result};
use crate::log;
use crate::memory::heap;
use crate::memory::view::Address;
use crate::onesided::Region;
use crate::types::Rank;
use std::sync::Arc;

/// All bits of the flags that a window may be registered with.
const FLAGS: i32 = 3;
/// The place of memory that the other ranks do not reach.
const ORDINARY: u64 = u64::MAX;

/// A rank's proposal: the flags, and the place and the size of this rank's part.
struct Registration {
    flags: u64,
    part: [u64; 2],
}

impl Proposal for Registration {
    const SUBJECT: Subject = Subject::Windows;
    const EQUAL: usize = 1;
    type Words = [u64; 3];

    fn words(&self) -> [u64; 3] {
        [self.flags, self.part[0], self.part[1]]
    }

    fn reads(words: &[u64]) -> String {
        format!("pennyCommWindowRegister with winFlags {}", words[0])
    }
}

/// A window that is about to be made, with its handle, which is stale until then.
pub(in crate::comm) struct PendingWindow {
    pub comm: CommHandle,
    handle: WindowHandle,
    buff: Address<'static>,
    size: usize,
    flags: i32,
}

impl PendingWindow {
    pub(in crate::comm) fn new(
        comm: CommHandle,
        buff: Address<'static>,
        size: usize,
        flags: i32,
    ) -> Result<PendingWindow> {
        registry::shared(comm)?;
        let handle = WINDOWS.reserve().ok_or_else(|| {
            Error::system("this process has as many windows as it can have; deregister some")
        })?;
        Ok(PendingWindow { comm, handle, buff, size, flags })
    }
    pub(in crate::comm) fn handle(&self) -> WindowHandle {
        self.handle
    }
    /// Makes it. `None`: a rank's memory is ordinary, and no rank has a window.
    pub(in crate::comm) fn make(&self) -> Result<Option<WindowHandle>> {
        let made = registry::enter(self.comm, |c| c.window_register(self));
        if !matches!(made, Ok(true)) {
            self.give_up();
        }
        Ok(made?.then_some(self.handle))
    }
    pub(in crate::comm) fn give_up(&self) {
        WINDOWS.release(self.handle);
    }
    /// Returns the offset in this process's heap at which peers access the memory; `None`: they do not.
    fn reached(&self) -> Result<Option<u64>> {
        if self.size == 0 {
            return Ok(Some(0));
        }
        let offset =
            heap::mine()?.offset_of(self.buff.get(), self.size).filter(|_| self.size <= self.buff.lent());
        Ok(offset.map(|offset| offset as u64))
    }
}

impl CommCore {
    fn window_register(&mut self, pending: &PendingWindow) -> Result<bool> {
        let &PendingWindow { handle, buff, size, flags, .. } = pending;
        let known = match flags & !FLAGS {
            0 => Ok(()),
            _ => Err(Error::argument(format!(
                "winFlags is {flags}; it is PENNY_WIN_DEFAULT, or PENNY_WIN_COLL_SYMMETRIC and PENNY_WIN_STRICT_ORDERING \
                 or one of them"
            ))),
        };
        let begin = known.and_then(|()| pending.reached());
        let place = begin.as_ref().map_or(0, |begin| begin.unwrap_or(ORDINARY));
        // Others may put as soon as they know of it.
        self.transport.open(place, size);
        let told = self.agree(&Registration { flags: flags as u64, part: [place, size as u64] }, begin);
        let (_, all) = told.inspect_err(|_| self.transport.shut(place, size))?;
        if let Some((rank, _)) = all.ranks().find(|(_, words)| words[1] == ORDINARY) {
            self.transport.shut(place, size);
            self.note_ordinary(rank);
            return Ok(false);
        }
        let window = Window {
            comm: self.handle(),
            region: Region::new(buff.get(), size, all.each(1)),
            sizes: all.each(2).into(),
        };
        WINDOWS.fill(handle, Arc::new(window));
        self.windows.open.push(handle);
        Ok(true)
    }

    fn note_ordinary(&self, rank: Rank) {
        log::warn(
            self.rank(),
            format_args!(
                "no window was made: the memory of rank {rank} is not reached by the others; take it from pennyMemAlloc or \
                 pennyShmemMalloc"
            ),
        );
    }

    fn window_deregister(&mut self, window: WindowHandle) -> Result<()> {
        let range = with(self.handle(), window, "win", |window| {
            Ok((window.at(self.rank(), 0), window.region.bytes()))
        })?;
        self.transport.shut(range.0, range.1);
        self.windows.open.retain(|&open| open != window);
        WINDOWS.remove(window).map(drop).ok_or_else(|| Error::internal("a live window was not there"))
    }
}

/// Tells whether a window is there.
pub fn is_window(window: WindowHandle) -> bool {
    WINDOWS.get(window).is_some()
}

/// Closes a window on this rank. Other ranks may still write to its memory, until the program lets them know.
pub fn window_deregister(comm: CommHandle, window: WindowHandle) -> Result<()> {
    registry::enter(comm, |c| c.window_deregister(window))
}

/// Returns the address that this rank registered a window with.
pub fn window_buffer(comm: CommHandle, window: WindowHandle) -> Result<usize> {
    registry::shared(comm)?;
    with(comm, window, "win", |window| Ok(window.region.base()))
}
