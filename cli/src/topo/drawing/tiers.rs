//! A cluster: tiers of switches over nodes; in a node its NICs, its PCIe switches, its places, its switch.

use std::collections::HashMap;

use penny::sim::topology::{Cluster, Network};

use super::canvas::{Canvas, Point};
use super::columns::{BOX, GAP, LEFT, PITCH, side_label};

/// From one tier to the next.
const TIER: f64 = 96.0;
/// From one row of a node to the next.
const ROW: f64 = 60.0;
/// Links of a tier above which no line of them could be told from the next.
const MOST_LINKS: usize = 4096;

/// What is drawn, and where.
struct Picture<'a> {
    network: &'a Network,
    cluster: &'a Cluster,
    /// The class of each port by its name.
    classes: HashMap<&'a str, u32>,
    node_width: f64,
    width: f64,
    /// Heights of the rows: NICs, PCIe switches, places, the node's switch.
    nics: f64,
    pcie: f64,
    places: f64,
    switch: f64,
}

/// Draws all of it.
pub fn draw(canvas: &mut Canvas, network: &Network, cluster: &Cluster) {
    let columns = network.shape.per_node().max(cluster.nics());
    let (nodes, node_width) = (network.shape.nodes(), f64::from(columns) * PITCH);
    let nics = 20.0 + TIER * cluster.switches().len() as f64;
    let pcie = if cluster.distance(0, 0).is_some() { nics + ROW } else { nics };
    let picture = Picture {
        network,
        cluster,
        classes: network.ports.iter().map(|port| (port.name.as_str(), port.class)).collect(),
        node_width,
        width: f64::from(nodes) * (node_width + GAP) - GAP,
        nics,
        pcie,
        places: pcie + ROW,
        switch: pcie + 2.0 * ROW,
    };
    picture.tiers(canvas);
    (0..nodes).for_each(|node| picture.node(canvas, node));
    for (name, y) in [
        ("n0.nic0.tx", nics - TIER / 2.0),
        ("n0.nic0.pcie.tx", nics + ROW / 2.0),
        ("n0.g0.nv.tx", picture.places + ROW / 2.0),
    ] {
        if let Some(&class) = picture.classes.get(name) {
            side_label(canvas, network, class, y);
        }
    }
    if pcie == nics {
        canvas.note("A NIC belongs to the places below it; no PCIe between them is declared.");
    }
    cluster.sentences().iter().for_each(|sentence| canvas.note(sentence));
}

