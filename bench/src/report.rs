//! The table that people read and the report that programs read.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::machine::{Machine, MachineTime};
use crate::options::{Buffers, Options};
use crate::subject::Subject;

/// What a line of output begins with that is a report, or the end of one, where the table is to be written to `-` as JSON.
const LINE: &str = "#report ";
/// What a line begins with that is a part of one: a launcher passes long lines on in pieces.
const PART: &str = "#report+ ";
/// Bytes of a part at most.
const LONGEST: usize = 32 << 10;

/// Returns a report as lines.
pub fn lines(report: &Report) -> Result<String, String> {
    let text = serde_json::to_string(report).map_err(|error| error.to_string())?;
    let (mut lines, mut left) = (String::new(), &text[..]);
    while left.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|&end| left.is_char_boundary(end)).unwrap_or(left.len());
        let (part, others) = left.split_at(end);
        (lines, left) = (lines + PART + part + "\n", others);
    }
    Ok(lines + LINE + left)
}

/// Reports that come by lines.
#[derive(Default)]
pub struct Reports {
    parts: Vec<u8>,
    /// Those that have come as a whole.
    pub whole: Vec<Report>,
}

impl Reports {
    /// Takes a line if it is one of a report.
    pub fn take(&mut self, line: &[u8]) -> bool {
        if let Some(part) = line.strip_prefix(PART.as_bytes()) {
            self.parts.extend(part);
            return true;
        }
        let Some(end) = line.strip_prefix(LINE.as_bytes()) else { return false };
        self.parts.extend(end);
        self.whole.extend(serde_json::from_slice::<Report>(&std::mem::take(&mut self.parts)));
        true
    }
}

/// One launch's results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Penny's version.
    pub version: String,
    /// What was measured.
    pub subject: Subject,
    /// Ranks.
    pub nranks: u32,
    /// Where the buffers came from.
    pub buffers: Buffers,
    /// `PENNY_ALGO`, if it was set.
    pub algorithm: Option<String>,
    /// The older name of `algorithm`, until 1.0.
    pub algo: Option<String>,
    /// How it was measured.
    pub options: Options,
    /// Where and when it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// The declared machine whose time is shown, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// The table.
    pub rows: Vec<Row>,
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Size of the larger buffer in bytes.
    pub bytes: usize,
    /// Elements a block.
    pub count: usize,
    /// Element type; none for a barrier.
    pub datatype: Option<String>,
    /// Reduction, where there is one.
    pub op: Option<String>,
    /// Root, where there is one.
    pub root: Option<u32>,
    /// Input and output apart.
    pub out_of_place: Measurement,
    /// Input within output, where the subject can.
    pub in_place: Option<Measurement>,
}

/// What one case took and whether it was right.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Microseconds a call.
    pub time_us: f64,
    /// Size over time, 10^9 bytes a second.
    pub algbw_gb_per_s: f64,
    /// The algorithm bandwidth times the factor of the collective: what a link carries at least.
    pub busbw_gb_per_s: f64,
    /// The number of wrong elements on all ranks; `None` if they were not checked.
    pub wrong: Option<u64>,
    /// The time on the declared machine, from which all other numbers are computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineTime>,
}

impl Measurement {
    /// Makes a measurement from the seconds of one call.
    pub fn new(seconds: f64, bytes: usize, bus_factor: f64, wrong: Option<u64>) -> Measurement {
        let algbw_gb_per_s = if seconds > 0.0 { bytes as f64 / seconds / 1e9 } else { 0.0 };
        Measurement {
            time_us: seconds * 1e6,
            algbw_gb_per_s,
            busbw_gb_per_s: algbw_gb_per_s * bus_factor,
            wrong,
            machine: None,
        }
    }

