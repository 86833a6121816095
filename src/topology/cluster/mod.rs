//! Nodes whose NICs hang on tiers of switches: `[cluster]`.
//!
//! ```text
//!     [cluster]                          core0 .... core3              a tier of switches above the other; each uplink of a
//!     places = 8                           |          |                switch leads to a switch of its own, tiers.rs
//!     nodes = 16                         spine0 ... spine7
//!     nics = 8                             |    \/    |                leaf2.spine5.up, leaf2.spine5.down
//!     inside = "nvlink"                  leaf0 .... leaf7
//!     nic = "nic"                          |          |                n0.nic3.tx, n0.nic3.rx
//!     rails = "optimised"                NIC 0 .... NIC 7
//!     [cluster.pcie]                       |          |                n0.nic3.pcie.tx, n0.g3.pcie.tx, n0.pcie1.tx, pcie.rs
//!     [[cluster.tier]]                   device 0 . device 7 --- node's switch        n0.g3.nv.tx, n0.g3.nv.rx
//! ```
//!
//! A device has one or several NICs of its own, which its lanes take in turns, or several devices share one. Its way to another node goes
//! over PCIe to its NIC, up the tiers as far as the lowest switch that both NICs hang on, and down. Within a node the way is that
//! of `[nodes]`: over the node's switch, over the wires of `[cluster.wires]`, or where there is neither, over PCIe.
//!
//! `rails`: `none`, the NICs of a node hang side by side on the same leaves; `optimised`, the NICs of equal number in several
//! nodes share a leaf; `only`, each number has tiers of its own, which nothing joins: a message to another number first goes
//! within the node to the device of that number.

mod flows;
mod parse;
mod pcie;
#[cfg(test)]
mod tests;
mod tiers;

pub use flows::{TierLoad, loads};
pub(super) use parse::cluster;
pub use pcie::Distance;

use super::edges::Edges;
use super::{PortId, Routes, Wiring};
use crate::plan::Lane;
use crate::types::Rank;
use pcie::Pcie;
use std::ops::Range;
use tiers::Tiers;

/// How the places of a node are joined.
enum Inside {
    /// A switch: each place has a port to it and a port from it.
    Switch,
    Wires(Edges),
    Pcie,
}

/// Which NICs share a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rails {
    None,
    Optimised,
    Only,
}

/// The arrangement of a machine that `[cluster]` declares.
pub struct Cluster {
    places: u32,
    /// NICs of a node.
    nics: u32,
    inside: Inside,
    rails: Rails,
    /// Ports of a node: those within it, then its PCIe links, then two a NIC.
    stride: PortId,
    first_pcie: PortId,
    first_nic: PortId,
    pcie: Option<Pcie>,
    tiers: Tiers,
}

impl Cluster {
    /// Returns the number of NICs of a node.
    pub fn nics(&self) -> u32 {
        self.nics
    }

    /// Returns the NIC of its node that a device uses on a lane.
    pub fn nic_of(&self, place: Rank, lane: Lane) -> u32 {
        let local = place % self.places;
        match self.nics / self.places {
            0 => local / (self.places / self.nics),
            own => local * own + u32::from(lane) % own,
        }
    }

    /// Returns the port by which a NIC transmits; the next one receives.
    pub fn nic_port(&self, node: u32, nic: u32) -> PortId {
        node * self.stride + self.first_nic + 2 * nic
    }

    /// Returns how far a NIC is from a device of its node; `None` if the machine declares no PCIe.
    pub fn distance(&self, place: Rank, nic: u32) -> Option<Distance> {
        Some(self.pcie.as_ref()?.distance(place % self.places, nic))
    }

    /// Returns the number of the leaf switch on which a NIC hangs.
    pub fn leaf_of(&self, node: u32, nic: u32) -> u32 {
        self.tiers.leaf_of(self.position(node, nic))
    }

    /// Returns the names of the tiers and the numbers of their switches, the lowest first.
    pub fn switches(&self) -> Vec<(&str, u32)> {
        self.tiers.switches()
    }

    /// Returns the links that go up from a tier, the ports up at even places and those down behind them; none from the highest.
    pub fn uplinks(&self, tier: usize) -> Range<PortId> {
        self.tiers.uplinks(tier)
    }

