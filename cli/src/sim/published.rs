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
//! fitted = true                           # constants of the machine were fitted to this table; left out: it only tests them
//! anchor = 8                              # the row of 8 bytes gave the machine's launch, and does not count; left out: none
//! series = "one H100 to 32"               # left out: none
//!
//! [[series]]                              # tables of one machine, over all whose rows a mean is taken
//! name = "one H100 to 32"
//! within = 12                             # the largest one that is accepted, in per cent
//! ```
//!
//! The mean is geometric: e to the mean of |ln(simulated / measured)|, less 1. A table or a series whose mean is larger than `within` says
//! is an error. Below the tables stand the means of each series and of all rows, those of fitted tables apart.

use std::process::ExitCode;

use penny::DataType;
use penny::sim::topology;
use penny_bench::layout;
use penny_bench::subject::Subject;
use toml_edit::{DocumentMut, Item, Table, Value};

use super::quickest::{named, quickest};
use super::{Block, Views, programs, side_by_side};
use crate::{answer, machine, planned};

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
    fitted: bool,
    /// The bytes of the row by which the machine's launch was set.
    anchor: Option<usize>,
    series: Option<String>,
}

/// A file of tables.
struct Tables {
    tables: Vec<Measured>,
    /// The series: the name, and the largest mean that is accepted, in per cent.
    series: Vec<(String, f64)>,
}

/// What came of comparing a table: its lines, what is wrong, and the errors of its rows, as logarithms.
struct Compared {
    text: String,
    failed: Vec<String>,
    logs: Vec<f64>,
}

/// The errors of a table's rows, as logarithms.
struct Errors {
    of_fitted: bool,
    series: Option<String>,
    logs: Vec<f64>,
}

/// The ranges of sizes over which means are taken: what they are called, and their largest size.
const RANGES: [(&str, usize); 3] =
    [("up to 4 KiB", 4 << 10), ("up to 16 MiB", 16 << 20), ("above", usize::MAX)];

/// An anchor's row is priced as it was measured, within this part: otherwise the machine's launch is that of an older model.
const ANCHORED: f64 = 0.01;

/// Prints the errors against the tables of the files.
pub fn main(files: &[std::path::PathBuf]) -> Result<ExitCode, String> {
    let mut text = String::new();
    let mut failed = Vec::new();
    let mut errors = Vec::new();
    for file in files {
        let name = file.display().to_string();
        let read = read(&name, &topology::text_of(&name).map_err(|e| e.message.clone())?)?;
        let mut of_file = Vec::new();
        for (table, compared) in read.tables.iter().zip(side_by_side::each(&read.tables, |_| 0, compare)) {
            let Compared { text: of_table, failed: missed, logs } =
                compared.map_err(|why| format!("{name}: {}: {why}", table.name))?;
            text += &of_table;
            failed.extend(missed);
            of_file.push(Errors { of_fitted: table.fitted, series: table.series.clone(), logs });
        }
        for (series, within) in read.series {
            let mean =
                summary(&series, of_file.iter().filter(|e| e.series.as_deref() == Some(&*series)), &mut text);
            if mean > within {
                failed.push(missed(&series, mean, within));
            }
        }
        errors.extend(of_file);
    }
    summary("all tables", errors.iter(), &mut text);
    let code = answer::print(&text)?;
    match failed.is_empty() {
        true => Ok(code),
        false => Err(failed.join("\n")),
    }
}

/// Returns an error of logarithms in per cent.
fn per_cent(log: f64) -> f64 {
    (log.exp() - 1.0) * 100.0
}

/// Returns the geometric mean of errors, in per cent.
fn mean_of(logs: &[f64]) -> f64 {
    per_cent(logs.iter().sum::<f64>() / logs.len().max(1) as f64)
}

/// Says that a mean is larger than what is accepted.
fn missed(of: &str, mean: f64, within: f64) -> String {
    format!(
        "{of}: the mean error is {mean:.1} %, more than the {within} % that `within` accepts; find out why, or write it down"
    )
}

/// Writes the means of all rows, of those of fitted tables and of the others, and returns the first one.
fn summary<'a>(name: &str, errors: impl Iterator<Item = &'a Errors> + Clone, text: &mut String) -> f64 {
    let rows = |kept: fn(&Errors) -> bool| -> Vec<f64> {
        errors.clone().filter(|e| kept(e)).flat_map(|e| e.logs.iter().copied()).collect()
    };
    let all = rows(|_| true);
    for (kind, logs) in
        [("", &all), (", fitted", &rows(|e| e.of_fitted)), (", not fitted", &rows(|e| !e.of_fitted))]
    {
        if logs.is_empty() || !kind.is_empty() && logs.len() == all.len() {
            continue;
        }
        let near = logs.iter().filter(|&&log| per_cent(log) <= 15.0).count();
        let most = per_cent(logs.iter().copied().fold(0.0, f64::max));
        *text += &format!(
            "# {name}{kind}: {} rows, {:.1} % in the geometric mean, {most:.1} % at most; {near} rows within 15 %\n",
            logs.len(),
            mean_of(logs)
        );
    }
    mean_of(&all)
}

