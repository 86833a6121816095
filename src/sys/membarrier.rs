//! A fence that one thread puts into all others.

/// Lets threads of any process [fence](fence_others) those of this one. Returns false where the system cannot do that. The first time in a process of several threads
/// it takes some milliseconds.
pub fn admit() -> bool {
    command(libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED)
}

/// Makes every running thread of the processes that [admit] it pass a fence before this returns. Threads that do not run have passed one. Returns false where the
/// system cannot do that.
pub fn fence_others() -> bool {
    command(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED)
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
