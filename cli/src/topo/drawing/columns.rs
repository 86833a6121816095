//! Switches over what hangs on them: nodes on rails, and places on one switch.

use penny::sim::topology::{Network, units};

use super::canvas::{Canvas, Point};
use super::port;

/// Where the drawing begins, beside its labels.
pub const LEFT: f64 = 112.0;
/// From the middle of one place to the next.
pub const PITCH: f64 = 46.0;
/// Between two nodes.
pub const GAP: f64 = 36.0;
/// Width and height of a place or a NIC.
pub const BOX: Point = (38.0, 22.0);
/// Heights of the rows: the spine or the one switch, leaves, NICs, places, a node's switch.
const SPINE: f64 = 20.0;
const LEAVES: f64 = 104.0;
const NICS: f64 = 244.0;
const PLACES: f64 = 300.0;
const SWITCH: f64 = 366.0;

/// `[nodes]`
pub fn nodes(canvas: &mut Canvas, network: &Network) {
    let [places, nodes, _] = network.shape.0;
    let class = |name: String| port(network, &name).map(|id| network.ports[id as usize].class);
    let node_width = f64::from(places) * PITCH;
    let x = |node: u32, place: u32| {
        LEFT + f64::from(node) * (node_width + GAP) + (f64::from(place) + 0.5) * PITCH
    };
    let width = f64::from(nodes) * (node_width + GAP) - GAP;
    let middle = LEFT + width / 2.0;
    let spine = class("n0.g0.spine".to_owned());
    let leaf = |place: u32| LEFT + width * (f64::from(place) + 0.5) / f64::from(places);
    if spine.is_some() {
        canvas.block("spine", (middle, SPINE), (width * 0.6, BOX.1), "spine", "joins the rails");
        for place in 0..places {
            let at = (leaf(place), LEAVES);
            let hint = format!("the switch of all NICs {place}");
            canvas.block("leaf", at, (52.0, BOX.1), &format!("leaf {place}"), &hint);
            // Every node has a way up of its own; one line stands for them, the slowest.
            let ups = (0..nodes).filter_map(|node| class(format!("n{node}.g{place}.spine")));
            if let Some(up) = ups.min_by_key(|&class| network.classes[class as usize].rate) {
                let foot = middle + (at.0 - middle) * 0.5;
                canvas.link((at.0, LEAVES - BOX.1 / 2.0), (foot, SPINE + BOX.1 / 2.0), up);
            }
        }
    } else {
        canvas.block("spine", (middle, LEAVES), (width * 0.6, BOX.1), "switch of all NICs", "");
    }
    for node in 0..nodes {
        let centre = (x(node, 0) + x(node, places - 1)) / 2.0;
        let frame = (node_width + 14.0, SWITCH - NICS + 64.0);
        canvas.block("frame", (centre, (NICS + SWITCH) / 2.0), frame, "", &format!("node {node}"));
        canvas.words((x(node, 0) - PITCH / 2.0, SWITCH + 27.0), &format!("node {node}"), None);
        canvas.block(
            "switch",
            (centre, SWITCH),
            (node_width * 0.8, BOX.1),
            "switch",
            "joins the node's places",
        );
        for place in 0..places {
            let (at, rank) = (x(node, place), node * places + place);
            canvas.block("nic", (at, NICS), BOX, "NIC", &format!("n{node}.g{place}.nic"));
            canvas.block("place", (at, PLACES), BOX, &format!("g{place}"), &format!("place {rank}"));
            canvas.tie((at, NICS + BOX.1 / 2.0), (at, PLACES - BOX.1 / 2.0));
            if let Some(nic) = class(format!("n{node}.g{place}.nic.tx")) {
                let up = if spine.is_some() { leaf(place) } else { middle + (at - middle) * 0.55 };
                canvas.link((at, NICS - BOX.1 / 2.0), (up, LEAVES + BOX.1 / 2.0), nic);
            }
            if let Some(inside) = class(format!("n{node}.g{place}.nv.tx")) {
                let down = centre + (at - centre) * 0.75;
                canvas.link((at, PLACES + BOX.1 / 2.0), (down, SWITCH - BOX.1 / 2.0), inside);
            }
        }
    }
    let rows =
        [(spine, SPINE + 42.0), (class("n0.g0.nic.tx".into()), 160.0), (class("n0.g0.nv.tx".into()), 333.0)];
    for (class, y) in rows {
        if let Some(class) = class {
            side_label(canvas, network, class, y);
        }
    }
    if nodes > 1 {
        canvas.note("A NIC belongs to the place below it; no link between the two is modelled.");
    }
}

/// `[switch]`
pub fn switch(canvas: &mut Canvas, network: &Network) {
    const ACROSS: u32 = 16;
    let places = network.shape.nranks();
    let across = places.min(ACROSS);
    let width = f64::from(across) * PITCH;
    let middle = LEFT + width / 2.0;
    canvas.block("switch", (middle, SPINE), (width.max(80.0), BOX.1), "switch", "");
    for place in 0..places {
        let (row, column) = (place / ACROSS, place % ACROSS);
        // Rows are a little apart sideways, so that the lines to the rows below show.
        let x = LEFT + (f64::from(column) + 0.5) * PITCH + f64::from(row) * 7.0;
        let at = (x, 100.0 + 50.0 * f64::from(row));
        canvas.block("place", at, BOX, &format!("g{place}"), &format!("place {place}"));
        if let Some(id) = port(network, &format!("g{place}.tx")) {
            canvas.link((x, at.1 - BOX.1 / 2.0), (x, SPINE + BOX.1 / 2.0), network.ports[id as usize].class);
        }
    }
    if let Some(first) = network.ports.first() {
        side_label(canvas, network, first.class, 58.0);
    }
}

/// Class and rate at the left of the row whose links they are of.
pub fn side_label(canvas: &mut Canvas, network: &Network, class: u32, y: f64) {
    let about = &network.classes[class as usize];
    canvas.words((16.0, y - 6.0), &about.name, Some(class));
    canvas.words((16.0, y + 7.0), &units::print_bandwidth(about.rate), Some(class));
}
