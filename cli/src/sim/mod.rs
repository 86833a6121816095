//! `penny sim`: computes the time of a collective on a declared machine, without processes and without data.

mod goal;
mod programs;
mod published;
pub mod quickest;
pub mod side_by_side;
mod table;
pub mod uplinks;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use penny::sim::algorithms;
use penny::sim::fabric::engine;
use penny::sim::fabric::shortcuts::{Summary, Used};
use penny::sim::fabric::tuning::Tuning;
use penny::sim::plan::RankView;
use penny::sim::topology::Network;
use penny::{Code, DataType};
use penny_bench::layout;
use penny_bench::sizes::Sizes;
use penny_bench::subject::Subject;
pub use programs::Programs;
use table::Row;

use crate::answer::PassedOn;
use crate::launch::Stream;
use crate::machine::Placed;
use crate::trace::traced;
use crate::{answer, candidates, machine, planned, plot, rings, workload};

const EXAMPLES: &str = "\
Sizes are bytes; K, M, G and KiB, MiB, GiB multiply by powers of 1024, kB, MB, GB by powers of 1000.

Examples:
  penny sim all_reduce --fabric dgx-h100 --nodes 2 -n 16 -b 256M -e 8G -f 2 --algorithm ring,alternating_rings
  penny sim all_reduce --fabric dgx-h100 -b 1K -e 4G -f 4 --algorithm all --plot all_reduce.svg
  penny sim all_reduce --fabric tpu-v5e:shape=4x4 -b 1M -e 1M --algorithm torus --counters
  penny sim all_reduce --fabric dgx-h100 -b 8 -e 64M -f 8 --algorithm tree --iters 20
  penny sim all_reduce --fabric t3000 -b 64K --algorithm ring_pair --trace ring_pair.json
  penny sim broadcast --fabric dgx-a100 -b 1M --algorithm tree --goal tree.goal
  penny sim --workload step.toml --fabric dgx-h100:nodes=2,t3000 --compute declared
  penny sim --published bench/published/all_reduce.toml
  penny sim all_gather --fabric ./my-machine.toml -b 8 -e 1G -f 4 --json | jq .busbw_gb_per_s";

/// The options of `penny sim`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES,
          mut_arg("max_bytes", |arg| arg.default_value(None).help("Last size; default: the first size only")),
          mut_arg("step_factor", |arg| arg.default_value("2")),
          mut_arg("fabric", |arg| arg.required(false).required_unless_present("published").default_value("").hide_default_value(true)),
          mut_args(|arg| if is_of_one_call(arg.get_id().as_str()) { arg.conflicts_with("workload") } else { arg }))]
pub struct Args {
    /// The collective
    #[arg(required_unless_present_any = ["workload", "published"], value_parser = planned::collectives())]
    collective: Option<Subject>,
    #[command(flatten)]
    workload: workload::Options,
    #[command(flatten)]
    machine: Placed,
    #[command(flatten)]
    sizes: Sizes,
    /// Element type
    #[arg(short = 'd', long, value_name = "TYPE", default_value = "float", value_parser = planned::datatype())]
    datatype: DataType,
    /// Root, for collectives that have one
    #[arg(short = 'r', long, value_name = "RANK", default_value_t = 0)]
    root: u32,
    /// Algorithms (also --algo), `all`, or `auto` for the quickest at each size
    #[arg(long, alias = "algo", value_name = "NAME,...", value_delimiter = ',', default_value = "auto")]
    algorithm: Vec<String>,
    /// Calls back to back, each rank's next one when its last is over; the time is their mean
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    iters: u32,
    /// Print the used ports after each line: bytes, messages, share of the time, longest queue
    #[arg(long)]
    counters: bool,
    /// Draw time and bus bandwidth over size to this file, one line for each algorithm
    #[arg(long, value_name = "FILE.svg", value_parser = answer::svg_file)]
    plot: Option<PathBuf>,
    /// Write a trace of all ports to this file, for Perfetto or chrome://tracing (one size and one algorithm)
    #[arg(long, value_name = "FILE", value_parser = answer::file_beside_a_table)]
    trace: Option<PathBuf>,
    /// Write the messages to this file as a GOAL schedule, for LogGOPSim (one size and one algorithm)
    #[arg(long, value_name = "FILE", value_parser = answer::file_beside_a_table)]
    goal: Option<PathBuf>,
    /// Print the errors against the tables of measured times in these files (`bench/published`), each on its own machine
    #[arg(long, value_name = "FILE", num_args = 1.., exclusive = true)]
    published: Vec<PathBuf>,
    /// Print JSON, one object a line, instead of the table
    #[arg(long)]
    json: bool,
}

