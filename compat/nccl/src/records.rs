//! What NCCL reports of a communicator and Penny does not know: its CUDA device, the digest of its id, how many calls were printed, and
//! whether this rank has revoked it.

use crate::debug::{self, About};
use crate::types::*;
use penny_sys as penny;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

/// A communicator of this process.
#[derive(Clone)]
pub struct Record {
    /// The function that made it.
    pub function: &'static str,
    /// The device that was current then, if there is a CUDA runtime, or that a list named.
    pub device: Option<i32>,
    /// What tells its id from others in the output of `NCCL_DEBUG`; 0 for one that was made from another.
    pub id: u64,
    /// Its output says that it was made.
    pub announced: bool,
    /// Calls that were printed.
    pub calls: u64,
    /// The program has revoked it.
    pub revoked: bool,
}

impl Record {
    /// What is known of a communicator that is about to be made.
    pub fn new(function: &'static str, device: Option<i32>, id: u64) -> Record {
        Record { function, device, id, announced: false, calls: 0, revoked: false }
    }
}

/// Has any communicator been revoked?
static ANY_REVOKED: AtomicBool = AtomicBool::new(false);

static ALL: Mutex<BTreeMap<usize, Record>> = Mutex::new(BTreeMap::new());

fn all() -> MutexGuard<'static, BTreeMap<usize, Record>> {
    ALL.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Adds a communicator whose handle has just been made.
pub fn add(comm: ncclComm_t, record: Record) {
    if let Some(device) = record.device {
        debug::on_device(device);
    }
    all().insert(comm.addr(), record);
}

/// Removes a communicator that is gone.
pub fn remove(comm: ncclComm_t) {
    all().remove(&comm.addr());
}

/// Notes that the program has revoked a communicator.
pub fn revoke(comm: ncclComm_t) {
    if let Some(record) = all().get_mut(&comm.addr()) {
        record.revoked = true;
        ANY_REVOKED.store(true, Ordering::Relaxed);
    }
}

/// Has the program revoked it?
pub fn is_revoked(comm: ncclComm_t) -> bool {
    ANY_REVOKED.load(Ordering::Relaxed) && all().get(&comm.addr()).is_some_and(|record| record.revoked)
}

/// Returns its device, if this library knows it.
pub fn device(comm: ncclComm_t) -> Option<i32> {
    all().get(&comm.addr())?.device
}

/// Lets the lines of this thread carry a communicator's device.
pub fn on_its_device(comm: ncclComm_t) {
    if let Some(device) = device(comm) {
        debug::on_device(device);
    }
}

/// Returns the number of the next call in the output, whose line will carry the communicator's device.
pub fn next_call(comm: ncclComm_t) -> u64 {
    all().get_mut(&comm.addr()).map_or(0, |record| {
        debug::on_device(record.device.unwrap_or(0));
        record.calls += 1;
        record.calls - 1
    })
}

/// Prints, once, that a communicator is complete.
pub fn announce(comm: ncclComm_t) {
    if !debug::tells(About::Init) {
        return;
    }
    let Some(record) = all().get_mut(&comm.addr()).filter(|record| !record.announced).map(|record| {
        record.announced = true;
        record.clone()
    }) else {
        return;
    };
    debug::on_device(record.device.unwrap_or(0));
    let (ranks, rank) = (ranks(comm), rank(comm));
    let text = line(&record, comm.addr(), rank, ranks);
    debug::info(About::Init, &format!("{text} - Init COMPLETE"));
}

/// Returns what a line says of a communicator.
pub fn line(record: &Record, comm: usize, rank: i32, ranks: i32) -> String {
    let device = record.device.unwrap_or(0);
    let (function, id) = (record.function, record.id);
    format!("{function} comm {comm:#x} rank {rank} nranks {ranks} cudaDev {device} commId {id:#x}")
}

/// Returns the number of ranks; 0 where Penny does not tell it.
pub fn ranks(comm: ncclComm_t) -> i32 {
    let mut ranks = 0;
    // SAFETY: the place is a local one; Penny checks the handle.
    unsafe { penny::pennyCommCount(comm, &mut ranks) };
    ranks
}

/// Returns the rank; 0 where Penny does not tell it.
pub fn rank(comm: ncclComm_t) -> i32 {
    let mut rank = 0;
    // SAFETY: the place is a local one; Penny checks the handle.
    unsafe { penny::pennyCommUserRank(comm, &mut rank) };
    rank
}

/// Returns a digest of an id: FNV-1a.
pub fn digest(id: &ncclUniqueId) -> u64 {
    id.internal.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte as u8)).wrapping_mul(0x0100_0000_01b3)
    })
}
