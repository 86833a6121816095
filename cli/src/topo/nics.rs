//! The NICs of a machine, in the manner of `ibstatus`: their line rates, one way, and how far they are from devices.

use penny::sim::topology::faults::{FaultKind, PortFault};
use penny::sim::topology::{Cluster, Network, PortId, loads};

/// A line a NIC; nothing for a machine without any.
///
/// ```text
///     NIC        CLASS  RATE        PAYLOAD     STATE
///     n0.g0.nic  leaf   400 Gb/sec  388 Gb/sec  Active
///     n0.g1.nic  leaf   400 Gb/sec  388 Gb/sec  Down from 1000 us to 2100 us (tx)
/// ```
pub fn table(network: &Network) -> String {
    let nics: Vec<[String; 5]> = nics(network).map(|(name, ways)| row(network, name, ways)).collect();
    if nics.is_empty() {
        return String::new();
    }
    let head = ["NIC", "CLASS", "RATE", "PAYLOAD", "STATE"].map(String::from);
    aligned(std::iter::once(head.to_vec()).chain(nics.into_iter().map(Vec::from)).collect())
}

/// Columns one beside the other, after an empty line.
fn aligned(rows: Vec<Vec<String>>) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    rows.iter().fold("\n".to_owned(), |text, row| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
        text + cells.collect::<Vec<_>>().join("  ").trim_end() + "\n"
    })
}

/// The switches of each tier, the distances within a node, and how a shift lies on the uplinks; nothing for a machine that is no cluster.
///
/// ```text
///     leaf: 4 switches, 4 links down, 2 up each
///     ecmp: if each place sends to the one half of the machine away, leaf: 16 flows on 6 of 8 uplinks, ...
///
///         NIC0  NIC1
///     g0  PIX   SYS
/// ```
pub fn cluster(network: &Network) -> String {
    let Some(cluster) = network.routes.cluster() else { return String::new() };
    let mut text = cluster.sentences().iter().fold("\n".to_owned(), |text, line| text + line + "\n");
    let places = network.shape.nranks();
    let shift = (0..places).map(|from| (from, (from + places / 2) % places, 0));
    for load in loads(network, shift).iter().filter(|load| load.flows > 0) {
        text += &format!(
            "if each place sends to the one half of the machine away, {}\n",
            crate::sim::uplinks::sentence(load)
        );
    }
    text + &distances(network, cluster)
}

/// How far the NICs of a node are from its devices, as `nvidia-smi topo -m` has it.
fn distances(network: &Network, cluster: &Cluster) -> String {
    if cluster.distance(0, 0).is_none() {
        return String::new();
    }
    let mut rows = vec![vec![String::new()]];
    rows[0].extend((0..cluster.nics()).map(|nic| format!("NIC{nic}")));
    for device in 0..network.shape.per_node() {
        let to = |nic| cluster.distance(device, nic).map_or("", |distance| distance.name()).to_owned();
        rows.push(std::iter::once(format!("g{device}")).chain((0..cluster.nics()).map(to)).collect());
    }
    aligned(rows)
}

/// Name, and the ports by which it transmits and receives, which stand side by side.
fn nics(network: &Network) -> impl Iterator<Item = (&str, [PortId; 2])> {
    let ports = (0..).zip(network.ports.iter());
    ports.filter_map(|(tx, port)| {
        let name = port.name.strip_suffix(".tx").filter(|name| is_nic(name))?;
        let next = network.ports.get(tx as usize + 1)?;
        (next.name.strip_suffix(".rx") == Some(name)).then_some((name, [tx, tx + 1]))
    })
}

/// `n0.g3.nic` of nodes, `n0.nic3` of a cluster.
fn is_nic(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    last.strip_prefix("nic").is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
}

fn row(network: &Network, name: &str, ways: [PortId; 2]) -> [String; 5] {
    let [tx, rx] = ways.map(|port| network.class(port));
    let gigabits = |out: u64, into: u64| {
        let [out, into] = [out, into].map(|rate| format!("{}", rate as f64 * 8e-9));
        format!("{} Gb/sec", if out == into { out } else { format!("{out} / {into}") })
    };
    let (line, payload) = (gigabits(tx.line_rate, rx.line_rate), gigabits(tx.rate, rx.rate));
    [name.to_owned(), tx.name.clone(), line, payload, state(network, ways)]
}

