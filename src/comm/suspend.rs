//! A communicator that gives memory back while its program does not use it.
//!
//! ```text
//!     all ranks   agree to suspend --- a barrier: nobody reads the others' staging memory any more
//!     each        gives the pages of its staging memory back; the communicator takes no calls
//!     all ranks   tell each other whether that was possible
//!       ...
//!     each        reserves its staging memory again
//!     all ranks   agree to resume: if the memory is not there on one, all stay suspended
//! ```
//!
//! The rest of a communicator's memory stays: the lines by which ranks meet and learn of deaths, and the rings, which may hold messages
//! that no receive has taken.

use super::agree::{Proposal, Subject};
use super::communicator::CommCore;
use super::registry::{self, CommHandle};
use crate::error::{Error, Result};
use crate::sync::prim::Ordering;

/// What all ranks do.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
enum Ask {
    Suspend = 1,
    GivenBack,
    Resume,
}

impl Proposal for Ask {
    const SUBJECT: Subject = Subject::Memory;
    const EQUAL: usize = 1;
    type Words = [u64; 1];

    fn words(&self) -> [u64; 1] {
        [*self as u64]
    }

    fn reads(words: &[u64]) -> String {
        match words {
            [3] => "pennyCommResume".into(),
            _ => "pennyCommSuspend".into(),
        }
    }
}

/// The bytes of shared memory that a rank has for a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommMemory {
    /// Staging memory, which a suspension gives back; the same while it is suspended.
    pub suspendable: u64,
    /// It is given back.
    pub is_suspended: bool,
    /// Bytes that stay.
    pub persistent: u64,
}

impl CommCore {
    fn suspend(&mut self) -> Result<()> {
        self.agree(&Ask::Suspend, Ok(()))?;
        // A rank that leaves it knows that all have left the calls before.
        self.barrier()?;
        let t = self.transport.clone();
        let had = t.control().staging_bytes();
        let given_back = match had == 0 || t.control().release_staging(t.rank()) {
            true => Ok(()),
            false => Err(Error::system(
                "the staging memory cannot be given back: the file system of shared memory does not support it; set PENNY_SHM=memfd",
            )),
        };
        self.agree(&Ask::GivenBack, given_back)?;
        self.forget_last_call();
        self.shared.given_back.store(had as u64, Ordering::Relaxed);
        self.shared.suspended.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn resume(&mut self) -> Result<()> {
        if !self.shared.suspended.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let t = self.transport.clone();
        let there = match self.shared.given_back.load(Ordering::Relaxed) {
            0 => Ok(()),
            _ => t.control().reserve_staging(t.rank()..t.rank() + 1),
        };
        let resumed = self.agree(&Ask::Resume, there).map(drop);
        if resumed.is_err() {
            self.shared.suspended.store(true, Ordering::Relaxed);
            t.control().release_staging(t.rank());
        }
        resumed
    }
}

/// Gives memory of a communicator back, on all ranks; they all call.
pub(super) fn suspend_now(comm: CommHandle) -> Result<()> {
    registry::enter(comm, CommCore::suspend)
}

/// Takes the memory again, on all ranks; they all call.
pub(super) fn resume_now(comm: CommHandle) -> Result<()> {
    registry::enter(comm, CommCore::resume)
}

/// Returns how much memory this rank has for a communicator. Any thread may ask.
pub fn comm_memory(comm: CommHandle) -> Result<CommMemory> {
    let shared = registry::shared(comm)?;
    shared.refuse_forked()?;
    let control = shared.transport.control();
    let is_suspended = shared.suspended.load(Ordering::Relaxed);
    let suspendable = match is_suspended {
        true => shared.given_back.load(Ordering::Relaxed),
        false => control.staging_bytes() as u64,
    };
    Ok(CommMemory { suspendable, is_suspended, persistent: control.other_bytes() as u64 })
}
