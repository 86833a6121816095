//! `penny sim`: what a collective would take on a declared machine, without processes and without data.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use penny::algorithms::{self, Algorithm};
use penny::fabric::shortcuts::{self, Ask, Summary, Used};
use penny::fabric::trace::perfetto;
use penny::fabric::{Call, Outcome, engine};
use penny::plan::cycles::Cycles;
use penny::plan::{Plan, Shape, View};
use penny::topology::{self, Network};
use penny::types::{Collective, DataType};
use penny_bench::layout;
use penny_bench::options::{Choice, parse_bytes};
use penny_bench::report::Measurement;
use penny_bench::subject::Subject;
use serde::Serialize;

use crate::{answer, methods};

const EXAMPLES: &str = "\
Sizes are bytes; K, M and G multiply by 1024, 1024^2 and 1024^3.

Examples:
  penny sim all_reduce --fabric dgx-h100 --nodes 2 -n 16 -b 256M -e 8G -f 2 --algo ring,alternating_rings
  penny sim all_reduce --fabric tpu-v5e:shape=4x4 -b 1M --algo torus --counters
  penny sim all_reduce --fabric t3000 -b 64K --algo ring_pair --trace ring_pair.json
  penny sim all_gather --fabric ./my-machine.toml -b 8 -e 1G -f 4 --json | jq .busbw_gbps";

/// The options of `penny sim`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The collective
    collective: Subject,
    /// Machine: a preset, a preset with arguments (dgx-h100:nodes=2), or a TOML file
    #[arg(long, value_name = "MACHINE")]
    fabric: String,
    /// Nodes of the preset: the same as :nodes=N after its name
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// Ranks; without: one at each place of the machine
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// First size
    #[arg(short = 'b', long = "minbytes", value_name = "BYTES", default_value = "32M", value_parser = parse_bytes)]
    min_bytes: usize,
    /// Last size; without: only the first
    #[arg(short = 'e', long = "maxbytes", value_name = "BYTES", value_parser = parse_bytes)]
    max_bytes: Option<usize>,
    /// Multiplies from one size to the next
    #[arg(short = 'f', long = "stepfactor", value_name = "FACTOR", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(2..))]
    step_factor: u32,
    /// Element type
    #[arg(short = 'd', long, value_name = "TYPE", default_value = "float")]
    datatype: Choice<DataType>,
    /// Root, for collectives that have one
    #[arg(short = 'r', long, value_name = "RANK", default_value_t = 0)]
    root: u32,
    /// Methods, `all`, or `auto`: the quickest of all at each size
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "auto")]
    algo: Vec<String>,
    /// Chunks above this many bytes travel in slices of so many; without: whole
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    slice: Option<usize>,
    /// After each line, the ports that were used: bytes, messages, share of the time, longest queue
    #[arg(long)]
    counters: bool,
    /// Write what passed each port when to this file, for Perfetto or chrome://tracing: one size and one method
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print JSON, one object a line, instead of the table
    #[arg(long)]
    json: bool,
}

/// One line of the answer.
#[derive(Serialize)]
struct Row {
    fabric: String,
    collective: &'static str,
    ranks: u32,
    bytes: usize,
    count: usize,
    algo: &'static str,
    time_ps: u64,
    algbw_gbps: f64,
    busbw_gbps: f64,
    events: u64,
    engine: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ports: Vec<PortRow>,
}

/// What passed one port.
#[derive(Serialize)]
struct PortRow {
    port: String,
    bytes: u64,
    messages: u64,
    busy: f64,
    queue_high: u32,
}

/// A method and its programs, which serve every size; the list of steps only where it is needed.
struct Method {
    algorithm: &'static Algorithm,
    cycles: Option<Cycles>,
    plans: OnceCell<Vec<Plan>>,
}

