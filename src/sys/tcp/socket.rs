//! A TCP connection that never waits.

use super::wire::Name;
use crate::sys::fork::{self, ParentsAlone};
use crate::sys::network;
use nix::errno::Errno;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage, setsockopt, sockopt};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// One end of a connection. Dropping it ends the connection, but in a forked child, where it is the parent's.
pub struct TcpSocket {
    /// Before the descriptor: fields are dropped in this order.
    _parents: ParentsAlone,
    descriptor: OwnedFd,
    /// The process that has made it.
    generation: u32,
}

impl From<OwnedFd> for TcpSocket {
    fn from(descriptor: OwnedFd) -> TcpSocket {
        TcpSocket {
            _parents: ParentsAlone::new(descriptor.as_raw_fd()),
            descriptor,
            generation: fork::generation(),
        }
    }
}

impl Drop for TcpSocket {
    fn drop(&mut self) {
        // A child of this process may hold it open.
        if self.generation == fork::generation() {
            // SAFETY: no pointers.
            unsafe { libc::shutdown(self.descriptor(), libc::SHUT_RDWR) };
        }
    }
}

/// When a firewall that forgets idle connections is reminded of them, in seconds: after silence, and again; and how often in vain.
const REMINDED: u32 = 30;
const AGAIN: u32 = 10;
const IN_VAIN: u32 = 9;

/// Has a socket send at once, and keep its connection alive.
fn settle(fd: &OwnedFd) -> io::Result<()> {
    setsockopt(fd, sockopt::TcpNoDelay, &true)?;
    setsockopt(fd, sockopt::KeepAlive, &true)?;
    setsockopt(fd, sockopt::TcpKeepIdle, &REMINDED)?;
    setsockopt(fd, sockopt::TcpKeepInterval, &AGAIN)?;
    setsockopt(fd, sockopt::TcpKeepCount, &IN_VAIN)?;
    Ok(())
}

/// A range of memory that the kernel reads or fills.
pub type Range = libc::iovec;

/// Returns a range.
pub fn range(base: usize, bytes: usize) -> Range {
    Range { iov_base: base as *mut libc::c_void, iov_len: bytes }
}

/// What a call of the system has done: `None`: nothing can be done now.
fn done(result: libc::c_long) -> io::Result<Option<usize>> {
    if result >= 0 {
        return Ok(Some(result as usize));
    }
    let error = io::Error::last_os_error();
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
        _ => Err(error),
    }
}

impl TcpSocket {
    /// Takes over an accepted connection.
    pub fn accepted(stream: TcpStream) -> io::Result<TcpSocket> {
        stream.set_nonblocking(true)?;
        let descriptor = OwnedFd::from(stream);
        settle(&descriptor)?;
        Ok(TcpSocket::from(descriptor))
    }

    /// An end of another kind of connection.
    #[cfg(test)]
    pub fn of(descriptor: OwnedFd) -> TcpSocket {
        setsockopt(&descriptor, sockopt::ReceiveTimeout, &nix::sys::time::TimeVal::new(0, 1))
            .expect("a socket");
        TcpSocket::from(descriptor)
    }

    /// Begins to connect, from a local address.
    pub fn connecting(from: IpAddr, to: SocketAddr) -> io::Result<TcpSocket> {
        let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let fd = socket::socket(family, SockType::Stream, flags, None)?;
        settle(&fd)?;
        // The port is chosen when it connects: one port serves for connections to several peers. Old systems cannot.
        let _ = setsockopt(&fd, sockopt::IpBindAddressNoPort, &true);
        socket::bind(fd.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(from, 0)))?;
        match socket::connect(fd.as_raw_fd(), &SockaddrStorage::from(to)) {
            Ok(()) | Err(Errno::EINPROGRESS | Errno::EINTR) => Ok(TcpSocket::from(fd)),
            Err(error) => Err(error.into()),
        }
    }

    /// Tells whether a connection has been made that was begun.
    pub fn is_connected(&self, to: Name) -> io::Result<bool> {
        let mut watched = libc::pollfd { fd: self.descriptor(), events: libc::POLLOUT, revents: 0 };
        // SAFETY: one entry of this stack.
        if unsafe { libc::poll(&mut watched, 1, 0) } <= 0 {
            return Ok(false);
        }
        match socket::getsockopt(&self.descriptor, sockopt::SocketError)? {
            0 => network::refuse_own_end(&self.descriptor, to.at).map(|()| true),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Returns its descriptor.
    pub fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Sends words, and returns how many bytes the kernel has taken.
    ///
    /// This and the following are made without the C library, whose functions are places at which a thread can be cancelled: that costs in each call.
    #[inline]
    pub fn send(&self, words: &[u64]) -> io::Result<Option<usize>> {
        let (fd, flags) = (self.descriptor(), libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT);
        // SAFETY: the words are readable.
        done(unsafe {
            libc::syscall(libc::SYS_sendto, fd, words.as_ptr(), size_of_val(words), flags, 0usize, 0usize)
        })
    }

    /// Sends ranges. What cannot be read is answered by an error.
    pub fn send_ranges(&self, ranges: &[Range]) -> io::Result<Option<usize>> {
        // SAFETY: a struct of numbers and pointers, for which zero is a value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = ranges.as_ptr().cast_mut();
        message.msg_iovlen = ranges.len() as _;
        let (fd, flags) = (self.descriptor(), libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT);
        // SAFETY: the list is readable, and the kernel checks what it names.
        done(unsafe { libc::syscall(libc::SYS_sendmsg, fd, &raw const message, flags) })
    }

    /// Receives into words from a byte on, `most` bytes at most.
    #[inline]
    pub fn receive(&self, words: &mut [u64], from: usize, most: usize) -> io::Result<Option<usize>> {
        assert!(from + most <= size_of_val(words), "a range outside of its words");
        let (fd, flags) = (self.descriptor(), libc::MSG_DONTWAIT);
        // SAFETY: the range lies within the words, in which any bytes are a value.
        done(unsafe {
            let base = words.as_mut_ptr().cast::<u8>().add(from);
            libc::syscall(libc::SYS_recvfrom, fd, base, most, flags, 0usize, 0usize)
        })
    }

    /// Tells whether something has come: 0 is the end of what comes, `None` nothing yet.
    pub fn peek(&self) -> io::Result<Option<usize>> {
        let (mut byte, flags) = (0u8, libc::MSG_DONTWAIT | libc::MSG_PEEK);
        // SAFETY: a byte of this stack.
        done(unsafe {
            libc::syscall(libc::SYS_recvfrom, self.descriptor(), &raw mut byte, 1, flags, 0usize, 0usize)
        })
    }

    /// Receives into ranges.
    ///
    /// # Safety
    /// They are writable, or not mapped.
    pub unsafe fn receive_ranges(&self, ranges: &[Range]) -> io::Result<Option<usize>> {
        let fd = self.descriptor();
        // SAFETY: the list is readable; see above.
        done(unsafe { libc::syscall(libc::SYS_readv, fd, ranges.as_ptr(), ranges.len()) })
    }
}