/// Tells whether an option is about the call that is priced, and means nothing for a workload.
fn is_of_one_call(option: &str) -> bool {
    let of_sizes = ["min_bytes", "max_bytes", "step_bytes", "step_factor"];
    let of_call = ["collective", "datatype", "root", "counters", "plot", "trace", "goal", "iters"];
    of_sizes.contains(&option) || of_call.contains(&option)
}

/// The elements of a block, and the bytes of an element.
#[derive(Clone, Copy)]
pub struct Block {
    pub count: u64,
    pub size: u64,
}

/// What a price is wanted for.
#[derive(Clone, Copy)]
pub enum Wanted {
    /// The algorithm was named.
    Named,
    /// It competes with others, of which the quickest takes this time in picoseconds, if one is known.
    Quicker(Option<u64>),
}

/// The price of a call, and how it is carried and was priced.
pub struct Priced {
    pub tuning: Tuning,
    pub summary: Summary,
    pub used: Used,
    /// What the machine's library expects it to take: the choice is by this.
    pub expected_ps: u64,
}

/// A machine, bare and by each of its protocols.
pub struct Views(Vec<Arc<Network>>);

impl Views {
    pub fn of(network: &Network) -> Views {
        Views(network.views())
    }
    /// Returns the machine as it was declared.
    pub fn bare(&self) -> &Network {
        &self.0[0]
    }
    /// Returns the machine as a call finds it that is carried so.
    pub fn view(&self, tuning: Tuning) -> &Network {
        &self.0[tuning.protocol as usize]
    }
}