    /// Returns the switches that an uplink of a tier joins, by its place among those links: the lower one and the upper one.
    pub fn ends(&self, tier: usize, link: u32) -> (u32, u32) {
        self.tiers.ends(tier, link)
    }

    /// Returns one sentence a tier: its switches, and how many links a switch has down and up.
    pub fn sentences(&self) -> Vec<String> {
        self.tiers.sentences()
    }

    /// The rail, and the place of a NIC among those of its rail.
    fn position(&self, node: u32, nic: u32) -> (u32, u32) {
        match self.rails {
            Rails::None => (0, node * self.nics + nic),
            Rails::Only => (nic, node),
            Rails::Optimised => {
                let a_leaf = self.tiers.below_a_leaf();
                (0, (node / a_leaf * self.nics + nic) * a_leaf + node % a_leaf)
            }
        }
    }

    /// The ports between two places of a node.
    fn within(&self, from: Rank, to: Rank, lane: Lane, ports: &mut Vec<PortId>) -> Result<(), String> {
        let node = from / self.places * self.stride;
        let (from, to) = (from % self.places, to % self.places);
        if from == to {
            return Ok(());
        }
        match (&self.inside, &self.pcie) {
            (Inside::Switch, _) => ports.extend([node + 2 * from, node + 2 * to + 1]),
            (Inside::Wires(wires), _) => {
                let before = ports.len();
                wires.route(from, to, lane, ports)?;
                ports[before..].iter_mut().for_each(|port| *port += node);
            }
            (Inside::Pcie, Some(pcie)) => pcie.between_devices(node + self.first_pcie, from, to, ports),
            (Inside::Pcie, None) => return Err("nothing joins the places of a node".into()),
        }
        Ok(())
    }
}

impl Routes for Cluster {
    fn describe(&self) -> String {
        let Cluster { places, nics, rails, stride, pcie, tiers, .. } = self;
        let inside = match &self.inside {
            Inside::Switch => "a switch".into(),
            Inside::Wires(wires) => wires.describe(),
            Inside::Pcie => "PCIe".into(),
        };
        let pcie = pcie.as_ref().map_or_else(String::new, Pcie::describe);
        format!(
            "cluster, {places} places, {nics} NICs, {stride} ports a node, within: {inside}; {pcie}; rails {rails:?}; {}",
            tiers.describe()
        )
    }

    fn wiring(&self) -> Wiring {
        match &self.inside {
            Inside::Wires(wires) => Wiring::Nodes(self.places, wires.listed()),
            Inside::Switch | Inside::Pcie => Wiring::Switches,
        }
    }

    fn cluster(&self) -> Option<&Cluster> {
        Some(self)
    }

    fn switch(&self, place: Rank) -> Option<(u32, [PortId; 2])> {
        let (node, first) =
            (place / self.places, place / self.places * self.stride + 2 * (place % self.places));
        matches!(self.inside, Inside::Switch).then_some((node, [first, first + 1]))
    }

    fn route(&self, from: Rank, to: Rank, lane: Lane, ports: &mut Vec<PortId>) -> Result<(), String> {
        let (node, other) = (from / self.places, to / self.places);
        if node == other {
            return self.within(from, to, lane, ports);
        }
        let mut out = from;
        if self.rails == Rails::Only && self.nic_of(from, lane) != self.nic_of(to, lane) {
            out = node * self.places + to % self.places;
            self.within(from, out, lane, ports)?;
        }
        let (nic, into) = (self.nic_of(out, lane), self.nic_of(to, lane));
        if let Some(pcie) = &self.pcie {
            pcie.outbound(node * self.stride + self.first_pcie, out % self.places, nic, ports);
        }
        ports.push(self.nic_port(node, nic));
        self.tiers.route(self.position(node, nic), self.position(other, into), lane, ports);
        ports.push(self.nic_port(other, into) + 1);
        if let Some(pcie) = &self.pcie {
            pcie.inbound(other * self.stride + self.first_pcie, into, to % self.places, ports);
        }
        Ok(())
    }
}
