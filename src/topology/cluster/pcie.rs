//! PCIe within a node: devices and NICs on switches, switches on host bridges.
//!
//! ```text
//!     device 0   NIC 0        device 1   NIC 1         PIX  the same switch: device 0 to NIC 0
//!          \     /                 \     /             PXB  other switches, joined by another one    join = "switch"
//!         switch 0                switch 1             PHB  other switches, joined by a host bridge  join = "host"
//!              \                    /                  SYS  other host bridges
//!               `-- host bridge 0 -'  ----- host bridge 1 --- ...
//! ```
//!
//! Devices, NICs, switches and host bridges are divided evenly, in order. Every link has a port for each direction: `tx` leads towards
//! the host bridge. A message that comes from another host bridge passes the port out of the one it began at.

use super::super::{Port, PortId};

/// How far a NIC is from a device, as `nvidia-smi topo -m` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// One PCIe switch.
    Pix,
    /// Several PCIe switches.
    Pxb,
    /// A host bridge.
    Phb,
    /// The link between host bridges.
    Sys,
}

/// How the switches of a host bridge are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PcieJoin {
    Switch,
    Host,
}

/// The PCIe links of each node. Ports of a node, in order: two a device, two a NIC, two a switch, one a host bridge; the last two kinds only
/// where there are several switches or host bridges.
pub(super) struct Pcie {
    pub devices: u32,
    pub nics: u32,
    pub switches: u32,
    pub roots: u32,
    pub join: PcieJoin,
    /// Classes of the links of devices and NICs, of switches, and between host bridges.
    pub link: u32,
    pub up: u32,
    pub smp: u32,
}

impl Distance {
    /// Returns the word of `nvidia-smi topo -m`.
    pub fn name(self) -> &'static str {
        match self {
            Distance::Pix => "PIX",
            Distance::Pxb => "PXB",
            Distance::Phb => "PHB",
            Distance::Sys => "SYS",
        }
    }
}

impl Pcie {
    /// Names and classes of a node's ports.
    pub fn ports(&self, node: u32) -> Vec<Port> {
        let mut ports = Vec::new();
        let mut both = |name: String, class: u32| {
            ports.extend(["tx", "rx"].map(|way| Port { name: format!("n{node}.{name}.{way}"), class }));
        };
        (0..self.devices).for_each(|device| both(format!("g{device}.pcie"), self.link));
        (0..self.nics).for_each(|nic| both(format!("nic{nic}.pcie"), self.link));
        if self.switches > 1 {
            (0..self.switches).for_each(|switch| both(format!("pcie{switch}"), self.up));
        }
        if self.roots > 1 {
            let out = |root| Port { name: format!("n{node}.host{root}.smp"), class: self.smp };
            ports.extend((0..self.roots).map(out));
        }
        ports
    }

    /// Says what the ports do not show.
    pub fn describe(&self) -> String {
        let switches = if self.switches == 1 { "switch" } else { "switches" };
        let bridges = if self.roots == 1 { "bridge" } else { "bridges" };
        format!("PCIe, {} {switches}, {} host {bridges}", self.switches, self.roots)
    }

    /// Returns the switch of device or NIC `number`, of which there are `of`.
    fn switch_of(&self, number: u32, of: u32) -> u32 {
        (u64::from(number) * u64::from(self.switches) / u64::from(of)) as u32
    }

    fn root_of(&self, switch: u32) -> u32 {
        switch / (self.switches / self.roots)
    }

    pub fn distance(&self, device: u32, nic: u32) -> Distance {
        let (one, other) = (self.switch_of(device, self.devices), self.switch_of(nic, self.nics));
        if one == other {
            Distance::Pix
        } else if self.root_of(one) != self.root_of(other) {
            Distance::Sys
        } else if self.join == PcieJoin::Switch {
            Distance::Pxb
        } else {
            Distance::Phb
        }
    }

    /// The ports from one switch to another, of a node whose PCIe ports begin at `first`.
    fn across(&self, first: PortId, from: u32, to: u32, ports: &mut Vec<PortId>) {
        if from == to {
            return;
        }
        let switches = first + 2 * (self.devices + self.nics);
        ports.push(switches + 2 * from);
        if self.root_of(from) != self.root_of(to) {
            ports.push(switches + 2 * self.switches + self.root_of(from));
        }
        ports.push(switches + 2 * to + 1);
    }

    pub fn outbound(&self, first: PortId, device: u32, nic: u32, ports: &mut Vec<PortId>) {
        ports.push(first + 2 * device);
        self.across(first, self.switch_of(device, self.devices), self.switch_of(nic, self.nics), ports);
        ports.push(first + 2 * (self.devices + nic) + 1);
    }

    pub fn inbound(&self, first: PortId, nic: u32, device: u32, ports: &mut Vec<PortId>) {
        ports.push(first + 2 * (self.devices + nic));
        self.across(first, self.switch_of(nic, self.nics), self.switch_of(device, self.devices), ports);
        ports.push(first + 2 * device + 1);
    }

    pub fn between_devices(&self, first: PortId, from: u32, to: u32, ports: &mut Vec<PortId>) {
        ports.push(first + 2 * from);
        let of = |device| self.switch_of(device, self.devices);
        self.across(first, of(from), of(to), ports);
        ports.push(first + 2 * to + 1);
    }
}
