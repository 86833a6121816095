//! The meetings that this process serves for ranks of several hosts, and the places of those that rank 0 serves.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::expected_meetings::ExpectedMeetings;
use super::super::frame::Secret;
use super::super::invitation::{Door, Invitation};
use super::super::server;
use super::super::who::Who;
use super::door::{NetworkDoor, ports_text};
use super::handshake::keyed;
use super::interfaces;
pub use super::interfaces::{MOST, rails};
use crate::env;
use crate::error::{Error, Result};
use crate::sync::lock::Mutex;
use crate::sys::endpoint::Carrier;
use crate::sys::host::HostIdentity;
use crate::sys::network;

/// Ports after that of the launcher's own store at which rank 0 may listen.
pub const PORTS_AFTER: u16 = 16;

/// How long a silent host is waited for, and what `PENNY_HOST_TIMEOUT` may choose: the kernel counts seconds.
const SILENCE: Duration = Duration::from_secs(3);
const SILENCES: RangeInclusive<u64> = 1..=3600;

/// The numbers of the meetings of launchers' jobs begin here; those of ids are smaller.
const SERIES: u64 = 1 << 63;

/// Meetings that one process can have outstanding; the eldest is forgotten for the next.
const MOST_OUTSTANDING: usize = 4096;

/// A meeting of ranks on several hosts that rank 0 serves.
#[derive(Clone, PartialEq, Eq)]
pub struct HostsPlace {
    door: NetworkDoor,
    /// The host of this process.
    host: HostIdentity,
    /// Which of the meetings of the job.
    series: u64,
    secret: [u8; 16],
}

/// Returns the host of this process.
pub fn this_host() -> HostIdentity {
    HostIdentity::this(env::get("PENNY_HOST_ID").as_deref())
}

/// Returns an address of this host that other hosts reach, in place of one that only this host does: of the same kind if there is one.
pub fn reachable(address: IpAddr) -> IpAddr {
    if !address.is_loopback() {
        return address;
    }
    let own = interfaces::chosen(&[]).unwrap_or_default();
    let alike = |own: &&IpAddr| own.is_ipv4() == address.is_ipv4();
    own.iter().find(alike).or(own.first()).copied().unwrap_or(address)
}

/// What begins the word in `PENNY_NET` for a provider of libfabric; its tcp has another name than the library's own.
const OF_LIBFABRIC: &str = "libfabric:";

/// Returns what carries bytes to other hosts: that of `PENNY_NET`.
pub fn carrier() -> Result<Carrier> {
    match env::get("PENNY_NET").filter(|word| word != "off") {
        Some(word) if word != "tcp" => {
            Ok(Carrier::Libfabric(word.strip_prefix(OF_LIBFABRIC).unwrap_or(&word).to_owned()))
        }
        _ => ports_of("PENNY_LINK_PORTS", "others may reach this rank", "41000-41999").map(Carrier::Tcp),
    }
}

/// Has the user forbidden that ranks of several hosts join?
pub fn is_off() -> bool {
    env::get("PENNY_NET").is_some_and(|word| word == "off")
}

/// Has the user said that ranks run on several hosts?
pub fn is_asked_for() -> bool {
    !is_off() && (env::get("PENNY_NET").is_some() || env::get("PENNY_HOST_ID").is_some())
}

/// Returns for how long a silent host is waited for.
pub fn silence() -> Result<Duration> {
    env::get("PENNY_HOST_TIMEOUT").map_or(Ok(SILENCE), |text| seconds_of_silence(&text))
}

fn seconds_of_silence(text: &str) -> Result<Duration> {
    let seconds = text.trim().parse::<u64>().ok().filter(|seconds| SILENCES.contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| {
        Error::argument(format!(
            "PENNY_HOST_TIMEOUT is {text:?}; give the whole seconds after which a host that does not answer is taken for dead, {} to {}",
            SILENCES.start(),
            SILENCES.end()
        ))
    })
}

/// Refuses a host with a port behind it, as no name of a host is one.
fn refuse_port(host: &str) -> Result<()> {
    for word in host.split(',').map(str::trim) {
        if let Some((name, port)) = word.rsplit_once(':')
            && (!name.contains(':') || name.ends_with(']'))
            && port.bytes().all(|byte| byte.is_ascii_digit())
        {
            return Err(Error::usage(format!(
                "MASTER_ADDR (or --master) is {host:?}, with a port; give the host as {name}, and the port by MASTER_PORT"
            )));
        }
    }
    Ok(())
}

fn given_ports() -> Result<Option<RangeInclusive<u16>>> {
    ports_of("PENNY_PORTS", "ranks may meet", "40000-40063")
}

