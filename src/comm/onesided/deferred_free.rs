//! Memory of the shareable heap that other ranks write to without asking: it may be used for something else only when none
//! of them can write any more.
//!
//! Where all ranks give it up together they say so to each other, and it is free at once. Where a rank destroys its
//! communicator with such memory still in it, its peers may not know yet: then it is kept until they have all left or died.

use crate::comm::agree::Proposal;
use crate::comm::communicator::CommCore;
use crate::error::{Error, Result};
use crate::memory::control::LEFT;
use crate::memory::heap;
use crate::memory::registered::Twin;
use crate::onesided::Region;
use crate::sync::lock::Mutex;
use crate::sync::prim::Ordering;
use crate::transport::Transport;
use crate::types::Rank;
use std::sync::Arc;

/// A range of the shareable heap that peers reach.
pub(in crate::comm) struct DeferredFree {
    held: Held,
    transport: Arc<Transport>,
}

enum Held {
    /// A range that the heap allocated, by its address.
    Range(usize),
    /// The twin of a buffer that is no longer registered.
    Twin { _twin: Arc<Twin> },
}

/// Given up, but within reach of somebody.
static KEPT: Mutex<Vec<DeferredFree>> = Mutex::new(Vec::new());

impl DeferredFree {
    /// Takes over memory that the heap allocated; from now on it is freed through this value only.
    pub fn new(addr: usize, transport: Arc<Transport>) -> DeferredFree {
        sweep();
        DeferredFree { held: Held::Range(addr), transport }
    }

    /// Takes over a registered buffer's twin; its last holder frees it.
    pub fn of_twin(twin: Arc<Twin>, transport: Arc<Transport>) -> DeferredFree {
        DeferredFree { held: Held::Twin { _twin: twin }, transport }
    }

    /// Frees the memory after all ranks have given it up.
    pub fn free(self) -> Result<()> {
        match self.held {
            Held::Range(addr) => heap::mine()?.free(addr),
            Held::Twin { .. } => Ok(()),
        }
    }

    /// Keeps the memory, because the other ranks may not know that it was given up.
    pub fn keep(self) {
        KEPT.lock().push(self);
        sweep();
    }

    fn within_reach(&self) -> bool {
        let t = &self.transport;
        (0..t.nranks()).filter(|&r| r != t.rank()).any(|r| {
            let life = t.control().life(r);
            !life.node.died() && life.state.load(Ordering::Acquire) != LEFT
        })
    }
}

impl CommCore {
    /// Memory of `bytes` bytes on every rank, of which this rank's is at `base`, or could not be had. `proposal`: what it is
    /// for, told with where it begins in this rank's heap, as the proposal's word number `word`.
    ///
    /// The outer error is the exchange's. Others may have heard of this rank's range then, and write there. The inner one,
    /// that the ranks disagree or some rank has no memory, all ranks get, and none has the range.
    pub(in crate::comm) fn range_of_all<P: Proposal>(
        &mut self,
        base: Result<usize>,
        bytes: usize,
        word: usize,
        proposal: impl FnOnce(u64) -> P,
    ) -> Result<Result<(Region, DeferredFree)>> {
        let own = heap::mine()?;
        let deferred = base.as_ref().ok().map(|&base| DeferredFree::new(base, self.transport.clone()));
        let outside = || Error::internal("memory of the heap lies outside of it");
        let part = base.and_then(|base| Ok((base, own.offset_of(base, bytes).ok_or_else(outside)?)));
        let begin = part.as_ref().map_or(0, |&(_, begin)| begin as u64);
        match self.propose(&proposal(begin), part) {
            Err(e) => {
                deferred.into_iter().for_each(DeferredFree::keep);
                Err(e)
            }
            Ok(Err(refused)) => {
                deferred.map_or(Ok(()), DeferredFree::free)?;
                Ok(Err(refused))
            }
            Ok(Ok((part, all))) => {
                let deferred = deferred.ok_or_else(outside)?;
                Ok(Ok((Region::new(part.0, bytes, all.each(word)), deferred)))
            }
        }
    }
}

/// Words that a rank has no memory for its part of a range.
pub(in crate::comm) fn no_memory(rank: Rank, bytes: usize) -> String {
    format!(
        "rank {rank} has no {bytes} bytes left in its shareable heap, so no rank has them; free memory there, or raise \
         PENNY_HEAP_SIZE"
    )
}

/// Free what nobody reaches any more.
pub(in crate::comm) fn sweep() {
    let mut kept = KEPT.lock();
    for deferred in std::mem::take(&mut *kept) {
        if deferred.within_reach() {
            kept.push(deferred);
        } else {
            // The heap itself is there, or there would be no lease.
            let _ = deferred.free();
        }
    }
}
