//! One descriptor that stands for several.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A descriptor that is readable while one of some others is.
pub struct AnyReadable(OwnedFd);

impl AnyReadable {
    /// Makes the descriptor for these, which stay open as long as it is used.
    pub fn of(descriptors: &[RawFd]) -> io::Result<AnyReadable> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else owns.
        let any = AnyReadable(unsafe { OwnedFd::from_raw_fd(fd) });
        for &watched in descriptors {
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
            // SAFETY: an event of this stack, which the kernel copies.
            if unsafe { libc::epoll_ctl(fd, libc::EPOLL_CTL_ADD, watched, &mut event) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(any)
    }

    /// Returns the descriptor.
    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::kick::Kick;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    #[test]
    fn it_is_readable_while_one_of_the_others_is() {
        let [(mut a, its_end), (mut b, other_end)] = [(); 2].map(|()| UnixStream::pair().unwrap());
        let any = AnyReadable::of(&[its_end.as_raw_fd(), other_end.as_raw_fd()]).unwrap();
        let is_readable = || {
            let mut watched = libc::pollfd { fd: any.descriptor(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one entry of this stack.
            unsafe { libc::poll(&mut watched, 1, 0) == 1 }
        };
        assert!(!is_readable());
        b.write_all(&[1]).unwrap();
        assert!(is_readable());
        a.write_all(&[1]).unwrap();
        // A wait for it ends at once.
        assert!(!Kick::new().unwrap().wait(Some(any.descriptor()), Some(Duration::from_secs(60))));
    }
}
