//! A memory barrier that one thread makes all others of its process pass, so that these need none where they are quick.
//!
//! The kernel interrupts the processors on which other threads of the process run, and each passes a full barrier there; a thread that does
//! not run has passed one when it was taken off its processor. That takes microseconds, and more where processors are virtual.

use crate::sync::prim::{AtomicBool, Ordering, fence};
use std::time::Duration;

/// `MEMBARRIER_CMD_PRIVATE_EXPEDITED` and `MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED` of `linux/membarrier.h`.
const PASS: libc::c_int = 1 << 3;
const REGISTER: libc::c_int = 1 << 4;

/// The kernel makes such barriers for this process.
static IS_READY: AtomicBool = AtomicBool::new(false);

/// Asks the kernel for such barriers. In a process with several threads this takes milliseconds the first time.
pub fn prepare() {
    if !IS_READY.load(Ordering::Relaxed) && membarrier(REGISTER) {
        IS_READY.store(true, Ordering::Relaxed);
    }
}

/// Tells whether there are such barriers.
#[inline]
pub fn is_ready() -> bool {
    IS_READY.load(Ordering::Relaxed)
}

/// The time within which stores leave a core, whatever its threads do: much longer than it takes (docs/decisions/0094).
const STORES_LEAVE: Duration = Duration::from_millis(1);

/// Makes all threads of this process pass a barrier, the calling one included. Call it where [`is_ready`] has said yes.
#[cold]
pub fn pass_everywhere() {
    // A forked child may have to ask anew.
    if membarrier(PASS) || membarrier(REGISTER) && membarrier(PASS) {
        return;
    }
    // The kernel has agreed before, and a filter that came later forbids it.
    IS_READY.store(false, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    std::thread::sleep(STORES_LEAVE);
    fence(Ordering::SeqCst);
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: the call touches no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_barrier_can_be_passed_once_it_was_asked_for() {
        prepare();
        if is_ready() {
            pass_everywhere();
            assert!(is_ready(), "the kernel has made it");
        }
    }
}