/// Returns the ports of a variable. `purpose`: what is done there.
fn ports_of(variable: &'static str, purpose: &str, example: &str) -> Result<Option<RangeInclusive<u16>>> {
    let Some(text) = env::get(variable) else { return Ok(None) };
    let wrong = || {
        Error::argument(format!(
            "{variable} is {text:?}; give the ports at which {purpose} as {example}, or one port"
        ))
    };
    let port = |word: &str| word.trim().parse::<u16>().ok().filter(|&port| port > 0).ok_or_else(wrong);
    let (first, last) = text.split_once('-').unwrap_or((&text, &text));
    let ports = port(first)?..=port(last)?;
    if ports.is_empty() { Err(wrong()) } else { Ok(Some(ports)) }
}

impl HostsPlace {
    /// Makes the place of a job's meeting number `series`. `master`: the host of rank 0 and the port of the launcher's own
    /// store. `secret`: what only the ranks of the job know. `identity`: what tells the job from others with that secret.
    pub fn new(master: (&str, u16), secret: &[u8], identity: &[String], series: u64) -> Result<HostsPlace> {
        let (host, port) = master;
        refuse_port(host)?;
        let ports = match given_ports()? {
            Some(ports) => ports,
            None => port.saturating_add(1)..=port.saturating_add(PORTS_AFTER),
        };
        // Each part ends with a byte that no part contains, so that no two lists run together.
        let job: Vec<u8> = identity.iter().flat_map(|part| part.bytes().chain([0])).collect();
        let key = keyed(secret, &[&job, &series.to_le_bytes()]);
        let secret = std::array::from_fn(|i| key[i]);
        let door = NetworkDoor { host: host.to_owned(), ports, silence: silence()? };
        Ok(HostsPlace { door, host: this_host(), series, secret })
    }

    /// The same for a rank that is on another host.
    #[cfg(test)]
    pub fn on(self, host: &str) -> HostsPlace {
        HostsPlace { host: HostIdentity::this(Some(host)), ..self }
    }

    /// Returns with what a rank other than 0 enters.
    pub fn invitation(&self) -> Invitation {
        self.invitation_at(self.door.clone())
    }

    fn invitation_at(&self, door: NetworkDoor) -> Invitation {
        Invitation {
            door: Door::Network { door, host: self.host },
            serial: self.serial(),
            secret: Secret(self.secret),
            creator: None,
        }
    }

    /// Serves the meeting in this process, which is rank 0's, and returns with what rank 0 itself enters.
    pub fn serve(&self, until: Option<Instant>) -> Result<Invitation> {
        let expect = |meetings: &mut ExpectedMeetings| {
            meetings.expect_as(self.serial(), Secret(self.secret), until).then_some(self.serial())
        };
        let (named, _) = self.door.addresses();
        let served = expected(&self.door.ports, &named, self.door.silence, &expect)?;
        // As the other ranks know it, if that is one of this host's, else one of the same kind: its links have an address of the same kind as theirs.
        let mut addresses = served.addresses;
        let is_alike = |address: &IpAddr| named.iter().any(|named| named.is_ipv4() == address.is_ipv4());
        addresses.sort_by_key(|address| (!named.contains(address), !is_alike(address)));
        Ok(self.invitation_at(NetworkDoor::of_addresses(&addresses, served.port, self.door.silence)))
    }

    fn serial(&self) -> u64 {
        SERIES | self.series
    }

    /// Tells all ranks that rank 0 cannot join, from this process.
    pub fn refuse(&self, nranks: u32, error: Error) {
        let Ok((_, _, listeners)) = listen(&self.door.addresses().0, &self.door.ports) else { return };
        let me = Who::this(this_host());
        server::refuse_on_network(
            listeners,
            self.door.silence,
            me,
            (self.serial(), Secret(self.secret)),
            nranks,
            error,
        );
    }
}

/// A server of this process.
struct Server {
    pid: u32,
    ports: RangeInclusive<u16>,
    addresses: Vec<IpAddr>,
    port: u16,
    expected_meetings: Arc<Mutex<ExpectedMeetings>>,
}

static SERVERS: Mutex<Vec<Server>> = Mutex::new(Vec::new());

/// A meeting that this process serves.
pub struct ServedMeeting {
    /// The addresses at which it listens.
    pub addresses: Vec<IpAddr>,
    /// The port.
    pub port: u16,
    /// The meeting's number there.
    pub serial: u64,
}

/// Expects one more meeting, of a unique id.
pub fn expect(secret: Secret) -> Result<ServedMeeting> {
    let ports = given_ports()?.unwrap_or(0..=0);
    expected(&ports, &[], silence()?, &|meetings| meetings.expect(secret, None, MOST_OUTSTANDING))
}

