//! TCP connections and network interfaces.

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::{self, SockaddrStorage, setsockopt, sockopt};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// An address of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The interface, e.g. `eth0`.
    pub name: String,
    /// The address.
    pub address: IpAddr,
    /// It reaches only this host.
    pub is_loopback: bool,
}

impl Interface {
    /// The interface of this host alone.
    pub fn loopback() -> Interface {
        Interface { name: "lo".into(), address: IpAddr::V4(Ipv4Addr::LOCALHOST), is_loopback: true }
    }
}

/// Returns the addresses of the interfaces that are up. Addresses of a link alone are left out: they need the interface's number.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let ip = |address: Option<&SockaddrStorage>| -> Option<IpAddr> {
        let address = address?;
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
    };
    let link_only = |address: &IpAddr| match address {
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
        IpAddr::V4(_) => false,
    };
    let all = getifaddrs().map_err(io::Error::from)?;
    Ok(all
        .filter(|entry| entry.flags.contains(InterfaceFlags::IFF_UP))
        .filter_map(|entry| {
            let address = ip(entry.address.as_ref()).filter(|address| !link_only(address))?;
            Some(Interface {
                address,
                is_loopback: entry.flags.contains(InterfaceFlags::IFF_LOOPBACK),
                name: entry.interface_name,
            })
        })
        .collect())
}

/// Listens on an address and a port; 0: any port.
pub fn listen(address: IpAddr, port: u16) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(SocketAddr::new(address, port))?;
    // Many ranks connect at once, and strangers may. With the default backlog of 128 some would wait a second until TCP sends their SYN again.
    socket::listen(&listener, socket::Backlog::MAXCONN)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Takes one waiting connection; `None` if there is none.
pub fn accept(listener: &TcpListener) -> io::Result<Option<TcpStream>> {
    match listener.accept() {
        Ok((stream, _)) => Ok(Some(stream)),
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted) => {
            Ok(None)
        }
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(None),
        Err(e) => Err(e),
    }
}

/// Connects within a time. The connection's reads and writes wait.
pub fn connect(address: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, patience)?;
    refuse_own_end(&stream, address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Refuses a TCP self-connect: nobody listens on this port, and the kernel has given it to this socket as its ephemeral port. The socket is
/// reset (RST), because a port in TIME_WAIT stays taken for a minute.
pub fn refuse_own_end(stream: &impl AsFd, address: SocketAddr) -> io::Result<()> {
    let own: SockaddrStorage = socket::getsockname(stream.as_fd().as_raw_fd())?;
    let v4 = own.as_sockaddr_in().map(|v4| SocketAddr::from(std::net::SocketAddrV4::from(*v4)));
    let own = v4.or_else(|| own.as_sockaddr_in6().map(|v6| std::net::SocketAddrV6::from(*v6).into()));
    if own != Some(address) {
        return Ok(());
    }
    setsockopt(stream, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 })?;
    Err(io::ErrorKind::ConnectionRefused.into())
}

/// The most probes that the kernel sends to a silent host.
const MOST_PROBES: u64 = 127;

/// Has the kernel end a connection whose other host is silent or out of reach for that long, in whole seconds.
pub fn tell_dead_hosts(stream: &TcpStream, silence: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    setsockopt(stream, sockopt::KeepAlive, &true)?;
    setsockopt(stream, sockopt::TcpKeepIdle, &1)?;
    setsockopt(stream, sockopt::TcpKeepInterval, &1)?;
    setsockopt(stream, sockopt::TcpKeepCount, &(silence.as_secs().min(MOST_PROBES) as u32))?;
    // Where it is longer than the probes take, the kernel goes by it alone.
    setsockopt(stream, sockopt::TcpUserTimeout, &(silence.as_millis() as u32))?;
    Ok(())
}

/// Returns how long ago the other host last acknowledged anything.
pub fn unacknowledged_for(stream: &TcpStream) -> io::Result<Duration> {
    // SAFETY: a struct of numbers.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the descriptor is the stream's, and the kernel writes no more than `length` bytes.
    let done = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &mut length,
        )
    };
    match done {
        0 => Ok(Duration::from_millis(info.tcpi_last_ack_recv.into())),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::getsockopt;

    #[test]
    fn every_machine_has_a_loopback() {
        let all = interfaces().unwrap();
        let loopback = all.iter().find(|interface| interface.address.is_loopback()).expect("lo");
        assert!(loopback.is_loopback, "{loopback:?}");
    }

    #[test]
    fn a_port_without_a_listener_refuses_and_one_that_is_taken_is_told() {
        let here = IpAddr::from([127, 0, 0, 1]);
        let listener = listen(here, 0).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(listen(here, port).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let stream = connect(SocketAddr::new(here, port), Duration::from_secs(5)).unwrap();
        for (seconds, probes) in [(3, 3), (600, 127)] {
            tell_dead_hosts(&stream, Duration::from_secs(seconds)).unwrap();
            assert_eq!(u64::from(getsockopt(&stream, sockopt::TcpUserTimeout).unwrap()), seconds * 1000);
            assert_eq!(getsockopt(&stream, sockopt::TcpKeepCount).unwrap(), probes);
        }
        drop(listener);
        let refused = connect(SocketAddr::new(here, port), Duration::from_secs(5)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_port_where_nobody_listens_is_never_connected_with_itself() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        // The kernel prefers half of the ports, either the even or the odd ones.
        for at in [free.port() & !1, free.port() | 1].map(|port| SocketAddr::new(free.ip(), port)) {
            for _ in 0..60_000 {
                if let Ok(stream) = connect(at, Duration::from_secs(5)) {
                    // Another process may listen there by now.
                    assert_ne!(stream.local_addr().unwrap(), stream.peer_addr().unwrap());
                }
            }
        }
    }
}
