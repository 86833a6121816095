//! Windows and signals: one-sided access under NCCL's names.

use std::ffi::{c_int, c_uint, c_void};

use super::group::hand_out_window;
use super::guard::Parameter;
use super::handle::{pennyComm_t, pennyStream_t};
use super::types::pennyDataType_t;
use crate::comm::{self, AwaitedSignals, Counter, Put, Signal, WindowHandle};
use crate::error::{Error, Result};

/// The incomplete type to which a pennyWindow_t points.
pub struct pennyWindow {
    _opaque: [u8; 0],
}

/// A handle of a window on one rank. It may be copied. It is valid until pennyCommWindowDeregister or the end of its
/// communicator; later calls refuse it with pennyInvalidArgument.
pub type pennyWindow_t = *mut pennyWindow;

/// A value of winFlags: no flag.
pub const PENNY_WIN_DEFAULT: c_int = 0;
/// A flag of winFlags: collectives use the window at the same offset on all ranks. It has no effect: such collectives copy
/// nothing in any case.
pub const PENNY_WIN_COLL_SYMMETRIC: c_int = 1;
/// A flag of winFlags: writes become visible in their order. It has no effect: every window orders writes.
pub const PENNY_WIN_STRICT_ORDERING: c_int = 2;

/// Number of signals between two ranks in each context and direction: sigIdx is below it.
pub const PENNY_SIGNALS: c_int = 64;
/// Number of contexts of signals: ctx is below it.
pub const PENNY_SIGNAL_CONTEXTS: c_int = 8;

const _: () = assert!(
    PENNY_SIGNALS as usize == comm::SIGNALS && PENNY_SIGNAL_CONTEXTS as usize == comm::SIGNAL_CONTEXTS
);

/// A number of signals to wait for.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pennyWaitSignalDesc_t {
    /// Number of signals, at least 1.
    pub opCnt: c_int,
    /// Rank that sends them.
    pub peer: c_int,
    /// Index of the signal: 0 to PENNY_SIGNALS - 1.
    pub sigIdx: c_int,
    /// Context of the signal: 0 to PENNY_SIGNAL_CONTEXTS - 1.
    pub ctx: c_int,
}

impl Parameter for pennyWindow_t {
    type Admitted = WindowHandle;
    unsafe fn admit(self, _name: &'static str) -> Result<WindowHandle> {
        // NULL is as stale as any other.
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
    /// Opens size bytes of this rank's memory, from buff on, to the other ranks: they write there with pennyPutSignal.
    /// Every rank of comm calls it with the same winFlags and its own buff and size. size may be 0, then buff is not used,
    /// on a rank to which others do not write.
    ///
    /// Between pennyGroupStart and pennyGroupEnd the window is made, and the handle becomes valid, at the end of the group, before the
    /// group's calls; so one thread can register the windows of several ranks.
    ///
    /// A refusal on one rank fails the call on all: if a flag is refused, that rank gets the reason, every other
    /// rank pennyInvalidUsage with its number, and no rank has the window. The same holds where winFlags differ.
    ///
    /// buff: memory of pennyMemAlloc or pennyShmemMalloc, or a part of it, at any address. It stays the caller's, and must not be freed
    /// before the window is deregistered. If it is other memory on any rank, the call succeeds, and win is NULL on all ranks, as in NCCL
    /// where windows are not supported: puts need another way. PENNY_DEBUG=warn names the rank.
    /// win: written on success. winFlags: PENNY_WIN_DEFAULT, or the others or-ed.
    fn pennyCommWindowRegister(
        comm: pennyComm_t,
        buff: *mut c_void,
        size: usize,
        #[out] win: *mut pennyWindow_t,
        winFlags: c_int,
    ) {
        hand_out_window(win, comm::window_register(comm, buff, size, winFlags)?)
    }

    /// Closes a window on this rank, without the other ranks. A rank that closes its part, or destroys comm, and frees the memory must know
    /// that no other will write there: after it has waited for their signals, or after a barrier. Signals may still be waited for
    /// afterwards. The windows of a communicator end with it.
    ///
    /// win: NULL does nothing and succeeds.
    fn pennyCommWindowDeregister(comm: pennyComm_t, win: pennyWindow_t) {
        if win.bits() == 0 { comm::count(comm).map(drop) } else { comm::window_deregister(comm, win) }
    }

    /// Reads the buff that this rank registered.
    ///
    /// outUserPtr: written on success.
    fn pennyWinGetUserPtr(comm: pennyComm_t, win: pennyWindow_t, #[out] outUserPtr: *mut *mut c_void) {
        outUserPtr.set(std::ptr::with_exposed_provenance_mut(comm::window_buffer(comm, win)?))
    }

    /// Writes count elements from localbuff into peer's part of a window, then sends peer the signal (sigIdx, ctx). After a
    /// wait for that signal, peer sees the data and everything that this rank has put and signalled to it in that ctx
    /// before. peer need not be in any call, and may be this rank. Returns when localbuff may be written again.
    ///
    /// In a group it runs at the outermost pennyGroupEnd, before the communicator's transfers and collectives.
    ///
    /// localbuff: any memory; may be NULL if count is 0, which sends the signal only. peerWin: this rank's handle.
    /// peerWinOffset: bytes from the start of peer's part. A put past its end is pennyInvalidArgument; neither data nor
    /// signal is sent. sigIdx: 0 to PENNY_SIGNALS - 1. ctx: 0 to PENNY_SIGNAL_CONTEXTS - 1; each has its own counters.
    /// flags: 0.
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

    /// Sends peer the signal (sigIdx, ctx) without data, as pennyPutSignal with count 0. It needs no window.
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

    /// Waits until, for each of nDesc descriptors, opCnt signals have arrived from its peer on (sigIdx, ctx), then
    /// subtracts them, so that the next wait counts from there. Descriptors of the same signals add up. The data that was
    /// put with the signals is visible. Fails, and subtracts none, if a peer that still owes signals dies or leaves, or at
    /// the deadline: the sentence says which signals were missing and how many had arrived. Signals of this rank to itself
    /// must have been sent before, else pennyInvalidUsage.
    ///
    /// In a group it runs at the outermost pennyGroupEnd, after all other calls of the communicator.
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
