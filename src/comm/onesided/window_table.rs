//! Windows of this process, by handle: one rank's part of each, and where the others' lie.

use crate::comm::shared::CommHandle;
use crate::error::{Error, Result};
use crate::handle::{self, Objects, Remembered, WindowKind};
use crate::memory::view::Payload;
use crate::onesided::Region;
use crate::transport::Transport;
use crate::types::Rank;

/// Names one rank's part of a window.
pub type WindowHandle = handle::Handle<WindowKind>;

/// One rank's part of a window, and where the others' lie.
pub(in crate::comm) struct Window {
    pub(super) comm: CommHandle,
    /// This rank's part, and each part's beginning.
    pub(super) region: Region,
    /// Bytes of each rank's part.
    pub(super) sizes: Box<[u64]>,
}

thread_local! {
    static LAST: Remembered<WindowKind, Window> = const { handle::nothing_remembered() };
}
pub(super) static WINDOWS: Objects<WindowKind, Window> = Objects::new(&LAST);

/// The windows of one communicator; they end with it.
#[derive(Default)]
pub(in crate::comm) struct Windows {
    pub(super) open: Vec<WindowHandle>,
}

impl Drop for Windows {
    fn drop(&mut self) {
        self.open.iter().for_each(|window| drop(WINDOWS.remove(*window)));
    }
}

impl Window {
    /// The part of a rank's window that a put writes to.
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

    /// Where the byte at `offset` of a rank's window lies in its heap.
    pub fn at(&self, rank: Rank, offset: usize) -> u64 {
        self.region.at(rank, offset)
    }

    /// Checks that `bytes` bytes at `offset` lie in the window of `rank`.
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

/// Use a window of a communicator; `what` names the argument.
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