/// Prices, and prints the table.
pub fn main(args: &Args) -> Result<ExitCode, String> {
    let Subject::Collective(collective) = args.collective else {
        return Err(format!("{} is two calls, not a collective: it has no plan", args.collective));
    };
    let Choice::One(dtype) = args.datatype else {
        return Err("--datatype: a simulation is of one type".to_owned());
    };
    let network = topology::open(&spec(args)).map_err(|e| e.message)?;
    let view = view(args, collective, &network)?;
    let methods = programs(&args.algo, &view)?;
    let auto = args.algo.iter().any(|name| name == "auto");
    let mut text = if args.json { String::new() } else { head(args, &network, view.nranks) };
    let sizes = sizes(args)?;
    if args.trace.is_some() && (sizes.len() > 1 || methods.len() > 1) {
        return Err("--trace: a trace is of one call; give one size (-b) and one method (--algo)".to_owned());
    }
    for bytes in sizes {
        let count = layout::count(args.collective, view.nranks, bytes, dtype.size());
        let mut rows = Vec::new();
        for method in &methods {
            let slice_bytes = args.slice.map_or(u64::MAX, |bytes| bytes.max(1) as u64);
            let within_reach =
                |cycles| shortcuts::count_within_reach(cycles, count as u64).try_into().unwrap_or(count);
            let within = method.cycles.as_ref().map_or(count, within_reach);
            if within != count && !args.json {
                text +=
                    &format!("# {count} elements, {within} of them: so many ranks need chunks of one size\n");
            }
            let sizes = (within, dtype.size(), slice_bytes);
            let priced = method.price(&network, &view, sizes, args.trace.as_deref())?;
            rows.push(row(args, &network, &view, method, within, dtype, &priced));
        }
        if auto {
            rows.sort_by_key(|row| row.time_ps);
            rows.truncate(1);
        }
        for row in rows {
            text += &if args.json { json(&row)? } else { line(&row, dtype) };
        }
    }
    answer::print(&text)
}

impl Method {
    /// The quickest way that is exact, and which that was. A trace is of the general engine.
    fn price(
        &self,
        network: &Network,
        view: &View,
        (count, size, slice_bytes): (usize, usize, u64),
        trace: Option<&Path>,
    ) -> Result<(Summary, Used), String> {
        let (count, size) = (count as u64, size as u64);
        let places: Vec<u32> = (0..view.nranks).collect();
        let entry_ps = &vec![0; view.nranks as usize];
        if let (Some(cycles), None) = (&self.cycles, trace) {
            let ask = Ask { cycles, places: &places, count, size, slice_bytes, entry_ps };
            return shortcuts::price(network, &ask).map_err(|e| e.message);
        }
        let plans = self.plans.get_or_init(|| algorithms::plan_all(self.algorithm, view));
        let call = Call { plans, view: view.clone(), count, size, slice_bytes };
        let outcome = match trace {
            None => engine::price(network, &call, entry_ps).map_err(|e| e.message)?,
            Some(file) => traced(network, &call, entry_ps, file)?,
        };
        Ok((outcome.into(), Used::steps(view.nranks)))
    }
}

/// Prices a call and writes its trace.
fn traced(network: &Network, call: &Call<'_>, entry: &[u64], file: &Path) -> Result<Outcome, String> {
    let mut spans = Vec::new();
    let outcome =
        engine::price_traced(network, call, entry, &mut |span| spans.push(span)).map_err(|e| e.message)?;
    std::fs::write(file, perfetto(&spans, network))
        .map_err(|e| format!("--trace {}: cannot write: {e}", file.display()))?;
    Ok(outcome)
}

/// The machine with `--nodes` added to its arguments.
fn spec(args: &Args) -> String {
    match args.nodes {
        None => args.fabric.clone(),
        Some(nodes) => {
            let sign = if args.fabric.contains(':') { ',' } else { ':' };
            format!("{}{sign}nodes={nodes}", args.fabric)
        }
    }
}

