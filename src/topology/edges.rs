//! A machine listed edge by edge; messages take the shortest way.
//!
//! ```text
//!     [edges]                                     g0 ===== g3       one port an edge, link and direction:
//!     places = 4                                  |        |        g0.g3.0, g0.g3.1, g3.g0.0, g3.g0.1,
//!     nvlink = [[0, 1], [0, 3, 2], [2, 3]]        g1       g2       g0.g1, ...
//! ```
//!
//! A key is a class, and its edges are pairs of places, with the number of links where there are several; they go
//! both ways. Of ways that are equally short, the one over the place of the lowest number is taken. A lane's link is
//! its number modulo the links of an edge.
//!
//! The way on is kept for each pair of places, so this is for machines of a node's size; large ones have a shape.

use super::built::{Built, MOST_LINKS};
use super::source::{Section, class_named};
use super::{Class, Port, PortId, Routes, Shape, Wiring};
use crate::error::Result;
use crate::plan::Lane;
use crate::types::Rank;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use toml::Spanned;
use toml::de::DeValue;

/// The square of it is what [`Edges::on`] takes.
pub(super) const MOST_PLACES: u32 = 4096;

/// One direction of an edge.
#[derive(Clone, Copy)]
struct Wire {
    to: Rank,
    first: PortId,
    links: u32,
}

/// The ways over wires.
pub(super) struct Edges {
    places: u32,
    /// The wire that place a takes to place b, at a + b * places; nothing is kept for a place to itself.
    on: Vec<u32>,
    wires: Vec<Wire>,
    /// The wires of each place.
    begins: Vec<Range<usize>>,
}

/// `[edges]`
pub(super) fn edges(section: &Section, classes: &[Class]) -> Result<Built> {
    let places = section.need("places", "8")?.count(MOST_PLACES)?;
    let (ports, edges) = wires(section, places, &["places"], classes)?;
    Ok(Built { ports, shape: Shape::flat(places), routes: Arc::new(edges) })
}

/// The wires that a section lists, class by class, beside keys that are none; and the ways over them.
pub(super) fn wires(
    section: &Section,
    places: u32,
    keys: &[&str],
    classes: &[Class],
) -> Result<(Vec<Port>, Edges)> {
    let known: Vec<&str> = keys.iter().copied().chain(classes.iter().map(|c| c.name.as_str())).collect();
    section.knows(&known)?;
    // In the order of the places, whatever the order of the file: so the lowest neighbour comes first.
    let mut listed = BTreeMap::new();
    for (key, value) in section.table.iter().filter(|(key, _)| !keys.contains(&&**key.get_ref())) {
        let class = class_named(key.get_ref(), classes).map_err(|why| section.error(why))?;
        let list = value.get_ref().as_array().ok_or_else(|| {
            section
                .source
                .error(value.span().start, format_args!("{} is no list; write [[0, 1], ...]", key.get_ref()))
        })?;
        for edge in list.iter() {
            let wrong = |what: String| section.source.error(edge.span().start, what);
            let (a, b, links) = ends(edge, places).map_err(wrong)?;
            for pair in [(a, b), (b, a)] {
                if listed.insert(pair, (class, links)).is_some() {
                    return Err(wrong(format!(
                        "the edge [{a}, {b}] is there twice; write [{a}, {b}, 2] for 2 links"
                    )));
                }
            }
        }
    }
    let (mut ports, mut wires, mut out) = (Vec::new(), Vec::new(), vec![Vec::new(); places as usize]);
    for ((a, b), (class, links)) in listed {
        out[a as usize].push(wires.len() as u32);
        wires.push(Wire { to: b, first: ports.len() as PortId, links });
        for link in 0..links {
            let name = if links == 1 { format!("g{a}.g{b}") } else { format!("g{a}.g{b}.{link}") };
            ports.push(Port { name, class });
        }
    }
    let mut on = Vec::with_capacity((places * places) as usize);
    for to in 0..places {
        on.extend(ways_to(to, &wires, &out).map_err(|from| {
            section.error(format_args!(
                "have no way from place {from} to place {to}; add an edge that joins them"
            ))
        })?);
    }
    let begins = out.iter().scan(0, |first, wires| {
        let begin = *first;
        *first += wires.len();
        Some(begin..*first)
    });
    let begins = begins.collect();
    Ok((ports, Edges { places, on, wires, begins }))
}

/// The wire that each place takes to one of them, or a place that has no way.
fn ways_to(to: Rank, wires: &[Wire], out: &[Vec<u32>]) -> Result<Vec<u32>, Rank> {
    let mut away = vec![u32::MAX; out.len()];
    away[to as usize] = 0;
    let mut queue = VecDeque::from([to]);
    // Edges go both ways, so walking away from the place finds how far it is.
    while let Some(place) = queue.pop_front() {
        for &wire in &out[place as usize] {
            let next = wires[wire as usize].to;
            if away[next as usize] == u32::MAX {
                away[next as usize] = away[place as usize] + 1;
                queue.push_back(next);
            }
        }
    }
    let nearer = |from: usize| {
        let closer = |&&wire: &&u32| away[wires[wire as usize].to as usize] < away[from];
        if from as Rank == to { Ok(0) } else { out[from].iter().find(closer).copied().ok_or(from as Rank) }
    };
    (0..out.len()).map(nearer).collect()
}

/// Two places and the links between them.
fn ends(edge: &Spanned<DeValue>, places: u32) -> Result<(Rank, Rank, u32), String> {
    let numbers: Option<Vec<u32>> = edge.get_ref().as_array().and_then(|list| {
        list.iter()
            .map(|v| v.get_ref().as_integer().and_then(|n| u32::from_str_radix(n.as_str(), n.radix()).ok()))
            .collect()
    });
    let (a, b, links) = match numbers.as_deref() {
        Some(&[a, b]) => (a, b, 1),
        Some(&[a, b, links]) => (a, b, links),
        _ => {
            return Err(
                "an edge is two places and perhaps a number of links; write it like [0, 1] or [0, 1, 2]"
                    .into(),
            );
        }
    };
    if a == b || a >= places || b >= places {
        return Err(format!(
            "the edge [{a}, {b}] does not join two places of 0..{places}; write two different ones"
        ));
    }
    if !(1..=MOST_LINKS).contains(&links) {
        return Err(format!("the edge [{a}, {b}] has {links} links; write 1 to {MOST_LINKS}"));
    }
    Ok((a, b, links))
}

impl Edges {
    /// Returns the pairs of places that have links, each once, and how many.
    pub(super) fn listed(&self) -> Vec<(Rank, Rank, u32)> {
        let from = (0..self.places).zip(&self.begins);
        let edges = from.flat_map(|(a, wires)| {
            let up = self.wires[wires.clone()].iter().filter(move |wire| wire.to > a);
            up.map(move |wire| (a, wire.to, wire.links))
        });
        edges.collect()
    }
}

impl Routes for Edges {
    fn describe(&self) -> String {
        "edges, the shortest way".into()
    }

    fn wiring(&self) -> Wiring {
        Wiring::Edges(self.listed())
    }

    fn route(&self, from: Rank, to: Rank, lane: Lane, ports: &mut Vec<PortId>) -> Result<(), String> {
        let mut at = from;
        while at != to {
            let wire = self.wires[self.on[(at + to * self.places) as usize] as usize];
            ports.push(wire.first + lane as u32 % wire.links);
            at = wire.to;
        }
        Ok(())
    }
}
