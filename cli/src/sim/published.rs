//! `penny sim --published FILE`: the errors against tables of measured times, row by row.
//!
//! ```toml
//! [[table]]
//! name = "8 H100"
//! source = "nccl-tests on one DGX H100, out of place"
//! machine = "dgx-h100:as=nccl"            # as --fabric takes it
//! collective = "all_reduce"
//! ranks = 8                               # left out: all places of the machine
//! algorithm = "ring"                      # that the source names, as --algorithm takes it; left out: auto
//! rows = [[8, 13.67], [1024, 16.94]]      # bytes, and microseconds
//! within = [15, 30, 10]                   # the largest means that are accepted, in per cent: up to 4 KiB, up to 16 MiB, above
//! ```
//!
//! The mean is geometric: e to the mean of |ln(simulated / measured)|, less 1. A table whose mean is larger than `within` says is an error.

use std::process::ExitCode;

use penny::DataType;
use penny::sim::topology;
use penny_bench::layout;
use penny_bench::subject::Subject;
use toml_edit::{DocumentMut, Item, Table, Value};

use super::quickest::{named, quickest};
use super::{Block, Views, programs};
use crate::{answer, machine};

/// A table of measured times.
struct Measured {
    name: String,
    machine: String,
    subject: Subject,
    ranks: Option<u32>,
    /// The algorithms of which the quickest is taken: `auto`, or names.
    algorithms: Vec<String>,
    /// Bytes and microseconds.
    rows: Vec<(usize, f64)>,
    /// Per cent, by the ranges of [`RANGES`].
    within: [f64; 3],
}

/// The ranges of sizes over which means are taken: what they are called, and their largest size.
const RANGES: [(&str, usize); 3] =
    [("up to 4 KiB", 4 << 10), ("up to 16 MiB", 16 << 20), ("above", usize::MAX)];

/// Prints the errors against the tables of the files.
pub fn main(files: &[std::path::PathBuf]) -> Result<ExitCode, String> {
    let mut text = String::new();
    let mut failed = Vec::new();
    for file in files {
        let name = file.display().to_string();
        for table in read(&name, &topology::text_of(&name).map_err(|e| e.message.clone())?)? {
            compare(&table, &mut text, &mut failed)
                .map_err(|why| format!("{name}: {}: {why}", table.name))?;
        }
    }
    let code = answer::print(&text)?;
    match failed.is_empty() {
        true => Ok(code),
        false => Err(failed.join("\n")),
    }
}

/// Prices the rows of a table.
fn compare(table: &Measured, text: &mut String, failed: &mut Vec<String>) -> Result<(), String> {
    let Subject::Collective(collective) = table.subject else {
        return Err(format!("{} is two calls, not a collective, and has no plan", table.subject));
    };
    let network = topology::open(&table.machine).map_err(|e| e.message.clone())?;
    let view = machine::view(&network, collective, table.ranks, 0)?;
    let (views, places) = (Views::of(&network), machine::places(&network, view.nranks)?);
    let candidates = programs(&table.algorithms, &view)?;
    let is_named = named(&network, &view, &table.algorithms);
    *text += &format!(
        "# {}: {}, {} ranks, {}\n#      bytes     measured    simulated    error  by\n",
        table.name, table.machine, view.nranks, table.subject
    );
    let mut logs = [const { Vec::<f64>::new() }; 3];
    for &(bytes, measured_us) in &table.rows {
        let size = DataType::Float32.size();
        let count = layout::count(table.subject, view.nranks, bytes, size);
        let block = Block { count: count as u64, size: size as u64 };
        let found = quickest(&candidates, &views, &places, &is_named, |_| block)?;
        let (number, priced) = found.ok_or("no algorithm carries it")?;
        let simulated_us = priced.summary.last_ps() as f64 / 1e6;
        let protocol = network.protocol_name(priced.tuning.protocol as usize);
        *text += &format!(
            "{bytes:>12} {measured_us:>12.2} {simulated_us:>12.2} {:>+7.1}%  {}{}\n",
            (simulated_us / measured_us - 1.0) * 100.0,
            candidates[number].algorithm.name,
            protocol.map(|name| format!("/{name}")).unwrap_or_default()
        );
        let range = RANGES.iter().position(|&(_, most)| bytes <= most).expect("the last has no end");
        logs[range].push((simulated_us / measured_us).ln().abs());
    }
    for (((range, _), logs), within) in RANGES.iter().zip(&logs).zip(table.within) {
        if logs.is_empty() {
            continue;
        }
        let per_cent = |log: f64| (log.exp() - 1.0) * 100.0;
        let mean = per_cent(logs.iter().sum::<f64>() / logs.len() as f64);
        let most = per_cent(logs.iter().copied().fold(0.0, f64::max));
        *text += &format!(
            "# {range}: {mean:.1} % in the geometric mean, {most:.1} % at most; accepted {within} %\n"
        );
        if mean > within {
            failed.push(format!(
                "{}, {range}: the mean error is {mean:.1} %, more than the {within} % that `within` accepts; find out why, or write it down",
                table.name
            ));
        }
    }
    *text += "#\n";
    Ok(())
}

