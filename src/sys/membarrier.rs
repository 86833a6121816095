//! A fence that one thread puts into all others.

/// Commands of membarrier(2), which libc's binding does not name.
const GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
const REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;

/// Lets threads of any process [fence](fence_others) those of this one. Returns false where the system cannot do that. The first time in a process of several threads
/// it takes some milliseconds.
pub fn admit() -> bool {
    command(REGISTER_GLOBAL_EXPEDITED)
}

/// Makes every running thread of the processes that [admit](admit) it pass a fence before this returns. Threads that do not run have passed one. Returns false where the
/// system cannot do that.
pub fn fence_others() -> bool {
    command(GLOBAL_EXPEDITED)
}

fn command(command: libc::c_int) -> bool {
    // SAFETY: no command touches this process's memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn where_a_process_admits_fences_they_can_be_made() {
        if admit() {
            assert!(admit() && fence_others());
        }
    }
}
