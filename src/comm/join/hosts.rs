//! How ranks of several hosts join.
//!
//! ```text
//!     all ranks          TCP, at rank 0's process       who is on which host, and what each says of itself
//!     ranks of a host    local socket, at their first   descriptors: heaps, the host's own control segment
//!     all ranks          through the server             addresses of endpoints, to which the links connect
//!     all ranks          over the links                 life lines
//! ```
//!
//! The connection to the server stays: it is the rank's `lifeline`.

use super::declared;
use super::entrance::Entrance;
use super::introduction::Introduction;
use super::lifeline::Lifeline;
use super::meeting::{Gathered, Gathering, Met, PreparedRank, Presence, faulty};
use crate::bootstrap::{self, Attendance, DerivedPlace, Heard, Hello, MeetingPlace, Who};
use crate::error::{Code, Error, Result};
use crate::memory::control::{Control, Membership};
use crate::planner::profile::HostProfile;
use crate::sys::host::{HostIdentity, NAME_BYTES};
use crate::sys::network::{self, Interface};
use crate::sys::process::random;
use crate::sys::{clock, interrupt};
use crate::transport::Transport;
use crate::transport::far::Far;
use crate::transport::net_link::NetLink;
use crate::types::Rank;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

/// The time between two looks at whether to go on waiting.
const LOOK: Duration = Duration::from_millis(20);

/// Bytes of what a rank says before its introduction: its host, and the place where the ranks of its host meet if it is their first.
const HEAD: usize = 16 + NAME_BYTES + 32;

/// What a rank of several hosts says of itself.
struct Neighbour {
    host: HostIdentity,
    /// From which the ranks of its host derive where they meet.
    told: [u8; 32],
    introduction: Introduction,
}

impl Neighbour {
    fn encode(&self, profile: Option<&HostProfile>) -> Vec<u8> {
        [&self.host.encode()[..], &self.told, &self.introduction.encode(profile)].concat()
    }

    fn decode(info: &[u8]) -> Option<Neighbour> {
        let (head, rest) = info.split_first_chunk::<HEAD>()?;
        let host = HostIdentity::decode(&std::array::from_fn(|i| head[i]));
        let told = std::array::from_fn(|i| head[16 + NAME_BYTES + i]);
        Some(Neighbour { host, told, introduction: Introduction::decode(rest)? })
    }
}

/// Meets the ranks of all hosts, and connects to those of others.
pub(super) fn meet(mut prepared: PreparedRank, entrance: &Entrance<'_>) -> Result<Met> {
    let (attendance, ranks, profile) = introduce(&prepared, entrance)?;
    // ONE-WAY: from here on the others may count on this rank, so every way out either joins or tells them.
    match connect(&mut prepared, entrance, &attendance, &ranks) {
        Ok((transport, membership, clock_segment)) => {
            let server = attendance.host();
            let rank_0 = Who { pid: ranks[0].introduction.card.pid, host: Some(ranks[0].host) };
            let is_there =
                |rank: &Rank| server.host.is_some_and(|host| host.id == ranks[*rank as usize].host.id);
            let beside = (0..entrance.nranks).filter(is_there).collect();
            let lifeline = Lifeline::begin(attendance, server == rank_0, beside, &transport)?;
            let founded = prepared.founded.take();
            let (settings, machine) = prepared.into_parts();
            let presence = Presence::Hosts(lifeline);
            Ok(Met { presence, settings, machine, founded, clock_segment, profile, transport, membership })
        }
        Err(e) => {
            // Another rank may have given up first, and this one only because of it.
            let e = attendance.check().err().unwrap_or(e);
            attendance.give_up(&e);
            Err(e)
        }
    }
}

/// Meets all ranks, and learns who is where.
fn introduce(
    prepared: &PreparedRank,
    entrance: &Entrance<'_>,
) -> Result<(Attendance, Vec<Neighbour>, Option<HostProfile>)> {
    let &Entrance { rank, nranks, .. } = entrance;
    let (host, introduction) = (bootstrap::this_host(), prepared.introduction);
    let info = Neighbour { host, told: random(), introduction }.encode(prepared.profile.as_ref());
    let hello = Hello { rank, nranks, info: &info, fds: &[] };
    let (mut ranks, mut profile) = (Vec::new(), None);
    let mut each = |peer: u32, info: &[u8], _| {
        let neighbour = Neighbour::decode(info).ok_or_else(|| faulty(peer))?;
        if peer == 0 {
            profile = Introduction::decode_profile(&info[HEAD..]).ok_or_else(|| faulty(peer))?;
        }
        ranks.push(neighbour);
        Ok(())
    };
    let attendance = bootstrap::meet(&entrance.place, &hello, prepared.timeout(), &mut each, entrance.watch)?;
    Ok((attendance, ranks, profile))
}

