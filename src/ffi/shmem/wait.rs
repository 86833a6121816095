//! Waiting for words of one's own symmetric memory, and looking at them.

use std::ffi::{c_int, c_void};

use super::signal::pennyCmp_t;
use crate::comm::{self, CommHandle};
use crate::error::{Error, Result};
use crate::ffi::guard::Out;
use crate::ffi::handle::pennyComm_t;
use crate::ffi::types::pennyDataType_t;
use crate::memory::view::Address;
use crate::onesided::{Comparison, Several};
use crate::types::DataType;

/// The words of a wait or a test.
struct Question {
    ivars: Address<'static>,
    nelems: usize,
    status: *const c_int,
    cmp: Comparison,
    value: Address<'static>,
    dtype: DataType,
}

/// Returns the indices for which the comparison holds; in a test without waiting `None` if there are too few.
///
/// # Safety
/// `status` must be NULL or hold `nelems` numbers.
unsafe fn ask(comm: CommHandle, q: &Question, several: Several, wait: bool) -> Result<Option<Vec<usize>>> {
    if q.nelems > isize::MAX as usize / size_of::<c_int>() {
        return Err(Error::argument(format!("nelems {} is more than memory holds", q.nelems)));
    }
    comm::shmem(comm, |heap| {
        // SAFETY: the promise to `ask`, and no more than an allocation can hold.
        let left_out =
            (!q.status.is_null()).then(|| unsafe { std::slice::from_raw_parts(q.status, q.nelems) });
        let words = heap.words(q.ivars, q.nelems, left_out, q.cmp, q.value, q.dtype)?;
        if wait { words.wait(several).map(Some) } else { Ok(words.test(several)) }
    })
}

/// Writes the first of several indices, or SIZE_MAX.
fn first(found: Option<Vec<usize>>) -> usize {
    found.and_then(|found| found.first().copied()).unwrap_or(usize::MAX)
}

/// Writes all indices and their number.
///
/// # Safety
/// There must be room for `nelems`.
unsafe fn list(found: Option<Vec<usize>>, indices: Out<usize>, count: Out<usize>) -> Result<()> {
    let found = found.unwrap_or_default();
    let many = found.len();
    // SAFETY: the promise to `list`; no more are found than there are.
    unsafe { indices.set_all(found.into_iter())? };
    count.set(many)
}

