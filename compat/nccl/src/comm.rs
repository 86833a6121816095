//! Communicators: how ranks meet, what they know of each other, how they part.

use crate::boundary::{self, Outcome, argument, done, none_yet, number, place, usage};
use crate::debug::{self, About};
use crate::records::{self, Record};
use crate::types::*;
use crate::{config, cuda, group, version};
use penny_sys as penny;
use std::ffi::c_int;

/// Joins a communicator as one of its ranks.
///
/// # Safety
/// As for `pennyCommInitRankConfig`.
unsafe fn join(
    function: &'static str,
    comm: *mut ncclComm_t,
    ranks: c_int,
    id: ncclUniqueId,
    rank: c_int,
    settings: &penny::pennyConfig_t,
    device: Option<i32>,
) -> Outcome {
    none_yet(comm, "comm")?;
    let record = Record::new(function, device, records::digest(&id));
    if rank == 0 {
        let (code, ours) = (version::code().unwrap_or(version::DEFAULT), penny::PENNY_VERSION_CODE);
        let (nccl, penny) = (version::text(code), version::text(ours as i32));
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| debug::version(&format!("NCCL version {nccl}+penny{penny}")));
    }
    debug::on_device(device.unwrap_or(0));
    if debug::tells(About::Init) {
        debug::info(About::Init, &format!("{} - Init START", records::line(&record, 0, rank, ranks)));
    }
    // SAFETY: the caller's promise.
    let joined = unsafe { penny::pennyCommInitRankConfig(comm, ranks, id, rank, settings) };
    if matches!(joined, penny::pennySuccess | penny::pennyInProgress) {
        // SAFETY: Penny has written the handle.
        let comm = unsafe { comm.read_unaligned() };
        records::add(comm, record);
        if joined == penny::pennySuccess {
            group::joined(comm);
        }
    }
    done(joined)
}

/// Refuses devices that Penny's CUDA runtime does not have, and one for two ranks. Without that runtime devices are numbers.
fn check_devices(devices: &[c_int]) -> Outcome {
    let Some(count) = cuda::devices()? else { return Ok(()) };
    let ranks = devices.len();
    if ranks > count as usize {
        return Err(argument(format!(
            "ndev is {ranks}, and there are {count} devices; pass at most as many, or set PENNY_DEVICES"
        )));
    }
    for (rank, device) in devices.iter().enumerate() {
        if !(0..count).contains(device) {
            return Err(argument(format!(
                "devlist has device {device} for rank {rank}; there are {count}: pass 0 to {}, or set PENNY_DEVICES",
                count - 1
            )));
        }
        if devices[..rank].contains(device) {
            return Err(usage(format!(
                "devlist has device {device} a second time, for rank {rank}; pass another device for each rank"
            )));
        }
    }
    Ok(())
}

/// Prepares what every function needs that makes a communicator.
pub fn begin() -> Outcome {
    cuda::look();
    config::variables()
}