/// Meets the ranks of this host, connects to the others, and makes the transport.
fn connect(
    prepared: &mut PreparedRank,
    entrance: &Entrance<'_>,
    attendance: &Attendance,
    ranks: &[Neighbour],
) -> Result<(Arc<Transport>, Result<Membership>, Option<File>)> {
    let &Entrance { rank, nranks, .. } = entrance;
    let here = ranks[rank as usize].host.id;
    let near: Vec<Rank> = (0..nranks).filter(|&r| ranks[r as usize].host.id == here).collect();
    let far: Vec<bool> = ranks.iter().map(|other| other.host.id != here).collect();
    check_alike(prepared, ranks, rank)?;
    let first_of = |other: &Neighbour| ranks.iter().position(|first| first.host.id == other.host.id);
    let first_of: Vec<Rank> = ranks.iter().map(|other| first_of(other).unwrap_or(0) as Rank).collect();
    prepared.founded = declared::found(prepared.machine.as_ref(), rank, &first_of)?;
    let prepared = &*prepared;
    let watch = || (entrance.watch)().and_then(|()| attendance.check());
    let told = &ranks[near[0] as usize].told;
    let place = MeetingPlace::Derived(DerivedPlace::of_host(told));
    let layout = prepared.layout(nranks);
    let gathering = Gathering { place: &place, ranks: &near, rank, layout, watch: &watch };
    let Gathered { attendance: local, control, heaps, cards, clock_segment, .. } =
        prepared.gather(&gathering)?;
    local.joined();
    let link = || link(prepared, entrance, attendance, ranks, &far, &control);
    let (links, rails) = match far.contains(&true).then(link).transpose()? {
        Some((links, rails)) => (Some(links), rails),
        None => (None, bootstrap::rails(local_address(attendance))?),
    };
    let transport = prepared.transport(rank, control.clone(), heaps, cards, links)?;
    transport.set_rails(rails);
    transport.number_hosts(first_of);
    transport.name_hosts(ranks.iter().map(|other| other.host.name()).collect());
    Ok((transport, control.keep(rank), clock_segment))
}

/// Returns the address of this host by which it has reached the meeting: others reach it there.
fn local_address(attendance: &Attendance) -> IpAddr {
    bootstrap::reachable(attendance.local_address().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)))
}

/// Are the ranks' settings such that they can join?
fn check_alike(prepared: &PreparedRank, ranks: &[Neighbour], rank: Rank) -> Result<()> {
    let word = |other: &Neighbour| other.introduction.machine;
    if let Some(peer) = ranks.iter().position(|other| word(other) != word(&ranks[rank as usize])) {
        return Err(declared::unlike(rank, prepared.machine.as_ref(), peer as Rank));
    }
    let differs = |other: &&Neighbour| other.introduction.staging != ranks[0].introduction.staging;
    if let Some(at) = ranks.iter().position(|other| differs(&other)) {
        return Err(Error::usage(format!(
            "rank 0 on {} has {} bytes of staging memory, rank {at} on {} has {}; PENNY_STAGING must be the same on all hosts",
            ranks[0].host.name(),
            ranks[0].introduction.staging,
            ranks[at].host.name(),
            ranks[at].introduction.staging
        )));
    }
    Ok(())
}

/// Tells the far ranks the addresses of this rank's endpoints, and connects to theirs. Returns by which interfaces, too.
fn link(
    prepared: &PreparedRank,
    entrance: &Entrance<'_>,
    attendance: &Attendance,
    ranks: &[Neighbour],
    far: &[bool],
    control: &Arc<Control>,
) -> Result<(Far, Vec<Interface>)> {
    let &Entrance { rank, nranks, .. } = entrance;
    let timeout = prepared.timeout();
    let until = timeout.map(|timeout| clock::now_ns() + timeout.as_nanos() as u64);
    let mut theirs = TheirAddresses { attendance, ranks, far, told: vec![None; nranks as usize], until };
    let is_servers_host = attendance.host().host.is_some_and(|host| host.id == ranks[rank as usize].host.id);
    let met = match is_servers_host {
        true => theirs.by_which_this_host_was_reached(entrance)?,
        false => local_address(attendance),
    };
    let rails = bootstrap::rails(met)?;
    let prepared_link = NetLink::prepare(control, rank, nranks, &rails, &bootstrap::carrier()?)?;
    let reached = attendance.server_address().unwrap_or(UNKNOWN);
    let message = Addresses { reached, endpoints: prepared_link.blob() }.encode();
    attendance.tell(&message).map_err(|e| theirs.gone(e))?;
    theirs.wait(entrance, |_| false)?;
    let blobs: Vec<Option<Vec<u8>>> =
        theirs.told.into_iter().map(|told| told.map(|told| told.endpoints)).collect();
    Ok((prepared_link.connect(&blobs)?, rails))
}

/// In the place of an address that is not known.
const UNKNOWN: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// What a rank tells those of other hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Addresses {
    /// By which it has reached the server of the meeting.
    reached: IpAddr,
    /// Those of its own endpoints, as the link writes them.
    endpoints: Vec<u8>,
}

