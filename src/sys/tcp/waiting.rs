//! One descriptor for all that an endpoint waits for.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Events that are read at once.
const EVENTS: usize = 32;
/// What stands for a descriptor that is no open connection.
const OTHER: u64 = u64::MAX;

/// The descriptors that are watched.
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
