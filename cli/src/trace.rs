//! `penny trace`: the place of each message of a collective over time, on a declared machine, for Perfetto.

use std::path::PathBuf;
use std::process::ExitCode;

use penny::DataType;
use penny::sim::algorithms;
use penny::sim::fabric::engine::price_traced;
use penny::sim::fabric::trace::perfetto;
use penny::sim::fabric::{CallTimes, PricedCall};
use penny::sim::topology::Network;
use penny_bench::layout;
use penny_bench::sizes::parse_bytes;
use penny_bench::subject::Subject;

use crate::machine::Placed;
use crate::sim::quickest::quickest;
use crate::sim::{Block, Priced, Views};
use crate::{answer, machine, planned, sim};

const EXAMPLES: &str = "\
The answer is JSON for https://ui.perfetto.dev or chrome://tracing: a group of tracks a rank, and one of all ports.

Examples:
  penny trace all_reduce --fabric t3000 -b 64K --algorithm ring_pair > ring_pair.json
  penny trace all_reduce --fabric dgx-h100 --nodes 2 -b 16M -o quickest.json";

/// The options of `penny trace`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The collective
    #[arg(value_parser = planned::collectives())]
    collective: Subject,
    #[command(flatten)]
    machine: Placed,
    /// Size, as `penny sim` counts it
    #[arg(short = 'b', long, value_name = "BYTES", default_value = "1M", value_parser = parse_bytes)]
    bytes: usize,
    /// Element type
    #[arg(short = 'd', long, value_name = "TYPE", default_value = "float", value_parser = planned::datatype())]
    datatype: DataType,
    /// Root, for collectives that have one
    #[arg(short = 'r', long, value_name = "RANK", default_value_t = 0)]
    root: u32,
    /// Algorithm (also --algo), or `auto` for the quickest
    #[arg(long, alias = "algo", value_name = "NAME", default_value = "auto")]
    algorithm: String,
    /// Write to this file; `-`: standard output
    #[arg(short = 'o', long, value_name = "FILE", default_value = answer::STANDARD, value_parser = answer::file)]
    output: PathBuf,
}

/// Writes the trace.
pub fn main(args: &Args) -> Result<ExitCode, String> {
    let collective = planned::collective(args.collective)?;
    let dtype = args.datatype;
    let network = args.machine.open()?;
    let view = args.machine.view(&network, collective, args.root)?;
    let candidates = sim::programs(std::slice::from_ref(&args.algorithm), &view)?;
    let places = machine::places(&network, view.nranks)?;
    let (machine, is_carried) = (Views::of(&network), algorithms::is_carried(&network, &view));
    let count = layout::count(args.collective, view.nranks, args.bytes, dtype.size()) as u64;
    let block = Block { count, size: dtype.size() as u64 };
    let is_named = |_: &str| args.algorithm != "auto" || !is_carried;
    let found = quickest(&candidates, &machine, &places, is_named, |_| block)?;
    let (number, Priced { tuning, .. }) = found.ok_or("there is no algorithm to trace")?;
    let (_, text) = traced(machine.view(tuning), &candidates[number].call(&places, block, tuning))?;
    answer::save("--output", &args.output, &text)?;
    Ok(ExitCode::SUCCESS)
}

/// A price, and the trace of it.
pub fn traced(network: &Network, call: &PricedCall<'_>) -> Result<(CallTimes, String), String> {
    let (mut spans, entry) = (Vec::new(), vec![network.launch_ps; call.places.len()]);
    let outcome =
        price_traced(network, call, &entry, &mut |span| spans.push(span)).map_err(|e| e.message.clone())?;
    Ok((outcome, perfetto(&spans, network)))
}
