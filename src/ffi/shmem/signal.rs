//! Signals.

use std::ffi::{c_int, c_void};

use crate::comm;
use crate::error::{Error, Result};
use crate::ffi::guard::Parameter;
use crate::ffi::handle::pennyComm_t;
use crate::ffi::types::c_numbers;
use crate::onesided::{Comparison, SignalOp};

c_numbers! {
    /// The operation on a signal. The numbers are OpenSHMEM's.
    pub enum pennySignalOp_t {
        /// Replaces the signal by the value.
        PENNY_SIGNAL_SET = 9,
        /// Adds the value to the signal, modulo 2^64.
        PENNY_SIGNAL_ADD = 10,
    }
}

c_numbers! {
    /// The comparison of a word with a value. The numbers are OpenSHMEM's.
    pub enum pennyCmp_t {
        /// Equal.
        PENNY_CMP_EQ = 0,
        /// Not equal.
        PENNY_CMP_NE = 1,
        /// Greater than.
        PENNY_CMP_GT = 2,
        /// Less than or equal.
        PENNY_CMP_LE = 3,
        /// Less than.
        PENNY_CMP_LT = 4,
        /// Greater than or equal.
        PENNY_CMP_GE = 5,
    }
}

impl Parameter for pennySignalOp_t {
    type Admitted = SignalOp;
    unsafe fn admit(self, name: &'static str) -> Result<SignalOp> {
        SignalOp::from_c(self.0).ok_or_else(|| {
            Error::argument(format!(
                "{name} is {}, no pennySignalOp_t; it is PENNY_SIGNAL_SET or PENNY_SIGNAL_ADD",
                self.0
            ))
        })
    }
}

impl Parameter for pennyCmp_t {
    type Admitted = Comparison;
    unsafe fn admit(self, name: &'static str) -> Result<Comparison> {
        Comparison::from_c(self.0).ok_or_else(|| {
            Error::argument(format!(
                "{name} is {}, no pennyCmp_t; it is one of PENNY_CMP_EQ to PENNY_CMP_GE",
                self.0
            ))
        })
    }
}

c_api! {
    /// Writes as pennyShmemPutMem does, then updates a signal at the same rank: a thread that sees the signal sees the
    /// bytes. Earlier puts are ordered before the signal only by a pennyShmemFence in between.
    ///
    /// sig_addr: this rank's own address of an 8-byte word of symmetric memory. nelems 0: only the signal.
    fn pennyShmemPutMemSignal(
        dest: *mut c_void,
        source: *const c_void,
        nelems: usize,
        sig_addr: *mut u64,
        signal: u64,
        sig_op: pennySignalOp_t,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        comm::shmem(comm, |heap| heap.put_signal(dest, source, nelems, sig_addr, signal, sig_op, pe))
    }

    /// Writes as pennyShmemPutMemSignal does, but may return earlier: source may be reused after pennyShmemQuiet.
    fn pennyShmemPutMemSignalNbi(
        dest: *mut c_void,
        source: *const c_void,
        nelems: usize,
        sig_addr: *mut u64,
        signal: u64,
        sig_op: pennySignalOp_t,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        comm::shmem(comm, |heap| heap.put_signal(dest, source, nelems, sig_addr, signal, sig_op, pe))
    }

    /// Sets or adds to a signal at rank pe. Signal operations are atomic against each other, fetches and waits.
    fn pennyShmemSignalOp(
        sig_addr: *mut u64,
        signal: u64,
        sig_op: pennySignalOp_t,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        comm::shmem(comm, |heap| heap.signal(sig_addr, signal, sig_op, pe))
    }

    /// Reads the current value of this rank's signal.
    ///
    /// value: written on success.
    fn pennyShmemSignalFetch(#[out] value: *mut u64, sig_addr: *const u64, comm: pennyComm_t) {
        value.set(comm::shmem(comm, |heap| heap.signal_fetch(sig_addr))?)
    }

    /// Waits until the comparison of this rank's signal with cmp_value holds. Fails if a rank dies or gives up, or at the
    /// deadline.
    ///
    /// value: the signal's value at that moment; may be NULL.
    fn pennyShmemSignalWaitUntil(
        #[or_null] value: *mut u64,
        sig_addr: *mut u64,
        cmp: pennyCmp_t,
        cmp_value: u64,
        comm: pennyComm_t,
    ) {
        let seen = comm::shmem(comm, |heap| heap.await_signal(sig_addr, cmp, cmp_value))?;
        value.map_or(Ok(()), |value| value.set(seen))
    }
}
