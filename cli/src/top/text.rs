//! A report as lines of text.
//!
//! ```text
//!     dgx-h100:nodes=2  16 of 16 ranks  clocks 41.2 to 43.0 us  12 calls
//!     n0: 8 of 8 NICs transmit, 8 receive
//!     PORT          CLASS   BYTES  MESSAGES  BUSY  +BYTES  +MESSAGES  +BUSY  QUEUE  ERRORS  RESENDS  DOWN
//! ```

use super::jobs::JobReport;
use super::ranks_text;
use super::report::{Node, Port, Report};

/// Nodes that have a line of their own.
const NODES: usize = 16;
/// Idle NICs of a node that are named.
const IDLE: usize = 16;

/// The lines of a report.
pub struct Lines {
    pub head: Vec<String>,
    pub columns: String,
    pub rows: Vec<String>,
}

impl Lines {
    pub fn of(report: &JobReport) -> Lines {
        match report {
            JobReport::Ports(report) => {
                Lines { head: head(report), columns: columns(report), rows: rows(report) }
            }
            JobReport::Ranks(report) => Lines {
                head: ranks_text::head(report),
                columns: ranks_text::columns(report),
                rows: ranks_text::rows(report),
            },
        }
    }

    /// Returns all of them.
    pub fn whole(self) -> String {
        let lines = self.head.into_iter().chain([self.columns]).chain(self.rows);
        lines.map(|line| line + "\n").collect()
    }
}

/// Returns the lines about the job.
fn head(report: &Report) -> Vec<String> {
    let mut first = format!("{}  {}", report.machine, ranks(report));
    first += &format!("  clocks {} to {}", time(report.least_clock_ps), time(report.most_clock_ps));
    if let Some(ps) = report.since_last_ps {
        first += &format!(" (+{})", time(ps));
    }
    first += &format!("  {} calls", report.calls);
    if report.late > 0 {
        first += &format!("  {} served late", report.late);
    }
    if report.under_way {
        first += "  (more under way, not counted yet)";
    }
    let mut lines = vec![first];
    lines.extend(report.deadlock.clone());
    lines.extend(report.nodes.iter().take(NODES).map(nics));
    if let Some(more) = report.nodes.len().checked_sub(NODES).filter(|&more| more > 0) {
        let rest = &report.nodes[NODES..];
        let sum = |count: fn(&Node) -> usize| rest.iter().map(count).sum::<usize>();
        lines.push(format!(
            "{more} more nodes: {} of {} NICs transmit, {} receive",
            sum(|n| n.transmitting),
            sum(|n| n.nics),
            sum(|n| n.receiving)
        ));
    }
    lines
}

/// Tells the ranks' processes.
pub fn processes(pids: &[u32]) -> String {
    match pids {
        [one] => format!("process {one}"),
        [first, .., last] => format!("{} processes {first} to {last}", pids.len()),
        [] => "processes gone".to_owned(),
    }
}

fn ranks(report: &Report) -> String {
    let mut text = format!("{} ranks ({})", report.ranks, processes(&report.pids));
    if report.joined < report.ranks {
        text += &format!(", {} not there yet", report.ranks - report.joined);
    }
    if report.left > 0 {
        text += &format!(", {} left", report.left);
    }
    text
}

fn nics(node: &Node) -> String {
    let Node { name, nics, transmitting, receiving, idle } = node;
    let mut line = format!("{name}: {transmitting} of {nics} NICs transmit, {receiving} of {nics} receive");
    if !idle.is_empty() {
        line += &format!(", idle: {}", idle.iter().take(IDLE).cloned().collect::<Vec<_>>().join(" "));
        if idle.len() > IDLE {
            line += &format!(" and {} more", idle.len() - IDLE);
        }
    }
    line
}

/// The widest name, for a column of it.
fn widths(report: &Report) -> (usize, usize) {
    let widest = |text: fn(&Port) -> &str| report.ports.iter().map(|port| text(port).chars().count()).max();
    let (names, classes) = (widest(|port| &port.name), widest(|port| &port.class));
    (names.unwrap_or(0).max(4), classes.unwrap_or(0).max(5))
}

/// The table's first line.
fn columns(report: &Report) -> String {
    let (name, class) = widths(report);
    let mut line =
        format!("{:<name$}  {:<class$}  {:>9}  {:>10}  {:>6}", "PORT", "CLASS", "BYTES", "MESSAGES", "BUSY");
    if report.since_last_ps.is_some() {
        line += &format!("  {:>9}  {:>10}  {:>6}", "+BYTES", "+MESSAGES", "+BUSY");
    }
    line + &format!("  {:>6}  {:>6}  {:>7}  {:>9}", "QUEUE", "ERRORS", "RESENDS", "DOWN")
}

