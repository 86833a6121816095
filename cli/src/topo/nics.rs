//! The NICs of a machine, in the manner of `ibstatus`: rates are the payload's, one way.

use penny::sim::topology::faults::{FaultKind, PortFault};
use penny::sim::topology::{Network, PortId};

/// A line a NIC; nothing for a machine without any.
///
/// ```text
///     NIC        CLASS  RATE        STATE
///     n0.g0.nic  leaf   388 Gb/sec  Active
///     n0.g1.nic  leaf   388 Gb/sec  Down from 1000 us to 2100 us (tx)
/// ```
pub fn table(network: &Network) -> String {
    let nics: Vec<[String; 4]> = nics(network).map(|(name, ways)| row(network, name, ways)).collect();
    if nics.is_empty() {
        return String::new();
    }
    let rows: Vec<[String; 4]> =
        std::iter::once(["NIC", "CLASS", "RATE", "STATE"].map(String::from)).chain(nics).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let [name, class, rate] = [0, 1, 2].map(width);
    rows.iter().fold("\n".to_owned(), |text, [a, b, c, d]| {
        text + &format!("{a:<name$}  {b:<class$}  {c:<rate$}  {d}\n")
    })
}

/// Name, and the ports by which it transmits and receives, which stand side by side.
fn nics(network: &Network) -> impl Iterator<Item = (&str, [PortId; 2])> {
    let ports = (0..).zip(network.ports.iter());
    ports.filter_map(|(tx, port)| {
        let name = port.name.strip_suffix(".tx").filter(|name| name.ends_with(".nic"))?;
        let next = network.ports.get(tx as usize + 1)?;
        (next.name.strip_suffix(".rx") == Some(name)).then_some((name, [tx, tx + 1]))
    })
}

fn row(network: &Network, name: &str, ways: [PortId; 2]) -> [String; 4] {
    let [tx, rx] = ways.map(|port| network.class(port));
    let [out, into] = [tx, rx].map(|class| format!("{}", class.rate as f64 * 8e-9));
    let rate = if out == into { out } else { format!("{out} / {into}") };
    [name.to_owned(), tx.name.clone(), format!("{rate} Gb/sec"), state(network, ways)]
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
NIC        CLASS  RATE        STATE
n0.g0.nic  leaf   388 Gb/sec  Active
n0.g1.nic  leaf   388 Gb/sec  Down from 1000 us to 2100 us (tx)
";
        assert_eq!(table(&faulty(down)), expected);
    }

    #[test]
    fn a_fault_of_both_ways_is_told_once() {
        let crc = "[[fault]]\nlink = \"n0.g0.nic.*\"\nkind = \"crc\"\nrate = 1e-3\nretries = 7\nseed = 1\n";
        assert!(table(&faulty(crc)).contains("388 Gb/sec  Errors\n"), "{}", table(&faulty(crc)));
    }

    #[test]
    fn a_machine_without_nics_has_no_table() {
        assert_eq!(table(&topology::open("t3000").unwrap()), "");
    }
}