/// Ranks fill the places in order: whole nodes keep the machine's arrangement, anything else is flat.
fn view(args: &Args, collective: Collective, network: &Network) -> Result<View, String> {
    let places = network.shape.nranks();
    let nranks = args.ranks.unwrap_or(places);
    if nranks > places {
        return Err(format!("-n {nranks}: {} has {places} places; give it more nodes", network.name));
    }
    if args.root >= nranks {
        return Err(format!("--root {} is not a rank of {nranks}: 0..={}", args.root, nranks - 1));
    }
    let node = network.shape.per_node();
    let shape = match () {
        () if nranks == places => network.shape,
        () if nranks.is_multiple_of(node) => Shape([node, nranks / node, 1]),
        () => Shape::flat(nranks),
    };
    Ok(View { shape, ..View::flat(collective, 0, nranks, args.root) })
}

fn sizes(args: &Args) -> Result<Vec<usize>, String> {
    let (low, high) = (args.min_bytes, args.max_bytes.unwrap_or(args.min_bytes));
    if low > high {
        return Err(format!("--minbytes ({low}) is above --maxbytes ({high})"));
    }
    let next = |size: &usize| size.checked_mul(args.step_factor as usize).filter(|next| next > size);
    Ok(std::iter::successors(Some(low), next).take_while(|&size| size <= high).collect())
}

/// The methods by name, with the programs of all ranks.
fn programs(names: &[String], view: &View) -> Result<Vec<Method>, String> {
    let chosen = match names {
        [word] if word == "auto" || word == "all" => methods::able(view)?,
        names => names.iter().map(|name| methods::named(name, view)).collect::<Result<_, _>>()?,
    };
    let method =
        |algorithm| Method { algorithm, cycles: algorithms::cycles(algorithm, view), plans: OnceCell::new() };
    Ok(chosen.into_iter().map(method).collect())
}

fn row(
    args: &Args,
    network: &Network,
    view: &View,
    method: &Method,
    count: usize,
    dtype: DataType,
    (summary, used): &(Summary, Used),
) -> Row {
    let time_ps = summary.last_ps();
    let bytes = layout::shown_bytes(args.collective, view.nranks, count, dtype.size());
    let factor = args.collective.bus_factor(view.nranks);
    let measured = Measurement::new(time_ps as f64 * 1e-12, bytes, factor, None);
    let ports = if args.counters { used_ports(network, summary, time_ps) } else { Vec::new() };
    Row {
        fabric: network.name.clone(),
        collective: view.collective.name(),
        ranks: view.nranks,
        bytes,
        count,
        algo: method.algorithm.name,
        time_ps,
        algbw_gbps: measured.algbw_gbps,
        busbw_gbps: measured.busbw_gbps,
        events: summary.events,
        engine: used.to_string(),
        ports,
    }
}

fn used_ports(network: &Network, summary: &Summary, time_ps: u64) -> Vec<PortRow> {
    let ports = (0..).zip(&network.ports).map(|(id, port)| (port, summary.counters(id)));
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

fn head(args: &Args, network: &Network, nranks: u32) -> String {
    format!(
        "# {}_sim  fabric: {}  ranks: {nranks}  places: {}\n#\n# {:>10} {:>12} {:>10} {:>8} {:>7} {:>7}  {:<17} {:>9} engine\n# {:>10} {:>12} {:>10} {:>8} {:>7} {:>7}\n",
        args.collective,
        network.name,
        network.shape.nranks(),
        "size",
        "count",
        "type",
        "time",
        "algbw",
        "busbw",
        "method",
        "events",
        "(B)",
        "(elements)",
        "",
        "(us)",
        "(GB/s)",
        "(GB/s)",
    )
}

fn line(row: &Row, dtype: DataType) -> String {
    let Row { time_ps, algbw_gbps, busbw_gbps, .. } = *row;
    let measured = Measurement { time_us: time_ps as f64 * 1e-6, algbw_gbps, busbw_gbps, wrong: None };
    let mut text = format!(
        "{:12} {:12} {:>10} {}  {:<17} {:9} {}\n",
        row.bytes,
        row.count,
        dtype.to_string(),
        measured.columns(),
        row.algo,
        row.events,
        row.engine
    );
    for port in &row.ports {
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

fn json(row: &Row) -> Result<String, String> {
    serde_json::to_string(row).map(|line| line + "\n").map_err(|e| e.to_string())
}
