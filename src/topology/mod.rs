//! Declared machines: ports, what they cost, and the way between two places.
//!
//! ```text
//!     place 0                                     place 9
//!     g0.nv.tx ---> sw ---> ...                   a port is one direction of one wire's end, and carries one
//!     g0.nic.tx --> leaf --> g9.nic.rx            message at a time; a route is the ports that a message passes
//! ```
//!
//! Pure: a [`Network`] is data. It is built from a file or a preset, and the fabric's engine prices plans on it.

mod axes;
mod built;
mod cluster;
mod device;
mod edges;
pub mod faults;
pub mod file;
mod grid;
mod hash;
mod in_switch;
mod mailbox;
mod matrix;
mod mover;
mod placement;
mod protocol;
mod rings;
mod source;
mod spec;
mod switch;
#[cfg(test)]
mod tests;
pub mod units;
mod wired_nodes;

pub use cluster::{Cluster, Distance, TierLoad, loads};
pub use device::DeviceSpec;
pub use file::{parse, presets};
pub use mailbox::MailboxSpec;
pub use matrix::matrix;
pub use mover::{EthernetCore, Handover, MoverSpec, SignalMode, Termination};
pub use protocol::{CarriedCall, Protocol, of_library};
pub use rings::Wiring;
pub use spec::{MachineSpec, open, text_of};
pub mod orders;

use crate::plan::{Lane, Shape};
use crate::types::Rank;
use std::sync::Arc;
use units::Ratio;

/// Index of a port in [`Network::ports`].
pub type PortId = u32;

/// The physics of a kind of port. Times are picoseconds, one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// The name in the machine's file.
    pub name: String,
    /// Payload bytes a second in this direction, after the class's efficiency.
    pub rate: u64,
    /// Bytes a second on the wire, as vendors count it: before the efficiency, framing included.
    pub line_rate: u64,
    /// The time from leaving this port to reaching the next one.
    pub latency_ps: u64,
    /// The time to issue a message; overlaps with the port's work on earlier ones.
    pub post_ps: u64,
    /// Port time that each message takes beside its bytes.
    pub gap_ps: u64,
    /// Port time that each message takes at least, its bytes included.
    pub least_hold_ps: u64,
    /// Payload bytes of a packet; 0: messages are not divided.
    pub mtu: u64,
    /// Bytes that each packet carries beside its payload.
    pub header: u64,
    /// Bytes a second that a rank feeds into a lane to another rank, if the way begins at such a port; 0: what the port carries.
    pub lane_rate: u64,
    /// Bytes of a lane's message after which its receiver can hand it on, while what follows is still fed; 0: all of them.
    pub lane_piece: u64,
    /// The whole message is taken in before its first byte leaves.
    pub store_and_forward: bool,
    /// Messages that one connection may have under way; 0: any number.
    pub credits: u32,
    /// The software at both ends of the link, whose costs then take the place of the others.
    pub mover: Option<Arc<MoverSpec>>,
    /// A switch between two such ports copies and sums messages; what goes so gets this part of the rate.
    pub in_switch: Option<Ratio>,
}

/// One direction of one wire's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The name, for people and for overrides: `n0.g3.nic.tx`.
    pub name: String,
    /// Index in [`Network::classes`].
    pub class: u32,
}

/// The ways through a network.
pub trait Routes: Send + Sync {
    /// Append the ports that a message passes from one place to another on a lane. Nothing is appended for a place
    /// to itself. `Err` says why there is no way.
    fn route(&self, from: Rank, to: Rank, lane: Lane, ports: &mut Vec<PortId>) -> Result<(), String>;

    /// Returns the kind of ways and all their parameters that the ports do not show: machines whose ports are the same and
    /// whose ways are not must say different things here.
    fn describe(&self) -> String {
        String::new()
    }

    /// Returns the number of the switch at which a place stands, and the ports to it and from it. The way between two places
    /// at one switch is the first's port to it and the other's port from it. `None`: it stands at no switch.
    fn switch(&self, _: Rank) -> Option<(u32, [PortId; 2])> {
        None
    }

    /// Returns the direct links between places, over which rings go.
    fn wiring(&self) -> Wiring {
        Wiring::Switches
    }

    /// Returns the arrangement of NICs and switches, if the machine declares it.
    fn cluster(&self) -> Option<&Cluster> {
        None
    }
}

