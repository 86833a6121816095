//! Local sockets that carry whole packets and file descriptors.
//!
//! The sockets are `AF_UNIX`, `SOCK_SEQPACKET`: connected like a stream, but a packet arrives whole or is marked as
//! cut, so nobody reassembles frames and no peer can make us allocate. Names are abstract (they live in the kernel,
//! not in the file system), so nothing is left behind however a process ends. Every socket is non-blocking and
//! close-on-exec; no call here raises SIGPIPE or shows EINTR.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::socket::{
    self as sys, AddressFamily, Backlog, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, sockopt,
};

/// Descriptors that one packet may carry: as many as fill the room that the kernel rounds up to.
pub const MAX_FDS: usize = 4;

/// Room for the control message that carries [`MAX_FDS`] descriptors.
// SAFETY: CMSG_SPACE only computes.
const CONTROL: usize = unsafe { libc::CMSG_SPACE((MAX_FDS * size_of::<RawFd>()) as u32) } as usize;

/// Repeat a call until no signal interrupts it.
fn uninterrupted<T>(mut call: impl FnMut() -> nix::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::EINTR) => continue,
            result => return result.map_err(io::Error::from),
        }
    }
}

fn packet_socket() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    Ok(sys::socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?)
}

/// Listens under an abstract name of at most 107 bytes. `AddrInUse` if another socket has it.
pub fn listen(name: &[u8]) -> io::Result<OwnedFd> {
    let socket = packet_socket()?;
    sys::bind(socket.as_raw_fd(), &UnixAddr::new_abstract(name)?)?;
    sys::listen(&socket, Backlog::MAXCONN)?;
    Ok(socket)
}

/// Connects to the socket that listens under `name`. `ConnectionRefused` if none does; `WouldBlock` if too many others
/// are waiting to be accepted.
pub fn connect(name: &[u8]) -> io::Result<OwnedFd> {
    let socket = packet_socket()?;
    let address = UnixAddr::new_abstract(name)?;
    uninterrupted(|| sys::connect(socket.as_raw_fd(), &address))?;
    Ok(socket)
}

/// Takes one waiting connection; `None` if there is none.
pub fn accept(listener: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    match uninterrupted(|| sys::accept4(listener.as_raw_fd(), flags)) {
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(fd) => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
        // The other side left before we came.
        Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => Ok(None),
        Err(e) => Err(e),
    }
}

/// Returns a descriptor of the local stream socket that this process has inherited under a number, which is left as it is.
pub fn inherited(descriptor: RawFd) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: a call that checks the number, which need not be a descriptor.
    let copy = Errno::result(unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 0) })?;
    // SAFETY: the kernel has just made this descriptor for us.
    let copy = unsafe { OwnedFd::from_raw_fd(copy) };
    match sys::getsockopt(&copy, sockopt::SockType)? {
        SockType::Stream => Ok(copy),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// The process at the other end, as the kernel recorded it when the connection was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Process; 0 if it is not visible from here.
    pub pid: i32,
    /// Effective user.
    pub uid: u32,
}

/// Returns the process at the other end.
pub fn peer(connection: &OwnedFd) -> io::Result<Peer> {
    let credentials = sys::getsockopt(connection, sockopt::PeerCredentials)?;
    Ok(Peer { pid: credentials.pid(), uid: credentials.uid() })
}

/// Sends one packet with its descriptors (at most [`MAX_FDS`]), whole or not at all. `WouldBlock` if the other side has
/// not read enough of what was sent before.
pub fn send(connection: &OwnedFd, packet: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let raw: Vec<RawFd> = fds.iter().map(|fd| fd.as_raw_fd()).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let control = if raw.is_empty() { &rights[..0] } else { &rights[..] };
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    let parts = [IoSlice::new(packet)];
    uninterrupted(|| sys::sendmsg::<UnixAddr>(connection.as_raw_fd(), &parts, control, flags, None)).map(drop)
}

/// One packet as it arrived.
pub struct Datagram {
    /// Its length, at most the buffer's.
    pub len: usize,
    /// The descriptors that came with it.
    pub fds: Vec<OwnedFd>,
    /// The packet was longer than the buffer; what did not fit is lost.
    pub cut: bool,
    /// More descriptors came than fit: than [`MAX_FDS`], or than this process may open.
    pub fds_lost: bool,
}

/// Receives one packet; `len` 0 means that the other side has closed. `WouldBlock` if there is none yet.
///
/// Raw `recvmsg` and not nix's: that one turns a cut control message into an error and leaks the descriptors that did
/// arrive.
pub fn receive(connection: &OwnedFd, buffer: &mut [u8]) -> io::Result<Datagram> {
    // The union gives the control buffer the alignment of a control header.
    #[repr(C)]
    union Control {
        _align: libc::cmsghdr,
        bytes: [u8; CONTROL],
    }
    let mut control = Control { bytes: [0; CONTROL] };
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: msghdr is plain data; null pointers and zero lengths are valid in it.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = CONTROL as _;
    let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
    let len = uninterrupted(|| {
        // SAFETY: the header points at `part` and `control`, which outlive the call, with their true sizes.
        Errno::result(unsafe { libc::recvmsg(connection.as_raw_fd(), &mut message, flags) })
    })?;
    let mut fds = Vec::new();
    // SAFETY: the kernel has written whole control messages and set msg_controllen; the CMSG macros stay inside it.
    // Every descriptor in an SCM_RIGHTS message was opened for us just now, so we own it.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(header).cast::<RawFd>();
                for i in 0..bytes / size_of::<RawFd>() {
                    fds.push(OwnedFd::from_raw_fd(data.add(i).read_unaligned()));
                }
            }
            header = libc::CMSG_NXTHDR(&message, header);
        }
    }
    Ok(Datagram {
        len: len as usize,
        fds,
        cut: message.msg_flags & libc::MSG_TRUNC != 0,
        fds_lost: message.msg_flags & libc::MSG_CTRUNC != 0,
    })
}