/// What faults do to either of its ports, and when.
fn state(network: &Network, ways: [PortId; 2]) -> String {
    let at = |port: PortId| network.faults.iter().filter(move |fault| fault.port == port);
    let mut told: Vec<(&PortFault, String)> = Vec::new();
    for fault in at(ways[0]) {
        let both = at(ways[1]).any(|other| PortFault { port: ways[0], ..*other } == *fault);
        told.push((fault, if both { String::new() } else { " (tx)".into() }));
    }
    for fault in at(ways[1]) {
        if !at(ways[0]).any(|other| PortFault { port: ways[1], ..*other } == *fault) {
            told.push((fault, " (rx)".into()));
        }
    }
    told.sort_by_key(|(fault, _)| fault.from_ps);
    let texts: Vec<String> = told.iter().map(|(fault, way)| format!("{}{way}", text(fault))).collect();
    if texts.is_empty() { "Active".into() } else { texts.join(", ") }
}

fn text(fault: &PortFault) -> String {
    let what = match fault.kind {
        FaultKind::Down => "Down",
        FaultKind::Slow(_) => "Slow",
        FaultKind::Crc(_) => "Errors",
    };
    let us = |ps: u64| format!("{} us", ps as f64 / 1e6);
    match (fault.from_ps, fault.until_ps) {
        (0, u64::MAX) => what.to_owned(),
        (from, u64::MAX) => format!("{what} from {}", us(from)),
        (from, until) => format!("{what} from {} to {}", us(from), us(until)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penny::sim::topology;

    fn faulty(more: &str) -> Network {
        let (_, preset) = topology::presets().iter().find(|(name, _)| *name == "dgx-h100").unwrap();
        topology::parse("m.toml", &format!("{preset}\n{more}"), &[("places".into(), "2".into())]).unwrap()
    }

    #[test]
    fn nics_have_a_rate_and_are_active_unless_a_fault_says_otherwise() {
        let down = "[[fault]]\nlink = \"n0.g1.nic.tx\"\nkind = \"down\"\nat = \"1ms\"\nfor = \"1ms\"\nretrain = \"100us\"\n";
        let expected = "
NIC        CLASS  RATE        PAYLOAD     STATE
n0.g0.nic  leaf   400 Gb/sec  388 Gb/sec  Active
n0.g1.nic  leaf   400 Gb/sec  388 Gb/sec  Down from 1000 us to 2100 us (tx)
";
        assert_eq!(table(&faulty(down)), expected);
    }

    #[test]
    fn a_fault_of_both_ways_is_told_once() {
        let crc = "[[fault]]\nlink = \"n0.g0.nic.*\"\nkind = \"crc\"\nrate = 1e-3\nretries = 7\nseed = 1\n";
        assert!(table(&faulty(crc)).contains("388 Gb/sec  Errors\n"), "{}", table(&faulty(crc)));
    }

    #[test]
    fn a_cluster_shows_its_tiers_its_collisions_and_its_distances() {
        let text = "name = \"m\"\n[class.w]\nbw = \"400Gbps\"\nlat = \"1us\"\n[cluster]\nplaces = 4\nnodes = 4\nnic = \"w\"\nnics = 2\n\
             [cluster.pcie]\nlink = \"w\"\nswitches = 4\nhosts = 2\nsmp = \"w\"\n[[cluster.tier]]\ndown = 4\nuplink = \"w\"\n\
             oversubscription = \"2:1\"\n[[cluster.tier]]\n";
        let network = topology::parse("m.toml", text, &[]).unwrap();
        let shown = cluster(&network);
        assert!(
            shown.starts_with(
                "\nleaf: 2 switches, 4 links down, 2 up each\nspine: 2 switches, 2 links down\n"
            ),
            "{shown}"
        );
        assert!(shown.contains("half of the machine away, leaf: 16 flows on "), "{shown}");
        assert!(
            shown.ends_with("\n    NIC0  NIC1\ng0  PIX   SYS\ng1  PHB   SYS\ng2  SYS   PIX\ng3  SYS   PHB\n"),
            "{shown}"
        );
        assert_eq!(table(&network).lines().nth(2), Some("n0.nic0  w      400 Gb/sec  400 Gb/sec  Active"));
        assert_eq!(cluster(&topology::open("dgx-h100").unwrap()), "");
    }

    #[test]
    fn a_machine_without_nics_has_no_table() {
        assert_eq!(table(&topology::open("t3000").unwrap()), "");
    }
}
