//! Windows: memory that every rank of a communicator opens to the others, each its own place and size.
//!
//! ```text
//!     rank 0   tell all "window over my heap's 4096.., 100 bytes"  -> all well? -> window 7 -> tell all "I have it"
//!     rank 1   tell all "window over my heap's 8192.., 500 bytes"  -> all well? -> window 7 -> tell all "I have it"
//! ```
//!
//! What a rank cannot do it tells like anything else, so that no other waits for it: either all ranks have the window, or
//! each knows whose fault it is that none has. Windows are numbered in the order in which they are made, which is the same
//! on all ranks; so ranks that give up different ones are found out.

use super::window_table::{WINDOWS, Window, WindowHandle, with};
use crate::comm::agree::{Proposal, Subject};
use crate::comm::communicator::CommCore;
use crate::comm::registry::{self, CommHandle};
use crate::error::{Error, Result};
use crate::memory::heap;
use crate::memory::view::Address;
use crate::onesided::Region;
use std::sync::Arc;

/// All bits of the flags that a window may be registered with.
const FLAGS: i32 = 3;

/// A rank's proposal: a call, the flags or the window's number, and the place and the size of this rank's part.
struct WindowCall {
    ask: Ask,
    key: u64,
    part: [u64; 2],
}

#[derive(Clone, Copy)]
#[repr(u64)]
enum Ask {
    Register = 1,
    Have,
    Deregister,
}

impl WindowCall {
    fn new(ask: Ask, key: u64) -> WindowCall {
        WindowCall { ask, key, part: [0; 2] }
    }
}

impl Proposal for WindowCall {
    const SUBJECT: Subject = Subject::Windows;
    const EQUAL: usize = 2;
    type Words = [u64; 4];

    fn words(&self) -> [u64; 4] {
        [self.ask as u64, self.key, self.part[0], self.part[1]]
    }

    fn reads(words: &[u64]) -> String {
        match words {
            [1, flags, ..] => format!("pennyCommWindowRegister with winFlags {flags}"),
            [3, number, ..] => {
                format!("pennyCommWindowDeregister of window {number} in the order of their making")
            }
            _ => "something that is no call on windows".into(),
        }
    }
}

/// Returns the offset in this process's heap at which peers access a range of its memory.
fn reached(buff: Address<'static>, size: usize) -> Result<u64> {
    if size == 0 {
        return Ok(0);
    }
    let offset = heap::mine()?.offset_of(buff.get(), size).filter(|_| size <= buff.lent());
    offset.map(|offset| offset as u64).ok_or_else(|| {
        Error::argument(format!(
            "buff {:#x} and its {size} bytes are not memory that other ranks reach; take them from pennyMemAlloc or \
             pennyShmemMalloc",
            buff.get()
        ))
    })
}

impl CommCore {
    fn window_register(&mut self, buff: Address<'static>, size: usize, flags: i32) -> Result<WindowHandle> {
        let known = match flags & !FLAGS {
            0 => Ok(()),
            _ => Err(Error::argument(format!(
                "winFlags is {flags}; it is PENNY_WIN_DEFAULT, or PENNY_WIN_COLL_SYMMETRIC and PENNY_WIN_STRICT_ORDERING \
                 or one of them"
            ))),
        };
        let begin = known.and_then(|()| reached(buff, size));
        let part = [begin.as_ref().map_or(0, |&begin| begin), size as u64];
        let (_, all) = self.agree(&WindowCall { ask: Ask::Register, key: flags as u64, part }, begin)?;
        let window = Arc::new(Window {
            comm: self.handle(),
            number: self.windows.made,
            region: Region::new(buff.get(), size, all.each(2)),
            sizes: all.each(3).into(),
        });
        let made = WINDOWS
            .insert(window)
            .ok_or_else(|| Error::system("this process has as many windows as it can have; deregister some"));
        let all_have_it = self.agree(&WindowCall::new(Ask::Have, 0), made.clone());
        let (made, _) =
            all_have_it.inspect_err(|_| made.into_iter().for_each(|made| drop(WINDOWS.remove(made))))?;
        self.windows.open.push(made);
        self.windows.made += 1;
        Ok(made)
    }

    fn window_deregister(&mut self, window: WindowHandle) -> Result<()> {
        let number = with(self.handle(), window, "win", |window| Ok(window.number));
        // A rank that has heard of all ranks knows that none of them writes any more.
        let key = number.as_ref().map_or(0, |&number| number);
        self.agree(&WindowCall::new(Ask::Deregister, key), number)?;
        self.windows.open.retain(|&open| open != window);
        WINDOWS.remove(window).map(drop).ok_or_else(|| Error::internal("a live window was not there"))
    }
}

/// Opens `size` bytes of this rank's memory to the ranks of a communicator. All ranks call, each with a size of its own and
/// the same flags. The memory stays the caller's and must be there until the window is deregistered on all ranks.
pub fn window_register(
    comm: CommHandle,
    buff: Address<'static>,
    size: usize,
    flags: i32,
) -> Result<WindowHandle> {
    registry::enter(comm, |c| c.window_register(buff, size, flags))
}

/// Closes a window. All ranks call; when it returns none writes to it any more.
pub fn window_deregister(comm: CommHandle, window: WindowHandle) -> Result<()> {
    registry::enter(comm, |c| c.window_deregister(window))
}

/// Returns the address that this rank registered a window with.
pub fn window_buffer(comm: CommHandle, window: WindowHandle) -> Result<usize> {
    registry::shared(comm)?;
    with(comm, window, "win", |window| Ok(window.region.base()))
}
