//! The report of a job. It is printed as JSON, and text and screen are made from it.

use penny::internals::fabric::live::Snapshot;
use penny::internals::fabric::{PortCounters, PortState};
use penny::sim::topology::Network;
use serde::Serialize;

/// A job at one look. Times are those of the declared machine.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine as it was declared.
    pub machine: String,
    /// Sixteen digits that identify the machine.
    pub hash: String,
    /// The ranks' processes.
    pub pids: Vec<u32>,
    /// The number of ranks, of those that have joined, and of those that have left.
    pub ranks: usize,
    pub joined: usize,
    pub left: usize,
    /// The earliest and the latest of the ranks' clocks.
    pub least_clock_ps: u64,
    pub most_clock_ps: u64,
    /// Calls and transfers of all ranks.
    pub calls: u64,
    /// Entries that came too late to be served exactly.
    pub late: u64,
    /// Whether calls are in progress that are not in the counters yet.
    pub under_way: bool,
    /// The reason for which no call can end any more.
    pub deadlock: Option<String>,
    /// The progress of the latest clock since the last look.
    pub since_last_ps: Option<u64>,
    /// NICs, by node.
    pub nodes: Vec<Node>,
    /// Ports, in the machine's order.
    pub ports: Vec<Port>,
    /// How many of them there are in all.
    pub all_ports: usize,
}

/// The NICs of a node, since the last look or, if there was none, so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    pub name: String,
    pub nics: usize,
    pub transmitting: usize,
    pub receiving: usize,
    /// The NICs that neither transmit nor receive.
    pub idle: Vec<String>,
}

/// The traffic of a port.
#[derive(Clone, Debug, Serialize)]
pub struct Port {
    pub name: String,
    pub class: String,
    pub bytes: u64,
    pub messages: u64,
    pub busy_ps: u64,
    /// Share of all time in which it was taken.
    pub busy: f64,
    pub queue_high: u32,
    pub errors: u64,
    pub resends: u64,
    pub down_ps: u64,
    /// Since the last look.
    pub recent: Option<Recent>,
}

/// The traffic of a port since the last look.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Recent {
    pub bytes: u64,
    pub messages: u64,
    /// Share of the machine's time between the looks; nothing if that stood still.
    pub busy: Option<f64>,
}

impl Report {
    pub fn new(
        pids: &[u32],
        network: Option<&Network>,
        now: &Snapshot,
        before: Option<&Snapshot>,
        all: bool,
    ) -> Report {
        let (least_clock_ps, most_clock_ps) = now.span_ps();
        let since_last_ps = before.map(|before| most_clock_ps.saturating_sub(before.span_ps().1));
        let port = |(number, port): (usize, &PortState)| {
            let earlier = before.and_then(|before| before.ports.get(number));
            let (name, class) = named(network, number);
            line(name, class, &port.counters, most_clock_ps, earlier.map(|e| &e.counters).zip(since_last_ps))
        };
        let mut ports: Vec<Port> = now.ports.iter().enumerate().map(port).collect();
        let nodes = nodes(&ports);
        if !all {
            ports.retain(|port| port.messages > 0 || port.errors > 0);
        }
        Report {
            machine: now.spec.clone(),
            hash: format!("{:016x}", now.network),
            pids: pids.to_vec(),
            ranks: now.clocks.len(),
            joined: now.clocks.iter().filter(|rank| rank.pid != 0).count(),
            left: now.clocks.iter().filter(|rank| rank.left).count(),
            least_clock_ps,
            most_clock_ps,
            calls: now.calls,
            late: now.late,
            under_way: now.under_way,
            deadlock: now.halted.clone(),
            since_last_ps,
            nodes,
            ports,
            all_ports: now.ports.len(),
        }
    }
}

/// Name and class of a port; its number if the machine's file is gone or another one now.
fn named(network: Option<&Network>, number: usize) -> (String, String) {
    match network.filter(|network| number < network.ports.len()) {
        Some(network) => (network.ports[number].name.clone(), network.class(number as u32).name.clone()),
        None => (format!("port {number}"), "?".into()),
    }
}

fn share(busy_ps: u64, of_ps: u64) -> Option<f64> {
    (of_ps > 0).then(|| busy_ps as f64 / of_ps as f64)
}

fn line(
    name: String,
    class: String,
    c: &PortCounters,
    all_ps: u64,
    earlier: Option<(&PortCounters, u64)>,
) -> Port {
    let recent = earlier.map(|(earlier, ps)| Recent {
        bytes: c.bytes.saturating_sub(earlier.bytes),
        messages: c.messages.saturating_sub(earlier.messages),
        busy: share(c.busy_ps.saturating_sub(earlier.busy_ps), ps),
    });
    Port {
        name,
        class,
        bytes: c.bytes,
        messages: c.messages,
        busy_ps: c.busy_ps,
        busy: share(c.busy_ps, all_ps).unwrap_or(0.0),
        queue_high: c.queue_high,
        errors: c.errors,
        resends: c.resends,
        down_ps: c.down_ps,
        recent,
    }
}

/// A NIC that carried less than this part of what the busiest one did is idle: a barrier or a table of results between
/// two calls is not what they are there for.
const IDLE: u64 = 100;

/// Tells whether this is a NIC's name on a cluster.
fn of_cluster(name: &str) -> bool {
    let number = name.split_once('.').and_then(|(_, nic)| nic.strip_prefix("nic"));
    number.is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
}