nccl_api! {
    /// Creates the id of a future communicator.
    fn ncclGetUniqueId, pncclGetUniqueId(uniqueId: *mut ncclUniqueId) {
        // SAFETY: the caller's promise; Penny refuses NULL.
        done(unsafe { penny::pennyGetUniqueId(uniqueId) })
    }

    /// Joins the communicator of an id.
    fn ncclCommInitRank, pncclCommInitRank(comm: *mut ncclComm_t, nranks: c_int, commId: ncclUniqueId, rank: c_int) {
        group::queued(|| {
            begin()?;
            // SAFETY: NULL is all defaults.
            let settings = unsafe { config::read(std::ptr::null()) }?;
            // SAFETY: the caller's promise.
            unsafe { join("ncclCommInitRank", comm, nranks, commId, rank, &settings, cuda::current_device()) }
        })
    }

    /// Joins the communicator of an id, with settings.
    fn ncclCommInitRankConfig, pncclCommInitRankConfig(
        comm: *mut ncclComm_t, nranks: c_int, commId: ncclUniqueId, rank: c_int, config: *const ncclConfig_t,
    ) {
        group::queued(|| {
            begin()?;
            // SAFETY: the caller's promise.
            let settings = unsafe { config::read(config) }?;
            // SAFETY: the caller's promise.
            unsafe { join("ncclCommInitRankConfig", comm, nranks, commId, rank, &settings, cuda::current_device()) }
        })
    }

    /// Joins a communicator that has several ids. The first one is used: one rank of one host answers all others.
    fn ncclCommInitRankScalable, pncclCommInitRankScalable(
        newcomm: *mut ncclComm_t, nranks: c_int, myrank: c_int, nId: c_int, commIds: *const ncclUniqueId,
        config: *const ncclConfig_t,
    ) {
        group::queued(|| {
            begin()?;
            if nId < 1 || nId > nranks {
                return Err(argument(format!("nId is {nId}; pass 1 to nranks ({nranks}) ids, the same on all ranks")));
            }
            if commIds.is_null() {
                return Err(argument("commIds is NULL; pass nId ids of ncclGetUniqueId"));
            }
            // SAFETY: the caller's promise.
            let (id, settings) = unsafe { (commIds.read_unaligned(), config::read(config)?) };
            // SAFETY: the caller's promise.
            unsafe { join("ncclCommInitRankScalable", newcomm, nranks, id, myrank, &settings, cuda::current_device()) }
        })
    }

    /// Creates a communicator whose ranks are all in this thread.
    fn ncclCommInitAll, pncclCommInitAll(comm: *mut ncclComm_t, ndev: c_int, devlist: *const c_int) {
        group::queued(|| {
            begin()?;
            place(comm, "comm")?;
            if !(1..=1024).contains(&ndev) {
                return Err(argument(format!("ndev is {ndev}; pass 1 to 1024")));
            }
            let device_of = |rank: c_int| match devlist.is_null() {
                true => rank,
                // SAFETY: the caller's promise: a list has ndev numbers.
                false => unsafe { devlist.add(rank as usize).read_unaligned() },
            };
            let devices: Vec<_> = (0..ndev).map(device_of).collect();
            check_devices(&devices)?;
            let mut id = ncclUniqueId { internal: [0; 128] };
            // SAFETY: NULL is all defaults.
            let settings = unsafe { config::read(std::ptr::null()) }?;
            // SAFETY: the place is a local one.
            done(unsafe { penny::pennyGetUniqueId(&mut id) })?;
            group::all(|| {
                (0..ndev).zip(devices).try_for_each(|(rank, device)| {
                    // SAFETY: the caller's promise: there is room for ndev handles.
                    unsafe { join("ncclCommInitAll", comm.add(rank as usize), ndev, id, rank, &settings, Some(device)) }
                })
            })
        })
    }

    /// Makes communicators of the ranks that pass the same color.
    fn ncclCommSplit, pncclCommSplit(
        comm: ncclComm_t, color: c_int, key: c_int, newcomm: *mut ncclComm_t, config: *const ncclConfig_t,
    ) {
        group::queued(|| {
            begin()?;
            none_yet(newcomm, "newcomm")?;
            if color < NCCL_SPLIT_NOCOLOR {
                return Err(argument(format!("color is {color}; pass a number from 0 on, or NCCL_SPLIT_NOCOLOR")));
            }
            // SAFETY: the caller's promise.
            let settings = unsafe { config::read_changes(config) }?;
            let settings = settings.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
            // SAFETY: the caller's promise.
            let split = unsafe { penny::pennyCommSplit(comm, color, key, newcomm, settings) };
            if color == NCCL_SPLIT_NOCOLOR {
                return done(split);
            }
            // SAFETY: Penny has written the handle if it has made a communicator.
            unsafe { made("ncclCommSplit", split, comm, newcomm) }
        })
    }

    /// Completes all work on the communicator.
    fn ncclCommFinalize, pncclCommFinalize(comm: ncclComm_t) {
        // SAFETY: Penny checks the handle.
        done(unsafe { penny::pennyCommFinalize(comm) })
    }

    /// Frees the communicator.
    fn ncclCommDestroy, pncclCommDestroy(comm: ncclComm_t) {
        // SAFETY: Penny checks the handle.
        end(comm, "Destroy", || unsafe { penny::pennyCommDestroy(comm) })
    }

    /// Makes all calls on the communicator fail, and frees it.
    fn ncclCommAbort, pncclCommAbort(comm: ncclComm_t) {
        // SAFETY: Penny checks the handle.
        end(comm, "Abort", || unsafe { penny::pennyCommAbort(comm) })
    }

    /// Reads the communicator's state. Of a failure, `ncclGetLastError` then returns the sentence.
    fn ncclCommGetAsyncError, pncclCommGetAsyncError(comm: ncclComm_t, asyncError: *mut ncclResult_t) {
        place(asyncError, "asyncError")?;
        let mut state = penny::pennySuccess;
        // SAFETY: the place is a local one; Penny checks the handle.
        done(unsafe { penny::pennyCommGetAsyncError(comm, &mut state) })?;
        if state == penny::pennyRemoteError && records::is_revoked(comm) {
            // That the calls have ended is what the program wanted.
            state = penny::pennySuccess;
        }
        match state {
            penny::pennySuccess => records::announce(comm),
            penny::pennyInProgress => {}
            failure => boundary::file("ncclCommGetAsyncError", comm, failure),
        }
        // SAFETY: the caller's promise.
        unsafe { asyncError.write_unaligned(number(state)) };
        Ok(())
    }

    /// Reads the number of ranks.
    fn ncclCommCount, pncclCommCount(comm: ncclComm_t, count: *mut c_int) {
        // SAFETY: the caller's promise; Penny refuses NULL.
        done(unsafe { penny::pennyCommCount(comm, count) })
    }

    /// Reads the rank.
    fn ncclCommUserRank, pncclCommUserRank(comm: ncclComm_t, rank: *mut c_int) {
        // SAFETY: the caller's promise; Penny refuses NULL.
        done(unsafe { penny::pennyCommUserRank(comm, rank) })
    }

    /// Reads the CUDA device: that of ncclCommInitAll's list, else the one that was current when the communicator was made, else the
    /// caller's index among the ranks of this host.
    fn ncclCommCuDevice, pncclCommCuDevice(comm: ncclComm_t, device: *mut c_int) {
        place(device, "device")?;
        // SAFETY: the caller's promise; a handle that is no longer valid is refused.
        done(unsafe { penny::pennyCommDevice(comm, device) })?;
        if let Some(known) = records::device(comm) {
            // SAFETY: the caller's promise.
            unsafe { device.write_unaligned(known) };
        }
        Ok(())
    }
}

