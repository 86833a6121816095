//! Threads that no signal of the program ever visits.
//!
//! A handler that the program installed must run on the program's threads, so a thread of the library blocks every
//! signal. The mask is inherited at birth: the parent blocks, spawns, and restores its own.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Run `body` on a thread of its own that receives no signals. `name` has at most 15 bytes.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    spawn_with_stack(name, 256 << 10, body)
}

/// The same with a stack of so many bytes.
pub fn spawn_with_stack(
    name: &str,
    stack: usize,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    // SAFETY: an all-zero sigset_t is a valid one, and sigfillset initialises it again.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    let mut before = all;
    // SAFETY: both sets live on this stack; the call changes only the calling thread's mask.
    unsafe {
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
    }
    let thread = Builder::new().name(name.into()).stack_size(stack).spawn(body);
    // SAFETY: `before` is the mask that the first call stored.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    thread
}

/// Run `body` on a thread with a descriptor table of its own, in which nothing is open but the standard streams: for the last
/// words of a process that can open nothing any more.
pub fn with_free_descriptors<T: Send + 'static>(
    body: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    let work = move || {
        // SAFETY: gives this thread a copy of the table.
        let own = unsafe { libc::unshare(libc::CLONE_FILES) } == 0;
        // SAFETY: the copy is this thread's alone, and nothing on this thread uses what was open in it.
        let free = own && unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) } == 0;
        let _ = tell.send(if free { body() } else { Err(io::Error::last_os_error()) });
    };
    spawn("penny-words", work)?;
    told.recv().unwrap_or_else(|_| Err(io::Error::other("the thread ended without a word")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The blocked-signals mask of the calling thread, as the kernel prints it.
    fn blocked() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    }

    #[test]
    fn a_background_thread_blocks_every_signal_and_its_parent_does_not() {
        let before = blocked();
        let (tell, told) = std::sync::mpsc::channel();
        spawn("penny-test", move || tell.send(blocked()).unwrap()).unwrap().join().unwrap();
        let inside = told.recv().unwrap();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGUSR1, libc::SIGCHLD] {
            assert_ne!(inside & 1 << (signal - 1), 0, "signal {signal} is not blocked");
        }
        assert_eq!(blocked(), before);
    }
}