/// A line a port.
fn rows(report: &Report) -> Vec<String> {
    let (name, class) = widths(report);
    let row = |port: &Port| {
        let mut line = format!(
            "{:<name$}  {:<class$}  {:>9}  {:>10}  {:>6}",
            port.name,
            port.class,
            bytes(port.bytes),
            port.messages,
            percent(Some(port.busy))
        );
        if let Some(recent) = port.recent {
            let busy = percent(recent.busy);
            line += &format!("  {:>9}  {:>10}  {busy:>6}", bytes(recent.bytes), recent.messages);
        }
        let down = if port.down_ps == 0 { "0".into() } else { time(port.down_ps) };
        line + &format!("  {:>6}  {:>6}  {:>7}  {down:>9}", port.queue_high, port.errors, port.resends)
    };
    let mut rows: Vec<String> = report.ports.iter().map(row).collect();
    if rows.is_empty() {
        rows.push(format!("none of {} ports has carried anything yet", report.all_ports));
    }
    rows
}

pub fn percent(share: Option<f64>) -> String {
    share.map_or("-".into(), |share| format!("{:.1}%", share * 100.0))
}

/// Three digits or so, and a unit that fits them.
pub fn scaled(value: u64, units: &[(f64, &str)]) -> String {
    let value = value as f64;
    let &(unit, name) = units.iter().rev().find(|(unit, _)| value >= *unit).unwrap_or(&units[0]);
    let number = value / unit;
    let digits = if unit == units[0].0 || number >= 1000.0 {
        0
    } else {
        2 - (number >= 10.0) as usize - (number >= 100.0) as usize
    };
    format!("{number:.digits$} {name}")
}

pub fn bytes(count: u64) -> String {
    scaled(count, &[(1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"), (1e15, "PB")])
}

fn time(ps: u64) -> String {
    scaled(ps, &[(1.0, "ps"), (1e3, "ns"), (1e6, "us"), (1e9, "ms"), (1e12, "s")])
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::looks;
    use super::*;

    #[test]
    fn a_job_is_a_head_its_nics_and_a_line_a_port() {
        let (network, before, now) = looks();
        let report = Report::new(&[41, 42, 43, 44], Some(&network), &now, None, false);
        let once = Lines::of(&JobReport::Ports(report)).whole();
        let expected = "\
dgx-h100:nodes=2,places=2  4 ranks (4 processes 41 to 44)  clocks 3.00 ns to 6.00 ns  3 calls
n0: 1 of 2 NICs transmit, 0 of 2 receive, idle: g0
n1: 0 of 2 NICs transmit, 1 of 2 receive, idle: g0
PORT          CLASS      BYTES    MESSAGES    BUSY   QUEUE  ERRORS  RESENDS       DOWN
n0.g1.nic.tx  leaf     12.3 kB           3   25.0%       0       0        0          0
n1.g1.nic.rx  leaf     12.3 kB           3   25.0%       0       0        0          0
";
        assert_eq!(once, expected);
        let again = Report::new(&[41], Some(&network), &now, Some(&before), false);
        let row = &rows(&again)[0];
        assert!(row.contains("8.19 kB           2   25.0%"), "{row}");
        assert_eq!(row.len(), columns(&again).len());
    }

    #[test]
    fn what_is_unusual_is_said() {
        let (network, _, mut now) = looks();
        (now.under_way, now.late, now.halted) = (true, 2, Some("deadlock of two".into()));
        (now.clocks[1].pid, now.clocks[2].left) = (0, true);
        now.ports.iter_mut().for_each(|port| port.counters = Default::default());
        let report = Report::new(&[41], Some(&network), &now, None, false);
        let text = Lines::of(&JobReport::Ports(report)).whole();
        for part in [
            "(process 41), 1 not there yet, 1 left",
            "2 served late",
            "not counted yet",
            "\ndeadlock of two\n",
            "none of 20 ports has carried anything yet",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        let shown = [0, 999, 1000, 12_345, 999_000, 8_590_000_000].map(bytes);
        assert_eq!(shown, ["0 B", "999 B", "1.00 kB", "12.3 kB", "999 kB", "8.59 GB"]);
        assert_eq!(
            [5, 1_500, 41_200_000, 2_000_000_000_000_000].map(time),
            ["5 ps", "1.50 ns", "41.2 us", "2000 s"]
        );
    }
}
