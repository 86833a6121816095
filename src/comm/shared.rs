//! What a communicator shows to threads that are not inside: its ancestry, its rank's clock, its failures.

use super::config::Config;
use super::onesided::deferred_free::DeferredFree;
use super::stream::turn::CallTurns;
use crate::error::{Error, Result};
use crate::handle::{CommKind, Handle, SemaphoreKind};
use crate::onesided::SymmetricMemory;
use crate::onesided::semaphore::{BARRIERS, SemaphoreMemory};
use crate::sync::lock::Mutex;
use crate::sync::prim::{AtomicBool, AtomicU64, Ordering};
use crate::sys::fork;
use crate::timing::Timing;
use crate::transport::Transport;
use crate::transport::link::Ending;
use crate::types::Rank;
use std::sync::{Arc, OnceLock};

/// Names one communicator of this process.
pub type CommHandle = Handle<CommKind>;

/// A communicator's home of semaphores and the handles in it, for any thread.
pub(in crate::comm) struct SemaphoreHome {
    pub home: Arc<SemaphoreMemory>,
    pub deferred: DeferredFree,
    pub barriers: [OnceLock<Handle<SemaphoreKind>>; BARRIERS],
}

/// The origin of a communicator. Its children inherit settings from it.
pub(super) struct Origin {
    /// The caller's settings.
    pub config: Config,
    /// For each rank, its rank in the parent; `None` if the communicator was not made from another.
    pub parent_ranks: Option<Vec<Rank>>,
    /// The first communicator of this one's ancestry on this rank. It tells members of different children apart.
    pub root: CommHandle,
    /// For each rank, its rank in that first communicator.
    pub world: Vec<Rank>,
}

/// The part of a communicator that other threads may access while one is inside a call.
#[repr(align(128))]
pub struct CommShared {
    pub(super) handle: CommHandle,
    pub(super) transport: Arc<Transport>,
    /// The caller's index on its machine.
    pub(super) device: u32,
    /// The time of its calls: that of this host, or a declared machine's.
    pub(super) timing: Timing,
    /// Its origin.
    pub(super) origin: Origin,
    /// Its symmetric heap, between init and finalize, for threads that do not enter.
    pub(super) symmetric: Mutex<Option<Arc<SymmetricMemory>>>,
    /// Its semaphores, as long as there is a symmetric heap.
    pub(super) semaphores: Mutex<Option<SemaphoreHome>>,
    /// The order of its calls on streams.
    pub(super) turns: CallTurns,
    /// It takes no calls any more.
    pub(super) finalized: AtomicBool,
    /// It has given memory back, and takes no calls until that is there again (`suspend`).
    pub(super) suspended: AtomicBool,
    /// The bytes that it has given back then.
    pub(super) given_back: AtomicU64,
    /// The failure that ended the communicator's usefulness.
    pub(super) broken: OnceLock<Error>,
    /// The process that made it.
    generation: u32,
}

impl CommShared {
    pub(super) fn new(
        handle: CommHandle,
        transport: Arc<Transport>,
        device: u32,
        timing: Timing,
        origin: Origin,
    ) -> CommShared {
        CommShared {
            handle,
            transport,
            device,
            timing,
            origin,
            symmetric: Mutex::new(None),
            semaphores: Mutex::new(None),
            turns: CallTurns::default(),
            finalized: AtomicBool::new(false),
            suspended: AtomicBool::new(false),
            given_back: AtomicU64::new(0),
            broken: OnceLock::new(),
            generation: fork::generation(),
        }
    }

    /// Makes the present and all future calls fail, on every rank.
    pub(super) fn abort(&self) {
        self.end_calls(Ending::Aborted);
    }

    /// The same, and tells the ranks how.
    pub(super) fn end_calls(&self, ending: Ending) {
        self.transport.end_calls(ending);
        self.turns.abort();
    }

    /// Refuses calls while memory is given back.
    #[inline]
    pub(super) fn refuse_suspended(&self) -> Result<()> {
        if !self.suspended.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(Error::usage(
            "the communicator is suspended; pennyCommResume makes it usable again, on all ranks",
        ))
    }

    /// Refuses calls after its end was announced.
    #[inline]
    pub(super) fn refuse_finalized(&self) -> Result<()> {
        if !self.finalized.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(Error::usage("the communicator was finalized; only pennyCommDestroy may follow"))
    }

    /// Refuses to queue calls that no stream could make.
    pub(super) fn refuse_queuing(&self) -> Result<()> {
        self.refuse_forked()?;
        self.refuse_finalized()
    }

    /// Tells whether this process was forked from the one that made it.
    #[inline]
    pub(super) fn is_forked(&self) -> bool {
        self.generation != fork::generation()
    }

    /// A forked child would speak in its parent's name.
    #[inline]
    pub(super) fn refuse_forked(&self) -> Result<()> {
        if !self.is_forked() {
            return Ok(());
        }
        Err(Error::usage(
            "this process was forked from a rank; only the parent may use the communicator: make a new one here",
        ))
    }
}

/// Calls of this process that have failed.
static FAILURES: AtomicU64 = AtomicU64::new(0);

/// Counts a call that has failed while peers could be at work on its buffers.
pub fn remember_failure() {
    FAILURES.fetch_add(1, Ordering::Relaxed);
}
/// The number of such calls. Memory that was allocated before the latest may still be written by a peer that was slow.
pub fn failures() -> u64 {
    FAILURES.load(Ordering::Relaxed)
}
