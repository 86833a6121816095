//! Nodes whose places are wired to one another, and have a NIC each.
//!
//! ```text
//!     [nodes]                    n0.g0 ===== n0.g1        n0.g0.g1.0, n0.g0.g1.1    to a neighbour
//!     places = 4                 |           |            n0.g0.nic.tx, n0.g0.nic.rx, n0.g0.spine
//!     nodes = 2                  n0.g2 ----- n0.g3
//!     nic = "nic"
//!     [nodes.wires]              in place of `inside`: the keys of [edges]
//!     xgmi = [[0, 1, 2], [0, 2], [1, 3], [2, 3]]
//! ```
//!
//! Within a node the way is that of `[edges]`, between nodes that of `[nodes]`.

use super::built::{Built, MOST_PLACES};
use super::edges::{self, Edges};
use super::source::Section;
use super::{Class, Port, PortId, Routes, Shape, Wiring};
use crate::error::Result;
use crate::plan::Lane;
use crate::types::Rank;
use std::sync::Arc;

/// Ports of a place's NIC, in order.
const NIC_PORTS: [&str; 3] = ["nic.tx", "nic.rx", "spine"];

struct WiredNodes {
    wires: Edges,
    places: u32,
    /// Ports of a node's wires, which come before those of its NICs.
    wired: PortId,
    /// Ports of a NIC: all of [`NIC_PORTS`], or without the last.
    stride: u32,
}

/// `[nodes]` with `[nodes.wires]`
pub(super) fn nodes(section: &Section, classes: &[Class]) -> Result<Built> {
    section.knows(&["places", "nodes", "nic", "spine", "wires"])?;
    let places = section.need("places", "8")?.count(edges::MOST_PLACES)?;
    let nodes = section.need("nodes", "1")?.count(MOST_PLACES / places)?;
    let nic = section.need("nic", "\"nic\"")?.class(classes)?;
    let spine = section.get("spine").map(|f| f.class(classes)).transpose()?;
    let inner = section.inner("[nodes.wires]".into(), &section.table["wires"])?;
    let (inside, wires) = edges::wires(&inner, places, &[], classes)?;
    let kinds: Vec<u32> = [nic, nic].into_iter().chain(spine).collect();
    let most = edges::MOST_PLACES * edges::MOST_PLACES;
    if u64::from(nodes) * (inside.len() as u64 + u64::from(places) * kinds.len() as u64) > u64::from(most) {
        return Err(section.error(format_args!("have more than {most} ports; write fewer nodes")));
    }
    let mut ports = Vec::new();
    for node in 0..nodes {
        let within = |name: &str| format!("n{node}.{name}");
        ports.extend(inside.iter().map(|port| Port { name: within(&port.name), class: port.class }));
        for place in 0..places {
            let named = kinds.iter().zip(NIC_PORTS);
            ports.extend(
                named.map(|(&class, what)| Port { name: within(&format!("g{place}.{what}")), class }),
            );
        }
    }
    let (wired, stride) = (inside.len() as PortId, kinds.len() as u32);
    let routes = WiredNodes { wires, places, wired, stride };
    Ok(Built { ports, shape: Shape([places, nodes, 1]), routes: Arc::new(routes) })
}

impl WiredNodes {
    /// The first port of a node.
    fn node(&self, node: u32) -> PortId {
        node * (self.wired + self.places * self.stride)
    }

    /// The first port of a place's NIC.
    fn nic(&self, place: Rank) -> PortId {
        self.node(place / self.places) + self.wired + place % self.places * self.stride
    }
}

impl Routes for WiredNodes {
    fn describe(&self) -> String {
        let WiredNodes { wires, places, stride, .. } = self;
        format!("nodes, {places} places, {stride} ports a NIC, within: {}", wires.describe())
    }

    fn wiring(&self) -> Wiring {
        Wiring::Nodes(self.places, self.wires.listed())
    }

    fn route(&self, from: Rank, to: Rank, lane: Lane, ports: &mut Vec<PortId>) -> Result<(), String> {
        let places = self.places;
        if from / places == to / places {
            let (before, first) = (ports.len(), self.node(from / places));
            self.wires.route(from % places, to % places, lane, ports)?;
            ports[before..].iter_mut().for_each(|port| *port += first);
            return Ok(());
        }
        ports.push(self.nic(from));
        if from % places != to % places && self.stride == NIC_PORTS.len() as u32 {
            ports.push(self.nic(from) + 2);
        }
        ports.push(self.nic(to) + 1);
        Ok(())
    }
}
