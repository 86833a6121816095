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

use crate::comm::communicator::CommCore;
use crate::comm::registry::{self, CommHandle};
use crate::error::{Error, Result};
use crate::handle::{self, Objects, Remembered, WindowKind};
use crate::memory::heap;
use crate::memory::view::{Address, Payload};
use crate::onesided::Region;
use crate::transport::Transport;
use crate::types::Rank;
use std::cell::RefCell;
use std::sync::Arc;

/// Names one rank's part of a window.
pub type WindowHandle = handle::Handle<WindowKind>;

/// One rank's part of a window, and where the others' lie.
pub(in crate::comm) struct Window {
    comm: CommHandle,
    number: u64,
    /// This rank's part, and each part's beginning.
    region: Region,
    /// Bytes of each rank's part.
    sizes: Box<[u64]>,
}

thread_local! {
    static LAST: Remembered<WindowKind, Window> = const { RefCell::new(None) };
}
static WINDOWS: Objects<WindowKind, Window> = Objects::new(&LAST);

/// The windows of one communicator; they end with it.
#[derive(Default)]
pub(in crate::comm) struct Windows {
    open: Vec<WindowHandle>,
    made: u64,
}

impl Drop for Windows {
    fn drop(&mut self) {
        self.open.iter().for_each(|window| drop(WINDOWS.remove(*window)));
    }
}

/// The bits of all flags with which a window may be registered.
const FLAGS: i32 = 3;

/// The request that ranks exchange, as the first of [`WORDS`] words; the second is the flags, or the window's number.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
enum Ask {
    Register = 0x5749_4e01,
    Have,
    Deregister,
}

const WORDS: usize = 4;
/// The value that stands for the second word if this rank cannot take part.
const REFUSED: u64 = u64::MAX;

impl Ask {
    fn text(words: &[u64]) -> String {
        match words {
            [ask, flags, ..] if *ask == Ask::Register as u64 => {
                format!("pennyCommWindowRegister with winFlags {flags}")
            }
            [ask, number, ..] if *ask == Ask::Deregister as u64 => {
                format!("pennyCommWindowDeregister of window {number} in the order of their making")
            }
            _ => "something that is no call on windows".into(),
        }
    }
}

impl Window {
    /// Returns the part of a rank's window that a put writes to.
    pub fn place<'a>(
        &self,
        t: &'a Transport,
        rank: Rank,
        offset: usize,
        bytes: usize,
    ) -> Result<Payload<'a>> {
        self.holds(rank, offset, bytes)?;
        match bytes {
            0 => Ok(Payload::EMPTY),
            _ => self.region.view(t, rank, offset, bytes),
        }
    }

    /// An error if so much does not lie in a rank's window.
    pub fn holds(&self, rank: Rank, offset: usize, bytes: usize) -> Result<()> {
        let size = self.sizes[rank as usize];
        if (offset as u64).checked_add(bytes as u64).is_some_and(|end| end <= size) {
            return Ok(());
        }
        Err(Error::argument(format!(
            "peerWinOffset {offset} and {bytes} bytes reach past the end of rank {rank}'s window, which has {size} bytes"
        )))
    }
}

/// Uses a window of a communicator; `what` names the argument.
pub(in crate::comm) fn with<R>(
    comm: CommHandle,
    window: WindowHandle,
    what: &str,
    body: impl FnOnce(&Window) -> Result<R>,
) -> Result<R> {
    let used = WINDOWS.with(window, |found| match found.comm == comm {
        true => body(found),
        false => Err(Error::argument(format!(
            "{what} is a window of another communicator; pass one that was registered on comm"
        ))),
    });
    used.unwrap_or_else(|| {
        Err(window.refusal(
            what,
            format_args!(
                "{what} is not a live window: it was deregistered, its communicator has ended, or Penny never made it"
            ),
        ))
    })
}

/// Returns the offset in this process's heap at which peers reach a range of its memory.
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
    /// Hear what every rank asks for: the same, or an error on each.
    fn ask_all(&mut self, ask: Ask, mine: Result<[u64; 3]>) -> Result<Vec<u64>> {
        let [key, begin, size] = *mine.as_ref().unwrap_or(&[REFUSED, 0, 0]);
        let all = self.tell_all(&[ask as u64, key, begin, size])?;
        mine?;
        let each = || (0..).zip(all.chunks_exact(WORDS));
        if let Some((rank, _)) = each().find(|(_, words)| words[..2] == [ask as u64, REFUSED]) {
            return Err(Error::usage(format!(
                "rank {rank} could not do its part, so it was done on no rank; the error that rank {rank} got says why"
            )));
        }
        let first = &all[..2];
        if let Some((rank, words)) = each().find(|(_, words)| words[..2] != *first) {
            return Err(Error::usage(format!(
                "ranks disagree on windows: rank 0 calls {}, rank {rank} {}; all ranks must make the same calls",
                Ask::text(&all),
                Ask::text(words)
            )));
        }
        Ok(all)
    }

    fn window_register(&mut self, buff: Address<'static>, size: usize, flags: i32) -> Result<WindowHandle> {
        let known = match flags & !FLAGS {
            0 => Ok(()),
            _ => Err(Error::argument(format!(
                "winFlags is {flags}; it is PENNY_WIN_DEFAULT, or PENNY_WIN_COLL_SYMMETRIC and PENNY_WIN_STRICT_ORDERING \
                 or one of them"
            ))),
        };
        let begin = known.and_then(|()| reached(buff, size));
        let all = self.ask_all(Ask::Register, begin.map(|begin| [flags as u64, begin, size as u64]))?;
        let of = |word: usize| all.chunks_exact(WORDS).map(|words| words[word]).collect::<Vec<_>>();
        let window = Arc::new(Window {
            comm: self.handle(),
            number: self.windows.made,
            region: Region::new(buff.get(), size, of(2)),
            sizes: of(3).into(),
        });
        let made = WINDOWS
            .insert(window)
            .ok_or_else(|| Error::system("this process has as many windows as it can have; deregister some"));
        let all_have_it = self.ask_all(Ask::Have, made.clone().map(|_| [0; 3]));
        let made =
            made.and_then(|made| all_have_it.map(|_| made).inspect_err(|_| drop(WINDOWS.remove(made))))?;
        self.windows.open.push(made);
        self.windows.made += 1;
        Ok(made)
    }

    fn window_deregister(&mut self, window: WindowHandle) -> Result<()> {
        let number = with(self.handle(), window, "win", |window| Ok([window.number, 0, 0]));
        // Whoever has heard of all knows that none of them writes any more.
        self.ask_all(Ask::Deregister, number)?;
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
