//! What a page is made of, from the files of other commands.

use std::path::Path;

use penny_bench::report::Report;
use serde::Deserialize;
use serde_json::Value;

use super::timeline::Trace;
use crate::input;
use crate::plot::Point;

/// One line of a drawing: a collective by an algorithm, at several sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The collective.
    pub subject: String,
    /// Ranks.
    pub ranks: u32,
    /// What makes the run differ from others of the collective: the algorithm and the buffers or the protocol.
    pub way: String,
    /// The host, or the simulated cluster.
    pub place: String,
    /// When and with which version.
    pub about: String,
    /// Wrong elements; `None`: none was looked at.
    pub wrong: Option<u64>,
    /// It was measured in place as well, which is not shown.
    pub in_place_too: bool,
    /// By ascending bytes.
    pub cells: Vec<Cell>,
}

/// A size of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    pub bytes: usize,
    pub time_us: f64,
    pub busbw_gb_per_s: f64,
}

/// All that is to be shown.
#[derive(Default)]
pub struct Inputs {
    pub runs: Vec<Run>,
    /// Each with the name of its file.
    pub traces: Vec<(String, Trace)>,
}

/// A row of `penny sim --json`, as far as it is shown.
#[derive(Deserialize)]
struct Simulated {
    fabric: String,
    fabric_hash: String,
    collective: String,
    ranks: u32,
    bytes: usize,
    algorithm: String,
    protocol: Option<String>,
    time_ps: u64,
    iters: u32,
    busbw_gb_per_s: f64,
}

impl Run {
    /// Returns its points, on a line of this name.
    pub fn points(&self, line: &str) -> impl Iterator<Item = Point> {
        self.cells.iter().map(move |cell| Point {
            line: line.to_owned(),
            bytes: cell.bytes as f64,
            time_us: cell.time_us,
            gb_per_s: cell.busbw_gb_per_s,
        })
    }
}

impl Inputs {
    /// Takes in a file.
    pub fn read(&mut self, file: &Path) -> Result<(), String> {
        let name = file.display().to_string();
        let text = input::text(file).map_err(|e| format!("{name}: cannot be read: {e}"))?;
        let unknown = |why: String| {
            format!("{name}: is not what penny perf --json, penny sim --json or penny trace writes ({why})")
        };
        if text.trim().is_empty() {
            return Err(unknown("it is empty".into()));
        }
        let values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        for value in values {
            match value.map_err(|e| unknown(e.to_string()))? {
                Value::Array(reports) => {
                    for report in reports {
                        let report = Report::deserialize(report).map_err(|e| unknown(e.to_string()))?;
                        self.measured(&report);
                    }
                }
                value if value.get("rows").is_some() => {
                    self.measured(&Report::deserialize(value).map_err(|e| unknown(e.to_string()))?);
                }
                value if value.get("traceEvents").is_some() => {
                    let trace = Trace::deserialize(value).map_err(|e| unknown(e.to_string()))?;
                    self.traces.push((name.clone(), trace));
                }
                value => self.simulated(Simulated::deserialize(value).map_err(|e| unknown(e.to_string()))?),
            }
        }
        Ok(())
    }

    fn measured(&mut self, report: &Report) {
        let host = report.host.as_ref();
        let of_host = || {
            host.map_or("this host".to_owned(), |host| format!("{}, {} cores", host.processor, host.cores))
        };
        let about = match host {
            Some(host) => format!("penny {}, Linux {}, {}", report.version, host.kernel, host.date),
            None => format!("penny {}", report.version),
        };
        for (way, row) in report.named_rows() {
            let run = Run {
                subject: report.subject.to_string(),
                ranks: report.nranks,
                way,
                place: report.machine.as_ref().map_or_else(of_host, |machine| machine.name.clone()),
                about: about.clone(),
                wrong: None,
                in_place_too: row.measurements().count() > 1,
                cells: Vec::new(),
            };
            let told = &row.out_of_place;
            let cell = Cell { bytes: row.bytes, time_us: told.time_us, busbw_gb_per_s: told.busbw_gb_per_s };
            let wrong = row.measurements().filter_map(|m| m.wrong).reduce(|a, b| a + b);
            self.add(run, cell, wrong);
        }
    }

    fn simulated(&mut self, row: Simulated) {
        let calls = if row.iters > 1 { format!(", mean of {} calls", row.iters) } else { String::new() };
        let protocols = if row.protocol.is_some() { ", with protocols" } else { "" };
        let run = Run {
            subject: row.collective,
            ranks: row.ranks,
            // By a protocol for each size: one line an algorithm.
            way: row.algorithm,
            place: row.fabric,
            // Machines of one name may differ.
            about: format!("simulated, machine {}{calls}{protocols}", row.fabric_hash),
            wrong: None,
            in_place_too: false,
            cells: Vec::new(),
        };
        let cell =
            Cell { bytes: row.bytes, time_us: row.time_ps as f64 / 1e6, busbw_gb_per_s: row.busbw_gb_per_s };
        self.add(run, cell, None);
    }

    /// Adds a size to the run that it belongs to.
    fn add(&mut self, run: Run, cell: Cell, wrong: Option<u64>) {
        // A size that is there already is of another run.
        let same = |known: &Run| {
            let is_new = known.cells.iter().all(|other| other.bytes != cell.bytes);
            is_new
                && (&known.subject, known.ranks, &known.way, &known.place, &known.about)
                    == (&run.subject, run.ranks, &run.way, &run.place, &run.about)
        };
        let at = match self.runs.iter().position(same) {
            Some(at) => at,
            None => {
                self.runs.push(run);
                self.runs.len() - 1
            }
        };
        let known = &mut self.runs[at];
        known.wrong = match (known.wrong, wrong) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        let place = known.cells.partition_point(|other| other.bytes < cell.bytes);
        known.cells.insert(place, cell);
    }
}
