//! Machines that are listed edge by edge: places on a circle, edges across it.

use std::collections::BTreeMap;
use std::f64::consts::TAU;

use penny::sim::topology::Network;

use super::canvas::{Canvas, Point};
use super::grid::parallel;
use super::{Link, what};

const BOX: Point = (34.0, 20.0);
/// Edges above which the legend has to do.
const MOST_LABELS: usize = 40;

/// Draws all of it.
pub fn draw(canvas: &mut Canvas, network: &Network) {
    let places = network.shape.nranks();
    // Room for a box and its neighbour's, and in a small circle for the labels.
    let radius = (f64::from(places) * 44.0 / TAU).max(230.0);
    let centre = radius + 60.0;
    let at = |place: u32| -> Point {
        let turn = TAU * ((f64::from(place) + 0.5) / f64::from(places) - 0.25);
        (centre + radius * turn.cos(), radius + 30.0 + radius * turn.sin())
    };
    for place in 0..places {
        canvas.block("place", at(place), BOX, &format!("g{place}"), &format!("place {place}"));
    }
    let edges = edges(network);
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
    if edges.iter().any(|link| link.count > 4) {
        canvas.note("More than four parallel links are drawn as four.");
    }
}

/// Each edge once, by the ports from the lower place: `g0.g3`, `g0.g3.1`.
fn edges(network: &Network) -> Vec<Link> {
    let mut edges: BTreeMap<(u32, u32), Link> = BTreeMap::new();
    for port in network.ports.iter() {
        let mut places = port.name.split('.').map_while(|part| part.strip_prefix('g')?.parse::<u32>().ok());
        let (Some(from), Some(to)) = (places.next(), places.next()) else { continue };
        if from < to {
            let link = edges.entry((from, to)).or_insert(Link { from, to, class: port.class, count: 0 });
            link.count += 1;
        }
    }
    edges.into_values().collect()
}