/// The event to wait for on one descriptor, and the result.
pub struct PollEntry<'a> {
    fd: BorrowedFd<'a>,
    events: PollFlags,
    ready: bool,
}

impl<'a> PollEntry<'a> {
    /// Waits until there is something to read, or the other side has closed.
    pub fn readable(fd: &'a impl AsFd) -> Self {
        PollEntry { fd: fd.as_fd(), events: PollFlags::POLLIN, ready: false }
    }
    /// Waits until a packet can be sent, or the other side has closed.
    pub fn writable(fd: &'a impl AsFd) -> Self {
        PollEntry { fd: fd.as_fd(), events: PollFlags::POLLOUT, ready: false }
    }
    /// Waits for either of the two.
    pub fn both(fd: &'a impl AsFd) -> Self {
        PollEntry { fd: fd.as_fd(), events: PollFlags::POLLIN | PollFlags::POLLOUT, ready: false }
    }
    /// Tells whether the event has happened.
    pub fn ready(&self) -> bool {
        self.ready
    }
}

/// Waits until one of the descriptors is ready or the time is over (`None`: no limit), whichever comes first.
///
/// A signal ends the wait early with nothing ready; the caller's loop knows its own deadline.
pub fn wait(watches: &mut [PollEntry<'_>], timeout: Option<Duration>) -> io::Result<()> {
    let mut fds: Vec<PollFd<'_>> = watches.iter().map(|w| PollFd::new(w.fd, w.events)).collect();
    // Rounded up, so that a wait does not end just before its deadline and spin.
    let timeout = match timeout {
        None => PollTimeout::NONE,
        Some(t) => PollTimeout::try_from(t.as_nanos().div_ceil(1_000_000)).unwrap_or(PollTimeout::MAX),
    };
    match nix::poll::poll(&mut fds, timeout) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(e) => return Err(e.into()),
    }
    let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(true)).collect();
    for (watch, ready) in watches.iter_mut().zip(ready) {
        watch.ready = ready;
    }
    Ok(())
}

/// Has this process, or the machine, run out of file descriptors?
pub fn out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Are there more descriptors under way in this user's sockets than the kernel allows? It passes as others read.
pub fn too_many_in_flight(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ETOOMANYREFS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;

    fn pair(name: &str) -> (OwnedFd, OwnedFd) {
        let name = format!("penny-test-{name}-{}", std::process::id());
        let listener = listen(name.as_bytes()).unwrap();
        let there = connect(name.as_bytes()).unwrap();
        wait(&mut [PollEntry::readable(&listener)], None).unwrap();
        (accept(&listener).unwrap().unwrap(), there)
    }

    #[test]
    fn a_name_without_a_listener_refuses() {
        assert_eq!(connect(b"penny-test-nobody").unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_name_is_taken_while_somebody_listens_and_free_after() {
        let name = format!("penny-test-taken-{}", std::process::id());
        let listener = listen(name.as_bytes()).unwrap();
        assert_eq!(listen(name.as_bytes()).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        listen(name.as_bytes()).unwrap();
    }

    #[test]
    fn both_ends_see_who_the_other_is() {
        let (here, there) = pair("who");
        let me = Peer { pid: std::process::id() as i32, uid: crate::sys::credentials::uid() };
        assert_eq!(peer(&here).unwrap(), me);
        assert_eq!(peer(&there).unwrap(), me);
    }

    #[test]
    fn descriptors_arrive_with_their_packet_and_name_the_same_file() {
        let (here, there) = pair("fds");
        let file = File::open("/proc/self/exe").unwrap();
        send(&there, b"two", &[file.as_fd(), file.as_fd()]).unwrap();
        send(&there, b"none", &[]).unwrap();
        let mut buffer = [0; 16];
        let packet = receive(&here, &mut buffer).unwrap();
        assert_eq!((&buffer[..packet.len], packet.fds.len(), packet.fds_lost), (&b"two"[..], 2, false));
        for fd in packet.fds {
            assert_eq!(File::from(fd).metadata().unwrap().ino(), file.metadata().unwrap().ino());
        }
        let packet = receive(&here, &mut buffer).unwrap();
        assert_eq!((&buffer[..packet.len], packet.fds.len()), (&b"none"[..], 0));
    }

    #[test]
    fn surplus_descriptors_are_counted_as_lost_and_not_leaked() {
        let (here, there) = pair("surplus");
        let file = File::open("/proc/self/exe").unwrap();
        send(&there, b"many", &[file.as_fd(); 40]).unwrap();
        let packet = receive(&here, &mut [0; 16]).unwrap();
        assert!(packet.fds_lost && packet.fds.len() <= MAX_FDS);
    }

    #[test]
    fn a_long_packet_is_cut_and_says_so() {
        let (here, there) = pair("cut");
        send(&there, &[7; 100], &[]).unwrap();
        let mut buffer = [0; 16];
        let packet = receive(&here, &mut buffer).unwrap();
        assert_eq!((packet.len, packet.cut, buffer), (16, true, [7; 16]));
        assert_eq!(receive(&here, &mut buffer).err().unwrap().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_closed_end_reads_as_length_zero_after_what_was_sent() {
        let (here, there) = pair("closed");
        send(&there, b"last words", &[]).unwrap();
        drop(there);
        let mut buffer = [0; 16];
        assert_eq!(receive(&here, &mut buffer).unwrap().len, 10);
        assert_eq!(receive(&here, &mut buffer).unwrap().len, 0);
        assert_eq!(send(&here, b"x", &[]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
