//! The table of a workload, as text and as JSON.

use std::collections::HashMap;

use penny::sim::topology::{Network, units};
use serde::Serialize;

use super::account::Account;
use super::check::Matches;
use super::compute::{ComputeRule, IntervalCounts};
use super::program::{GroupCall, Workload};
use super::replay::Played;
use crate::machine;

/// The least, mean and greatest value of all ranks, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
struct Spread {
    min: f64,
    mean: f64,
    max: f64,
}

/// A line: a step, or all of them.
#[derive(Serialize)]
pub struct StepRow {
    workload: String,
    fabric: String,
    fabric_hash: String,
    ranks: usize,
    compute: String,
    /// Intervals of computing of all ranks and steps.
    intervals: usize,
    /// Those of unknown FLOPs and bytes, which keep their time where the machine declares the others.
    intervals_unknown: usize,
    /// The number of the step; all of them together if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<usize>,
    total_us: Spread,
    compute_us: Spread,
    communication_us: Spread,
    exposed_us: Spread,
    overlap_us: Spread,
    host_us: Spread,
    idle_us: Spread,
}

/// A kind of call, for `--calls`.
#[derive(Serialize)]
pub struct CallRow {
    workload: String,
    fabric: String,
    call: &'static str,
    group: String,
    /// Of a group.
    ranks: usize,
    block_bytes: u64,
    calls: usize,
    algorithm: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<String>,
    slice_bytes: u64,
    /// Alone on the machine.
    alone_us: f64,
    /// From its last rank's coming to its last rank's leaving, in the workload.
    mean_us: f64,
}

/// What lines need to know about the machine and the rule.
pub struct Context<'a> {
    pub workload: &'a Workload,
    pub network: &'a Network,
    pub rule: &'a ComputeRule,
    pub counts: IntervalCounts,
}

impl Spread {
    fn of(accounts: &[Account], value: fn(&Account) -> u64) -> Spread {
        let values = || accounts.iter().map(value);
        let us = |ps: f64| ps * 1e-6;
        Spread {
            min: us(values().min().unwrap_or(0) as f64),
            mean: us(values().map(|ps| ps as f64).sum::<f64>() / accounts.len().max(1) as f64),
            max: us(values().max().unwrap_or(0) as f64),
        }
    }
}

impl StepRow {
    /// Makes a line from the accounts of all ranks.
    pub fn new(context: &Context<'_>, step: Option<usize>, accounts: &[Account]) -> StepRow {
        let Context { workload, network, rule, counts } = context;
        let of = |value| Spread::of(accounts, value);
        StepRow {
            workload: workload.name.clone(),
            fabric: network.name.clone(),
            fabric_hash: machine::hash(network),
            ranks: workload.ranks.len(),
            compute: rule.to_string(),
            intervals: counts.all,
            intervals_unknown: counts.unknown,
            step,
            total_us: of(|account| account.total),
            compute_us: of(|account| account.compute),
            communication_us: of(|account| account.communication),
            exposed_us: of(|account| account.exposed),
            overlap_us: of(|account| account.overlap),
            host_us: of(|account| account.host),
            idle_us: of(|account| account.idle),
        }
    }

    /// Returns the name of the line: its step, or that it is all of them.
    fn step(&self) -> String {
        self.step.map_or("all".to_owned(), |step| step.to_string())
    }

