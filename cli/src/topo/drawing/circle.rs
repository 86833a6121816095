//! Machines that are listed edge by edge: places on a circle, edges across it; a circle a node.

use std::collections::BTreeMap;
use std::f64::consts::TAU;

use penny::sim::topology::{Network, units};

use super::canvas::{Canvas, Point};
use super::grid::parallel;
use super::{Link, port, what};

const BOX: Point = (34.0, 20.0);
/// Edges above which the legend has to do.
const MOST_LABELS: usize = 40;

/// Draws all of it.
pub fn draw(canvas: &mut Canvas, network: &Network) {
    let wired = port(network, "n0.g0.nic.tx").is_some();
    let (places, nodes) = match wired {
        true => (network.shape.per_node(), network.shape.nodes()),
        false => (network.shape.nranks(), 1),
    };
    // Room for a box and its neighbour's, and in a small circle for the labels.
    let radius = (f64::from(places) * 44.0 / TAU).max(230.0);
    let centre = radius + 60.0;
    let at = |rank: u32| -> Point {
        let turn = TAU * ((f64::from(rank % places) + 0.5) / f64::from(places) - 0.25);
        let aside = f64::from(rank / places) * 2.0 * centre;
        (aside + centre + radius * turn.cos(), radius + 30.0 + radius * turn.sin())
    };
    for rank in 0..places * nodes {
        canvas.block("place", at(rank), BOX, &format!("g{}", rank % places), &format!("place {rank}"));
    }
    let edges = edges(network, places);
    for link in &edges {
        let (from, to) = (at(link.from), at(link.to));
        for (from, to) in parallel(from, to, link.count) {
            canvas.link(from, to, link.class);
        }
        if edges.len() <= MOST_LABELS {
            // Off the middle where it is the circle's, and all the longest edges cross.
            let part = if (link.to - link.from) * 2 == places { 0.3 } else { 0.5 };
            canvas.label(
                (from.0 + (to.0 - from.0) * part, from.1 + (to.1 - from.1) * part),
                &what(network, link),
                link.class,
            );
        }
    }
    if let Some(nic) = port(network, "n0.g0.nic.tx") {
        let class = &network.classes[network.ports[nic as usize].class as usize];
        let rate = units::print_bandwidth(class.rate);
        canvas.note(&format!("Each place has a NIC besides, which joins the nodes: {} {rate}.", class.name));
    }
    if edges.iter().any(|link| link.count > 4) {
        canvas.note("More than four parallel links are drawn as four.");
    }
}

/// Each edge once, by the ports from the lower place: `g0.g3`, `g0.g3.1`, `n1.g0.g3`.
fn edges(network: &Network, places: u32) -> Vec<Link> {
    let mut edges: BTreeMap<(u32, u32), Link> = BTreeMap::new();
    for port in network.ports.iter() {
        let mut parts = port.name.split('.').peekable();
        let node = parts.next_if(|part| part.starts_with('n')).and_then(|part| part[1..].parse().ok());
        let first = node.unwrap_or(0) * places;
        let mut ends = parts.map_while(|part| Some(first + part.strip_prefix('g')?.parse::<u32>().ok()?));
        let (Some(from), Some(to)) = (ends.next(), ends.next()) else { continue };
        if from < to {
            let link = edges.entry((from, to)).or_insert(Link { from, to, class: port.class, count: 0 });
            link.count += 1;
        }
    }
    edges.into_values().collect()
}
