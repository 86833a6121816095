//! Windows and signals: one-sided access under NCCL's names.

use std::ffi::{c_int, c_uint, c_void};

use super::guard::Parameter;
use super::handle::{pennyComm_t, pennyStream_t, to_c};
use super::types::pennyDataType_t;
use crate::comm::{self, AwaitedSignals, Counter, Put, Signal, WindowHandle};
use crate::error::{Error, Result};

/// What a pennyWindow_t pretends to point at.
pub struct pennyWindow {
    _opaque: [u8; 0],
}

/// A window, as one rank holds it. Copy it freely; it is good until pennyCommWindowDeregister or the end of its
/// communicator, and refused with pennyInvalidArgument ever after.
pub type pennyWindow_t = *mut pennyWindow;

/// winFlags: nothing in particular.
pub const PENNY_WIN_DEFAULT: c_int = 0;
/// winFlags: collectives use the window at the same offset on all ranks. Nothing depends on it: they copy nothing anyhow.
pub const PENNY_WIN_COLL_SYMMETRIC: c_int = 1;
/// winFlags: what is written first is seen first. Every window is so.
pub const PENNY_WIN_STRICT_ORDERING: c_int = 2;

/// Signals that each rank has at each other in each context: sigIdx is below it.
pub const PENNY_SIGNALS: c_int = 64;
/// Contexts of signals: ctx is below it.
pub const PENNY_SIGNAL_CONTEXTS: c_int = 8;

const _: () = assert!(
    PENNY_SIGNALS as usize == comm::SIGNALS && PENNY_SIGNAL_CONTEXTS as usize == comm::SIGNAL_CONTEXTS
);

/// Signals to be waited for.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pennyWaitSignalDesc_t {
    /// How many, at least 1.
    pub opCnt: c_int,
    /// The rank that gives them.
    pub peer: c_int,
    /// Which of its signals: 0 to PENNY_SIGNALS - 1.
    pub sigIdx: c_int,
    /// Of which context: 0 to PENNY_SIGNAL_CONTEXTS - 1.
    pub ctx: c_int,
}

impl Parameter for pennyWindow_t {
    type Admitted = WindowHandle;
    unsafe fn admit(self, _name: &'static str) -> Result<WindowHandle> {
        // NULL is as stale as any other; where all ranks call, they must hear of it.
        Ok(WindowHandle::from_bits(self.addr() as u64))
    }
}

impl Parameter for *mut pennyWaitSignalDesc_t {
    type Admitted = *mut pennyWaitSignalDesc_t;
    unsafe fn admit(self, _name: &'static str) -> Result<*mut pennyWaitSignalDesc_t> {
        Ok(self)
    }
}

impl pennyWaitSignalDesc_t {
    fn awaited(self) -> AwaitedSignals {
        let counter = Counter { peer: self.peer, index: self.sigIdx, context: self.ctx };
        AwaitedSignals { count: self.opCnt, counter }
    }
}

