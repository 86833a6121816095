//! Memory of the shareable heap that other ranks write to without asking: it may be used for something else only when none
//! of them can write any more.
//!
//! Where all ranks give it up together they say so to each other, and it is free at once. Where a rank destroys its
//! communicator with such memory still in it, its peers may not know yet: then it is kept until they have all left or died.

use crate::error::Result;
use crate::memory::control::LEFT;
use crate::memory::heap;
use crate::memory::registered::Twin;
use crate::sync::lock::Mutex;
use crate::sync::prim::Ordering;
use crate::transport::Transport;
use std::sync::Arc;

/// A range of the shareable heap that peers reach.
pub(in crate::comm) struct DeferredFree {
    held: Held,
    transport: Arc<Transport>,
    /// The range that ranks of other hosts may access: its offset in the heap, and its bytes.
    opened: Option<(u64, usize)>,
}

enum Held {
    /// A range that the heap allocated, by its address.
    Range(usize),
    /// The twin of a buffer that is no longer registered.
    Twin { _twin: Arc<Twin> },
}

/// Memory that was given up but that another rank may still access.
static KEPT: Mutex<Vec<DeferredFree>> = Mutex::new(Vec::new());

impl DeferredFree {
    /// Takes over memory that the heap allocated; from now on it is freed through this value only.
    pub fn new(addr: usize, transport: Arc<Transport>) -> DeferredFree {
        sweep();
        DeferredFree { held: Held::Range(addr), transport, opened: None }
    }

    /// Takes over a registered buffer's twin; its last holder frees it.
    pub fn of_twin(twin: Arc<Twin>, transport: Arc<Transport>) -> DeferredFree {
        DeferredFree { held: Held::Twin { _twin: twin }, transport, opened: None }
    }

    /// Lets ranks of other hosts access it, until it is freed.
    pub fn open(self, at: u64, bytes: usize) -> DeferredFree {
        self.transport.open(at, bytes);
        DeferredFree { opened: Some((at, bytes)), ..self }
    }

    /// Frees the memory after all ranks have given it up.
    pub fn free(self) -> Result<()> {
        if let Some((at, bytes)) = self.opened {
            self.transport.shut(at, bytes);
        }
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
            let life = t.lines(r).life(r);
            !life.node.died() && life.state.load(Ordering::Acquire) != LEFT
        })
    }
}

/// Frees the memory that no rank can access any more.
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
