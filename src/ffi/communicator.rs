//! Communicators: how ranks meet, what they know of each other, how they part.

use std::ffi::c_int;

use super::config::pennyConfig_t;
use super::group::hand_out;
use super::guard;
use super::handle::{pennyComm_t, to_c};
use super::types::{
    PENNY_REVOKE_DEFAULT, PENNY_SHRINK_ABORT, PENNY_SHRINK_DEFAULT, PENNY_SPLIT_NOCOLOR, PENNY_SUSPEND_MEM,
    pennyCommMemStat_t, pennyGroupKind_t, pennyResult_t, pennyStatMemPersist, pennyStatMemSuspend,
    pennyStatMemSuspended, pennyUniqueId,
};
use crate::comm::{self, CommHandle, Config, Grouping};
use crate::error::{Code, Error, Result};

c_api! {
    /// Creates an id for one future communicator. One rank calls this function and sends the bytes to the other ranks. All
    /// ranks, including the caller, pass the id to pennyCommInitRank. The calling process must live until all ranks have
    /// joined.
    ///
    /// uniqueId: written on success.
    fn pennyGetUniqueId(#[out] uniqueId: *mut pennyUniqueId) {
        uniqueId.set(comm::unique_id()?.into())
    }

    /// Creates an id whose ranks may be on several hosts, as pennyGetUniqueId does where PENNY_NET or PENNY_HOST_ID is set or the
    /// launcher tells of several hosts. The ranks meet over TCP.
    ///
    /// uniqueId: written on success.
    fn pennyGetUniqueIdHosts(#[out] uniqueId: *mut pennyUniqueId) {
        uniqueId.set(comm::unique_id_for_hosts()?.into())
    }

    /// Joins the communicator that commId names. Returns when all ranks have joined, or at the deadline (pennyTimeout) with
    /// a sentence that names the missing ranks. A duplicate rank, a different nranks or a different version of the library
    /// fails the call on every rank.
    ///
    /// comm: written on success; the caller owns it until pennyCommDestroy or pennyCommAbort.
    /// nranks: number of ranks, at least 1. rank: the caller's rank, 0 to nranks - 1; each rank joins once.
    ///
    /// A rank is a process or a thread of one. One thread that makes several ranks calls this between pennyGroupStart and
    /// pennyGroupEnd; they join, and the handles become valid, at the end of the group.
    fn pennyCommInitRank(#[out] comm: *mut pennyComm_t, nranks: c_int, commId: pennyUniqueId, rank: c_int) {
        hand_out(comm, comm::init_rank(nranks, &commId, rank, &default_config())?)
    }

    /// Joins a communicator as pennyCommInitRank does, with settings. Where their `blocking` is 0 it returns pennyInProgress, and
    /// so does the pennyGroupEnd of a group that it is in. pennyCommGetAsyncError then tells how far it is; pennyCommAbort ends it.
    ///
    /// config: from PENNY_CONFIG_INITIALIZER, read during the call only; NULL means all defaults. What is wrong in it is told to the ranks
    /// that wait, and commId has served.
    fn pennyCommInitRankConfig(
        #[out] comm: *mut pennyComm_t,
        nranks: c_int,
        commId: pennyUniqueId,
        rank: c_int,
        #[or_null] config: *const pennyConfig_t,
    ) {
        let joined = comm::init_rank(nranks, &commId, rank, &config)?;
        hand_out(comm, joined).and(complete(joined))
    }

    /// Creates ndev ranks in this process, with one communicator each: element i of comm is rank i. Use each communicator in
    /// its own thread, or all of them from one thread between pennyGroupStart and pennyGroupEnd.
    ///
    /// comm: room for ndev; all are written on success, none on failure. Destroy each. ndev: 1 to 1024.
    /// devlist: not read, may be NULL. It keeps NCCL's signature; Penny has no devices.
    fn pennyCommInitAll(#[out] comm: *mut pennyComm_t, ndev: c_int, devlist: *const c_int) {
        let ranks = comm::init_all(ndev)?;
        // SAFETY: the caller's promise: there is room for ndev, and init_all made that many.
        unsafe { comm.set_all(ranks.into_iter().map(to_c)) }
    }

    /// Joins the communicator of all processes of this launch. Rank and size come from the variables of the launcher
    /// (mpirun, mpiexec, srun, torchrun, `penny run`); no unique id is needed. Without a launcher: pennyInvalidUsage. Each
    /// call makes another communicator of the same processes.
    ///
    /// comm: written on success; the caller owns it until pennyCommDestroy or pennyCommAbort.
    /// config: from PENNY_CONFIG_INITIALIZER, read during the call only; NULL means all defaults.
    fn pennyCommInitFromEnv(#[out] comm: *mut pennyComm_t, #[or_null] config: *const pennyConfig_t) {
        let joined = comm::init_from_env(&config)?;
        hand_out(comm, joined).and(complete(joined))
    }

    /// Divides the ranks of comm into groups of one size and makes a communicator of the caller's group. Every rank of comm
    /// calls it with the same kind and size. Ranks keep their order. The new communicator has comm's settings. comm stays
    /// valid.
    ///
    /// ```text
    ///     16 ranks, size 4    pennyGroupConsecutive   {0 1 2 3} {4 5 6 7} {8 9 10 11} {12 13 14 15}
    ///                         pennyGroupOrthogonal    {0 4 8 12} {1 5 9 13} {2 6 10 14} {3 7 11 15}
    /// ```
    ///
    /// size: ranks in a group; it must divide the number of ranks. For pennyGroupAll: that number, or 0.
    /// newcomm: written on success; the caller owns it until pennyCommDestroy or pennyCommAbort.
    ///
    /// Between pennyGroupStart and pennyGroupEnd the communicator is made, and the handle becomes valid, at the end of the
    /// group. A rank that dies, or cannot join, fails the call on the others; comm then serves pennyCommAbort and
    /// pennyCommDestroy only.
    fn pennyCommGroup(comm: pennyComm_t, kind: pennyGroupKind_t, size: c_int, #[out] newcomm: *mut pennyComm_t) {
        let joined = comm::group(comm, kind, size)?;
        hand_out(newcomm, joined).and(complete(joined))
    }

    /// Makes a communicator of the ranks of comm that pass the same color. The ranks are ordered by key, and by their rank
    /// in comm where keys are equal. Every rank of comm calls it. comm stays valid.
    ///
    /// color: any number; PENNY_SPLIT_NOCOLOR (-1): this rank joins no communicator and gets NULL, but must call as well.
    /// newcomm: written on success; the caller owns it until pennyCommDestroy or pennyCommAbort.
    /// config: from PENNY_CONFIG_INITIALIZER, read during the call only; NULL, or nothing changed in it, means comm's.
    ///
    /// Groups of calls and failures: as for pennyCommGroup.
    fn pennyCommSplit(
        comm: pennyComm_t,
        color: c_int,
        key: c_int,
        #[out] newcomm: *mut pennyComm_t,
        #[or_null] config: *const pennyConfig_t,
    ) {
        let color = (color != PENNY_SPLIT_NOCOLOR).then_some(color);
        let config = (config != default_config()).then_some(config);
        let joined = comm::split(comm, color, key, config)?;
        let handed = joined.map_or_else(|| newcomm.set(std::ptr::null_mut()), |joined| hand_out(newcomm, joined));
        handed.and(complete(joined.unwrap_or(comm)))
    }

    /// Makes a communicator of the same ranks in the same order, with comm's settings; calls on one do not meet those on the
    /// other (MPI's MPI_Comm_dup). Every rank of comm calls it. comm stays valid.
    ///
    /// newcomm: written on success; the caller owns it until pennyCommDestroy or pennyCommAbort.
    ///
    /// Groups of calls and failures: as for pennyCommGroup.
    fn pennyCommDup(comm: pennyComm_t, #[out] newcomm: *mut pennyComm_t) {
        let joined = comm::group(comm, Grouping::All, 0)?;
        hand_out(newcomm, joined).and(complete(joined))
    }

    /// Makes a communicator of the ranks of comm that are not excluded, in the same order. They alone call it, with the same ranks to
    /// exclude; the excluded ranks may have died, and need not call anything. Works where comm is broken by a death or a
    /// failure, or was revoked or aborted by another rank. comm is freed as before, by pennyCommDestroy or pennyCommAbort.
    ///
    /// excludeRanksList: excludeRanksCount ranks of comm, in any order, without the caller; read during the call only; may be NULL if
    /// excludeRanksCount is 0.
    /// newcomm: written on success; the caller owns it until pennyCommDestroy or pennyCommAbort.
    /// config: as for pennyCommSplit. Returns when all remaining ranks have joined, also where `blocking` is 0.
    /// shrinkFlags: PENNY_SHRINK_DEFAULT, or PENNY_SHRINK_ABORT: aborts comm first, so that its calls under way end on all ranks.
    ///
    /// A remaining rank that dies fails the call on the others with pennyRemoteError, in a sentence that names it; they can call
    /// again and exclude it, too. A rank that excludes others than a peer, and no more, gets pennyInvalidUsage. On a
    /// simulated cluster the survivors' clocks go on, unless a rank died within a call: then the cluster's clock has ended, and the call
    /// is pennyRemoteError.
    fn pennyCommShrink(
        comm: pennyComm_t,
        excludeRanksList: *const c_int,
        excludeRanksCount: c_int,
        #[out] newcomm: *mut pennyComm_t,
        #[or_null] config: *const pennyConfig_t,
        shrinkFlags: c_int,
    ) {
        let aborts = match shrinkFlags {
            PENNY_SHRINK_DEFAULT => false,
            PENNY_SHRINK_ABORT => true,
            other => {
                return Err(Error::argument(format!(
                    "shrinkFlags is {other}; pass PENNY_SHRINK_DEFAULT (0) or PENNY_SHRINK_ABORT (1)"
                )));
            }
        };
        let count = match usize::try_from(excludeRanksCount) {
            Ok(0) => 0,
            Ok(count) if count < comm::count(comm)? as usize => count,
            _ => {
                return Err(Error::argument(format!(
                    "excludeRanksCount is {excludeRanksCount}; it must be 0 or more and less than the {} ranks of comm",
                    comm::count(comm)?
                )));
            }
        };
        if count > 0 && excludeRanksList.is_null() {
            return Err(Error::argument(format!("excludeRanksList is NULL; pass {count} ranks of comm")));
        }
        // SAFETY: the caller's promise. C may have aligned them badly.
        let excluded: Vec<c_int> = (0..count).map(|at| unsafe { excludeRanksList.add(at).read_unaligned() }).collect();
        let config = (config != default_config()).then_some(config);
        hand_out(newcomm, comm::shrink(comm, &excluded, aborts, config)?)
    }

    /// Creates an id by which new ranks can join those of comm; see pennyCommGrow. One rank of comm calls this function and
    /// sends the bytes to the new ranks. Its process must live until all ranks have joined. A communicator that was revoked or
    /// aborted, or that a failure has ended, cannot grow: pennyRemoteError, or that failure.
    ///
    /// uniqueId: written on success.
    fn pennyCommGetUniqueId(comm: pennyComm_t, #[out] uniqueId: *mut pennyUniqueId) {
        uniqueId.set(comm::growth_id(comm)?.into())
    }

    /// Makes a communicator of the ranks of comm and new ranks. The ranks of comm keep their numbers, the new ranks come after
    /// them. All of them call it. comm stays valid.
    ///
    /// ```text
    ///     ranks of comm    pennyCommGrow(comm, nRanks, uniqueId or NULL, -1, &newcomm, config)
    ///     new ranks        pennyCommGrow(NULL, nRanks, uniqueId, rank, &newcomm, config)       rank: from the size of comm on
    /// ```
    ///
    /// nRanks: ranks of the new communicator, at least those of comm; the same on all.
    /// uniqueId: of pennyCommGetUniqueId. The rank of comm that made it passes it, the other ranks of comm pass NULL; each new rank passes
    /// it. Read during the call only.
    /// newcomm: written on success; the caller owns it until pennyCommDestroy or pennyCommAbort.
    /// config: as for pennyCommInitRankConfig; NULL, or nothing changed in it, means comm's on ranks of comm.
    ///
    /// A rank of comm cannot call it between pennyGroupStart and pennyGroupEnd; several new ranks of one thread must.
    fn pennyCommGrow(
        #[or_null] comm: pennyComm_t,
        nRanks: c_int,
        uniqueId: *const pennyUniqueId,
        rank: c_int,
        #[out] newcomm: *mut pennyComm_t,
        #[or_null] config: *const pennyConfig_t,
    ) {
        let joined = match comm {
            Some(comm) if rank == -1 => {
                let config = (config != default_config()).then_some(&config);
                comm::grow(comm, nRanks, uniqueId, config)?
            }
            Some(_) => {
                return Err(Error::argument(format!("rank is {rank}; a rank of comm keeps its number and passes -1")));
            }
            None => {
                let missing = || Error::argument("uniqueId is NULL; a new rank passes the id of pennyCommGetUniqueId");
                comm::init_rank(nRanks, &uniqueId.ok_or_else(missing)?, rank, &config)?
            }
        };
        hand_out(newcomm, joined).and(complete(joined))
    }

    /// Makes the present and all future calls on the communicator fail, on every rank, and keeps it: it still serves
    /// pennyCommShrink, pennyCommSplit (where all ranks call it and the machine is not declared), pennyCommGetAsyncError,
    /// pennyCommAbort and pennyCommDestroy. All ranks' calls return pennyRemoteError and a sentence that names the rank which has
    /// revoked comm. May be called while another thread is inside a call on comm.
    ///
    /// comm: NULL does nothing and succeeds. revokeFlags: PENNY_REVOKE_DEFAULT. A second call, also by another rank, changes nothing.
    fn pennyCommRevoke(#[or_null] comm: pennyComm_t, revokeFlags: c_int) {
        if revokeFlags != PENNY_REVOKE_DEFAULT {
            return Err(Error::argument(format!("revokeFlags is {revokeFlags}; pass PENNY_REVOKE_DEFAULT (0)")));
        }
        comm.map_or(Ok(()), comm::revoke)
    }

    /// Completes all outstanding work on all ranks. Afterwards comm accepts pennyCommDestroy and pennyCommAbort only. The
    /// call is optional: pennyCommDestroy finalizes too. On a communicator that an earlier failure broke it returns that
    /// failure again. A disagreement between ranks that no call has reported is returned as pennyInvalidUsage, and comm is
    /// finalized. If comm has calls in the thread's open group: pennyInvalidUsage, and nothing is done.
    ///
    /// comm: NULL does nothing and succeeds.
    fn pennyCommFinalize(#[or_null] comm: pennyComm_t) {
        comm.map_or(Ok(()), comm::finalize)
    }

    /// Frees the communicator and tells the other ranks that this one has left. A second pennyCommDestroy is
    /// pennyInvalidArgument. A disagreement between ranks that no call has reported is returned as pennyInvalidUsage, and
    /// comm is freed.
    ///
    /// comm: NULL does nothing and succeeds. If another thread is inside a call on it, or it has calls in the thread's open
    /// group: pennyInvalidUsage, and the communicator lives on.
    fn pennyCommDestroy(#[or_null] comm: pennyComm_t) {
        comm.map_or(Ok(()), comm::destroy)
    }

    /// Makes the present and all future calls on the communicator fail, on every rank, and frees it here. The other ranks'
    /// calls return pennyRemoteError. May be called while another thread is inside a call on comm. In an interrupt check
    /// (pennySetInterruptCheck) it makes the calls fail and frees nothing: call it again, or pennyCommDestroy, later. So it does in a
    /// signal handler that has interrupted a call on comm, and returns pennyInvalidUsage there after 5 s.
    ///
    /// comm: NULL does nothing and succeeds.
    fn pennyCommAbort(#[or_null] comm: pennyComm_t) {
        comm.map_or(Ok(()), comm::abort)
    }

    /// Reads the communicator's state: pennySuccess; pennyInProgress, while it, or one that is made from it, is being joined and
    /// `blocking` is 0; or the failure from which it cannot recover, else the first failure of a call on a stream. Does not wait; may
    /// be called from any thread. A failure is told by each call, and its sentence becomes the thread's newest on comm
    /// (pennyGetLastError).
    ///
    /// asyncError: written on success. The function's own result says only whether the state could be read.
    fn pennyCommGetAsyncError(comm: pennyComm_t, #[out] asyncError: *mut pennyResult_t) {
        let state = comm::state(comm)?;
        if let Err(failure) = &state {
            guard::file(comm, failure);
        }
        asyncError.set(pennyResult_t(state.err().map_or(Code::Success, |failure| failure.code) as c_int))
    }

    /// Gives memory of comm back to the system: the staging memory of its ranks, PENNY_STAGING bytes of each. Every rank calls it, when
    /// none has outstanding calls on comm. Until pennyCommResume comm takes no calls (pennyInvalidUsage); pennyCommMemStats,
    /// pennyCommGetAsyncError, pennyCommDestroy and pennyCommAbort still serve. What stays is the memory by which ranks meet and see each
    /// other's state, the messages that no receive has taken, and memory of the program: pennyMemAlloc, windows, the symmetric heap.
    ///
    /// Between pennyGroupStart and pennyGroupEnd it is done at the end of the group, before the group's calls.
    ///
    /// flags: PENNY_SUSPEND_MEM. If a rank's system cannot take the memory back: pennySystemError, and comm stays usable.
    fn pennyCommSuspend(comm: pennyComm_t, flags: c_int) {
        if flags != PENNY_SUSPEND_MEM {
            return Err(Error::argument(format!("flags is {flags}; pass PENNY_SUSPEND_MEM (1)")));
        }
        comm::suspend(comm)
    }

    /// Takes the memory again that pennyCommSuspend has given back, and makes comm usable. Every rank calls it; groups as for
    /// pennyCommSuspend. If a rank's system does not have the memory: pennySystemError on all, and comm stays suspended. If comm is not
    /// suspended, it does nothing and succeeds.
    fn pennyCommResume(comm: pennyComm_t) {
        comm::resume(comm)
    }

    /// Reads a number about the memory of comm on this rank. Memory of the program, and what a rank has once for all communicators, do
    /// not count.
    ///
    /// value: written on success.
    fn pennyCommMemStats(comm: pennyComm_t, stat: pennyCommMemStat_t, #[out] value: *mut u64) {
        let memory = comm::comm_memory(comm)?;
        value.set(match stat {
            pennyStatMemSuspend => memory.suspendable,
            pennyStatMemSuspended => memory.is_suspended.into(),
            pennyStatMemPersist => memory.persistent,
            _ => memory.suspendable + memory.persistent,
        })
    }

    /// Reads the number of ranks.
    ///
    /// count: written on success.
    fn pennyCommCount(comm: pennyComm_t, #[out] count: *mut c_int) {
        count.set(comm::count(comm)? as c_int)
    }

    /// Reads the caller's rank, 0 to count - 1.
    ///
    /// rank: written on success.
    fn pennyCommUserRank(comm: pennyComm_t, #[out] rank: *mut c_int) {
        rank.set(comm::user_rank(comm)? as c_int)
    }

    /// Reads the caller's index among the ranks of its machine, from 0; launchers assign devices by this number (NCCL's
    /// ncclCommCuDevice).
    ///
    /// device: written on success.
    fn pennyCommDevice(comm: pennyComm_t, #[out] device: *mut c_int) {
        device.set(comm::device(comm)? as c_int)
    }
}

/// Fails with pennyInProgress while the communicator, or one that is made from it, is joined in the background.
fn complete(comm: CommHandle) -> Result<()> {
    if comm::is_joining(comm) { Err(Error::pending()) } else { Ok(()) }
}

fn default_config() -> Config {
    Config::default()
}
