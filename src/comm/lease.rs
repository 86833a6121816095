//! Memory of the shareable heap that other ranks write to without asking: it may be used for something else only when none
//! of them can write any more.
//!
//! Where all ranks give it up together they say so to each other, and it is free at once. Where a rank destroys its
//! communicator with such memory still in it, its peers may not know yet: then it is kept until they have all left or died.

use crate::error::Result;
use crate::memory::control::LEFT;
use crate::memory::heap;
use crate::sync::prim::Ordering;
use crate::transport::Transport;
use std::sync::{Arc, Mutex};

/// A range of the shareable heap that peers reach.
pub(super) struct Lease {
    addr: usize,
    transport: Arc<Transport>,
}

/// Given up, but within reach of somebody.
static KEPT: Mutex<Vec<Lease>> = Mutex::new(Vec::new());

impl Lease {
    /// Of memory that the heap handed out; from now on it is freed through this alone.
    pub fn new(addr: usize, transport: Arc<Transport>) -> Lease {
        sweep();
        Lease { addr, transport }
    }

    /// All ranks have given it up.
    pub fn free(self) -> Result<()> {
        heap::mine()?.free(self.addr)
    }

    /// Nobody may have told the others.
    pub fn keep(self) {
        KEPT.lock().unwrap_or_else(|e| e.into_inner()).push(self);
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

/// Free what nobody reaches any more.
pub(super) fn sweep() {
    let mut kept = KEPT.lock().unwrap_or_else(|e| e.into_inner());
    for lease in std::mem::take(&mut *kept) {
        if lease.within_reach() {
            kept.push(lease);
        } else {
            // The heap itself is there, or there would be no lease.
            let _ = lease.free();
        }
    }
}
