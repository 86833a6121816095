//! Memory of the shareable heap that other ranks write to without asking: it may be used for something else only when none
//! of them can write any more.
//!
//! Where all ranks give it up together they say so to each other, and it is free at once. Where a rank destroys its
//! communicator with such memory still in it, its peers may not know yet: then it is kept until they have all left or died.

use crate::comm::communicator::CommCore;
use crate::error::{Error, Result};
use crate::memory::control::LEFT;
use crate::memory::heap;
use crate::memory::registered::Twin;
use crate::onesided::Region;
use crate::sync::prim::Ordering;
use crate::transport::Transport;
use std::sync::{Arc, Mutex};

/// A range of the shareable heap that peers reach.
pub(in crate::comm) struct DeferredFree {
    held: Held,
    transport: Arc<Transport>,
}

enum Held {
    /// What the heap handed out, by its address.
    Range(usize),
    /// What stood for a buffer that is registered no more.
    Twin { _twin: Arc<Twin> },
}

/// In place of where a range begins: its rank has no memory for it.
const NOWHERE: u64 = u64::MAX;

/// Given up, but within reach of somebody.
static KEPT: Mutex<Vec<DeferredFree>> = Mutex::new(Vec::new());

impl DeferredFree {
    /// Of memory that the heap handed out; from now on it is freed through this alone.
    pub fn new(addr: usize, transport: Arc<Transport>) -> DeferredFree {
        sweep();
        DeferredFree { held: Held::Range(addr), transport }
    }

    /// Of what stood for a registered buffer; its last holder frees it.
    pub fn of_twin(twin: Arc<Twin>, transport: Arc<Transport>) -> DeferredFree {
        DeferredFree { held: Held::Twin { _twin: twin }, transport }
    }

    /// All ranks have given it up.
    pub fn free(self) -> Result<()> {
        match self.held {
            Held::Range(addr) => heap::mine()?.free(addr),
            Held::Twin { .. } => Ok(()),
        }
    }

    /// Nobody may have told the others.
    pub fn keep(self) {
        KEPT.lock().unwrap_or_else(|e| e.into_inner()).push(self);
        sweep();
    }

    fn within_reach(&self) -> bool {
        let t = &self.transport;
        (0..t.nranks()).filter(|&r| r != t.rank()).any(|r| {
            let life = t.lines(r).life(r);
            !life.node.died() && life.state.load(Ordering::Acquire) != LEFT
        })
    }
}

impl CommCore {
    /// Memory of `bytes` bytes on every rank, of which this rank's is at `base`, or could not be had. `tell` tells all where
    /// it begins in this rank's heap, and hears where the others' does; [`NOWHERE`]: it could not be had.
    ///
    /// The outer error is the exchange's. Others may have heard of this rank's range then, and write there. The inner one,
    /// that some rank has no memory, all ranks get, and none has the range.
    pub(in crate::comm) fn range_of_all(
        &mut self,
        base: Result<usize>,
        bytes: usize,
        tell: impl FnOnce(&mut CommCore, u64) -> Result<Vec<u64>>,
    ) -> Result<Result<(Region, DeferredFree)>> {
        let own = heap::mine()?;
        let begin = base.as_ref().ok().and_then(|&base| own.offset_of(base, bytes));
        let deferred = base.clone().ok().map(|base| DeferredFree::new(base, self.transport.clone()));
        let begins = match tell(self, begin.map_or(NOWHERE, |begin| begin as u64)) {
            Ok(begins) => begins,
            Err(e) => {
                deferred.into_iter().for_each(DeferredFree::keep);
                return Err(e);
            }
        };
        let without = begins.iter().position(|&begin| begin == NOWHERE);
        match (base, deferred, without) {
            (Ok(base), Some(deferred), None) => Ok(Ok((Region::new(base, bytes, begins), deferred))),
            (base, deferred, without) => {
                deferred.map_or(Ok(()), DeferredFree::free)?;
                Ok(Err(base.err().unwrap_or_else(|| {
                    Error::system(format!(
                        "rank {} has no {bytes} bytes left in its shareable heap, so no rank has them; free memory there, or \
                         raise PENNY_HEAP_SIZE",
                        without.unwrap_or(0)
                    ))
                })))
            }
        }
    }
}

/// Free what nobody reaches any more.
pub(in crate::comm) fn sweep() {
    let mut kept = KEPT.lock().unwrap_or_else(|e| e.into_inner());
    for deferred in std::mem::take(&mut *kept) {
        if deferred.within_reach() {
            kept.push(deferred);
        } else {
            // The heap itself is there, or there would be no lease.
            let _ = deferred.free();
        }
    }
}
