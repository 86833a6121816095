//! Puts and gets.

use std::ffi::{c_int, c_void};

use crate::comm;
use crate::ffi::handle::pennyComm_t;
use crate::ffi::types::pennyDataType_t;
use crate::onesided::Strided;

/// Converts a number of elements of a type to bytes.
fn bytes(nelems: usize, dtype: crate::types::DataType) -> crate::error::Result<usize> {
    nelems.checked_mul(dtype.size()).ok_or_else(|| {
        crate::error::Error::argument(format!("nelems {nelems} of {dtype} is more than memory holds"))
    })
}

c_api! {
    /// Writes nelems bytes from source, any memory of this rank, to dest at rank pe. dest is this rank's own address of
    /// symmetric memory and names pe's copy. Returns when source may be reused; pe may see the bytes later. A signal,
    /// pennyShmemQuiet or a barrier makes sure that it does. pe need not be in any call.
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
    /// symmetric memory and names pe's copy. The bytes have arrived when it returns.
    fn pennyShmemGetMem(
        dest: *mut c_void,
        source: *const c_void,
        nelems: usize,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        comm::shmem(comm, |heap| heap.get(dest, source, nelems, pe))
    }

    /// Writes as pennyShmemPutMem does, but may return earlier: source may be reused after pennyShmemQuiet.
    fn pennyShmemPutMemNbi(
        dest: *mut c_void,
        source: *const c_void,
        nelems: usize,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        comm::shmem(comm, |heap| heap.put(dest, source, nelems, pe))
    }

    /// Reads as pennyShmemGetMem does, but may return earlier: the bytes have arrived after pennyShmemQuiet.
    fn pennyShmemGetMemNbi(
        dest: *mut c_void,
        source: *const c_void,
        nelems: usize,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        comm::shmem(comm, |heap| heap.get(dest, source, nelems, pe))
    }

    /// Writes nelems elements of a type, as pennyShmemPutMem does.
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

    /// Reads nelems elements of a type, as pennyShmemGetMem does.
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

    /// Writes nelems elements of a type, as pennyShmemPutMemNbi does.
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

    /// Reads nelems elements of a type, as pennyShmemGetMemNbi does.
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
    /// value: address of the element.
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
    /// value: place of the element, written on success.
    fn pennyShmemG(
        value: *mut c_void,
        source: *const c_void,
        datatype: pennyDataType_t,
        pe: c_int,
        comm: pennyComm_t,
    ) {
        comm::shmem(comm, |heap| heap.get(value, source, datatype.size(), pe))
    }

    /// Writes nelems elements with strides: sst elements from one to the next in source, dst elements in dest.
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

    /// Reads nelems elements with strides: sst elements from one to the next in source, dst elements in dest.
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

    /// Orders puts: each rank sees the calling thread's earlier puts to it before its later ones.
    fn pennyShmemFence(comm: pennyComm_t) {
        comm::shmem(comm, |heap| heap.fence())
    }

    /// Completes all puts and gets of the calling thread and makes them visible to all ranks. pennyRemoteError if a rank
    /// died or gave up meanwhile.
    fn pennyShmemQuiet(comm: pennyComm_t) {
        comm::shmem(comm, |heap| heap.quiet())
    }
}