/// Expects a meeting in this process's server at one of these ports, which is opened now if there is none, at addresses that other ranks know
/// before others. `expect` adds it to the list, which is closed if the server is about to end.
fn expected(
    ports: &RangeInclusive<u16>,
    known: &[IpAddr],
    silence: Duration,
    expect: &dyn Fn(&mut ExpectedMeetings) -> Option<u64>,
) -> Result<ServedMeeting> {
    let mut servers = SERVERS.lock();
    // The thread of a server that was opened before a fork serves the parent only.
    let pid = std::process::id();
    servers.retain(|server| server.pid == pid);
    if let Some(at) = servers.iter().position(|server| server.ports == *ports) {
        let server = &servers[at];
        if let Some(serial) = expect(&mut server.expected_meetings.lock()) {
            return Ok(ServedMeeting { addresses: server.addresses.clone(), port: server.port, serial });
        }
        servers.remove(at);
    }
    let (addresses, port, listeners) = listen(known, ports)?;
    let mut meetings = ExpectedMeetings::default();
    let serial = expect(&mut meetings).ok_or_else(|| Error::internal("a new list of meetings is closed"))?;
    let expected_meetings = Arc::new(Mutex::new(meetings));
    server::start_on_network(listeners, silence, Who::this(this_host()), expected_meetings.clone()).map_err(
        |e| Error::system(format!("a meeting of several hosts needs a thread: {e}; check `ulimit -u`")),
    )?;
    servers.push(Server { pid, ports: ports.clone(), addresses: addresses.clone(), port, expected_meetings });
    Ok(ServedMeeting { addresses, port, serial })
}

/// Listens at one of these ports, at the addresses that other hosts reach and at those of this host alone. Returns the former, the port
/// and the listeners.
fn listen(known: &[IpAddr], ports: &RangeInclusive<u16>) -> Result<(Vec<IpAddr>, u16, Vec<TcpListener>)> {
    let addresses = interfaces::chosen(known)?;
    // For ranks of this host that were told `localhost`, or a name that leads to what Debian calls its own.
    let own: [IpAddr; 3] =
        [Ipv4Addr::LOCALHOST.into(), Ipv4Addr::new(127, 0, 1, 1).into(), Ipv6Addr::LOCALHOST.into()];
    let (known, unknown): (Vec<IpAddr>, Vec<IpAddr>) =
        own.into_iter().filter(|own| !addresses.contains(own)).partition(|own| known.contains(own));
    // A port at which the other ranks would look in vain is no better than one that is taken.
    let all = [&addresses[..], &known].concat();
    let mut listeners =
        NetworkDoor::listen(&all, ports.clone()).map_err(|e| cannot_listen(&all, ports, &e))?;
    let port = listeners.first().and_then(|l| l.local_addr().ok()).map_or(0, |address| address.port());
    listeners.extend(unknown.into_iter().filter_map(|address| network::listen(address, port).ok()));
    Ok((addresses, port, listeners))
}

fn cannot_listen(addresses: &[IpAddr], ports: &RangeInclusive<u16>, why: &io::Error) -> Error {
    let texts: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    let (texts, ports) = (texts.join(", "), ports_text(ports));
    Error::system(match why.kind() {
        io::ErrorKind::AddrInUse => format!(
            "port {ports} of this host ({texts}) is in use, so the ranks cannot meet here; set PENNY_PORTS to ports that are free, the \
             same on all ranks"
        ),
        _ => format!(
            "this process cannot listen at port {ports} of {texts}: {why}; choose others by PENNY_PORTS or PENNY_NET_IFACES"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn a_port_behind_the_host_of_rank_0_is_refused() {
        for (wrong, host) in [("node1:29500", "node1"), ("node1, [fd00::1]:7", "[fd00::1]")] {
            let told = refuse_port(wrong).unwrap_err();
            assert_eq!(told.code, Code::InvalidUsage);
            assert!(
                told.message.contains(&format!("{wrong:?}, with a port; give the host as {host}, and")),
                "{told}"
            );
        }
        for right in ["node1", "10.0.0.1,10.0.1.1", "fd00::1", "::1", "[fd00::1]", "fe80::1%eth0", ""] {
            refuse_port(right).unwrap();
        }
    }

    #[test]
    fn a_silent_host_is_waited_for_by_whole_seconds_of_an_hour_at_most() {
        assert_eq!(
            ["1", " 30 ", "3600"].map(|text| seconds_of_silence(text).unwrap().as_secs()),
            [1, 30, 3600]
        );
        for wrong in ["0", "3601", "2.5", "-1", "soon", "3s", "99999999999999999999"] {
            let told = seconds_of_silence(wrong).unwrap_err();
            assert!(
                told.message.starts_with(&format!("PENNY_HOST_TIMEOUT is {wrong:?}; "))
                    && told.message.ends_with("taken for dead, 1 to 3600"),
                "{told}"
            );
        }
    }
}