impl Picture<'_> {
    /// Returns the middle of item `number` of `of` items side by side over the whole width.
    fn spread(&self, number: u32, of: u32) -> f64 {
        LEFT + self.width * (f64::from(number) + 0.5) / f64::from(of)
    }

    /// Returns the middle of item `number` of `of` items side by side over a node.
    fn in_node(&self, node: u32, number: u32, of: u32) -> f64 {
        let left = LEFT + f64::from(node) * (self.node_width + GAP);
        left + self.node_width * (f64::from(number) + 0.5) / f64::from(of)
    }

    /// Returns the height of a tier, the lowest being 0.
    fn height(&self, tier: usize) -> f64 {
        self.nics - TIER * (tier + 1) as f64
    }

    fn tiers(&self, canvas: &mut Canvas) {
        let tiers = self.cluster.switches();
        for (tier, &(name, number)) in tiers.iter().enumerate() {
            let y = self.height(tier);
            let width = (self.width / f64::from(number) * 0.8).min(self.width * 0.6);
            for switch in 0..number {
                let word = if width >= 40.0 { format!("{name} {switch}") } else { String::new() };
                let at = (self.spread(switch, number), y);
                canvas.block("tier", at, (width, BOX.1), &word, &format!("{name} {switch}"));
            }
            let uplinks = self.cluster.uplinks(tier);
            let Some(&(_, above)) = tiers.get(tier + 1) else { continue };
            let class = self.network.ports[uplinks.start as usize].class;
            side_label(canvas, self.network, class, y - TIER / 2.0);
            if uplinks.len() / 2 > MOST_LINKS {
                canvas.note(&format!("The {} links above {name} are too many to draw.", uplinks.len() / 2));
                continue;
            }
            for (link, port) in (0..).zip(uplinks.step_by(2)) {
                let (low, high) = self.cluster.ends(tier, link);
                let from = (self.spread(low, number), y - BOX.1 / 2.0);
                let to = (self.spread(high, above), self.height(tier + 1) + BOX.1 / 2.0);
                canvas.link(from, to, self.network.ports[port as usize].class);
            }
        }
    }

    fn node(&self, canvas: &mut Canvas, node: u32) {
        let (places, nics) = (self.network.shape.per_node(), self.cluster.nics());
        let middle = self.in_node(node, 0, 1);
        let frame = (self.node_width + 14.0, self.switch - self.nics + 64.0);
        canvas.block("frame", (middle, (self.nics + self.switch) / 2.0), frame, "", &format!("node {node}"));
        let words = (middle - self.node_width / 2.0, self.switch + 27.0);
        canvas.words(words, &format!("node {node}"), None);
        let leaves = self.cluster.switches()[0].1;
        for nic in 0..nics {
            let at = (self.in_node(node, nic, nics), self.nics);
            canvas.block("nic", at, BOX, "NIC", &format!("n{node}.nic{nic}"));
            let leaf = (self.spread(self.cluster.leaf_of(node, nic), leaves), self.height(0) + BOX.1 / 2.0);
            self.line(canvas, (at.0, at.1 - BOX.1 / 2.0), leaf, &format!("n{node}.nic{nic}.tx"));
        }
        if self.classes.contains_key(format!("n{node}.g0.nv.tx").as_str()) {
            let size = (self.node_width * 0.8, BOX.1);
            canvas.block("switch", (middle, self.switch), size, "switch", "joins the node's places");
        }
        for local in 0..places {
            let (at, place) = ((self.in_node(node, local, places), self.places), node * places + local);
            canvas.block("place", at, BOX, &format!("g{local}"), &format!("place {place}"));
            let down = (middle + (at.0 - middle) * 0.75, self.switch - BOX.1 / 2.0);
            self.line(canvas, (at.0, at.1 + BOX.1 / 2.0), down, &format!("n{node}.g{local}.nv.tx"));
            if self.pcie == self.nics {
                let nic = self.in_node(node, self.cluster.nic_of(place, 0), nics);
                canvas.tie((nic, self.nics + BOX.1 / 2.0), (at.0, at.1 - BOX.1 / 2.0));
            }
        }
        if self.pcie > self.nics {
            self.pcie_of(canvas, node, places, nics);
        }
    }

    /// The PCIe switches of a node with what hangs on them.
    fn pcie_of(&self, canvas: &mut Canvas, node: u32, places: u32, nics: u32) {
        let numbers = (0..places)
            .filter(|switch| self.classes.contains_key(format!("n{node}.pcie{switch}.tx").as_str()));
        // One switch has no link to a host bridge.
        let switches = (numbers.count() as u32).max(1);
        let at = |switch: u32| (self.in_node(node, switch, switches), self.pcie);
        for switch in 0..switches {
            let name = format!("n{node}.pcie{switch}");
            canvas.block("pcie", at(switch), (64.0, BOX.1), "PCIe", &name);
            if switch + 1 < switches {
                let (from, to) = (at(switch).0 + 32.0, at(switch + 1).0 - 32.0);
                self.line(canvas, (from, self.pcie), (to, self.pcie), &format!("{name}.tx"));
            }
        }
        let on = |number: u32, of: u32| at(number * switches / of).0;
        for nic in 0..nics {
            let from = (self.in_node(node, nic, nics), self.nics + BOX.1 / 2.0);
            let to = (on(nic, nics), self.pcie - BOX.1 / 2.0);
            self.line(canvas, from, to, &format!("n{node}.nic{nic}.pcie.tx"));
        }
        for place in 0..places {
            let from = (self.in_node(node, place, places), self.places - BOX.1 / 2.0);
            let to = (on(place, places), self.pcie + BOX.1 / 2.0);
            self.line(canvas, from, to, &format!("n{node}.g{place}.pcie.tx"));
        }
    }

    /// A line of a port's class, if there is such a port.
    fn line(&self, canvas: &mut Canvas, from: Point, to: Point, port: &str) {
        if let Some(&class) = self.classes.get(port) {
            canvas.link(from, to, class);
        }
    }
}
