//! Where a meeting between hosts is served, and how a rank gets there.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use super::super::frame::Secret;
use super::super::who::Who;
use super::handshake::Status;
use super::session::{Session, SessionRefusal};
use crate::sys::network;

/// The time for which one address is tried.
const PATIENCE: Duration = Duration::from_secs(2);

/// The addresses and ports at one of which a process listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NetworkDoor {
    /// The host as the user or the id names it: a name, or addresses with commas between.
    pub host: String,
    /// The ports at one of which it listens.
    pub ports: RangeInclusive<u16>,
    /// For how long a silent host is waited for.
    pub silence: Duration,
}

/// The addresses that a rank has tried in vain, and why.
pub struct Attempts {
    tried: Vec<(SocketAddr, SessionRefusal)>,
    /// Names without an address, and why.
    nameless: Vec<String>,
}

impl NetworkDoor {
    /// Makes the door of a process that listens at one port of these addresses.
    pub fn of_addresses(addresses: &[IpAddr], port: u16, silence: Duration) -> NetworkDoor {
        let texts: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
        NetworkDoor { host: texts.join(","), ports: port..=port, silence }
    }

    /// Returns the host's addresses, and what to say of names that have none: they may get one when the host starts.
    pub fn addresses(&self) -> (Vec<IpAddr>, Vec<String>) {
        let (mut all, mut nameless) = (Vec::new(), Vec::new());
        for name in self.host.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match name.trim_matches(['[', ']']).parse() {
                Ok(address) => all.push(address),
                Err(_) => match (name, 0).to_socket_addrs() {
                    Ok(found) => all.extend(found.map(|address| address.ip())),
                    Err(e) => nameless.push(format!("{name} (it has no address: {e})")),
                },
            }
        }
        all.dedup();
        (all, nameless)
    }

    /// Connects to the first address and port where the meeting is served.
    pub fn connect(&self, serial: u64, secret: &Secret, me: &Who) -> Result<Session, Attempts> {
        let (addresses, nameless) = self.addresses();
        let mut dial = |at| Session::connect(at, self.silence, serial, secret, me, Instant::now() + PATIENCE);
        find(&addresses, self.ports.clone(), &mut dial).map_err(|tried| Attempts { tried, nameless })
    }

    /// Listens at one of the ports on each of these addresses of this host. `AddrInUse`: all ports are taken.
    pub fn listen(addresses: &[IpAddr], ports: RangeInclusive<u16>) -> io::Result<Vec<TcpListener>> {
        let mut last = io::ErrorKind::AddrInUse.into();
        for port in ports {
            match listen_at(addresses, port) {
                Ok(listeners) => return Ok(listeners),
                Err(e) if e.kind() == io::ErrorKind::AddrInUse => last = e,
                Err(e) => return Err(e),
            }
        }
        Err(last)
    }
}

/// Dials the addresses in their order, at each port, until one answers.
///
/// A server that begins to listen meanwhile would answer at a late address, of another kind than the one by which the other ranks reach it,
/// and so the links between the ranks. Where a late address answers, the earlier ones at which nobody listened are dialled again. So are those
/// of another kind that did not answer in time, as a server that is flooded does not.
fn find<T>(
    addresses: &[IpAddr],
    ports: RangeInclusive<u16>,
    dial: &mut dyn FnMut(SocketAddr) -> Result<T, SessionRefusal>,
) -> Result<T, Vec<(SocketAddr, SessionRefusal)>> {
    let mut tried: Vec<(SocketAddr, SessionRefusal)> = Vec::new();
    for &address in addresses {
        for port in ports.clone() {
            let at = SocketAddr::new(address, port);
            match dial(at) {
                Ok(answered) => {
                    let may_answer = |(before, refused): &(SocketAddr, SessionRefusal)| match is_idle(refused)
                    {
                        true => before.port() == port,
                        false => before.is_ipv4() != at.is_ipv4() && is_late(refused),
                    };
                    let mut earlier = tried.iter().filter(|attempt| may_answer(attempt));
                    let again = earlier.find_map(|(before, _)| dial(SocketAddr::new(before.ip(), port)).ok());
                    return Ok(again.unwrap_or(answered));
                }
                Err(refused) => {
                    // A host that does not answer at one port answers at none.
                    let is_silent = matches!(&refused, SessionRefusal::Unreachable(_)) && !is_idle(&refused);
                    tried.push((at, refused));
                    if is_silent {
                        break;
                    }
                }
            }
        }
    }
    Err(tried)
}

/// Does nobody listen there?
fn is_idle(refused: &SessionRefusal) -> bool {
    matches!(refused, SessionRefusal::Unreachable(e) if e.kind() == io::ErrorKind::ConnectionRefused)
}

/// Tells whether an attempt ended before the server had said what it is.
fn is_late(refused: &SessionRefusal) -> bool {
    matches!(refused, SessionRefusal::Unreachable(_) | SessionRefusal::Mute | SessionRefusal::TurnedAway)
}

fn listen_at(addresses: &[IpAddr], port: u16) -> io::Result<Vec<TcpListener>> {
    let mut port = port;
    let mut listeners = Vec::new();
    for &address in addresses {
        let listener = network::listen(address, port)?;
        // The system has chosen one: it is the same at the other addresses.
        port = listener.local_addr()?.port();
        listeners.push(listener);
    }
    Ok(listeners)
}

impl Attempts {
    /// Does a process listen that has this meeting, and finds the secret wrong?
    pub fn is_refused(&self) -> bool {
        self.tried.iter().any(|(_, refused)| matches!(refused, SessionRefusal::By(Status::WrongSecret)))
    }

