//! A grid whose axes are of different kinds: rings, switches, and places that are all joined.
//!
//! ```text
//!     [axes]                         g4.x.tx ---- switch of this row ---- g7.x.rx
//!     shape = "4x2"                  g0.y+ ------ g4
//!     kinds = "switch, ring"         one of ring, switch, full an axis
//!     links = "inside, outside"      a class an axis
//! ```
//!
//! The way goes along the first axis, then the second, then the third. `ring`: hop by hop, the short way round; half way round
//! even lanes go up and odd ones down; two places have one wire. `switch`: from a place's port into the switch of its row and out of the
//! other's. `full`: over the wire to the place itself, `g0.x.3`. Where an axis has one place there is nothing to cross.

use super::built::{Built, MOST_PLACES};
use super::source::{Field, Section, class_named};
use super::{Class, Port, PortId, Routes, Shape, Wiring};
use crate::error::Result;
use crate::plan::Lane;
use crate::types::Rank;
use std::sync::Arc;

const AXES: [&str; 3] = ["x", "y", "z"];

/// Ports of a machine.
const MOST_PORTS: u64 = 1 << 24;

/// Of more places no list of links is made.
const MOST_LISTED: u32 = 4096;

/// How the places of an axis are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ring,
    Switch,
    Full,
}

/// One axis.
#[derive(Clone, Copy, Debug)]
struct Axis {
    kind: Kind,
    extent: u32,
    class: u32,
    /// The first of a place's ports for this axis, counted from the place's first.
    first: PortId,
}

struct Grid {
    shape: Shape,
    axes: Vec<Axis>,
    /// Ports of a place.
    stride: u32,
}

/// `[axes]`
pub(super) fn axes(section: &Section, classes: &[Class]) -> Result<Built> {
    section.knows(&["shape", "kinds", "links"])?;
    let shape = section.need("shape", "\"8x4\"")?.extents(3, MOST_PLACES)?;
    let kinds = listed(&section.need("kinds", "\"switch, ring\"")?, kind)?;
    let links = section.need("links", "\"inside, outside\"")?;
    let named = listed(&links, |name| class_named(name, classes))?;
    if kinds.is_empty() || kinds.len() > 3 || kinds.len() != named.len() {
        let what = format_args!("names {} classes for {} kinds; write one an axis", named.len(), kinds.len());
        return Err(links.error(what));
    }
    if shape.0[kinds.len()..].iter().any(|&extent| extent > 1) {
        return Err(section.error("has more axes than kinds; write a kind for each axis"));
    }
    let mut grid = Grid { shape, axes: Vec::new(), stride: 0 };
    for ((kind, class), &extent) in kinds.into_iter().zip(named).zip(&shape.0) {
        let axis = Axis { kind, extent, class, first: grid.stride };
        grid.stride += axis.ports();
        grid.axes.push(axis);
        if u64::from(shape.nranks()) * u64::from(grid.stride) > MOST_PORTS {
            return Err(section.error(format_args!("has more than {MOST_PORTS} ports; write fewer places")));
        }
    }
    let mut ports = Vec::new();
    for place in 0..shape.nranks() {
        for (number, axis) in grid.axes.iter().enumerate() {
            let own = shape.coordinates(place)[number];
            let name = |port: u32| format!("g{place}.{}{}", AXES[number], axis.suffix(own, port));
            ports.extend((0..axis.ports()).map(|port| Port { name: name(port), class: axis.class }));
        }
    }
    Ok(Built { ports, shape, routes: Arc::new(grid) })
}

/// The words of a field that are parted by commas.
fn listed<T>(field: &Field, reader: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>> {
    field.read(|text| text.split(',').map(|word| reader(word.trim())).collect())
}

fn kind(word: &str) -> Result<Kind, String> {
    match word {
        "ring" => Ok(Kind::Ring),
        "switch" => Ok(Kind::Switch),
        "full" => Ok(Kind::Full),
        other => Err(format!("`{other}` is no kind of axis; write ring, switch or full")),
    }
}

impl Axis {
    /// Ports of a place for this axis.
    fn ports(&self) -> u32 {
        match (self.kind, self.extent) {
            (_, 1) => 0,
            (Kind::Ring, 2) => 1,
            (Kind::Ring | Kind::Switch, _) => 2,
            (Kind::Full, extent) => extent - 1,
        }
    }

    /// What follows the axis in a port's name, of a place at a coordinate.
    fn suffix(&self, own: u32, port: u32) -> String {
        match self.kind {
            Kind::Ring => ["+", "-"][port as usize].into(),
            Kind::Switch => [".tx", ".rx"][port as usize].into(),
            Kind::Full => format!(".{}", port + u32::from(port >= own)),
        }
    }
}

impl Grid {
    fn port(&self, at: [u32; 3], axis: &Axis, port: u32) -> PortId {
        self.shape.rank(at) * self.stride + axis.first + port
    }
}

impl Routes for Grid {
    fn describe(&self) -> String {
        let kinds: Vec<String> =
            self.axes.iter().map(|axis| format!("{:?} of {}", axis.kind, axis.extent)).collect();
        format!("axes: {}", kinds.join(", "))
    }

    fn wiring(&self) -> Wiring {
        let crossed = || self.axes.iter().filter(|axis| axis.extent > 1);
        if crossed().all(|axis| axis.kind == Kind::Ring && axis.extent > 2) {
            return Wiring::Grid { wraps: true, links: 1 };
        }
        if crossed().any(|axis| axis.kind == Kind::Switch) || self.shape.nranks() > MOST_LISTED {
            return Wiring::Switches;
        }
        let mut edges = Vec::new();
        for place in 0..self.shape.nranks() {
            let at = self.shape.coordinates(place);
            for (number, axis) in self.axes.iter().enumerate() {
                let ahead = if axis.kind == Kind::Full { axis.extent } else { 2.min(axis.extent) };
                for hops in 1..ahead {
                    let mut to = at;
                    to[number] = (at[number] + hops) % axis.extent;
                    // Two places have one wire, and places that are all joined one a pair.
                    if axis.kind == Kind::Ring && axis.extent > 2 || to[number] > at[number] {
                        edges.push((place, self.shape.rank(to), 1));
                    }
                }
            }
        }
        Wiring::Edges(edges)
    }

    fn route(&self, from: Rank, to: Rank, lane: Lane, ports: &mut Vec<PortId>) -> Result<(), String> {
        let (mut at, end) = (self.shape.coordinates(from), self.shape.coordinates(to));
        for (number, axis) in self.axes.iter().enumerate() {
            let (own, other, extent) = (at[number], end[number], axis.extent);
            if own == other {
                continue;
            }
            match axis.kind {
                Kind::Switch => {
                    ports.push(self.port(at, axis, 0));
                    at[number] = other;
                    ports.push(self.port(at, axis, 1));
                }
                Kind::Full => {
                    ports.push(self.port(at, axis, other - u32::from(other > own)));
                    at[number] = other;
                }
                Kind::Ring => {
                    let up = (other + extent - own) % extent;
                    let goes_up =
                        extent == 2 || up * 2 < extent || (up * 2 == extent && lane.is_multiple_of(2));
                    for _ in 0..if goes_up { up } else { extent - up } {
                        ports.push(self.port(at, axis, u32::from(!goes_up)));
                        at[number] = (at[number] + if goes_up { 1 } else { extent - 1 }) % extent;
                    }
                }
            }
        }
        Ok(())
    }
}
