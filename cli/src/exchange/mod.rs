//! `penny perf exchange`: two GPUs swap their buffers, the first benchmark of the Penny worklog.
//!
//! Both directions are counted: 733 GB/s is 366.5 each way. `pattern` says what the two do, and real ranks could run
//! it; `kernel` says what their kernels add, and prices it on a declared machine.

mod kernel;
mod pattern;

use std::path::PathBuf;
use std::process::ExitCode;

use kernel::Signal;
use penny::Rank;
use penny::sim::topology::Network;
use penny_bench::sizes::{Sizes, parse_bytes};
use serde::Serialize;

use crate::{answer, machine, plot};

const EXAMPLES: &str = "\
Both directions are counted. The pairs are places 0 and 1, and place 0 with its like on the next node.

Examples:
  penny perf exchange --fabric dgx-h100
  penny perf exchange --fabric dgx-a100 -b 64K -e 1G -f 4 --plot exchange.svg
  penny perf exchange --fabric dgx-h100 -b 256M -e 256M --slots 4 --json";

/// The options of `penny perf exchange`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES,
          mut_arg("min_bytes", |arg| arg.default_value("256K")),
          mut_arg("max_bytes", |arg| arg.default_value("1G")),
          mut_arg("step_factor", |arg| arg.default_value("4")))]
pub struct Args {
    /// Machine: a preset, a preset with arguments, or a TOML file; nodes=2 where it takes that and says nothing else
    #[arg(long, value_name = "MACHINE")]
    fabric: String,
    #[command(flatten)]
    sizes: Sizes,
    /// Most bytes that all blocks which run at once put to the peer; 528K: 132 processors x 1024 threads x 4 B
    #[arg(long, value_name = "BYTES", default_value_t = kernel::WAVE as usize, value_parser = parse_bytes)]
    wave: usize,
    /// Waves under way at once
    #[arg(long, value_name = "N", default_value_t = kernel::SLOTS, value_parser = clap::value_parser!(u32).range(1..))]
    slots: u32,
    /// Draw time and bandwidth over size to this file, one line a pair and kind of signal
    #[arg(long, value_name = "FILE.svg", value_parser = answer::svg_file)]
    plot: Option<PathBuf>,
    /// Print JSON, one object a line, instead of the table
    #[arg(long)]
    json: bool,
}

/// One price.
#[derive(Serialize)]
struct Row {
    fabric: String,
    fabric_hash: String,
    places: [Rank; 2],
    signal: Signal,
    bytes: u64,
    time_ps: u64,
    /// Both directions, 10^9 bytes a second.
    gb_per_s: f64,
}

/// Prices, and prints the table.
pub fn main(args: &Args) -> Result<ExitCode, String> {
    let spec = spec(args);
    let network = machine::open(&spec, None, None)?;
    let sizes = args.sizes.list()?;
    let hash = machine::hash(&network);
    let mut rows = Vec::new();
    for pair in pairs(&network)? {
        for &bytes in &sizes {
            for signal in Signal::ALL {
                rows.push(row(args, &spec, &hash, pair, bytes as u64, signal)?);
            }
        }
    }
    if let Some(file) = &args.plot {
        let points = rows.iter().map(|row| plot::Point {
            line: format!("{} and {} {}", row.places[0], row.places[1], row.signal.name()),
            bytes: row.bytes as f64,
            time_us: row.time_ps as f64 / 1e6,
            gb_per_s: row.gb_per_s,
        });
        let title = format!("exchange on {}", network.name);
        plot::draw(file, &title, "both directions, GB/s", &plot::lines(points))
            .map_err(|e| format!("--plot {}: {e}", file.display()))?;
    }
    if args.json {
        let lines: Result<Vec<_>, _> = rows.iter().map(serde_json::to_string).collect();
        return answer::print(&(lines.map_err(|e| e.to_string())?.join("\n") + "\n"));
    }
    let head = format!(
        "# exchange  fabric: {} {hash}  waves of {} B, {} at once; both directions counted\n",
        network.name, args.wave, args.slots
    );
    answer::print(&(head + &table(&rows)))
}

/// Two nodes where the machine has one and takes the argument: an exchange has a pair inside and a pair across.
fn spec(args: &Args) -> String {
    let is_one = |network: Network| network.shape.nodes() == 1 && !args.fabric.contains("nodes=");
    if !machine::open(&args.fabric, None, None).is_ok_and(is_one) {
        return args.fabric.clone();
    }
    let two = machine::spec(&args.fabric, Some(2), None).ok();
    two.filter(|two| machine::open(two, None, None).is_ok()).unwrap_or_else(|| args.fabric.clone())
}

/// Place 0 with its neighbour, and with its like on the next node.
fn pairs(network: &Network) -> Result<Vec<(Rank, Rank)>, String> {
    let (inside, places) = (network.shape.per_node(), network.shape.nranks());
    if places < 2 {
        return Err(format!("--fabric: {} has one place, and an exchange needs two", network.name));
    }
    let mut pairs = vec![(0, 1)];
    if inside > 1 && places > inside {
        pairs.push((0, inside));
    }
    Ok(pairs)
}

fn row(
    args: &Args,
    spec: &str,
    hash: &str,
    pair: (Rank, Rank),
    bytes: u64,
    signal: Signal,
) -> Result<Row, String> {
    let network = machine::open(spec, None, None)?;
    let waves = pattern::Waves::of(bytes, args.wave as u64, args.slots)?;
    let fabric = network.name.clone();
    let time_ps = kernel::price(network, pair, waves, signal)?;
    let moved = waves.bytes * u64::from(waves.number);
    Ok(Row {
        fabric,
        fabric_hash: hash.to_owned(),
        places: [pair.0, pair.1],
        signal,
        bytes: moved,
        time_ps,
        gb_per_s: 2.0 * moved as f64 / (time_ps.max(1) as f64 * 1e-12) / 1e9,
    })
}

/// A pair after the other, a size a line, both kinds of signal beside each other.
fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut last = None;
    for both in rows.chunks(Signal::ALL.len()) {
        let places = both[0].places;
        if last.replace(places) != Some(places) {
            text += &format!("#\n# places {} and {}\n# {:>10}", places[0], places[1], "size");
            for signal in Signal::ALL {
                text += &format!(" {:>10} {:>8}", signal.name(), "");
            }
            text += &format!("\n# {:>10}", "(B)");
            text += &format!(" {:>10} {:>8}", "(us)", "(GB/s)").repeat(Signal::ALL.len());
            text += "\n";
        }
        text += &format!("{:>12}", both[0].bytes);
        for row in both {
            text += &format!(" {:>10.2} {:>8.2}", row.time_ps as f64 * 1e-6, row.gb_per_s);
        }
        text += "\n";
    }
    text
}
