//! Notices that this process is a forked child.
//!
//! A child inherits the mappings but not the keeper thread, so its communicators must refuse to work. Comparing PIDs
//! costs a system call each time; a handler that the C library runs in the child costs one load.
//!
//! A child inherits descriptors, too. A connection that it held would not end with its parent, whose death other hosts notice by that.

use crate::sync::prim::{AtomicU32, AtomicU64, Ordering};
use std::os::fd::RawFd;
use std::sync::Once;

static FORKS: AtomicU32 = AtomicU32::new(0);

/// The descriptors that a child is not to hold, a bit each. Larger ones are not noted.
static PARENTS: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    let (mut null, mut spare) = (None, -1);
    for (at, word) in PARENTS.iter().enumerate() {
        if word.load(Ordering::Relaxed) == 0 {
            continue;
        }
        let mut held = word.swap(0, Ordering::Relaxed);
        while held != 0 {
            let fd = (at as u32 * u64::BITS + held.trailing_zeros()) as RawFd;
            held &= held - 1;
            // The child's copies of the owners close that number some day, so it must stay taken.
            // SAFETY: async-signal-safe calls; the descriptor is one of this library's sockets, which no code of the child uses.
            unsafe {
                if null.is_none() {
                    // Where no descriptor is free this one is from now on, and becomes the null device's own.
                    libc::close(fd);
                    let opened = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
                    null = Some(opened);
                    if opened == fd {
                        continue;
                    }
                    spare = opened;
                }
                libc::dup3(null.unwrap_or(-1), fd, libc::O_CLOEXEC);
            }
        }
    }
    if spare >= 0 {
        // SAFETY: it was opened above, in no other's place.
        unsafe { libc::close(spare) };
    }
}

/// A socket that forked children do not hold open, until it is dropped, which must be before the descriptor is closed.
pub struct ParentsAlone(RawFd);

impl ParentsAlone {
    /// Notes the descriptor of an open socket of this library.
    pub fn new(fd: RawFd) -> ParentsAlone {
        watch();
        ParentsAlone::mark(fd, |word, bit| word.fetch_or(bit, Ordering::Relaxed));
        ParentsAlone(fd)
    }

    fn mark(fd: RawFd, change: impl Fn(&AtomicU64, u64) -> u64) {
        if let Some(word) = PARENTS.get(fd as usize / u64::BITS as usize) {
            change(word, 1 << (fd as u32 % u64::BITS));
        }
    }
}

impl Drop for ParentsAlone {
    fn drop(&mut self) {
        ParentsAlone::mark(self.0, |word, bit| word.fetch_and(!bit, Ordering::Relaxed));
    }
}

/// Starts counting. Idempotent.
pub fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler makes async-signal-safe calls only.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// Returns the number of forks between the process that called [`watch`] and this one.
#[inline]
pub fn generation() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Forks after which a value of [`PerFork`] is used again.
pub const KEPT: usize = 8;

/// A value for each process in a line of forks. A forked child has its own, because a thread of its parent may have held the lock
/// of the parent's when the process was forked.
pub struct PerFork<T>([T; KEPT]);

impl<T> PerFork<T> {
    /// Makes them from one value each.
    pub const fn new(each: [T; KEPT]) -> PerFork<T> {
        PerFork(each)
    }

    /// Returns this process's own.
    pub fn own(&self) -> &T {
        &self.0[generation() as usize % KEPT]
    }

    /// Returns that of the process that this one was forked from; `None`: it was not forked.
    pub fn parents(&self) -> Option<&T> {
        Some(&self.0[generation().checked_sub(1)? as usize % KEPT])
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_connection_ends_with_the_process_though_a_forked_child_lives() {
        let (mine, mut other) = UnixStream::pair().unwrap();
        let note = ParentsAlone::new(mine.as_raw_fd());
        // SAFETY: the child waits and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: waits for the signal below; no destructor of the test's runs.
            unsafe {
                libc::pause();
                libc::_exit(0);
            }
        }
        drop(note);
        drop(mine);
        other.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        let read = other.read(&mut [0]);
        // SAFETY: ends a child of this process, and waits for that.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        assert_eq!(read.unwrap(), 0);
    }

    #[test]
    fn a_socket_that_is_noted_no_more_is_not_taken_from_a_child() {
        let (mine, _other) = UnixStream::pair().unwrap();
        drop(ParentsAlone::new(mine.as_raw_fd()));
        // SAFETY: the child looks at a descriptor and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above.
            unsafe {
                let mut about: libc::stat = std::mem::zeroed();
                libc::fstat(mine.as_raw_fd(), &mut about);
                libc::_exit(i32::from(about.st_mode & libc::S_IFMT == libc::S_IFSOCK));
            }
        }
        let mut status = 0;
        // SAFETY: a child of this process, and a place for its status.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 1, "{status:#x}");
    }
}