/// Notes a communicator that was made from another, and returns how that went.
///
/// # Safety
/// Where it succeeded, `newcomm` points to the handle.
pub unsafe fn made(
    function: &'static str,
    result: penny::pennyResult_t,
    from: ncclComm_t,
    newcomm: *mut ncclComm_t,
) -> Outcome {
    if matches!(result, penny::pennySuccess | penny::pennyInProgress) {
        // SAFETY: the caller's promise.
        let made = unsafe { newcomm.read_unaligned() };
        let device = records::device(from);
        records::add(made, Record::new(function, device, 0));
        if result == penny::pennySuccess {
            group::joined(made);
        }
    }
    done(result)
}

/// Ends a communicator.
fn end(comm: ncclComm_t, how: &str, act: impl FnOnce() -> penny::pennyResult_t) -> Outcome {
    let told = debug::tells(About::Init) && !comm.is_null();
    let (rank, ranks) = if told { (records::rank(comm), records::ranks(comm)) } else { (0, 0) };
    let device = records::device(comm).unwrap_or(0);
    records::on_its_device(comm);
    let ended = act();
    if ended != penny::pennyInvalidArgument {
        records::remove(comm);
    }
    if told && ended == penny::pennySuccess {
        let comm = comm.addr();
        debug::info(
            About::Init,
            &format!("comm {comm:#x} rank {rank} nranks {ranks} cudaDev {device} - {how} COMPLETE"),
        );
    }
    done(ended)
}
