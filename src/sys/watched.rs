//! One descriptor that stands for several.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Events that are read at once.
const EVENTS: usize = 32;
/// What stands for a descriptor that is no open connection.
const OTHER: u64 = u64::MAX;

/// Descriptors that are watched, and one that is readable while something is to be done about any of them.
pub struct Watched(OwnedFd);

impl Watched {
    /// Watches nothing yet.
    pub fn new() -> io::Result<Watched> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else owns.
        Ok(Watched(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Watches these, which stay open as long as it is used.
    pub fn of(descriptors: &[RawFd]) -> io::Result<Watched> {
        let watched = Watched::new()?;
        descriptors.iter().try_for_each(|&descriptor| watched.watch(descriptor, None, false))?;
        Ok(watched)
    }

    /// Watches a descriptor, or watches it for something else: for what comes, and, if `sends`, for room. `peer`: the number of the peer whose open connection it is.
    pub fn watch(&self, descriptor: RawFd, peer: Option<u32>, sends: bool) -> io::Result<()> {
        let events = libc::EPOLLIN as u32 | if sends { libc::EPOLLOUT as u32 } else { 0 };
        let mut event = libc::epoll_event { events, u64: peer.map_or(OTHER, u64::from) };
        for operation in [libc::EPOLL_CTL_ADD, libc::EPOLL_CTL_MOD] {
            // SAFETY: an event of this stack, which the kernel copies.
            if unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, descriptor, &mut event) } == 0 {
                return Ok(());
            }
        }
        Err(io::Error::last_os_error())
    }

    /// Watches a descriptor no more, which is about to be closed. A forked child may have it open yet.
    pub fn forget(&self, descriptor: RawFd) {
        // SAFETY: no pointer is read.
        unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_DEL, descriptor, std::ptr::null_mut()) };
    }

    /// Returns the numbers of peers by whose connections something has come or could be sent, and whether something else is to be looked at.
    pub fn ready(&self, peers: &mut Vec<u32>) -> io::Result<bool> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        // SAFETY: as many events of this stack.
        let number = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), EVENTS as i32, 0) };
        if number < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) };
        }
        let mut others = false;
        for event in &events[..number as usize] {
            match event.u64 {
                OTHER => others = true,
                peer => peers.push(peer as u32),
            }
        }
        Ok(others)
    }

    /// Returns the descriptor, which is readable while something is to be done.
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
        let any = Watched::of(&[its_end.as_raw_fd(), other_end.as_raw_fd()]).unwrap();
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
