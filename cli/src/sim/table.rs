//! The table that `penny sim` prints, as text and as JSON.

use penny::DataType;
use penny::sim::fabric::shortcuts::Summary;
use penny::sim::plan::RankView;
use penny::sim::topology::{Network, TierLoad};
use penny_bench::layout;
use penny_bench::report::Measurement;
use penny_bench::subject::Subject;
use serde::Serialize;

use super::uplinks::{self, TierRow};
use super::{Args, Priced};
use crate::plot::Point;

/// One line of the answer.
#[derive(Serialize)]
pub struct Row {
    fabric: String,
    fabric_hash: String,
    collective: &'static str,
    ranks: u32,
    bytes: usize,
    count: usize,
    algorithm: &'static str,
    /// The older name of `algorithm`, until 1.0.
    algo: &'static str,
    /// The machine's protocol that carries it, if it declares any.
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<String>,
    /// Bytes of the largest slice of a chunk; 0: chunks are not cut.
    slice_bytes: u64,
    /// Picoseconds of one call; of several calls, the mean.
    pub time_ps: u64,
    /// Calls back to back.
    iters: u32,
    /// Of a call alone.
    #[serde(skip)]
    pub alone_ps: u64,
    /// Time and bandwidths as a benchmark on the machine would tell them, whose clock tells whole nanoseconds.
    #[serde(skip)]
    told: Measurement,
    /// Gigabytes, 10^9 bytes, a second.
    algbw_gb_per_s: f64,
    busbw_gb_per_s: f64,
    events: u64,
    engine: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ports: Vec<PortRow>,
    /// How the flows lie on the uplinks of a machine with tiers of switches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    uplinks: Vec<TierRow>,
    #[serde(skip)]
    shared: Vec<String>,
}

/// The traffic of one port.
#[derive(Serialize)]
struct PortRow {
    port: String,
    bytes: u64,
    messages: u64,
    busy: f64,
    queue_high: u32,
}

impl Row {
    /// Makes a row from a price.
    #[expect(clippy::too_many_arguments, reason = "a row is made of what the caller has at hand, once")]
    pub fn new(
        args: &Args,
        network: &Network,
        hash: &str,
        view: &RankView,
        algorithm: &'static str,
        count: usize,
        dtype: DataType,
        Priced { tuning, summary, used, .. }: &Priced,
        alone_ps: u64,
        loads: &[TierLoad],
    ) -> Row {
        let (all_ps, iters) = (summary.last_ps(), args.iters);
        let subject = Subject::Collective(view.collective);
        let bytes = layout::shown_bytes(subject, view.nranks, count, dtype.size());
        let factor = subject.bus_factor(view.nranks);
        let of_one = |all_s: f64| Measurement::new(all_s / f64::from(iters), bytes, factor, None);
        let measured = of_one(all_ps as f64 * 1e-12);
        let ports = if args.counters { used_ports(network, summary, all_ps) } else { Vec::new() };
        Row {
            fabric: network.name.clone(),
            fabric_hash: hash.to_owned(),
            collective: view.collective.name(),
            ranks: view.nranks,
            bytes,
            count,
            algorithm,
            algo: algorithm,
            protocol: network.protocol_name(tuning.protocol as usize).map(str::to_owned),
            slice_bytes: tuning.slice_bytes,
            time_ps: all_ps / u64::from(iters),
            iters,
            alone_ps,
            told: of_one(all_ps.div_ceil(1000) as f64 * 1e-9),
            algbw_gb_per_s: measured.algbw_gb_per_s,
            busbw_gb_per_s: measured.busbw_gb_per_s,
            events: summary.events,
            engine: used.to_string(),
            ports,
            uplinks: loads.iter().map(TierRow::from).collect(),
            shared: loads.iter().map(uplinks::sentence).collect(),
        }
    }

    /// Returns the row's point in a plot.
    pub fn point(&self) -> Point {
        Point {
            line: self.algorithm.to_owned(),
            bytes: self.bytes as f64,
            time_us: self.told.time_us,
            gb_per_s: self.busbw_gb_per_s,
        }
    }

    /// The algorithm, and the protocol behind a slash.
    fn way(&self) -> String {
        let protocol = self.protocol.iter().map(|name| format!("/{name}"));
        std::iter::once(self.algorithm.to_owned()).chain(protocol).collect()
    }

    /// As a line of the table, with its ports below.
    pub fn line(&self, dtype: DataType) -> String {
        let mut text = format!(
            "{:12} {:12} {:>10} {}  {:<17} {:>8} {:9} {}\n",
            self.bytes,
            self.count,
            dtype.to_string(),
            self.told.columns(),
            self.way(),
            slice_text(self.slice_bytes),
            self.events,
            self.engine
        );
        for sentence in &self.shared {
            text += &format!("#   {sentence}\n");
        }
        for port in &self.ports {
            text += &format!(
                "#   {:<24} {:>14} B {:>9} messages {:6.1} % busy, queue {}\n",
                port.port,
                port.bytes,
                port.messages,
                port.busy * 100.0,
                port.queue_high
            );
        }
        text
    }

    /// As a line of JSON.
    pub fn json(&self) -> Result<String, String> {
        serde_json::to_string(self).map(|line| line + "\n").map_err(|e| e.to_string())
    }
}

/// The slice as the table shows it.
fn slice_text(slice_bytes: u64) -> String {
    if slice_bytes == 0 { "whole".to_owned() } else { slice_bytes.to_string() }
}

fn used_ports(network: &Network, summary: &Summary, time_ps: u64) -> Vec<PortRow> {
    let ports = (0..).zip(network.ports.iter()).map(|(id, port)| (port, summary.counters(id)));
    ports
        .filter(|(_, passed)| passed.messages > 0)
        .map(|(port, passed)| PortRow {
            port: port.name.clone(),
            bytes: passed.bytes,
            messages: passed.messages,
            busy: passed.busy_ps as f64 / time_ps.max(1) as f64,
            queue_high: passed.queue_high,
        })
        .collect()
}

/// The lines above the table.
pub fn head(args: &Args, network: &Network, hash: &str, nranks: u32) -> String {
    format!(
        "# {}_sim  fabric: {} {hash}  ranks: {nranks}  places: {}{}\n#\n# {:>10} {:>12} {:>10} {:>8} {:>7} {:>7}  {:<17} {:>8} {:>9} engine\n# {:>10} {:>12} {:>10} {:>8} {:>7} {:>7}  {:<17} {:>8}\n",
        args.collective.map_or("", Subject::name),
        network.name,
        network.shape.nranks(),
        if args.iters > 1 {
            format!("  the mean of {} calls back to back", args.iters)
        } else {
            String::new()
        },
        "size",
        "count",
        "type",
        "time",
        "algbw",
        "busbw",
        "algorithm",
        "slice",
        "events",
        "(B)",
        "(elements)",
        "",
        "(us)",
        "(GB/s)",
        "(GB/s)",
        "",
        "(B)",
    )
}