/// Prices the rows of a table.
fn compare(table: &Measured) -> Result<Compared, String> {
    let collective = planned::collective(table.subject)?;
    let network = topology::open(&table.machine).map_err(|e| e.message.clone())?;
    let view = machine::view(&network, collective, table.ranks, 0)?;
    let (views, places) = (Views::of(&network), machine::places(&network, view.nranks)?);
    let candidates = programs(&table.algorithms, &view)?;
    let is_named = named(&network, &view, &table.algorithms);
    let mut failed = Vec::new();
    let mut text = format!(
        "# {}: {}, {} ranks, {}{}{}\n#      bytes     measured    simulated    error  by\n",
        table.name,
        table.machine,
        view.nranks,
        table.subject,
        if table.fitted { "; fitted to it" } else { "" },
        table.anchor.map_or(String::new(), |bytes| format!(
            "; its launch by the row of {bytes} bytes, which does not count"
        ))
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
        text += &format!(
            "{bytes:>12} {measured_us:>12.2} {simulated_us:>12.2} {:>+7.1}%  {}{}\n",
            (simulated_us / measured_us - 1.0) * 100.0,
            candidates[number].algorithm.name,
            protocol.map(|name| format!("/{name}")).unwrap_or_default()
        );
        if table.anchor == Some(bytes) {
            if (simulated_us / measured_us - 1.0).abs() > ANCHORED {
                failed.push(format!(
                    "{}: the row of {bytes} bytes is the anchor, and {simulated_us:.2} us is not what was measured; set launch in `machine` \
                     anew",
                    table.name
                ));
            }
            continue;
        }
        let range = RANGES.iter().position(|&(_, most)| bytes <= most).expect("the last has no end");
        logs[range].push((simulated_us / measured_us).ln().abs());
    }
    for (((range, _), logs), within) in RANGES.iter().zip(&logs).zip(table.within) {
        if logs.is_empty() {
            continue;
        }
        let mean = mean_of(logs);
        let most = per_cent(logs.iter().copied().fold(0.0, f64::max));
        text += &format!(
            "# {range}: {mean:.1} % in the geometric mean, {most:.1} % at most; accepted {within} %\n"
        );
        if mean > within {
            failed.push(missed(&format!("{}, {range}", table.name), mean, within));
        }
    }
    text += "#\n";
    Ok(Compared { text, failed, logs: logs.concat() })
}

/// Reads a file of tables.
fn read(file: &str, text: &str) -> Result<Tables, String> {
    let document: DocumentMut = text.parse().map_err(|e| format!("{file}: {e}"))?;
    let tables = document.get("table").and_then(Item::as_array_of_tables);
    let tables = tables.ok_or_else(|| format!("{file}: there is no [[table]]; begin each table with it"))?;
    let tables: Vec<Measured> = (1..)
        .zip(tables.iter())
        .map(|(n, table)| measured(table).map_err(|why| format!("{file}: [[table]] {n}: {why}")))
        .collect::<Result<_, _>>()?;
    let series = document.get("series").and_then(Item::as_array_of_tables).into_iter().flatten();
    let series: Vec<(String, f64)> = (1..)
        .zip(series)
        .map(|(n, table)| named_bound(table).map_err(|why| format!("{file}: [[series]] {n}: {why}")))
        .collect::<Result<_, _>>()?;
    let known = |name: &String| series.iter().any(|(known, _)| known == name);
    if let Some(name) = tables.iter().filter_map(|table| table.series.as_ref()).find(|name| !known(name)) {
        return Err(format!("{file}: there is no [[series]] with name = \"{name}\"; add one with within"));
    }
    Ok(Tables { tables, series })
}

/// Reads a series.
fn named_bound(table: &Table) -> Result<(String, f64), String> {
    let name = table.get("name").and_then(Item::as_str).ok_or("name: a text is missing; add one")?;
    let within = table.get("within").and_then(Item::as_value).and_then(number);
    Ok((name.to_owned(), within.ok_or("within: a number of per cent is missing; add within = 12")?))
}

fn measured(table: &Table) -> Result<Measured, String> {
    const KEYS: [&str; 11] = [
        "name",
        "source",
        "machine",
        "collective",
        "ranks",
        "algorithm",
        "rows",
        "within",
        "fitted",
        "anchor",
        "series",
    ];
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
    let anchor = match table.get("anchor").map(|item| item.as_integer().and_then(|n| usize::try_from(n).ok()))
    {
        None => None,
        Some(Some(bytes)) if rows.iter().any(|&(size, _)| size == bytes) => Some(bytes),
        Some(_) => return Err("anchor: no row has this size; write the bytes of a row".to_owned()),
    };
    let fitted = table.get("fitted").map(|item| item.as_bool().ok_or("fitted: write true or false"));
    Ok(Measured {
        name: text("name")?,
        machine: text("machine")?,
        subject,
        ranks,
        algorithms,
        rows,
        within,
        fitted: fitted.transpose()?.unwrap_or(false),
        anchor,
        series: table.get("series").map(|_| text("series")).transpose()?,
    })
}

fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|n| n as f64))
}
