//! Places behind one switch, and nodes of such places joined by rails.
//!
//! ```text
//!     [switch]  g0.tx ---- switch ---- g1.rx                      any place to any place: its tx, the other's rx
//!
//!     [nodes]   n0.g0.nv.tx ---- node's switch ---- n0.g1.nv.rx   within a node
//!               n0.g1.nic.tx --- leaf 1 ----------- n1.g1.nic.rx  same rail: one leaf
//!               n0.g1.nic.tx --- leaf 1 --- n0.g1.spine --- leaf 2 --- n1.g2.nic.rx     other rail
//! ```
//!
//! Each place has a NIC of its own, on the leaf of its number in the node: the rail. Switches do not block, so they
//! are no ports; their time belongs to the latency of the ports before them. Each place has its own way up from its
//! leaf to the spine, which is a full bisection; a spine class of less bandwidth than the NIC's tapers it. Without
//! a spine, all NICs are on one switch. Nodes without a switch of their own, whose places are wired: `wired_nodes.rs`.

use super::built::{Built, MOST_PLACES};
use super::source::Section;
use super::wired_nodes;
use super::{Class, Port, PortId, Routes, Shape};
use crate::error::Result;
use crate::plan::Lane;
use crate::types::Rank;
use std::sync::Arc;

/// Ports of a place, in order.
const NODE_PORTS: [&str; 5] = ["nv.tx", "nv.rx", "nic.tx", "nic.rx", "spine"];

struct Switch;

struct Nodes {
    places: u32,
    /// Ports of a place: all of [`NODE_PORTS`], or without the last.
    stride: u32,
}

/// `[switch]`
pub(super) fn switch(section: &Section, classes: &[Class]) -> Result<Built> {
    section.knows(&["places", "port"])?;
    let places = section.need("places", "8")?.count(MOST_PLACES)?;
    let class = section.need("port", "\"memory\"")?.class(classes)?;
    let port = |i: u32| Port { name: format!("g{}.{}", i / 2, ["tx", "rx"][i as usize % 2]), class };
    let ports = (0..2 * places).map(port).collect();
    Ok(Built { ports, shape: Shape::flat(places), routes: Arc::new(Switch) })
}

/// `[nodes]`
pub(super) fn nodes(section: &Section, classes: &[Class]) -> Result<Built> {
    if section.table.contains_key("wires") {
        return wired_nodes::nodes(section, classes);
    }
    section.knows(&["places", "nodes", "inside", "nic", "spine"])?;
    let places = section.need("places", "8")?.count(MOST_PLACES)?;
    let nodes = section.need("nodes", "1")?.count(MOST_PLACES / places)?;
    let inside = section.need("inside", "\"nvlink\"")?.class(classes)?;
    let nic = section.need("nic", "\"nic\"")?.class(classes)?;
    let spine = section.get("spine").map(|f| f.class(classes)).transpose()?;
    let kinds: Vec<u32> = [inside, inside, nic, nic].into_iter().chain(spine).collect();
    let place = |at: u32| {
        let named = kinds.iter().zip(NODE_PORTS);
        named.map(move |(&class, what)| Port {
            name: format!("n{}.g{}.{what}", at / places, at % places),
            class,
        })
    };
    let ports = (0..places * nodes).flat_map(place).collect();
    let routes = Nodes { places, stride: kinds.len() as u32 };
    Ok(Built { ports, shape: Shape([places, nodes, 1]), routes: Arc::new(routes) })
}

impl Routes for Switch {
    fn describe(&self) -> String {
        "switch".into()
    }

    fn route(&self, from: Rank, to: Rank, _: Lane, ports: &mut Vec<PortId>) -> Result<(), String> {
        if from != to {
            ports.extend([2 * from, 2 * to + 1]);
        }
        Ok(())
    }

    fn switch(&self, place: Rank) -> Option<(u32, [PortId; 2])> {
        Some((0, [2 * place, 2 * place + 1]))
    }
}

impl Routes for Nodes {
    fn describe(&self) -> String {
        format!("nodes, {} places, {} ports each", self.places, self.stride)
    }

    fn route(&self, from: Rank, to: Rank, _: Lane, ports: &mut Vec<PortId>) -> Result<(), String> {
        let (tx, rx) = (from * self.stride, to * self.stride);
        if from == to {
            return Ok(());
        }
        if from / self.places == to / self.places {
            ports.extend([tx, rx + 1]);
            return Ok(());
        }
        ports.push(tx + 2);
        if from % self.places != to % self.places && self.stride == NODE_PORTS.len() as u32 {
            ports.push(tx + 4);
        }
        ports.push(rx + 3);
        Ok(())
    }

    fn switch(&self, place: Rank) -> Option<(u32, [PortId; 2])> {
        let first = place * self.stride;
        // Nodes of one place are all on the one leaf.
        Some(match self.places {
            1 => (0, [first + 2, first + 3]),
            places => (place / places, [first, first + 1]),
        })
    }
}