    /// Returns time and bandwidths as nccl-tests 2.19 prints them: two decimals, and fewer where the column is too narrow.
    pub fn columns(&self) -> String {
        let text = |value: f64, width| {
            let texts = [2, 1, 0].map(|decimals| format!("{value:.decimals$}"));
            texts.iter().find(|text| text.len() <= width).unwrap_or(&texts[2]).clone()
        };
        let bandwidth = |value| text(value, 6);
        let time = text(self.time_us, 7);
        format!("{time:>8} {:>7} {:>7}", bandwidth(self.algbw_gb_per_s), bandwidth(self.busbw_gb_per_s))
    }
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.columns())?;
        match self.wrong {
            Some(wrong) => write!(f, " {wrong:6}"),
            None => write!(f, " {:>6}", "N/A"),
        }
    }
}

impl Row {
    /// Both measurements, or the one there is.
    pub fn measurements(&self) -> impl Iterator<Item = &Measurement> {
        [Some(&self.out_of_place), self.in_place.as_ref()].into_iter().flatten()
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "none".to_owned());
        let root = self.root.map_or_else(|| "-1".to_owned(), |root| root.to_string());
        write!(f, "{:12} {:12} {:>10}", self.bytes, self.count, name(&self.datatype))?;
        write!(f, " {:>11} {root:>6} {}", name(&self.op), self.out_of_place)?;
        match &self.in_place {
            Some(measurement) => write!(f, " {measurement}"),
            None => write!(f, " {:>8} {:>7} {:>7} {:>6}", "N/A", "N/A", "N/A", "N/A"),
        }
    }
}

impl Report {
    /// The lines above the table.
    pub fn head(&self) -> String {
        let o = &self.options;
        let step = match o.sizes.step_factor {
            1 => format!("{} (bytes)", o.sizes.step_bytes),
            factor => format!("{factor} (factor)"),
        };
        let iters = o
            .iters
            .map_or_else(|| "by time (lower quartile of batches)".to_owned(), |iters| iters.to_string());
        let key =
            |size, count, dtype, op, root| format!("# {size:>10} {count:>12} {dtype:>10} {op:>11} {root:>6}");
        let values = |a, b, c, d| format!(" {a:>8} {b:>7} {c:>7} {d:>6}").repeat(2);
        [
            format!(
                "# {}_perf  penny {}  ranks: {}  buffers: {}  algorithm: {}",
                self.subject,
                self.version,
                self.nranks,
                self.buffers.name(),
                self.algorithm.as_deref().unwrap_or("auto")
            ),
            format!(
                "# minBytes {} maxBytes {} step: {step} warmup iters: {} iters: {iters} checks: {} dirty: {} blocking: {}{}",
                o.sizes.min_bytes, o.sizes.last(), o.warmup_iters, o.check, u8::from(o.dirty), o.blocking,
                if o.walk { " walk: 1" } else { "" }
            ),
            self.machine
                .as_ref()
                .map(Machine::text)
                .or_else(|| self.host.as_ref().map(Host::text))
                .unwrap_or_else(|| "#".to_owned()),
            format!("{} {:^31} {:^31}", key("", "", "", "", ""), "out-of-place", "in-place").trim_end().to_owned(),
            key("size", "count", "type", "redop", "root") + &values("time", "algbw", "busbw", "#wrong"),
            key("(B)", "(elements)", "", "", "") + values("(us)", "(GB/s)", "(GB/s)", "").trim_end(),
        ]
        .join("\n")
    }

    /// Returns each row with the name of its line in a drawing: the algorithm and the buffers; where the report has several, also the
    /// type, the reduction and the root.
    pub fn named_rows(&self) -> impl Iterator<Item = (String, &Row)> {
        let case = |row: &Row| (row.datatype.clone(), row.op.clone(), row.root);
        let several = self.rows.windows(2).any(|pair| case(&pair[0]) != case(&pair[1]));
        self.rows.iter().map(move |row| {
            let mut name = format!("{} {}", self.algorithm.as_deref().unwrap_or("auto"), self.buffers.name());
            if several {
                let (dtype, op, root) = case(row);
                let words = [dtype, op, root.map(|root| format!("root {root}"))];
                name.extend(words.into_iter().flatten().map(|word| format!(" {word}")));
            }
            (name, row)
        })
    }

    /// Returns the lines below a row, which say that its paced times are not valid.
    pub fn complaints(&self, row: &Row) -> Vec<String> {
        let Some(machine) = &self.machine else { return Vec::new() };
        row.measurements().filter_map(|m| machine.complaint(m.machine.as_ref()?)).collect()
    }

