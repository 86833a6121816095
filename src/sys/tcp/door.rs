//! Where an endpoint listens for others.

use super::wire::Name;
use crate::error::{Error, Result};
use crate::sys::{network, process};
use std::io;
use std::net::{IpAddr, TcpListener};
use std::ops::RangeInclusive;

/// Where an endpoint listens.
pub struct ListeningPort {
    pub listener: TcpListener,
    pub name: Name,
}

/// Listens on an address, at one of some ports.
pub fn listen(address: IpAddr, ports: Option<&RangeInclusive<u16>>) -> Result<ListeningPort> {
    let any = 0..=0;
    let mut last = None;
    for port in ports.unwrap_or(&any).clone() {
        match network::listen(address, port) {
            Ok(listener) => {
                let at = listener.local_addr().map_err(|e| refused(address, ports, &e))?;
                let token = u64::from_ne_bytes(process::random());
                return Ok(ListeningPort { listener, name: Name { at, token } });
            }
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => last = Some(e),
            Err(e) => return Err(refused(address, ports, &e)),
        }
    }
    let last = last.unwrap_or_else(|| io::ErrorKind::AddrInUse.into());
    Err(refused(address, ports, &last))
}

fn refused(address: IpAddr, ports: Option<&RangeInclusive<u16>>, why: &io::Error) -> Error {
    let at = ports.map_or(String::new(), |ports| match ports.start() == ports.end() {
        true => format!(", port {}", ports.start()),
        false => format!(", at any of the ports {} to {}", ports.start(), ports.end()),
    });
    Error::system(format!(
        "cannot listen for ranks of other hosts at the local address {address}{at}: {why}; choose another interface by PENNY_NET_IFACES or \
         other ports by PENNY_LINK_PORTS, of which each rank needs two for each of its communicators, or raise the limit of open files"
    ))
}
