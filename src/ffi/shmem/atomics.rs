//! Atomic operations on other ranks' words.

use std::ffi::{c_int, c_void};

use crate::comm::{self, CommHandle};
use crate::error::{Error, Result};
use crate::ffi::handle::pennyComm_t;
use crate::ffi::types::pennyDataType_t;
use crate::memory::view::Address;
use crate::onesided::{Atomic, AtomicOp, Change, answer, operand};
use crate::types::DataType;

/// An atomic operation before its result is requested.
fn of(op: AtomicOp, dtype: DataType, value: u64, expected: u64) -> Atomic {
    Atomic { change: Change { op, value, expected }, dtype, fetches: false }
}

/// Performs the operation and writes the word's former value, if a place for it is given.
fn run(comm: CommHandle, dest: Address, change: Atomic, pe: c_int, fetched: Option<Address>) -> Result<()> {
    let change = Atomic { fetches: fetched.is_some(), ..change };
    if fetched.is_some_and(Address::is_null) {
        return Err(Error::argument("fetched is NULL; pass the place for the result"));
    }
    let before = comm::shmem(comm, |heap| heap.modify(dest, &change, pe))?;
    if let Some(fetched) = fetched {
        answer(fetched, change.dtype, before);
    }
    Ok(())
}

c_api! {
    /// Reads an element of source at rank pe in one piece. datatype: int32, uint32, int64, uint64, float or double.
    ///
    /// fetched: place of the element, written on success. source: this rank's own address of symmetric memory, aligned to
    /// the element.
    fn pennyShmemAtomicFetch(
        fetched: *mut c_void,
        source: *const c_void,
        datatype: pennyDataType_t,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        let change = of(AtomicOp::Fetch, datatype, 0, 0);
        run(comm, source, change, pe, Some(fetched))
    }

    /// Writes an element to dest at rank pe in one piece. datatype: as for pennyShmemAtomicFetch.
    ///
    /// value: address of the element. dest: this rank's own address of symmetric memory, aligned to the element.
    fn pennyShmemAtomicSet(
        dest: *mut c_void,
        value: *const c_void,
        datatype: pennyDataType_t,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        let value = operand("value", value, datatype)?;
        let change = of(AtomicOp::Set, datatype, value, 0);
        run(comm, dest, change, pe, None)
    }

    /// Adds to an element at rank pe, modulo its size. datatype: int32, uint32, int64 or uint64.
    fn pennyShmemAtomicAdd(
        dest: *mut c_void,
        value: *const c_void,
        datatype: pennyDataType_t,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        let value = operand("value", value, datatype)?;
        let change = of(AtomicOp::Add, datatype, value, 0);
        run(comm, dest, change, pe, None)
    }

    /// Adds 1 to an element at rank pe. See pennyShmemAtomicAdd.
    fn pennyShmemAtomicInc(dest: *mut c_void, datatype: pennyDataType_t, pe: c_int, comm: pennyComm_t) {
        let change = of(AtomicOp::Add, datatype, 1, 0);
        run(comm, dest, change, pe, None)
    }

    /// Adds as pennyShmemAtomicAdd does, and returns the element's former value.
    ///
    /// fetched: written on success.
    fn pennyShmemAtomicFetchAdd(
        fetched: *mut c_void,
        dest: *mut c_void,
        value: *const c_void,
        datatype: pennyDataType_t,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        let value = operand("value", value, datatype)?;
        let change = of(AtomicOp::Add, datatype, value, 0);
        run(comm, dest, change, pe, Some(fetched))
    }

    /// Adds 1 as pennyShmemAtomicInc does, and returns the element's former value.
    fn pennyShmemAtomicFetchInc(
        fetched: *mut c_void,
        dest: *mut c_void,
        datatype: pennyDataType_t,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        let change = of(AtomicOp::Add, datatype, 1, 0);
        run(comm, dest, change, pe, Some(fetched))
    }

    /// Writes as pennyShmemAtomicSet does, and returns the element's former value.
    fn pennyShmemAtomicSwap(
        fetched: *mut c_void,
        dest: *mut c_void,
        value: *const c_void,
        datatype: pennyDataType_t,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        let value = operand("value", value, datatype)?;
        let change = of(AtomicOp::Set, datatype, value, 0);
        run(comm, dest, change, pe, Some(fetched))
    }

    /// Writes value if the element equals cond. fetched: the element's former value, which equals cond if value was
    /// written.
    /// datatype: as for pennyShmemAtomicAdd.
    fn pennyShmemAtomicCompareSwap(
        fetched: *mut c_void,
        dest: *mut c_void,
        cond: *const c_void,
        value: *const c_void,
        datatype: pennyDataType_t,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        let value = operand("value", value, datatype)?;
        let cond = operand("cond", cond, datatype)?;
        let change = of(AtomicOp::CompareSwap, datatype, value, cond);
        run(comm, dest, change, pe, Some(fetched))
    }

    /// Combines an element at rank pe with value by bitwise and. datatype: as for pennyShmemAtomicAdd.
    fn pennyShmemAtomicAnd(
        dest: *mut c_void,
        value: *const c_void,
        datatype: pennyDataType_t,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        let value = operand("value", value, datatype)?;
        let change = of(AtomicOp::And, datatype, value, 0);
        run(comm, dest, change, pe, None)
    }

    /// Combines as pennyShmemAtomicAnd does, and returns the element's former value.
    fn pennyShmemAtomicFetchAnd(
        fetched: *mut c_void,
        dest: *mut c_void,
        value: *const c_void,
        datatype: pennyDataType_t,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        let value = operand("value", value, datatype)?;
        let change = of(AtomicOp::And, datatype, value, 0);
        run(comm, dest, change, pe, Some(fetched))
    }

    /// Combines an element at rank pe with value by bitwise or. datatype: as for pennyShmemAtomicAdd.
    fn pennyShmemAtomicOr(
        dest: *mut c_void,
        value: *const c_void,
        datatype: pennyDataType_t,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        let value = operand("value", value, datatype)?;
        let change = of(AtomicOp::Or, datatype, value, 0);
        run(comm, dest, change, pe, None)
    }

    /// Combines as pennyShmemAtomicOr does, and returns the element's former value.
    fn pennyShmemAtomicFetchOr(
        fetched: *mut c_void,
        dest: *mut c_void,
        value: *const c_void,
        datatype: pennyDataType_t,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        let value = operand("value", value, datatype)?;
        let change = of(AtomicOp::Or, datatype, value, 0);
        run(comm, dest, change, pe, Some(fetched))
    }

    /// Combines an element at rank pe with value by bitwise exclusive or. datatype: as for pennyShmemAtomicAdd.
    fn pennyShmemAtomicXor(
        dest: *mut c_void,
        value: *const c_void,
        datatype: pennyDataType_t,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        let value = operand("value", value, datatype)?;
        let change = of(AtomicOp::Xor, datatype, value, 0);
        run(comm, dest, change, pe, None)
    }

    /// Combines as pennyShmemAtomicXor does, and returns the element's former value.
    fn pennyShmemAtomicFetchXor(
        fetched: *mut c_void,
        dest: *mut c_void,
        value: *const c_void,
        datatype: pennyDataType_t,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        let value = operand("value", value, datatype)?;
        let change = of(AtomicOp::Xor, datatype, value, 0);
        run(comm, dest, change, pe, Some(fetched))
    }
}