    /// Does nobody answer at any of the addresses?
    pub fn are_unreachable(&self) -> bool {
        self.tried.iter().all(|(_, refused)| matches!(refused, SessionRefusal::Unreachable(_)))
    }

    /// Does a process listen that does not know this meeting?
    pub fn is_unknown(&self) -> bool {
        self.tried.iter().any(|(_, refused)| matches!(refused, SessionRefusal::By(Status::UnknownMeeting)))
    }

    /// Has a process answered that has too many connections for the moment?
    pub fn is_busy(&self) -> bool {
        self.tried
            .iter()
            .any(|(_, refused)| matches!(refused, SessionRefusal::TurnedAway | SessionRefusal::Mute))
    }

    /// Returns what was tried and what came of it: of the ports of an address that answered alike, the first and the last.
    pub fn text(&self) -> String {
        let told: Vec<(SocketAddr, String)> =
            self.tried.iter().map(|(address, refused)| (*address, because(refused))).collect();
        let alike = |a: &(SocketAddr, String), b: &(SocketAddr, String)| a.0.ip() == b.0.ip() && a.1 == b.1;
        let runs = told.chunk_by(alike).map(|run| {
            let (first, last) = (&run[0], &run[run.len() - 1]);
            let ports = if run.len() > 1 { format!(" to {}", last.0.port()) } else { String::new() };
            format!("{}{ports} ({})", first.0, first.1)
        });
        runs.chain(self.nameless.iter().cloned()).collect::<Vec<_>>().join(", ")
    }

    /// Names a trap: the addresses that were tried lead to this host only.
    pub fn hint(&self) -> &'static str {
        match !self.tried.is_empty() && self.tried.iter().all(|(address, _)| address.ip().is_loopback()) {
            true => {
                "; these addresses lead to the rank's own host only: pass one that other hosts reach (MASTER_ADDR or --master)"
            }
            false => "",
        }
    }
}

/// Returns ports for sentences.
pub fn ports_text(ports: &RangeInclusive<u16>) -> String {
    match (ports.start(), ports.end()) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    }
}

/// Returns why a connection was not made, for sentences.
fn because(refused: &SessionRefusal) -> String {
    match refused {
        idle if is_idle(idle) => "no process listens there".into(),
        SessionRefusal::Unreachable(e) if e.kind() == io::ErrorKind::TimedOut => {
            "no answer: is a firewall between?".into()
        }
        SessionRefusal::Unreachable(e) => e.to_string(),
        SessionRefusal::TurnedAway => "it closed the connection".into(),
        SessionRefusal::Mute => "what listens there says nothing".into(),
        SessionRefusal::Foreign => "what listens there is not this version of Penny".into(),
        SessionRefusal::By(Status::WrongSecret) => "the secret is not that of its meeting".into(),
        SessionRefusal::By(_) => "a process of Penny that does not serve this meeting".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_begins_to_listen_meanwhile_is_reached_at_its_first_address() {
        let addresses: Vec<IpAddr> = ["10.0.0.1", "10.0.0.2", "fd00::1"].map(|a| a.parse().unwrap()).to_vec();
        // It listens at port 7 of the first and the third address, after as many calls.
        for listens_after in 0..8 {
            let mut calls = 0;
            let mut dial = |at: SocketAddr| {
                calls += 1;
                match at.ip() != addresses[1] && at.port() == 7 && calls > listens_after {
                    true => Ok(at),
                    false => Err(SessionRefusal::Unreachable(io::ErrorKind::ConnectionRefused.into())),
                }
            };
            match find(&addresses, 6..=7, &mut dial) {
                Ok(at) => assert_eq!(at, SocketAddr::new(addresses[0], 7)),
                Err(tried) => assert_eq!((tried.len(), listens_after), (6, 6.max(listens_after))),
            }
        }
    }

    #[test]
    fn a_server_that_was_too_busy_is_reached_at_its_first_kind_of_address() {
        let addresses: Vec<IpAddr> = ["10.0.0.1", "10.0.0.2", "fd00::1"].map(|a| a.parse().unwrap()).to_vec();
        let late: [fn() -> SessionRefusal; 3] = [
            || SessionRefusal::Unreachable(io::ErrorKind::TimedOut.into()),
            || SessionRefusal::Mute,
            || SessionRefusal::TurnedAway,
        ];
        for refusal in late {
            let mut calls = 0;
            let mut dial = |at: SocketAddr| {
                calls += 1;
                match at.port() {
                    7 if calls > 4 => Ok(at),
                    7 => Err(refusal()),
                    _ => Err(SessionRefusal::Unreachable(io::ErrorKind::ConnectionRefused.into())),
                }
            };
            let found = find(&addresses, 6..=7, &mut dial).ok();
            assert_eq!(found, Some(SocketAddr::new(addresses[0], 7)));
        }
    }

    #[test]
    fn an_address_that_does_not_answer_is_tried_at_one_port_and_not_again() {
        let addresses: Vec<IpAddr> = ["10.0.0.1", "10.0.0.2"].map(|a| a.parse().unwrap()).to_vec();
        let mut dialled = Vec::new();
        let mut dial = |at: SocketAddr| {
            dialled.push(at);
            match at.ip() == addresses[1] && at.port() == 7 {
                true => Ok(()),
                false if at.ip() == addresses[0] => {
                    Err(SessionRefusal::Unreachable(io::ErrorKind::TimedOut.into()))
                }
                false => Err(SessionRefusal::Unreachable(io::ErrorKind::ConnectionRefused.into())),
            }
        };
        assert!(find(&addresses, 6..=7, &mut dial).is_ok());
        assert_eq!(dialled.iter().map(SocketAddr::port).collect::<Vec<_>>(), [6, 6, 7]);
    }
}
