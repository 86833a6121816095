//! Puts and gets.

use std::ffi::{c_int, c_void};

use crate::comm;
use crate::ffi::handle::pennyComm_t;
use crate::ffi::types::pennyDataType_t;
use crate::onesided::Strided;

/// Elements of a type as bytes.
fn bytes(nelems: usize, dtype: crate::types::DataType) -> crate::error::Result<usize> {
    nelems.checked_mul(dtype.size()).ok_or_else(|| {
        crate::error::Error::argument(format!("nelems {nelems} of {dtype} is more than memory holds"))
    })
}

c_api! {
    /// Writes nelems bytes from source, any memory of this rank, to dest at rank pe. dest is this rank's own address of
    /// symmetric memory and names pe's copy. Returns when source may be reused, which says nothing of when pe sees the
    /// bytes: that is for a signal, pennyShmemQuiet or a barrier to tell. pe need not be in any call.
    ///
    /// A range that is not wholly in the symmetric heap, or a pe that does not exist: pennyInvalidArgument, and nothing is
    /// written. nelems 0 does nothing.
    fn pennyShmemPutMem(
        dest: *mut c_void,
        source: *const c_void,
        nelems: usize,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        comm::shmem(comm, |heap| heap.put(dest, source, nelems, pe))
    }

    /// Reads nelems bytes of source at rank pe into dest, any memory of this rank. source is this rank's own address of
    /// symmetric memory and names pe's copy. The bytes are there when it returns.
    fn pennyShmemGetMem(
        dest: *mut c_void,
        source: *const c_void,
        nelems: usize,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        comm::shmem(comm, |heap| heap.get(dest, source, nelems, pe))
    }

    /// pennyShmemPutMem that may return earlier: source may be reused after pennyShmemQuiet.
    fn pennyShmemPutMemNbi(
        dest: *mut c_void,
        source: *const c_void,
        nelems: usize,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        comm::shmem(comm, |heap| heap.put(dest, source, nelems, pe))
    }

    /// pennyShmemGetMem that may return earlier: the bytes are there after pennyShmemQuiet.
    fn pennyShmemGetMemNbi(
        dest: *mut c_void,
        source: *const c_void,
        nelems: usize,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        comm::shmem(comm, |heap| heap.get(dest, source, nelems, pe))
    }

    /// pennyShmemPutMem of nelems elements of a type.
    fn pennyShmemPut(
        dest: *mut c_void,
        source: *const c_void,
        nelems: usize,
        datatype: pennyDataType_t,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        comm::shmem(comm, |heap| heap.put(dest, source, bytes(nelems, datatype)?, pe))
    }

    /// pennyShmemGetMem of nelems elements of a type.
    fn pennyShmemGet(
        dest: *mut c_void,
        source: *const c_void,
        nelems: usize,
        datatype: pennyDataType_t,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        comm::shmem(comm, |heap| heap.get(dest, source, bytes(nelems, datatype)?, pe))
    }

    /// pennyShmemPutMemNbi of nelems elements of a type.
    fn pennyShmemPutNbi(
        dest: *mut c_void,
        source: *const c_void,
        nelems: usize,
        datatype: pennyDataType_t,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        comm::shmem(comm, |heap| heap.put(dest, source, bytes(nelems, datatype)?, pe))
    }

    /// pennyShmemGetMemNbi of nelems elements of a type.
    fn pennyShmemGetNbi(
        dest: *mut c_void,
        source: *const c_void,
        nelems: usize,
        datatype: pennyDataType_t,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        comm::shmem(comm, |heap| heap.get(dest, source, bytes(nelems, datatype)?, pe))
    }

    /// Writes one element to dest at rank pe; elements of 4 and 8 bytes in one piece, so that pe may wait for them.
    ///
    /// value: where the element is.
    fn pennyShmemP(
        dest: *mut c_void,
        value: *const c_void,
        datatype: pennyDataType_t,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        comm::shmem(comm, |heap| heap.put_element(dest, value, datatype, pe))
    }

    /// Reads one element of source at rank pe.
    ///
    /// value: the place for it, written on success.
    fn pennyShmemG(
        value: *mut c_void,
        source: *const c_void,
        datatype: pennyDataType_t,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        comm::shmem(comm, |heap| heap.get(value, source, datatype.size(), pe))
    }

    /// Puts nelems elements, of which each is sst elements after the one before in source and dst elements in dest.
    ///
    /// dst, sst: at least 1.
    fn pennyShmemIput(
        dest: *mut c_void,
        source: *const c_void,
        dst: isize,
        sst: isize,
        nelems: usize,
        datatype: pennyDataType_t,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        let strided = Strided { dtype: datatype, count: nelems, dest_stride: dst, source_stride: sst };
        comm::shmem(comm, |heap| heap.put_strided(dest, source, &strided, pe))
    }

    /// Gets nelems elements, of which each is sst elements after the one before in source and dst elements in dest.
    ///
    /// dst, sst: at least 1.
    fn pennyShmemIget(
        dest: *mut c_void,
        source: *const c_void,
        dst: isize,
        sst: isize,
        nelems: usize,
        datatype: pennyDataType_t,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        let strided = Strided { dtype: datatype, count: nelems, dest_stride: dst, source_stride: sst };
        comm::shmem(comm, |heap| heap.get_strided(dest, source, &strided, pe))
    }

    /// What the calling thread has put to a rank so far comes before what it puts there from now on.
    fn pennyShmemFence(comm: pennyComm_t) {
        comm::shmem(comm, |heap| heap.fence())
    }

    /// Everything that the calling thread has put and got is done, and visible to all ranks. pennyRemoteError if a rank
    /// died or gave up meanwhile.
    fn pennyShmemQuiet(comm: pennyComm_t) {
        comm::shmem(comm, |heap| heap.quiet())
    }
}
