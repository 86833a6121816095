//! Rings, lines, meshes, tori and grids of unlike axes as they stand: the first axis to the right, the second up, the third
//! slanting.

use penny::sim::topology::Network;

use super::canvas::{Canvas, Point};
use super::{Link, what};

const BOX: Point = (34.0, 20.0);
/// How far a wrapping link shows beyond its place.
const STUB: f64 = 14.0;
/// Links above which only the first of each axis says what it is.
const MOST_LABELS: usize = 40;

/// A link along an axis.
struct Step {
    link: Link,
    axis: usize,
    end: End,
}

/// Where a link leads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Place,
    /// Round to the other end of the axis.
    Wraps,
    /// Into the switch of the axis, which has no place in the picture.
    Switch,
}

/// What a port is for, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `g3.x+`, `g3.x+.1`
    Up,
    /// `g3.x.tx`
    IntoSwitch,
    /// `g3.x.5`: to the place at that coordinate.
    To(u32),
    /// The other direction of one of these.
    Back,
}

/// Returns place, axis and way of a port along an axis; `None` if the port is no such.
pub fn along_an_axis(name: &str) -> Option<(u32, usize, Way)> {
    let mut parts = name.split('.');
    let place = parts.next()?.strip_prefix('g')?.parse().ok()?;
    let word = parts.next()?;
    let axis = ["x", "y", "z"].iter().position(|axis| word.starts_with(axis))?;
    let way = match (&word[1..], parts.next()) {
        ("+", _) => Way::Up,
        ("-", _) | ("", Some("rx")) => Way::Back,
        ("", Some("tx")) => Way::IntoSwitch,
        ("", Some(to)) => Way::To(to.parse().ok()?),
        _ => return None,
    };
    Some((place, axis, way))
}

/// Draws all of it.
pub fn draw(canvas: &mut Canvas, network: &Network) {
    let [_, rows, planes] = network.shape.0;
    let deep = f64::from(planes - 1);
    let steps = steps(network);
    let straight = steps.iter().filter(|step| step.end == End::Place).count();
    // Room for a label between two places; planes that slant need more.
    let flat = if straight <= MOST_LABELS { 132.0 } else { 92.0 };
    let (across, up) = (flat + 32.0 * deep, 62.0 + 26.0 * deep);
    let at = |place: u32| -> Point {
        let [x, y, z] = network.shape.coordinates(place).map(f64::from);
        (56.0 + x * across + z * 44.0, 28.0 + (f64::from(rows - 1) - y) * up + (deep - z) * 34.0)
    };
    for place in 0..network.shape.nranks() {
        canvas.block("place", at(place), BOX, &format!("g{place}"), &format!("place {place}"));
    }
    let mut labelled = [false; 3];
    for step in &steps {
        let (from, to) = (at(step.link.from), at(step.link.to));
        if step.end != End::Place {
            let (dx, dy) = [(1.0, 0.0), (0.0, -1.0), (0.8, -0.6)][step.axis];
            let reach = [BOX.0 / 2.0, BOX.1 / 2.0, BOX.0 / 2.0][step.axis] + STUB;
            let ends = [(from, 1.0), (to, -1.0)];
            for (end, sign) in ends.into_iter().take(if step.end == End::Wraps { 2 } else { 1 }) {
                canvas.wrap(end, (end.0 + sign * dx * reach, end.1 + sign * dy * reach), step.link.class);
            }
            continue;
        }
        for (from, to) in parallel(from, to, step.link.count) {
            canvas.link(from, to, step.link.class);
        }
        if straight <= MOST_LABELS || !std::mem::replace(&mut labelled[step.axis], true) {
            let middle = ((from.0 + to.0) / 2.0, (from.1 + to.1) / 2.0);
            canvas.label(middle, &what(network, &step.link), step.link.class);
        }
    }
    let any = |end: End| steps.iter().any(|step| step.end == end);
    if any(End::Wraps) {
        canvas.note("Dashed ends at the rims join the opposite rim.");
    }
    if any(End::Switch) {
        canvas.note(if any(End::Wraps) {
            "Dashed ends elsewhere lead into the switch of their row."
        } else {
            "Dashed ends lead into the switch of their row."
        });
    }
}

/// Each edge once, by the port that goes up its axis.
fn steps(network: &Network) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for port in network.ports.iter() {
        let Some((from, axis, way)) = along_an_axis(&port.name) else { continue };
        let mut there = network.shape.coordinates(from);
        let (own, extent) = (there[axis], network.shape.0[axis]);
        let (next, end) = match way {
            Way::Up if own + 1 < extent => (own + 1, End::Place),
            // A ring of two has one wire, and one port at each end.
            Way::Up if extent == 2 && has_no_port_back(network, from, axis) => continue,
            Way::Up => (0, End::Wraps),
            Way::IntoSwitch => (own, End::Switch),
            Way::To(other) if own < other && other < extent => (other, End::Place),
            Way::To(_) | Way::Back => continue,
        };
        there[axis] = next;
        let to = network.shape.rank(there);
        match steps.last_mut().map(|step| (&mut step.link, step.axis)) {
            // The slowest of parallel links stands for them.
            Some((link, last)) if last == axis && link.from == from && link.to == to => {
                link.count += 1;
                let rate = |class: u32| network.classes[class as usize].rate;
                if rate(port.class) < rate(link.class) {
                    link.class = port.class;
                }
            }
            _ => {
                let link = Link { from, to, class: port.class, count: 1 };
                steps.push(Step { link, axis, end });
            }
        }
    }
    steps
}

/// Tells whether a place has no port down an axis.
fn has_no_port_back(network: &Network, place: u32, axis: usize) -> bool {
    let name = format!("g{place}.{}-", ["x", "y", "z"][axis]);
    !network.ports.iter().any(|port| port.name.starts_with(&name))
}

/// Lines side by side; more than four are too many to count by eye.
pub fn parallel(from: Point, to: Point, count: u32) -> Vec<(Point, Point)> {
    let shown = count.clamp(1, 4);
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = (dx * dx + dy * dy).sqrt().max(1.0);
    let aside = |number: u32| {
        let offset = 3.0 * (f64::from(number) - f64::from(shown - 1) / 2.0);
        let (x, y) = (-dy / length * offset, dx / length * offset);
        ((from.0 + x, from.1 + y), (to.0 + x, to.1 + y))
    };
    (0..shown).map(aside).collect()
}