/// Reads a file of tables.
fn read(file: &str, text: &str) -> Result<Vec<Measured>, String> {
    let document: DocumentMut = text.parse().map_err(|e| format!("{file}: {e}"))?;
    let tables = document.get("table").and_then(Item::as_array_of_tables);
    let tables = tables.ok_or_else(|| format!("{file}: there is no [[table]]; begin each table with it"))?;
    (1..)
        .zip(tables.iter())
        .map(|(n, table)| measured(table).map_err(|why| format!("{file}: [[table]] {n}: {why}")))
        .collect()
}

fn measured(table: &Table) -> Result<Measured, String> {
    const KEYS: [&str; 8] =
        ["name", "source", "machine", "collective", "ranks", "algorithm", "rows", "within"];
    if let Some((key, _)) = table.iter().find(|(key, _)| !KEYS.contains(key)) {
        return Err(format!("there is no key `{key}`; there are {}", KEYS.join(", ")));
    }
    let text = |key: &str| {
        let value = table.get(key).and_then(Item::as_str);
        value.map(str::to_owned).ok_or_else(|| format!("{key}: a text is missing; add one"))
    };
    text("source")?;
    let subject = text("collective")?.parse().map_err(|why| format!("collective: {why}"))?;
    let ranks = match table.get("ranks") {
        None => None,
        Some(item) => {
            let count = item.as_integer().and_then(|n| u32::try_from(n).ok()).filter(|&n| n > 0);
            Some(count.ok_or("ranks: this is no number of ranks; write one from 1 on")?)
        }
    };
    let algorithms = match table.get("algorithm") {
        None => vec!["auto".to_owned()],
        Some(_) => text("algorithm")?.split(',').map(|name| name.trim().to_owned()).collect(),
    };
    let rows =
        table.get("rows").and_then(Item::as_array).ok_or("rows: a list is missing; add [[8, 13.67], ...]")?;
    let row = |value: &Value| {
        let pair = value.as_array().filter(|pair| pair.len() == 2)?;
        let bytes = pair.get(0)?.as_integer().and_then(|n| usize::try_from(n).ok()).filter(|&n| n > 0)?;
        number(pair.get(1)?).filter(|&us| us > 0.0).map(|us| (bytes, us))
    };
    let rows: Option<Vec<_>> = rows.iter().map(row).collect();
    let rows = rows.ok_or("rows: each row is bytes and microseconds, both above 0: [8, 13.67]")?;
    let within = table
        .get("within")
        .and_then(Item::as_array)
        .map(|list| list.iter().map(number).collect::<Option<Vec<_>>>());
    let within = within.flatten().and_then(|list| list.try_into().ok());
    let within = within.ok_or("within: three numbers of per cent are missing; add within = [15, 15, 15]")?;
    Ok(Measured { name: text("name")?, machine: text("machine")?, subject, ranks, algorithms, rows, within })
}

fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|n| n as f64))
}