/// Prices, and prints the table.
pub fn main(args: &Args) -> Result<ExitCode, String> {
    if !args.published.is_empty() {
        return published::main(&args.published);
    }
    let subject = match (&args.workload.workload, args.collective) {
        (Some(file), _) => {
            let (options, machine, algorithms) = (&args.workload, &args.machine, &args.algorithm[..]);
            return workload::main(
                file,
                &workload::Request { options, machine, algorithms, json: args.json },
            );
        }
        (None, Some(subject)) => subject,
        (None, None) => return Err("name a collective, or give --workload".to_owned()),
    };
    let collective = planned::collective(subject)?;
    let dtype = args.datatype;
    let network = args.machine.open()?;
    let view = args.machine.view(&network, collective, args.root)?;
    let machine = Views::of(&network);
    let candidates = programs(&args.algorithm, &view)?;
    let is_named = quickest::named(&network, &view, &args.algorithm);
    let auto = args.algorithm.iter().any(|name| name == "auto");
    let sizes = args.sizes.list()?;
    for (option, file) in [("--trace", &args.trace), ("--goal", &args.goal)] {
        if file.is_some() && (sizes.len() > 1 || candidates.len() > 1) {
            let remedy = "give one size (-b) and one algorithm (--algorithm)";
            return Err(format!("{option}: the file is of one call; {remedy}"));
        }
    }
    let hash = machine::hash(&network);
    let mut text = if args.json { String::new() } else { table::head(args, &network, &hash, view.nranks) };
    let mut drawn = Vec::new();
    let places = machine::places(&network, view.nranks)?;
    let told = rings::sentence(&network, &places);
    if !args.json && !told.is_empty() {
        text += &format!("# {told}\n");
    }
    if !args.json && !network.protocols.is_empty() && !algorithms::is_carried(&network, &view) {
        text += &format!(
            "# no protocol of this machine carries {collective}: these are the times of the bare machine, without a library's\n"
        );
    }
    let competes = |candidate: &Programs| !args.algorithm.iter().any(|name| name == candidate.algorithm.name);
    let mut order: Vec<(usize, &Programs)> = candidates.iter().enumerate().collect();
    let block = |candidate: &Programs, count| Block {
        count: candidate.within_reach(count) as u64,
        size: dtype.size() as u64,
    };
    for &bytes in &sizes {
        let count = layout::count(subject, view.nranks, bytes, dtype.size());
        let mut priced =
            candidates.iter().filter(|c| c.too_many(&machine, &places, block(c, count)).is_none());
        priced.try_for_each(|candidate| candidate.check_slices(&machine, block(candidate, count)))?;
    }
    for &bytes in &sizes {
        let count = layout::count(subject, view.nranks, bytes, dtype.size());
        let mut named = candidates.iter().filter(|candidate| !competes(candidate));
        if let Some(why) = named.find_map(|c| c.too_many(&machine, &places, block(c, count))) {
            return Err(format!("--algorithm {why}; take fewer ranks, or another algorithm"));
        }
    }
    let progress = progress((sizes.len() * candidates.len()) as u64);
    // Tells whether what one takes spares others; else all are priced at the same time.
    let spares = auto && args.plot.is_none();
    let mut out = PassedOn::default();
    // A file is wanted also by those who have seen enough of the table.
    let has_file = [&args.plot, &args.trace, &args.goal].iter().any(|file| file.is_some());
    // A table goes out as it grows, since no row depends on those of other sizes. JSON is whole, or not there at all. Tells whether more is wanted.
    let mut pass_on = |text: &mut String| {
        if !args.json {
            progress.suspend(|| out.write(Stream::Out, std::mem::take(text).as_bytes()));
        }
        has_file || !out.is_over()
    };
    let mut is_wanted = pass_on(&mut text);
    for bytes in sizes {
        if !is_wanted {
            break;
        }
        let count = layout::count(subject, view.nranks, bytes, dtype.size());
        let mut too_many: Vec<Option<String>> =
            candidates.iter().map(|c| c.too_many(&machine, &places, block(c, count))).collect();
        let price = |candidate: &Programs, least_ps| {
            progress.set_message(format!("{bytes} bytes by {}", candidate.algorithm.name));
            let wanted = match is_named(candidate.algorithm.name) {
                true => Wanted::Named,
                false => Wanted::Quicker(least_ps),
            };
            let priced = candidate.price(&machine, &places, block(candidate, count), wanted);
            progress.inc(1);
            priced
        };
        let mut found: Vec<Option<penny::Result<Option<Priced>>>> = candidates.iter().map(|_| None).collect();
        if !spares {
            let followed: Vec<(usize, &Programs)> =
                order.iter().copied().filter(|&(number, _)| too_many[number].is_none()).collect();
            let prices = side_by_side::each(&followed, |(_, one)| one.bytes(), |&(_, one)| price(one, None));
            followed.iter().zip(prices).for_each(|(&(number, _), priced)| found[number] = Some(priced));
        }
        if auto {
            // What a library expects to be over soonest spares the others; else those first that are priced quickly.
            order.sort_by_key(|(_, candidate)| {
                let expected_ps = candidate.expected_ps(&machine, block(candidate, count));
                (expected_ps.unwrap_or(u64::MAX), candidate.effort())
            });
        }
        let mut rows: Vec<(usize, Row)> = Vec::new();
        let mut left_out = Vec::new();
        for &(number, candidate) in &order {
            if let Some(why) = too_many[number].take() {
                progress.inc(1);
                left_out.push(why);
                continue;
            }
            let within = candidate.within_reach(count);
            let block = block(candidate, count);
            let best = rows.iter().map(|(number, row)| (row.alone_ps, *number)).min();
            // Of two that take the same time the first of the table is taken.
            let least_ps = best.map(|(least_ps, first)| least_ps + u64::from(number < first));
            let least_ps = least_ps.filter(|_| spares);
            if least_ps.is_some_and(|least_ps| candidate.is_slower(&machine, &places, block, least_ps)) {
                progress.inc(1);
                continue;
            }
            let mut priced = match found[number].take().unwrap_or_else(|| price(candidate, least_ps)) {
                Ok(Some(priced)) => priced,
                Ok(None) => continue,
                Err(why) if competes(candidate) && why.code == Code::InvalidArgument => {
                    left_out.push(format!("{}: {}", candidate.algorithm.name, why.message));
                    continue;
                }
                Err(why) => return Err(why.message.clone()),
            };
            if within != count && !args.json {
                text += &format!(
                    "# {count} elements, {within} of them priced: this number of ranks needs chunks of one size\n"
                );
            }
            let alone_ps = priced.expected_ps;
            if within == 0 {
                // Ranks return from such a call at once.
                priced.summary = engine::price_of_nothing(&network, places.len()).into();
            } else if args.iters > 1 {
                priced = candidate.in_succession(&machine, &places, block, priced, args.iters)?;
            }
            if let Some(file) = &args.goal {
                answer::save(
                    "--goal",
                    file,
                    &goal::schedule(&candidate.call(&places, block, priced.tuning))?,
                )?;
            }
            if let Some(file) = &args.trace {
                let call = candidate.call(&places, block, priced.tuning);
                let (_, text) = traced(machine.view(priced.tuning), &call)?;
                answer::save("--trace", file, &text)?;
            }
            let loads = uplinks::of(&network, candidate, &places);
            let name = candidate.algorithm.name;
            let row = Row::new(args, &network, &hash, &view, name, within, dtype, &priced, alone_ps, &loads);
            rows.push((number, row));
        }
        if rows.is_empty() && !left_out.is_empty() {
            return Err(format!("{}; take fewer ranks", left_out.join("; ")));
        }
        if !args.json {
            left_out.iter().for_each(|why| text += &format!("# not priced: {why}\n"));
        }
        rows.sort_by_key(|(number, _)| *number);
        let mut rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
        drawn.extend(rows.iter().map(Row::point));
        if auto {
            // As ranks choose it, who do not know how often they will call.
            rows.sort_by_key(|row| row.alone_ps);
            rows.truncate(1);
        }
        for row in rows {
            text += &if args.json { row.json()? } else { row.line(dtype) };
        }
        is_wanted = pass_on(&mut text);
    }
    progress.finish_and_clear();
    if let Some(file) = &args.plot {
        let title = format!("{subject} on {}, {} ranks", network.name, view.nranks);
        plot::draw(file, &title, plot::BUS, &plot::lines(drawn))
            .map_err(|e| format!("--plot {}: {e}", file.display()))?;
    }
    out.write(Stream::Out, text.as_bytes());
    out.end().map(|()| ExitCode::SUCCESS)
}

/// Makes a line that shows what is being priced, on standard error, and hidden if that is no terminal.
fn progress(prices: u64) -> ProgressBar {
    let target = match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let style = ProgressStyle::with_template("{spinner} pricing {pos} of {len}: {msg}, {elapsed}");
    let bar = ProgressBar::with_draw_target(Some(prices), target);
    bar.with_style(style.expect("a constant template"))
}

/// The algorithms by name, with the programs of all ranks.
pub fn programs(names: &[String], view: &RankView) -> Result<Vec<Programs>, String> {
    let chosen = match names {
        [word] if word == "auto" || word == "all" => candidates::able(view)?,
        names => names.iter().map(|name| candidates::named(name, view)).collect::<Result<_, _>>()?,
    };
    Ok(chosen.into_iter().map(|algorithm| Programs::new(algorithm, view)).collect())
}