c_api! {
    /// Opens size bytes of this rank's memory, from buff on, to the other ranks: they write there with pennyPutSignal. Every
    /// rank of comm calls, with the same winFlags and each with its own buff and size; 0 bytes, where buff is not looked
    /// at, for a rank that others do not write to. Not queued by a group: it is done when it returns.
    ///
    /// What one rank cannot do is told to all: if a buff or a flag is refused, that rank gets the reason, every other
    /// one pennyInvalidUsage with its number, and there is no window on any. The same where winFlags differ.
    ///
    /// buff: memory of pennyMemAlloc or pennyShmemMalloc, or a part of it, at any address; anything else is
    /// pennyInvalidArgument. It stays the caller's, and must not be freed before the window is deregistered.
    /// win: written on success. winFlags: PENNY_WIN_DEFAULT, or the others or-ed.
    fn pennyCommWindowRegister(
        comm: pennyComm_t,
        buff: *mut c_void,
        size: usize,
        #[out] win: *mut pennyWindow_t,
        winFlags: c_int,
    ) {
        let window = comm::window_register(comm, buff, size, winFlags)?;
        win.set(to_c(window))
    }

    /// Closes a window. Every rank of comm calls, for the same window; when it returns no rank writes there any more, and the
    /// memory may be freed. So it comes after the puts, but signals of them may still be waited for. Ranks that name
    /// different windows get pennyInvalidUsage, and all windows stay. The windows of a communicator end with it; a rank
    /// that destroys comm with windows open must know that no other will write there.
    fn pennyCommWindowDeregister(comm: pennyComm_t, win: pennyWindow_t) {
        comm::window_deregister(comm, win)
    }

    /// The buff that this rank registered.
    ///
    /// outUserPtr: written on success.
    fn pennyWinGetUserPtr(comm: pennyComm_t, win: pennyWindow_t, #[out] outUserPtr: *mut *mut c_void) {
        outUserPtr.set(std::ptr::with_exposed_provenance_mut(comm::window_buffer(comm, win)?))
    }

    /// Writes count elements from localbuff into peer's part of a window, then gives peer the signal (sigIdx, ctx). Who has
    /// waited for that signal sees the data, and all that this rank has put and signalled to peer in that ctx before.
    /// peer need not be in any call, and may be this rank. Returns when localbuff may be written again.
    ///
    /// In a group it is done at the outermost pennyGroupEnd, before the communicator's transfers and collectives.
    ///
    /// localbuff: any memory; may be NULL if count is 0, which gives the signal only. peerWin: this rank's handle.
    /// peerWinOffset: bytes from the start of peer's part. A put past its end is pennyInvalidArgument; neither data nor
    /// signal go out. sigIdx: 0 to PENNY_SIGNALS - 1. ctx: 0 to PENNY_SIGNAL_CONTEXTS - 1; each counts for itself. flags: 0.
    fn pennyPutSignal(
        localbuff: *const c_void,
        count: usize,
        datatype: pennyDataType_t,
        peer: c_int,
        peerWin: pennyWindow_t,
        peerWinOffset: usize,
        sigIdx: c_int,
        ctx: c_int,
        flags: c_uint,
        comm: pennyComm_t,
        stream: pennyStream_t,
    ) {
        let put = Put { source: localbuff, count, dtype: datatype, window: peerWin, offset: peerWinOffset };
        let counter = Counter { peer, index: sigIdx, context: ctx };
        comm::signal(comm, &Signal { counter, flags, put: Some(put) }, stream)
    }

    /// Gives peer the signal (sigIdx, ctx) without data: pennyPutSignal of nothing. It needs no window.
    fn pennySignal(
        peer: c_int,
        sigIdx: c_int,
        ctx: c_int,
        flags: c_uint,
        comm: pennyComm_t,
        stream: pennyStream_t,
    ) {
        let counter = Counter { peer, index: sigIdx, context: ctx };
        comm::signal(comm, &Signal { counter, flags, put: None }, stream)
    }

    /// Waits until for each of nDesc descriptors opCnt signals have come from its peer on (sigIdx, ctx), then takes them off,
    /// so that the next wait counts from there. Descriptors of the same signals add up. What came with the signals is
    /// there. Ends with an error, and takes none off, if a peer that still owes signals dies or leaves, or at the
    /// deadline: the sentence says which signals were missing and how many had come. This rank's own signals must have
    /// been given before: pennyInvalidUsage.
    ///
    /// In a group it is done at the outermost pennyGroupEnd, after everything else of the communicator.
    ///
    /// nDesc: at least 1, at most ranks * PENNY_SIGNALS * PENNY_SIGNAL_CONTEXTS. signalDescs: nDesc descriptors, read during the call only.
    fn pennyWaitSignal(
        nDesc: c_int,
        signalDescs: *mut pennyWaitSignalDesc_t,
        comm: pennyComm_t,
        stream: pennyStream_t,
    ) {
        let count = comm::awaited_count(comm, nDesc)?;
        if signalDescs.is_null() {
            return Err(Error::argument(format!("signalDescs is NULL; pass nDesc = {nDesc} descriptors")));
        }
        // SAFETY: the caller's promise: nDesc descriptors. C may have aligned them badly.
        let read = |i| unsafe { signalDescs.add(i).read_unaligned() };
        comm::wait_signals(comm, (0..count).map(|i| read(i).awaited()).collect(), stream)
    }
}
