//! What a group does at its end for all ranks of a communicator: windows, and memory that is given back or taken again.

use super::batch::side_by_side;
use crate::comm::onesided::window::PendingWindow;
use crate::comm::onesided::window_table::WindowHandle;
use crate::comm::registry::{self, CommHandle};
use crate::comm::suspend::{resume_now, suspend_now};
use crate::error::Result;
use crate::memory::view::Address;
use crate::timing::Timing;

/// Something that all ranks of a communicator do together.
pub(in crate::comm) enum AtEnd {
    Window(PendingWindow),
    Suspend(CommHandle),
    Resume(CommHandle),
}

impl AtEnd {
    fn comm(&self) -> CommHandle {
        match self {
            AtEnd::Window(window) => window.comm,
            AtEnd::Suspend(comm) | AtEnd::Resume(comm) => *comm,
        }
    }
    fn act(&self) -> Result<()> {
        match self {
            AtEnd::Window(window) => window.make().map(drop),
            AtEnd::Suspend(comm) => suspend_now(*comm),
            AtEnd::Resume(comm) => resume_now(*comm),
        }
    }
    pub fn give_up(&self) {
        if let AtEnd::Window(window) = self {
            window.give_up();
        }
    }
}

/// Opens `size` bytes of this rank's memory to the ranks of a communicator. All ranks call, each with a size of its own and
/// the same flags. The memory stays the caller's, and must be there until the window is deregistered and no rank writes there any
/// more. `None`: a rank's memory is not shareable, and no rank has a window. In an open group the outermost `group_end` does the
/// work, and the handle is valid after it, if there is a window.
pub fn window_register(
    comm: CommHandle,
    buff: Address<'static>,
    size: usize,
    flags: i32,
) -> Result<Option<WindowHandle>> {
    let pending = PendingWindow::new(comm, buff, size, flags).inspect_err(super::fail)?;
    if !super::is_open() {
        return pending.make();
    }
    let handle = pending.handle();
    super::add_at_end(AtEnd::Window(pending));
    Ok(Some(handle))
}

/// Gives memory of a communicator back until [`resume`]. All ranks call; in an open group the outermost `group_end` does it.
pub fn suspend(comm: CommHandle) -> Result<()> {
    now_or_at_end(AtEnd::Suspend(comm))
}

/// Takes that memory again. All ranks call, as for [`suspend`].
pub fn resume(comm: CommHandle) -> Result<()> {
    now_or_at_end(AtEnd::Resume(comm))
}

fn now_or_at_end(what: AtEnd) -> Result<()> {
    if !super::is_open() {
        return what.act();
    }
    registry::shared(what.comm()).inspect_err(super::fail)?;
    super::add_at_end(what);
    Ok(())
}

/// Does all of it: what belongs to one communicator in its order, the communicators at the same time.
pub(super) fn act(all: Vec<AtEnd>) -> Result<()> {
    let mut rows: Vec<Vec<AtEnd>> = Vec::new();
    for one in all {
        match rows.iter_mut().find(|row| row[0].comm() == one.comm()) {
            Some(row) => row.push(one),
            None => rows.push(vec![one]),
        }
    }
    let several = rows.len() > 1;
    let comms: Vec<_> = rows.iter().map(|row| registry::shared(row[0].comm()).ok()).collect();
    let timings: Vec<_> =
        comms.iter().map(|comm| comm.as_ref().filter(|_| several).map(|comm| &comm.timing)).collect();
    let mut rows: Vec<_> = rows.into_iter().zip(Timing::divide(&timings)?).collect();
    side_by_side(&mut rows, |(row, part)| {
        // The other ranks do all of it, too.
        let each = || row.iter().map(AtEnd::act).fold(Ok(()), Result::and);
        std::mem::take(part).act(each)
    })
}
