//! Waking a thread that waits for descriptors.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// A descriptor by which other threads end a wait.
pub struct Kick(OwnedFd);

impl Kick {
    /// Makes one that nobody has used.
    pub fn new() -> io::Result<Kick> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else owns.
        Ok(Kick(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Returns the descriptor.
    #[cfg(test)]
    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Ends the present wait, or else the next one.
    pub fn kick(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight bytes of this stack. A count that is full ends a wait as well.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Waits for a kick, for `other` to be readable, or for the time to pass; `None`: without limit. Returns whether it was kicked.
    pub fn wait(&self, other: Option<RawFd>, most: Option<Duration>) -> bool {
        let watch = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut watched = [watch(self.0.as_raw_fd()), watch(other.unwrap_or(-1))];
        let most = most.map_or(-1, |most| most.as_millis().clamp(1, 1 << 30) as libc::c_int);
        // SAFETY: two entries; the kernel passes over a negative descriptor.
        unsafe { libc::poll(watched.as_mut_ptr(), 2, most) };
        let mut count = [0u8; 8];
        // SAFETY: eight bytes of this stack; the descriptor does not block.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) == 8 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kick_ends_one_wait_whenever_it_comes() {
        let kick = Kick::new().unwrap();
        kick.kick();
        kick.kick();
        assert!(kick.wait(None, None));
        assert!(!kick.wait(None, Some(Duration::from_millis(1))));
        std::thread::scope(|scope| {
            scope.spawn(|| kick.kick());
            assert!(kick.wait(None, None));
        });
    }
}
