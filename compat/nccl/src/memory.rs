//! Memory that the other ranks can reach, registrations, and reductions with a number of each rank.

use crate::boundary::{argument, done};
use crate::collectives::datatype_is_known;
use crate::types::*;
use crate::{cuda, group};
use penny_sys as penny;
use std::ffi::{c_int, c_void};

nccl_api! {
    /// Allocates memory that the other ranks can reach.
    fn ncclMemAlloc, pncclMemAlloc(ptr: *mut *mut c_void, size: usize) {
        // SAFETY: the caller's promise; Penny refuses NULL.
        done(unsafe { penny::pennyMemAlloc(ptr, size) })
    }

    /// Frees memory of ncclMemAlloc.
    fn ncclMemFree, pncclMemFree(ptr: *mut c_void) {
        // SAFETY: Penny refuses what it has not allocated.
        done(unsafe { penny::pennyMemFree(ptr) })
    }

    /// Lets the other ranks reach memory of this process in place.
    fn ncclCommRegister, pncclCommRegister(comm: ncclComm_t, buff: *mut c_void, size: usize, handle: *mut *mut c_void) {
        cuda::on_host(buff, "buff")?;
        // SAFETY: the caller's promise.
        done(unsafe { penny::pennyCommRegister(comm, buff, size, handle) })
    }

    /// Ends a registration.
    fn ncclCommDeregister, pncclCommDeregister(comm: ncclComm_t, handle: *mut c_void) {
        // SAFETY: Penny refuses what it has not handed out.
        done(unsafe { penny::pennyCommDeregister(comm, handle) })
    }

    /// Gives memory of a communicator back, on all ranks, which all call.
    fn ncclCommSuspend, pncclCommSuspend(comm: ncclComm_t, flags: c_int) {
        // SAFETY: Penny checks the arguments.
        group::queued(|| done(unsafe { penny::pennyCommSuspend(comm, flags) }))
    }

    /// Takes that memory again.
    fn ncclCommResume, pncclCommResume(comm: ncclComm_t) {
        // SAFETY: Penny checks the handle.
        group::queued(|| done(unsafe { penny::pennyCommResume(comm) }))
    }

    /// Reads how much shared memory of the host a communicator has on this rank.
    fn ncclCommMemStats, pncclCommMemStats(comm: ncclComm_t, stat: ncclCommMemStat_t, value: *mut u64) {
        // SAFETY: the caller's promise; Penny checks the rest.
        done(unsafe { penny::pennyCommMemStats(comm, stat, value) })
    }

    /// Makes a reduction that multiplies this rank's input by a number before it is added.
    fn ncclRedOpCreatePreMulSum, pncclRedOpCreatePreMulSum(
        op: *mut ncclRedOp_t, scalar: *mut c_void, datatype: ncclDataType_t, residence: ncclScalarResidence_t,
        comm: ncclComm_t,
    ) {
        datatype_is_known(datatype)?;
        if residence == penny::pennyScalarDevice {
            cuda::on_host(scalar, "scalar")?;
        }
        // SAFETY: the caller's promise.
        done(unsafe { penny::pennyRedOpCreatePreMulSum(op, scalar, datatype, residence, comm) })
    }

    /// Frees a reduction of ncclRedOpCreatePreMulSum.
    fn ncclRedOpDestroy, pncclRedOpDestroy(op: ncclRedOp_t, comm: ncclComm_t) {
        if (0..ncclNumOps).contains(&op) {
            return Err(argument(format!("op is {op}, which ncclRedOpCreatePreMulSum has not made")));
        }
        // SAFETY: Penny refuses what it has not made.
        done(unsafe { penny::pennyRedOpDestroy(op, comm) })
    }
}
