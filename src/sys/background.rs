//! Makes the threads of the library, with the signal mask that each of them has from its birth.
//!
//! A handler that the program installed must run on the program's threads, so a thread of the library blocks the signals
//! that are sent to a process. The signals that a thread causes by its own instructions stay open: the kernel delivers
//! them to that thread alone, and ends the process without a word where they are blocked.
//!
//! A thread inherits its mask: the creating thread sets it, spawns, and restores its own.

use super::interrupt;
use super::progress_hook::WaitHook;
use super::waiting::NotedWait;
use crate::sync::lock::{Condvar, Mutex};
use crate::sync::prim::{AtomicBool, Ordering};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Builder, JoinHandle};

/// The signals that a thread's own instructions cause.
const FAULTS: [libc::c_int; 6] =
    [libc::SIGFPE, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// The mask of the library's threads, in force on the calling thread until it is dropped.
struct Masked {
    before: libc::sigset_t,
}

impl Masked {
    fn new() -> Masked {
        // SAFETY: an all-zero sigset_t is a valid one, and sigfillset initialises it again. Both sets live on this stack;
        // the call changes only the calling thread's mask.
        unsafe {
            let mut blocked: libc::sigset_t = std::mem::zeroed();
            let mut before = blocked;
            libc::sigfillset(&mut blocked);
            for fault in FAULTS {
                libc::sigdelset(&mut blocked, fault);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &blocked, &mut before);
            Masked { before }
        }
    }
}

impl Drop for Masked {
    fn drop(&mut self) {
        // SAFETY: `before` is the mask that `new` stored.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

/// Runs `body` on a thread of its own. `name` has at most 15 bytes.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    spawn_with_stack(name, 256 << 10, body)
}

/// The same with a stack of `stack` bytes for what it does.
pub fn spawn_with_stack(
    name: &str,
    stack: usize,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let _masked = Masked::new();
    Builder::new().name(name.into()).stack_size(stack + of_thread_locals()).spawn(body)
}

/// Returns the bytes of each stack that the C library takes for the thread-local variables of the program and its libraries.
fn of_thread_locals() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        // SAFETY: a function of glibc since 2.15, with this signature; others have none of that name.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__pthread_get_minstack".as_ptr()) };
        if found.is_null() {
            return 0;
        }
        // SAFETY: as above; it reads nothing of the attributes.
        let least = unsafe {
            let least: extern "C" fn(*const libc::pthread_attr_t) -> usize = std::mem::transmute(found);
            let mut attributes = std::mem::zeroed();
            libc::pthread_attr_init(&mut attributes);
            let bytes = least(&attributes);
            libc::pthread_attr_destroy(&mut attributes);
            bytes
        };
        least.saturating_sub(libc::PTHREAD_STACK_MIN)
    })
}

/// How many threads of [`at_once`] have ended.
#[derive(Default)]
struct Ended {
    count: Mutex<usize>,
    grown: Condvar,
}

impl Ended {
    fn one_more(&self) {
        *self.count.lock() += 1;
        self.grown.notify_all();
    }

    /// Waits for `all` of them; `look` is called now and then.
    fn reach(&self, all: usize, look: impl Fn()) {
        let mut hook = WaitHook::default();
        let waiting = NotedWait::for_threads();
        // BOUND: the threads' own work, whose waits are bounded.
        while *self.count.lock() < all {
            let pause = waiting.acting(|| hook.shorten(interrupt::PERIOD));
            let count = self.count.lock();
            if *count < all && *self.grown.wait_timeout(count, pause) < all {
                waiting.acting(&look);
            }
        }
    }
}

/// Runs `work` on all items at the same time: on the last in the calling thread, on the others in threads of their own,
/// which are called `name`. Gives the results in the order of the items; a panic in a thread is an `Err`.
///
/// Where the calling thread is interrupted, or a thread cannot be made, the waits of the other threads are interrupted.
pub fn at_once<T: Send, R: Send>(
    name: &str,
    items: &mut [T],
    work: impl Fn(&mut T) -> R + Sync,
) -> io::Result<Vec<thread::Result<R>>> {
    let Some((last, others)) = items.split_last_mut() else { return Ok(Vec::new()) };
    let stop = Arc::new(AtomicBool::new(false));
    let (work, ended) = (&work, Ended::default());
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for item in others {
            let (stopped, ended) = (stop.clone(), &ended);
            let body = move || {
                interrupt::follow(stopped);
                let result = catch_unwind(AssertUnwindSafe(|| work(item)));
                ended.one_more();
                result.unwrap_or_else(|panic| resume_unwind(panic))
            };
            let _masked = Masked::new();
            match Builder::new().name(name.into()).spawn_scoped(scope, body) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        let mine = catch_unwind(AssertUnwindSafe(|| work(last)));
        ended.reach(threads.len(), || {
            if interrupt::ask().is_err() {
                stop.store(true, Ordering::Relaxed);
            }
        });
        let mut results: Vec<thread::Result<R>> = threads.into_iter().map(|thread| thread.join()).collect();
        results.push(mine);
        Ok(results)
    })
}

/// Runs `body` on a thread with a descriptor table of its own, in which nothing is open but the standard streams: for the last
/// words of a process that can open nothing any more.
pub fn with_free_descriptors<T: Send + 'static>(
    body: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    on_table_with(libc::STDERR_FILENO, |_| body())
}

/// Does the same where one more descriptor is open.
pub fn with_only<T: Send + 'static>(
    kept: &OwnedFd,
    body: impl FnOnce(&OwnedFd) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    on_table_with(kept.as_raw_fd(), body)
}

/// Runs `body` with a copy of `kept` on a thread whose table has the standard streams, but no input, besides.
fn on_table_with<T: Send + 'static>(
    kept: RawFd,
    body: impl FnOnce(&OwnedFd) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    let work = move || {
        // SAFETY: gives this thread a copy of the table.
        let own = unsafe { libc::unshare(libc::CLONE_FILES) } == 0;
        // SAFETY: the copy is this thread's alone; nothing on this thread reads the standard input.
        let copied = own && unsafe { libc::dup2(kept, libc::STDIN_FILENO) } == libc::STDIN_FILENO;
        // SAFETY: nothing on this thread uses what else was open in the copy.
        let free = copied && unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) } == 0;
        let result = match free {
            // SAFETY: `dup2` has just made it, in this thread's own table.
            true => body(&unsafe { OwnedFd::from_raw_fd(libc::STDIN_FILENO) }),
            false => Err(io::Error::last_os_error()),
        };
        let _ = tell.send(result);
    };
    spawn("penny-words", work)?;
    told.recv().unwrap_or_else(|_| Err(io::Error::other("the thread ended without a word")))
}

#[cfg(test)]
#[path = "background_tests.rs"]
mod tests;
