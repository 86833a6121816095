//! Rings, lines, meshes and tori: a wire to each neighbour along up to three axes.
//!
//! ```text
//!     [mesh] shape = "3x2"          g3 --- g4 --- g5      g4.x+ sends to g5, g4.x- to g3, g4.y- to g1
//!                                   |      |      |       with two links an edge: g4.x+.0 and g4.x+.1
//!                                   g0 --- g1 --- g2      [torus] joins the ends of each axis as well
//! ```
//!
//! The way goes along the first axis, then the second, then the third, the short way round. Half way round a ring
//! both ways are as long: even lanes go up, odd ones down. A lane's link is its number modulo the links of an edge, there
//! half its number, so that lanes in a row take different links.
//! A hop is one port: the sender's.

use super::built::{Built, MOST_LINKS, MOST_PLACES};
use super::source::Section;
use super::{Class, Port, PortId, Routes, Shape, Wiring};
use crate::error::Result;
use crate::plan::Lane;
use crate::types::Rank;
use std::sync::Arc;

/// Directions of a place's wires: axis a up is 2a, down is 2a + 1.
const DIRECTIONS: [&str; 6] = ["x+", "x-", "y+", "y-", "z+", "z-"];

/// Ports of a machine.
const MOST_PORTS: u64 = 1 << 24;

/// No wire in this direction.
const NONE: PortId = PortId::MAX;

struct Grid {
    shape: Shape,
    wraps: bool,
    links: u32,
    /// Whether only offsets of a power of two along one axis are served.
    powers_of_two: bool,
    /// The first port of each place's wires, six a place.
    first: Vec<PortId>,
}

/// `[ring]`
pub(super) fn ring(section: &Section, classes: &[Class]) -> Result<Built> {
    build(section, classes, 1, true)
}
/// `[line]`
pub(super) fn line(section: &Section, classes: &[Class]) -> Result<Built> {
    build(section, classes, 1, false)
}
/// `[mesh]`
pub(super) fn mesh(section: &Section, classes: &[Class]) -> Result<Built> {
    build(section, classes, 3, false)
}
/// `[torus]`
pub(super) fn torus(section: &Section, classes: &[Class]) -> Result<Built> {
    build(section, classes, 3, true)
}

fn build(section: &Section, classes: &[Class], axes: usize, wraps: bool) -> Result<Built> {
    section.knows(&["shape", "link", "links", "direct"])?;
    let shape = section.need("shape", ["\"8\"", "\"4x8\""][axes / 2])?.extents(axes, MOST_PLACES)?;
    let class = section.need("link", "\"wire\"")?.class(classes)?;
    let links = section.get("links").map_or(Ok(1), |f| f.count(MOST_LINKS))?;
    let direct = section.get("direct").map_or(Ok("any"), |f| f.word(&["any", "powers_of_two"]))?;
    if u64::from(shape.nranks()) * DIRECTIONS.len() as u64 * u64::from(links) > MOST_PORTS {
        return Err(
            section.error(format_args!("may have more than {MOST_PORTS} ports; write fewer places or links"))
        );
    }
    let mut grid = Grid { shape, wraps, links, powers_of_two: direct != "any", first: Vec::new() };
    let mut ports = Vec::new();
    for place in 0..shape.nranks() {
        for (direction, name) in DIRECTIONS.iter().enumerate() {
            if !grid.has(place, direction) {
                grid.first.push(NONE);
                continue;
            }
            grid.first.push(ports.len() as PortId);
            for link in 0..links {
                let name =
                    if links == 1 { format!("g{place}.{name}") } else { format!("g{place}.{name}.{link}") };
                ports.push(Port { name, class });
            }
        }
    }
    Ok(Built { ports, shape, routes: Arc::new(grid) })
}

impl Grid {
    /// A place has a wire in a direction.
    fn has(&self, place: Rank, direction: usize) -> bool {
        let (extent, at) = (self.shape.0[direction / 2], self.shape.coordinates(place)[direction / 2]);
        let end = if direction.is_multiple_of(2) { extent - 1 } else { 0 };
        extent > 1 && (self.wraps || at != end)
    }

    /// Hops from one coordinate to another along an axis, whether they go up, and on which link of an edge.
    fn way(&self, axis: usize, from: u32, to: u32, lane: Lane) -> (u32, bool, u32) {
        let lane = u32::from(lane);
        if !self.wraps {
            return (from.abs_diff(to), to > from, lane % self.links);
        }
        let extent = self.shape.0[axis];
        let up = (to + extent - from) % extent;
        let down = extent - up;
        let goes_up = up < down || (up == down && lane.is_multiple_of(2));
        let link = if up == down { lane / 2 } else { lane } % self.links;
        (if goes_up { up } else { down % extent }, goes_up, link)
    }
}

impl Routes for Grid {
    fn describe(&self) -> String {
        let Grid { wraps, links, powers_of_two, .. } = self;
        format!("grid, wraps {wraps}, links {links}, powers of two {powers_of_two}")
    }

    fn wiring(&self) -> Wiring {
        Wiring::Grid { wraps: self.wraps, links: self.links }
    }

    fn route(&self, from: Rank, to: Rank, lane: Lane, ports: &mut Vec<PortId>) -> Result<(), String> {
        let (mut at, end) = (self.shape.coordinates(from), self.shape.coordinates(to));
        let hops: [(u32, bool, u32); 3] =
            std::array::from_fn(|axis| self.way(axis, at[axis], end[axis], lane));
        let apart = |&&(n, ..): &&(u32, bool, u32)| n > 0;
        let served = hops.iter().filter(apart).count() <= 1
            && hops.iter().filter(apart).all(|h| h.0.is_power_of_two());
        if self.powers_of_two && !served {
            return Err(format!(
                "place {from} sends to places at a power of two along one axis, and place {to} is not; \
                 let it go in steps, or set direct=any"
            ));
        }
        for (axis, (count, up, link)) in hops.into_iter().enumerate() {
            let extent = self.shape.0[axis];
            for _ in 0..count {
                let direction = 2 * axis + usize::from(!up);
                let first = self.first[self.shape.rank(at) as usize * DIRECTIONS.len() + direction];
                ports.push(first + link);
                at[axis] = (at[axis] + if up { 1 } else { extent - 1 }) % extent;
            }
        }
        Ok(())
    }
}