    fn columns(&self) -> [(&'static str, Spread); 7] {
        [
            ("total", self.total_us),
            ("compute", self.compute_us),
            ("comm", self.communication_us),
            ("exposed", self.exposed_us),
            ("overlap", self.overlap_us),
            ("host", self.host_us),
            ("idle", self.idle_us),
        ]
    }
}

/// Returns the head: what is priced, and by which rule.
pub fn head(workload: &Workload, rule: &ComputeRule, counts: IntervalCounts) -> String {
    let mut text = format!(
        "# workload  {}  ranks: {}  steps: {}  compute: {rule} ({})\n",
        workload.name,
        workload.ranks.len(),
        workload.steps,
        match rule {
            ComputeRule::Keep => "the workload's own times",
            ComputeRule::Scale(..) => "the workload's own times, multiplied",
            ComputeRule::Declared => "by the machine's flops, mem_bw and eff",
        }
    );
    for remark in &workload.remarks {
        text += &format!("# {remark}\n");
    }
    if *rule == ComputeRule::Declared && counts.unknown > 0 {
        text += &format!(
            "# * {} of {} intervals have neither FLOPs nor bytes and keep their times\n",
            counts.unknown, counts.all
        );
    }
    text
}

/// Returns the lines of one machine, three for each step: the least, mean and greatest of the ranks.
pub fn of_machine(network: &Network, rows: &[StepRow]) -> String {
    let mut text = format!("#\n# fabric: {}  hash: {}\n", network.name, machine::hash(network));
    let mark = mark(rows);
    text += &format!("# {:>5} {:>5}", "step", "ranks");
    for (name, _) in columns(rows) {
        let name = if name == "compute" { format!("{name}{mark}") } else { name.to_owned() };
        text += &format!(" {name:>12}");
    }
    text += "  us\n";
    for row in rows {
        for (of, value) in parts() {
            text += &format!("  {:>5} {of:>5}", row.step());
            for (name, spread) in row.columns() {
                if columns(rows).any(|(shown, _)| shown == name) {
                    text += &format!(" {:>12}", shown(value(&spread)));
                }
            }
            text += "\n";
        }
    }
    text
}

/// Returns one table with a line for each machine: the means of the ranks.
pub fn of_machines(rows: &[StepRow]) -> String {
    let width = rows.iter().map(|row| row.fabric.len()).max().unwrap_or(0).max(6);
    let mark = mark(rows);
    let mut text = format!("#\n# {:<width$}", "fabric");
    for (name, _) in columns(rows) {
        let name = if name == "compute" { format!("{name}{mark}") } else { name.to_owned() };
        text += &format!(" {name:>12}");
    }
    text += "  us, all steps: the total of the slowest rank, else the mean of the ranks\n";
    for row in rows {
        text += &format!("  {:<width$}", row.fabric);
        for (name, spread) in row.columns() {
            if columns(rows).any(|(shown, _)| shown == name) {
                // The step takes as long as its slowest rank.
                text += &format!(" {:>12}", shown(if name == "total" { spread.max } else { spread.mean }));
            }
        }
        text += "\n";
    }
    text
}

/// The columns that are shown: that of the host only if a rank has host work.
fn columns(rows: &[StepRow]) -> impl Iterator<Item = (&'static str, Spread)> + '_ {
    let has_host = rows.iter().any(|row| row.host_us.max > 0.0);
    rows.first().into_iter().flat_map(StepRow::columns).filter(move |(name, _)| *name != "host" || has_host)
}

/// Marks the column in which some times are kept although the others are declared.
fn mark(rows: &[StepRow]) -> &'static str {
    if rows.iter().any(|row| row.compute == "declared" && row.intervals_unknown > 0) { "*" } else { "" }
}

type Value = fn(&Spread) -> f64;

fn parts() -> [(&'static str, Value); 3] {
    [("min", |spread| spread.min), ("mean", |spread| spread.mean), ("max", |spread| spread.max)]
}

fn shown(us: f64) -> String {
    if us >= 1e6 { format!("{us:.0}") } else { format!("{us:.2}") }
}

/// Returns the kinds of calls, in the order in which they first come.
pub fn calls(context: &Context<'_>, matches: &Matches, played: &Played) -> Vec<CallRow> {
    let Context { workload, network, .. } = context;
    let mut index: HashMap<(&str, usize, GroupCall, u64), usize> = HashMap::new();
    let mut rows: Vec<CallRow> = Vec::new();
    for (matched, carried) in matches.calls.iter().zip(&played.carried) {
        let group = &workload.groups[matched.call.group as usize];
        let times = || {
            group
                .ranks
                .iter()
                .zip(&matched.nodes)
                .map(|(&rank, &node)| played.times[rank as usize][node as usize])
        };
        let begin = times().map(|times| times.begin_ps).max().unwrap_or(0);
        let took = times().map(|times| times.end_ps).max().unwrap_or(0).saturating_sub(begin) as f64 * 1e-6;
        // Groups of one name are one line where their calls take the same time.
        let call = GroupCall { group: 0, ..matched.call };
        let key = (group.name.as_str(), group.ranks.len(), call, carried.alone_ps);
        let at = *index.entry(key).or_insert_with(|| {
            rows.push(CallRow {
                workload: workload.name.clone(),
                fabric: network.name.clone(),
                call: matched.call.collective.name(),
                group: group.name.clone(),
                ranks: group.ranks.len(),
                block_bytes: matched.call.block,
                calls: 0,
                algorithm: carried.algorithm,
                protocol: network.protocol_name(carried.shared.tuning.protocol as usize).map(str::to_owned),
                slice_bytes: carried.shared.tuning.slice_bytes,
                alone_us: carried.alone_ps as f64 * 1e-6,
                mean_us: 0.0,
            });
            rows.len() - 1
        });
        rows[at].calls += 1;
        rows[at].mean_us += took;
    }
    rows.iter_mut().for_each(|row| row.mean_us /= row.calls.max(1) as f64);
    rows
}

/// Returns the kinds of calls as a table.
pub fn call_lines(fabric: &str, rows: &[CallRow]) -> String {
    let width = rows.iter().map(|row| row.group.len()).max().unwrap_or(0).max(5);
    let mut text = format!(
        "#\n# calls  fabric: {fabric}\n# {:<14} {:<width$} {:>5} {:>12} {:>6} {:>17} {:>10} {:>10} {:>12} {:>12}\n",
        "call",
        "group",
        "ranks",
        "block bytes",
        "calls",
        "algorithm",
        "protocol",
        "slice",
        "alone us",
        "mean us"
    );
    for row in rows {
        text += &format!(
            "  {:<14} {:<width$} {:>5} {:>12} {:>6} {:>17} {:>10} {:>10} {:>12.2} {:>12.2}\n",
            row.call,
            row.group,
            row.ranks,
            row.block_bytes,
            row.calls,
            row.algorithm,
            row.protocol.as_deref().unwrap_or("-"),
            if row.slice_bytes == 0 { "-".to_owned() } else { units::print_size(row.slice_bytes) },
            row.alone_us,
            row.mean_us
        );
    }
    text
}

/// Returns rows as JSON, an object a line.
pub fn json<T: Serialize>(rows: &[T]) -> Result<String, String> {
    let line = |row| serde_json::to_string(row).map(|line| line + "\n").map_err(|e| e.to_string());
    rows.iter().map(line).collect()
}