impl Addresses {
    fn encode(&self) -> Vec<u8> {
        let reached = match self.reached {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        [&reached.octets()[..], &self.endpoints].concat()
    }

    fn decode(bytes: &[u8]) -> Option<Addresses> {
        let (reached, endpoints) = bytes.split_first_chunk::<16>()?;
        Some(Addresses {
            reached: IpAddr::V6(Ipv6Addr::from(*reached)).to_canonical(),
            endpoints: endpoints.to_vec(),
        })
    }
}

/// Tells whether an address is one of this host's; behind a translation of addresses others reach it by one that is not.
fn is_own(interfaces: &[Interface], address: &IpAddr) -> bool {
    address.is_loopback() || interfaces.iter().any(|interface| interface.address == *address)
}

/// What the ranks of other hosts have told, as it comes.
struct TheirAddresses<'a> {
    attendance: &'a Attendance,
    ranks: &'a [Neighbour],
    far: &'a [bool],
    told: Vec<Option<Addresses>>,
    until: Option<u64>,
}

impl TheirAddresses<'_> {
    /// Returns the address by which ranks of other hosts have reached the meeting on this host. It may have others, to which no way leads
    /// from there.
    fn by_which_this_host_was_reached(&mut self, entrance: &Entrance<'_>) -> Result<IpAddr> {
        let own = network::interfaces().unwrap_or_default();
        let reached = |this: &Self| {
            let own = this.told.iter().flatten().map(|told| told.reached).filter(|at| is_own(&own, at));
            own.min_by_key(IpAddr::is_loopback)
        };
        // Ranks of other hosts tell theirs without waiting for any of this one.
        self.wait(entrance, |this| reached(this).is_some_and(|at| !at.is_loopback()))?;
        Ok(reached(self).map_or_else(|| local_address(self.attendance), bootstrap::reachable))
    }

    /// Waits until all ranks of other hosts have told theirs, or until that is `enough`.
    fn wait(&mut self, entrance: &Entrance<'_>, enough: impl Fn(&Self) -> bool) -> Result<()> {
        loop {
            let late = (0..self.far.len()).find(|&rank| self.far[rank] && self.told[rank].is_none());
            let Some(late) = late.filter(|_| !enough(self)) else { return Ok(()) };
            self.hear(late)?;
            (entrance.watch)()?;
            interrupt::look_now()?;
            if self.until.is_some_and(|until| clock::now_ns() >= until) {
                return Err(self.is_late(late));
            }
        }
    }

    /// Takes in what comes next, for a while.
    fn hear(&mut self, late: usize) -> Result<()> {
        match self.attendance.hear(LOOK) {
            Some(Heard::Told { from, bytes }) => {
                if let Some(place) = self.told.get_mut(from as usize).filter(|_| self.far[from as usize]) {
                    *place = Some(Addresses::decode(&bytes).ok_or_else(|| faulty(from))?);
                }
                Ok(())
            }
            Some(Heard::Death(dead)) => {
                let host = self.ranks.get(dead as usize).map_or(String::new(), |r| r.host.name());
                Err(Error::remote(format!("rank {dead} on {host} died while the ranks joined")))
            }
            Some(Heard::Failed(error)) if error.code == Code::Timeout => Err(self.is_late(late)),
            Some(Heard::Failed(error)) => Err(error),
            Some(Heard::Silence) => Err(self.gone(std::io::ErrorKind::ConnectionReset.into())),
            Some(Heard::Cut) => Err(self.gone(std::io::ErrorKind::TimedOut.into())),
            Some(Heard::Left(_)) | None => Ok(()),
        }
    }

    fn gone(&self, why: std::io::Error) -> Error {
        Error::remote(format!(
            "the connection to {}, where the ranks meet, is lost: {why}; the process that serves the meeting has ended, or the network is cut: \
             look at what that process says, and make a new communicator",
            self.attendance.host()
        ))
    }

    fn is_late(&self, late: usize) -> Error {
        Error::timeout(format!(
            "rank {late} on {} has not told the address of its network endpoint in time; check that it is not stopped, or raise the \
             timeout",
            self.ranks[late].host.name()
        ))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_a_rank_tells_of_its_addresses_is_read_back() {
        for reached in ["10.0.0.1", "fd91::1", "0.0.0.0", "::1"] {
            for endpoints in [&b""[..], b"abc"] {
                let told = Addresses { reached: reached.parse().unwrap(), endpoints: endpoints.to_vec() };
                assert_eq!(Addresses::decode(&told.encode()), Some(told));
            }
        }
        assert_eq!(Addresses::decode(&[0; 15]), None);
    }

    #[test]
    fn an_address_is_the_hosts_own_if_an_interface_has_it() {
        let own = [Interface { name: "e0".into(), address: "10.0.0.1".parse().unwrap(), is_loopback: false }];
        for (address, expected) in
            [("10.0.0.1", true), ("127.0.1.1", true), ("192.0.2.1", false), ("0.0.0.0", false)]
        {
            assert_eq!(is_own(&own, &address.parse().unwrap()), expected, "{address}");
        }
    }
}
