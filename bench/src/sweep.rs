//! The loop of every program: join, go through the cases, print, tell whether all was right.

use std::io::Write;
use std::process::ExitCode;

use penny::internals::types::DataType;

use crate::capi::Communicator;
use crate::host::Host;
use crate::measure::{Bench, Case, Place};
use crate::options::{Options, Variant};
use crate::report::{self, Report, Row};
use crate::subject::Subject;

/// Runs a program on this rank. 0: all was right; 1: something was wrong; 2: the options were.
pub fn run(subject: Subject, options: &Options, variant: &Variant) -> ExitCode {
    let failed = |code: u8, sentence: String| {
        eprintln!("{subject}_perf: {sentence}");
        ExitCode::from(code)
    };
    let sizes = match options.sizes.list() {
        Ok(sizes) => sizes,
        Err(sentence) => return failed(2, sentence),
    };
    if let Err(sentence) = options.cases(subject.reduces()) {
        return failed(2, sentence);
    }
    match measure_all(subject, &sizes, options, variant) {
        Ok((0, false)) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(sentence) => failed(1, sentence),
    }
}

/// How many lines the table will have.
pub fn rows(subject: Subject, options: &Options, nranks: u32) -> Result<usize, String> {
    Ok(cases(subject, &options.sizes.list()?, options, nranks)?.len())
}

/// Every case, in the order of the table.
fn cases(subject: Subject, sizes: &[usize], options: &Options, nranks: u32) -> Result<Vec<Case>, String> {
    if subject.is_barrier() {
        return Ok(vec![Case { bytes: 0, dtype: DataType::Int8, op: None, root: None }]);
    }
    let mut cases = Vec::new();
    for (dtype, op) in options.cases(subject.reduces())? {
        for root in options.roots(subject.rooted(), nranks)? {
            cases.extend(sizes.iter().map(|&bytes| Case { bytes, dtype, op, root }));
        }
    }
    Ok(cases)
}

/// The elements that were wrong, over all ranks and cases, and whether paced times were not valid.
fn measure_all(
    subject: Subject,
    sizes: &[usize],
    options: &Options,
    variant: &Variant,
) -> Result<(u64, bool), String> {
    if let Some(algorithm) = &variant.algorithm {
        // SAFETY: no other thread of this process exists yet.
        unsafe { std::env::set_var("PENNY_ALGO", algorithm) };
    }
    let comm = Communicator::from_env()?;
    let mut report = Report {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        subject,
        nranks: comm.nranks(),
        buffers: variant.buffers(),
        algorithm: std::env::var("PENNY_ALGO").ok(),
        algo: std::env::var("PENNY_ALGO").ok(),
        options: options.clone(),
        host: Some(Host::now()),
        machine: comm.machine()?,
        rows: Vec::new(),
    };
    let speaks = comm.rank() == 0;
    let say = |text: String| {
        if speaks {
            // An error of stdout is ignored: if this rank stopped here, the other ranks would wait for it.
            let _ = writeln!(std::io::stdout().lock(), "{text}");
        }
    };
    let cases = cases(subject, sizes, options, comm.nranks())?;
    let largest = cases.iter().map(|case| case.bytes).max().unwrap_or(0);
    let mut bench = Bench::new(&comm, options, subject, variant.buffers(), largest)?;
    say(report.head());
    for case in &cases {
        let out_of_place = bench.measure(case, Place::Out)?;
        let in_place = match subject.has_in_place() {
            true => Some(bench.measure(case, Place::In)?),
            false => None,
        };
        let row = Row {
            bytes: bench.shown_bytes(case),
            count: bench.count(case),
            datatype: (!subject.is_barrier()).then(|| case.dtype.name().to_owned()),
            op: case.op.map(|op| op.name().to_owned()),
            root: case.root,
            out_of_place,
            in_place,
        };
        say(row.to_string());
        report.complaints(&row).into_iter().for_each(&say);
        report.rows.push(row);
    }
    say(report.foot());
    if let (true, Some(path)) = (speaks, &variant.json) {
        match path.as_os_str() == "-" {
            true => println!("{}", report::lines(&report)?),
            false => {
                let text = serde_json::to_string_pretty(&report).map_err(|e| e.to_string())?;
                std::fs::write(path, text + "\n").map_err(|e| format!("--json {}: {e}", path.display()))?;
            }
        }
    }
    drop(bench);
    // A launcher ends all ranks as soon as one reports a failure, so no rank does before rank 0 has written everything.
    comm.barrier()?;
    comm.destroy()?;
    let invalid = report.rows.iter().any(|row| !report.complaints(row).is_empty());
    Ok((report.wrong().unwrap_or(0), invalid))
}