c_api! {
    /// Waits until the comparison of this rank's ivar with the element at value holds. Fails if a rank dies or gives up, or
    /// at the deadline. datatype: int32, uint32, int64 or uint64; the comparison is that of the type.
    ///
    /// ivar: symmetric memory of this rank, aligned to the element, which any rank may write with pennyShmemP, with a put of
    /// its size, with an atomic operation or with a signal.
    fn pennyShmemWaitUntil(
        ivar: *mut c_void,
        cmp: pennyCmp_t,
        value: *const c_void,
        datatype: pennyDataType_t,
        comm: pennyComm_t,
    ) {
        let question = Question { ivars: ivar, nelems: 1, status: std::ptr::null(), cmp, value, dtype: datatype };
        // SAFETY: no status.
        unsafe { ask(comm, &question, Several::All, true).map(drop) }
    }

    /// Tests whether the comparison of this rank's ivar with the element at value holds now. See pennyShmemWaitUntil.
    ///
    /// holds: 1 or 0, written on success.
    fn pennyShmemTest(
        #[out] holds: *mut c_int,
        ivar: *mut c_void,
        cmp: pennyCmp_t,
        value: *const c_void,
        datatype: pennyDataType_t,
        comm: pennyComm_t,
    ) {
        let question = Question { ivars: ivar, nelems: 1, status: std::ptr::null(), cmp, value, dtype: datatype };
        // SAFETY: no status.
        holds.set(unsafe { ask(comm, &question, Several::All, false)? }.is_some() as c_int)
    }

    /// Waits until the comparison holds for all of nelems elements.
    ///
    /// status: NULL, or nelems numbers; a number other than 0 excludes its element. If all are excluded it does not wait.
    fn pennyShmemWaitUntilAll(
        ivars: *mut c_void,
        nelems: usize,
        status: *const c_int,
        cmp: pennyCmp_t,
        value: *const c_void,
        datatype: pennyDataType_t,
        comm: pennyComm_t,
    ) {
        let question = Question { ivars, nelems, status, cmp, value, dtype: datatype };
        // SAFETY: the caller's promise about status.
        let found = unsafe { ask(comm, &question, Several::All, true)? };
        found.map_or(Ok(()), |_| Ok(()))
    }

    /// Waits until the comparison holds for one of nelems elements. See pennyShmemWaitUntilAll.
    ///
    /// index: its index, written on success; SIZE_MAX if all elements are excluded.
    fn pennyShmemWaitUntilAny(
        #[out] index: *mut usize,
        ivars: *mut c_void,
        nelems: usize,
        status: *const c_int,
        cmp: pennyCmp_t,
        value: *const c_void,
        datatype: pennyDataType_t,
        comm: pennyComm_t,
    ) {
        let question = Question { ivars, nelems, status, cmp, value, dtype: datatype };
        // SAFETY: the caller's promise about status.
        let found = unsafe { ask(comm, &question, Several::Any, true)? };
        index.set(first(found))
    }

    /// Waits until the comparison holds for at least one of nelems elements. See pennyShmemWaitUntilAll.
    ///
    /// indices: room for nelems; the indices for which it holds, written on success. count: their number.
    fn pennyShmemWaitUntilSome(
        #[out] indices: *mut usize,
        #[out] count: *mut usize,
        ivars: *mut c_void,
        nelems: usize,
        status: *const c_int,
        cmp: pennyCmp_t,
        value: *const c_void,
        datatype: pennyDataType_t,
        comm: pennyComm_t,
    ) {
        let question = Question { ivars, nelems, status, cmp, value, dtype: datatype };
        // SAFETY: the caller's promise about status.
        let found = unsafe { ask(comm, &question, Several::Some, true)? };
        // SAFETY: the caller's promise about indices.
        unsafe { list(found, indices, count) }
    }

    /// Tests whether the comparison holds now for all of nelems elements. See pennyShmemWaitUntilAll.
    ///
    /// holds: 1 or 0, written on success.
    fn pennyShmemTestAll(
        #[out] holds: *mut c_int,
        ivars: *mut c_void,
        nelems: usize,
        status: *const c_int,
        cmp: pennyCmp_t,
        value: *const c_void,
        datatype: pennyDataType_t,
        comm: pennyComm_t,
    ) {
        let question = Question { ivars, nelems, status, cmp, value, dtype: datatype };
        // SAFETY: the caller's promise about status.
        let found = unsafe { ask(comm, &question, Several::All, false)? };
        holds.set(found.is_some() as c_int)
    }

    /// Finds one of nelems elements for which the comparison holds now. See pennyShmemWaitUntilAll.
    ///
    /// index: written on success; SIZE_MAX if there is none.
    fn pennyShmemTestAny(
        #[out] index: *mut usize,
        ivars: *mut c_void,
        nelems: usize,
        status: *const c_int,
        cmp: pennyCmp_t,
        value: *const c_void,
        datatype: pennyDataType_t,
        comm: pennyComm_t,
    ) {
        let question = Question { ivars, nelems, status, cmp, value, dtype: datatype };
        // SAFETY: the caller's promise about status.
        let found = unsafe { ask(comm, &question, Several::Any, false)? };
        index.set(first(found))
    }

    /// Finds all of nelems elements for which the comparison holds now. See pennyShmemWaitUntilAll.
    ///
    /// indices: room for nelems; the indices for which it holds, written on success. count: their number.
    fn pennyShmemTestSome(
        #[out] indices: *mut usize,
        #[out] count: *mut usize,
        ivars: *mut c_void,
        nelems: usize,
        status: *const c_int,
        cmp: pennyCmp_t,
        value: *const c_void,
        datatype: pennyDataType_t,
        comm: pennyComm_t,
    ) {
        let question = Question { ivars, nelems, status, cmp, value, dtype: datatype };
        // SAFETY: the caller's promise about status.
        let found = unsafe { ask(comm, &question, Several::Some, false)? };
        // SAFETY: the caller's promise about indices.
        unsafe { list(found, indices, count) }
    }
}