    /// Elements that were wrong; `None`: none was checked.
    pub fn wrong(&self) -> Option<u64> {
        let mut checked = self.rows.iter().flat_map(Row::measurements).filter_map(|m| m.wrong).peekable();
        checked.peek()?;
        Some(checked.sum())
    }

    /// The mean of every bus bandwidth in the table.
    pub fn mean_busbw_gb_per_s(&self) -> f64 {
        let all: Vec<f64> = self.rows.iter().flat_map(Row::measurements).map(|m| m.busbw_gb_per_s).collect();
        if all.is_empty() { 0.0 } else { all.iter().sum::<f64>() / all.len() as f64 }
    }

    /// The lines below the table.
    pub fn foot(&self) -> String {
        let verdict = match self.wrong() {
            Some(0) => "0 OK".to_owned(),
            Some(wrong) => format!("{wrong} FAILED"),
            None => "not checked".to_owned(),
        };
        format!(
            "# Out of bounds values : {verdict}\n# Avg bus bandwidth    : {:.5}\n#",
            self.mean_busbw_gb_per_s()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(wrong: Option<u64>) -> Row {
        let measurement = Measurement::new(1e-3, 1 << 20, 1.5, wrong);
        Row {
            bytes: 1 << 20,
            count: 1 << 18,
            datatype: Some("float".to_owned()),
            op: Some("sum".to_owned()),
            root: None,
            out_of_place: measurement,
            in_place: Some(measurement),
        }
    }

    fn report(rows: Vec<Row>) -> Report {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            options: Options,
        }
        let options = <Line as clap::Parser>::parse_from(["x"]).options;
        let subject = "all_reduce".parse().unwrap();
        let version = "0".to_owned();
        let (buffers, algorithm, algo, host, machine) = (Buffers::Private, None, None, None, None);
        Report { version, subject, nranks: 4, buffers, algorithm, algo, options, host, machine, rows }
    }

    #[test]
    fn columns_stand_under_their_heads() {
        let head = report(Vec::new()).head();
        let titles = head.lines().nth(4).unwrap();
        let line = row(Some(0)).to_string();
        let ends = |text: &str| -> Vec<usize> {
            let text = format!("{text} ");
            let pairs = text.as_bytes().windows(2).enumerate();
            pairs.filter(|(_, w)| w[0] != b' ' && w[1] == b' ').map(|(i, _)| i).collect()
        };
        // The title line has a `#` of its own in front.
        assert_eq!(ends(titles)[1..], ends(&line), "\n{titles}\n{line}");
    }

    #[test]
    fn bandwidths_are_in_powers_of_ten() {
        let measurement = Measurement::new(1e-3, 1_000_000, 1.5, None);
        assert_eq!((measurement.algbw_gb_per_s, measurement.busbw_gb_per_s), (1.0, 1.5));
    }

    #[test]
    fn one_wrong_element_fails_the_report() {
        assert!(report(vec![row(Some(0)), row(Some(1))]).foot().contains("2 FAILED"));
        assert!(report(vec![row(Some(0))]).foot().contains("0 OK"));
        assert!(report(vec![row(None)]).foot().contains("not checked"));
    }

    #[test]
    fn a_report_of_any_length_comes_by_lines_that_are_not_long() {
        for rows in [0, 1, 500] {
            let sent = report((0..rows).map(|_| row(Some(0))).collect());
            let text = lines(&sent).unwrap();
            let mut come = Reports::default();
            for line in text.lines() {
                assert!(line.len() < 40 << 10 && come.take(line.as_bytes()));
            }
            assert!(!come.take(b"# a table") && (rows < 500 || text.lines().count() > 3));
            assert_eq!(come.whole.len(), 1);
            assert_eq!(come.whole[0].rows.len(), rows);
        }
    }

    #[test]
    fn a_report_survives_json() {
        let report = report(vec![row(Some(3))]);
        let back: Report = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
        assert_eq!((back.rows, back.subject), (report.rows, report.subject));
    }
}
