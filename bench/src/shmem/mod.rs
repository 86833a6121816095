//! One-sided access between two ranks: puts, gets, signals and atomic operations, each beside a bare counterpart.
//!
//! ```text
//!     access      puts and gets over sizes; rates; atomic operations      beside memcpy, streaming stores, bare atomics
//!     ping_pong   a put with its signal, there and back                   beside two words that two cores write in turn
//!     churn       the heap under random operations: no times, a verdict
//! ```
//!
//! The bare counterparts reach the same memory through `pennyShmemPtr`, in the same run, in turns: a busy machine slows
//! both.

mod access;
mod churn;
pub mod heap;
mod ping_pong;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use crate::beside::Row;
use crate::capi::Communicator;
use crate::sizes::Sizes;
use heap::Heap;

/// What to measure, and how often.
#[derive(clap::Args, Clone, Debug, Serialize, Deserialize)]
#[command(mut_arg("min_bytes", |arg| arg.default_value("8")),
          mut_arg("max_bytes", |arg| arg.default_value("64M")),
          mut_arg("step_factor", |arg| arg.default_value("2")))]
pub struct Options {
    /// Sizes of the puts and gets
    #[command(flatten)]
    #[serde(flatten)]
    pub sizes: Sizes,
    /// Rounds: in each, everything that is compared has its turn
    #[arg(long, value_name = "COUNT", default_value_t = 41, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Test instead of measuring: all ranks make COUNT random operations on the symmetric heap and compare it with a model
    #[arg(long, value_name = "COUNT")]
    pub heap_operations: Option<u64>,
    /// Seed of the random operations
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Write the table to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The results of a program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Penny's version.
    pub version: String,
    /// Ranks.
    pub nranks: u32,
    /// How it was measured.
    pub options: Options,
    /// The table.
    pub rows: Vec<Row>,
    /// The number of wrong bytes, words and signals.
    pub wrong: u64,
}

impl Report {
    fn head(&self) -> String {
        format!(
            "# shmem_perf  penny {}  ranks: {}  rounds: {}\n{}",
            self.version,
            self.nranks,
            self.options.rounds,
            Row::head(2)
        )
    }

    fn foot(&self) -> String {
        match self.wrong {
            0 => "# Out of bounds values : 0 OK".to_owned(),
            wrong => format!("# Out of bounds values : {wrong} FAILED"),
        }
    }
}

/// Runs one rank. Exit code 0: all was right; 1: something was wrong; 2: the options were wrong.
pub fn run(options: &Options) -> ExitCode {
    if let Err(sentence) = options.sizes.list() {
        eprintln!("shmem_perf: {sentence}");
        return ExitCode::from(2);
    }
    match measure(options) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(sentence) => {
            eprintln!("shmem_perf: {sentence}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &Options) -> Result<u64, String> {
    let (size, little) = churn::SEGMENT;
    if options.heap_operations.is_some() && std::env::var_os(size).is_none() {
        // SAFETY: no other thread of this process exists yet.
        unsafe { std::env::set_var(size, little) };
    }
    let comm = Communicator::from_env()?;
    let say = |text: String| {
        if comm.rank() == 0 {
            // An error of stdout is ignored: if this rank stopped here, the other ranks would wait for it.
            let _ = writeln!(std::io::stdout().lock(), "{text}");
        }
    };
    let heap = Heap::init(&comm)?;
    let wrong = match options.heap_operations {
        Some(operations) => {
            let verdict = churn::run(&heap, operations, options.seed)?;
            say(verdict.to_string());
            verdict.wrong
        }
        None => {
            if comm.nranks() != 2 {
                return Err(format!("it measures between 2 ranks, and there are {}", comm.nranks()));
            }
            let mut report = Report {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                nranks: comm.nranks(),
                options: options.clone(),
                rows: Vec::new(),
                wrong: 0,
            };
            say(report.head());
            let mut keep = |row: Row| {
                say(row.to_string());
                report.rows.push(row);
            };
            let mut wrong = ping_pong::measure(&heap, options.rounds, &mut keep)?;
            wrong += access::measure(&heap, options, &mut keep)?;
            report.wrong = comm.gather(wrong as f64)?.iter().sum::<f64>() as u64;
            say(report.foot());
            if let (0, Some(path)) = (comm.rank(), &options.json) {
                let text = serde_json::to_string_pretty(&report).map_err(|e| e.to_string())?;
                std::fs::write(path, text + "\n").map_err(|e| format!("--json {}: {e}", path.display()))?;
            }
            report.wrong
        }
    };
    heap.finalize()?;
    // A launcher ends all ranks as soon as one reports a failure, so no rank does before rank 0 has written everything.
    comm.barrier()?;
    comm.destroy()?;
    Ok(wrong)
}