/// How finely chunks are cut, so that a rank hands on their begin while their end still arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slicing {
    /// For each call, as it is over soonest.
    #[default]
    Auto,
    /// The largest slice in bytes; 0: chunks are not cut.
    Bytes(u64),
}

/// A machine as far as messages are concerned. A clone shares its ports and its ways.
#[derive(Clone)]
pub struct Network {
    /// The name: the preset with its arguments, or the file.
    pub name: String,
    /// Kinds of ports.
    pub classes: Vec<Class>,
    /// All ports.
    pub ports: Arc<Vec<Port>>,
    /// The arrangement of the places; there are `shape.nranks()` of them.
    pub shape: Shape,
    /// The way from place to place.
    pub routes: Arc<dyn Routes>,
    /// The faults and their times.
    pub faults: Vec<faults::PortFault>,
    /// Rank r stands at `placement[r]`; empty: at place r. See [`Network::places`].
    pub placement: Vec<Rank>,
    /// Ports serve the connections at them in turns, a packet each; otherwise messages, whichever comes first.
    pub fair: bool,
    /// How its ranks cut chunks.
    pub slicing: Slicing,
    /// What every call takes before its first message.
    pub launch_ps: u64,
    /// What carries calls; empty: they take what the ports take.
    pub protocols: Vec<Protocol>,
    /// The mailbox of every place, if the machine has mailboxes.
    pub mailbox: Option<MailboxSpec>,
    /// What every place computes with, if the file says so.
    pub device: Option<DeviceSpec>,
}

impl Class {
    /// Returns the time of `bytes` bytes on the wire, framing included, rounded up once.
    pub fn serialisation_ps(&self, bytes: u64) -> u64 {
        let packets = if self.mtu == 0 { 1 } else { bytes.div_ceil(self.mtu).max(1) };
        self.wire_ps(bytes + packets * self.header)
    }

    /// Returns the time for which a message of `bytes` bytes takes a port.
    pub fn hold_ps(&self, bytes: u64) -> u64 {
        self.gap_ps.saturating_add(self.serialisation_ps(bytes)).max(self.least_hold_ps)
    }

    /// Time until the first packet of a message has left.
    pub fn packet_ps(&self, bytes: u64) -> u64 {
        let payload = if self.mtu == 0 { bytes } else { bytes.min(self.mtu) };
        self.wire_ps(payload + self.header)
    }

    /// Returns the time for which a message of `bytes` bytes takes its lane; 0 where lanes take what the port carries.
    pub fn feed_ps(&self, bytes: u64) -> u64 {
        if self.lane_rate == 0 { 0 } else { ps_at(bytes, self.lane_rate) }
    }

    /// Returns the part of [`feed_ps`](Self::feed_ps) after which the receiver can hand the message on.
    pub fn piece_ps(&self, bytes: u64) -> u64 {
        self.feed_ps(if self.lane_piece == 0 { bytes } else { bytes.min(self.lane_piece) })
    }

    fn wire_ps(&self, bytes: u64) -> u64 {
        ps_at(bytes, self.rate)
    }
}

/// The time of `bytes` bytes at a rate, rounded up.
fn ps_at(bytes: u64, rate: u64) -> u64 {
    let ps = (u128::from(bytes) * 1_000_000_000_000).div_ceil(rate.max(1).into());
    u64::try_from(ps).unwrap_or(u64::MAX)
}

impl Network {
    /// Returns the class of a port.
    pub fn class(&self, port: PortId) -> &Class {
        &self.classes[self.ports[port as usize].class as usize]
    }

    /// Returns the least time that a message without bytes needs from rank to rank.
    pub fn least_hop_ps(&self) -> u64 {
        let used = self.ports.iter().fold(vec![false; self.classes.len()], |mut used, port| {
            used[port.class as usize] = true;
            used
        });
        let hop = |class: &Class| match class.mover {
            // Its own costs are not those of the class.
            Some(_) => 0,
            None => class.latency_ps.saturating_add(class.post_ps).saturating_add(class.gap_ps),
        };
        let used = self.classes.iter().zip(used).filter(|(_, used)| *used);
        used.map(|(class, _)| hop(class)).min().unwrap_or(0)
    }
}