/// The NICs of each node, by the names of their ports: `n0.g3.nic.tx`, and `n0.nic3.tx` of a cluster.
fn nodes(ports: &[Port]) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    // A NIC's two ports stand side by side.
    let mut active: Vec<(String, [bool; 2])> = Vec::new();
    let direction = |port: &Port| {
        let (name, direction) = port.name.rsplit_once('.')?;
        let name = match name.strip_suffix(".nic") {
            Some(place) => place,
            None => Some(name).filter(|name| of_cluster(name))?,
        };
        let way = ["tx", "rx"].iter().position(|way| *way == direction)?;
        let carried = port.recent.map_or((port.messages, port.bytes), |r| (r.messages, r.bytes));
        Some((name.to_owned(), way, carried))
    };
    let busiest = ports.iter().filter_map(direction).map(|(_, _, (_, bytes))| bytes).max().unwrap_or(0);
    for (name, way, (messages, bytes)) in ports.iter().filter_map(direction) {
        let carries = messages > 0 && bytes >= busiest / IDLE;
        if active.last().is_none_or(|(last, _)| *last != name) {
            active.push((name, [false; 2]));
        }
        if let Some((_, ways)) = active.last_mut() {
            ways[way] |= carries;
        }
    }
    for (name, [transmits, receives]) in active {
        let (node, nic) = name.split_once('.').unwrap_or(("", &name));
        if nodes.last().is_none_or(|last| last.name != node) {
            let name = node.to_owned();
            nodes.push(Node { name, nics: 0, transmitting: 0, receiving: 0, idle: Vec::new() });
        }
        if let Some(last) = nodes.last_mut() {
            last.nics += 1;
            last.transmitting += usize::from(transmits);
            last.receiving += usize::from(receives);
            if !transmits && !receives {
                last.idle.push(nic.to_owned());
            }
        }
    }
    nodes
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use penny::internals::fabric::live::RankClock;
    use penny::sim::topology;

    /// Two nodes of two places; NIC 1 of node 0 has sent to NIC 1 of node 1, at two looks.
    pub fn looks() -> (Network, Snapshot, Snapshot) {
        let network = topology::open("dgx-h100:nodes=2,places=2").unwrap();
        let look = |times: u64| Snapshot {
            spec: "dgx-h100:nodes=2,places=2".into(),
            network: network.hash(),
            clocks: [1, 2, 2, 2]
                .map(|k| RankClock { clock_ps: k * times * 1000, pid: 7, left: false })
                .into(),
            calls: times,
            late: 0,
            under_way: false,
            halted: None,
            ports: network
                .ports
                .iter()
                .map(|port| {
                    let used = ["n0.g1.nic.tx", "n1.g1.nic.rx"].contains(&port.name.as_str());
                    let k = if used { times } else { 0 };
                    let counters = PortCounters {
                        bytes: 4096 * k,
                        messages: k,
                        busy_ps: 500 * k,
                        ..PortCounters::default()
                    };
                    PortState { free_ps: 0, counters }
                })
                .collect(),
        };
        let (before, now) = (look(1), look(3));
        (network, before, now)
    }

    #[test]
    fn a_port_that_carried_something_is_a_line_with_its_shares_of_time() {
        let (network, before, now) = looks();
        let report = Report::new(&[7], Some(&network), &now, Some(&before), false);
        let names: Vec<&str> = report.ports.iter().map(|port| port.name.as_str()).collect();
        assert_eq!(names, ["n0.g1.nic.tx", "n1.g1.nic.rx"]);
        let recent = report.ports[0].recent.unwrap();
        assert_eq!((report.ports[0].bytes, recent.bytes, recent.messages), (12288, 8192, 2));
        assert_eq!((report.ports[0].busy, recent.busy), (0.25, Some(0.25)), "1500 of 6000, 1000 of 4000");
        assert_eq!(
            (report.least_clock_ps, report.most_clock_ps, report.since_last_ps),
            (3000, 6000, Some(4000))
        );
        assert_eq!(Report::new(&[7], Some(&network), &now, None, true).ports.len(), network.ports.len());
    }

    #[test]
    fn nodes_tell_which_nics_are_idle() {
        let (network, before, now) = looks();
        let node = |name: &str, transmitting, receiving| Node {
            name: name.into(),
            nics: 2,
            transmitting,
            receiving,
            idle: vec!["g0".into()],
        };
        let report = Report::new(&[7], Some(&network), &now, Some(&before), false);
        assert_eq!(report.nodes, [node("n0", 1, 0), node("n1", 0, 1)]);
        let still = Report::new(&[7], Some(&network), &now, Some(&now), false);
        assert!(still.nodes.iter().all(|node| node.idle == ["g0", "g1"]), "nothing since the last look");
        assert_eq!(still.ports[0].recent.unwrap().busy, None, "time stood still");
    }

    #[test]
    fn a_nic_that_carried_next_to_nothing_is_idle() {
        let (network, _, mut now) = looks();
        let other = network.ports.iter().position(|port| port.name == "n0.g0.nic.tx").unwrap();
        let idle = |now: &Snapshot| Report::new(&[7], Some(&network), now, None, false).nodes[0].idle.len();
        now.ports[other].counters = PortCounters { bytes: 100, messages: 9, ..PortCounters::default() };
        assert_eq!(idle(&now), 1, "100 of 12288 bytes");
        now.ports[other].counters.bytes = 200;
        assert_eq!(idle(&now), 0);
    }

    #[test]
    fn ports_have_numbers_where_the_machine_is_not_to_be_had() {
        let (network, _, now) = looks();
        let report = Report::new(&[7], None, &now, None, false);
        assert!(report.ports.iter().all(|port| port.name.starts_with("port ")), "{:?}", network.name);
        assert!(report.nodes.is_empty());
    }
}
