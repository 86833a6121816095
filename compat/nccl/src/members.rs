//! Communicators of the ranks that remain, also after a death, and of new ranks.

use crate::boundary::{done, none_yet};
use crate::comm::{begin, made};
use crate::types::*;
use crate::{config, group, records};
use penny_sys as penny;
use std::ffi::c_int;

nccl_api! {
    /// Makes a communicator of the ranks that are not excluded; they alone call.
    fn ncclCommShrink, pncclCommShrink(
        comm: ncclComm_t, excludeRanksList: *mut c_int, excludeRanksCount: c_int, newcomm: *mut ncclComm_t,
        config: *const ncclConfig_t, shrinkFlags: c_int,
    ) {
        group::queued(|| {
            begin()?;
            none_yet(newcomm, "newcomm")?;
            // SAFETY: the caller's promise.
            let settings = unsafe { config::read_changes(config) }?;
            let settings = settings.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
            // SAFETY: the caller's promise.
            let shrunk = unsafe {
                penny::pennyCommShrink(comm, excludeRanksList, excludeRanksCount, newcomm, settings, shrinkFlags)
            };
            // SAFETY: Penny has written the handle if it has made a communicator.
            unsafe { made("ncclCommShrink", shrunk, comm, newcomm) }
        })
    }

    /// Makes all calls on the communicator fail, on all ranks, and keeps it for ncclCommShrink. Then the state of the caller's rank is
    /// ncclSuccess, and its calls are ncclInvalidUsage.
    fn ncclCommRevoke, pncclCommRevoke(comm: ncclComm_t, revokeFlags: c_int) {
        // SAFETY: Penny checks the handle.
        done(unsafe { penny::pennyCommRevoke(comm, revokeFlags) })?;
        records::revoke(comm);
        Ok(())
    }

    /// Creates the id by which new ranks join those of a communicator.
    fn ncclCommGetUniqueId, pncclCommGetUniqueId(comm: ncclComm_t, uniqueId: *mut ncclUniqueId) {
        // SAFETY: the caller's promise; Penny refuses NULL.
        done(unsafe { penny::pennyCommGetUniqueId(comm, uniqueId) })
    }

    /// Makes a communicator of the ranks of another and of new ones, which pass NULL for it.
    fn ncclCommGrow, pncclCommGrow(
        comm: ncclComm_t, nRanks: c_int, uniqueId: *const ncclUniqueId, rank: c_int, newcomm: *mut ncclComm_t,
        config: *const ncclConfig_t,
    ) {
        group::queued(|| {
            begin()?;
            none_yet(newcomm, "newcomm")?;
            // SAFETY: the caller's promise. An existing rank goes on with the communicator's settings, a new one begins with its own.
            let settings = unsafe {
                match comm.is_null() {
                    true => Some(config::read(config)?),
                    false => config::read_changes(config)?,
                }
            };
            let settings = settings.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
            // SAFETY: the caller's promise.
            let grown = unsafe { penny::pennyCommGrow(comm, nRanks, uniqueId, rank, newcomm, settings) };
            // SAFETY: Penny has written the handle if it has made a communicator.
            unsafe { made("ncclCommGrow", grown, comm, newcomm) }
        })
    }
}
