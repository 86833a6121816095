//! `penny perf`: the benchmarks of `penny_bench`, with this program as launcher and as ranks.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use penny::internals::comm;
use penny::sim::algorithms;
use penny::sim::plan::RankView;
use penny_bench::options::{Buffers, Options, Variant};
use penny_bench::report::{Report, Reports};
use penny_bench::subject::Subject;
use penny_bench::sweep;

use crate::answer::{self, PassedOn};
use crate::candidates;
use crate::launch::bind::{self, Bind};
use crate::launch::hosts::{HostArgs, HostRanks, Piped};
use crate::launch::{self, Job, Line, Stream, Work};
use crate::machine::MachineArgs;
use crate::plot;

/// The hidden subcommand that a rank runs.
pub const WORKER: &str = "perf-rank";

const EXAMPLES: &str = "\
Sizes are bytes; K, M, G and KiB, MiB, GiB multiply by powers of 1024, kB, MB, GB by powers of 1000. The exit code is 1 if a result was wrong.

Examples:
  penny perf all_reduce -n 2 -b 8 -e 64M -f 4
  penny perf all_reduce -n 16 -b 8 -e 64M -f 8 --fabric dgx-h100 --nodes 2
  penny perf all_reduce -n 16 -b 1M --fabric dgx-h100 --nodes 2 --clock paced:5000
  penny perf all_gather -n 4 -b 1K -e 1M -f 2 -d all -c 3
  penny perf all_reduce -n 4 -b 1K -e 16M -f 4 --algorithm ring,two_shot --buffers private,heap --plot all_reduce.svg";

/// The options of `penny perf`.
#[derive(clap::Args)]
// -n is the number of ranks here, as it is for `penny run`.
#[command(after_help = EXAMPLES, mut_arg("iters", |arg| arg.short(None)))]
pub struct Args {
    /// The collective
    collective: Subject,
    /// Processes to start; with --hosts, unset: one at each place there
    #[arg(short = 'n', long = "ranks", value_name = "N", required_unless_present_any = ["hosts", "hostfile"],
        allow_negative_numbers = true, value_parser = launch::ranks)]
    ranks: Option<u32>,
    #[command(flatten)]
    hosts: HostArgs,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    machine: MachineArgs,
    /// Algorithms, one run each (as for PENNY_ALGO; also --algo): repeat the option, or separate names by commas
    #[arg(long = "algorithm", alias = "algo", value_name = "NAME")]
    algorithms: Vec<String>,
    /// Kinds of buffers, one run each
    #[arg(long, value_name = "KIND", default_value = "private", value_delimiter = ',')]
    buffers: Vec<Buffers>,
    /// Cores of each rank; unset: its share of the cores of one host if it has more cores than ranks or as many
    #[arg(long, value_name = "WHAT")]
    bind: Option<Bind>,
    /// End the ranks of a run after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// Write the tables of all runs to this file as JSON
    #[arg(long, value_name = "FILE", value_parser = answer::file_beside_a_table)]
    json: Option<PathBuf>,
    /// Draw time and bus bandwidth over size to this file
    #[arg(long, value_name = "FILE.svg", value_parser = answer::svg_file)]
    plot: Option<PathBuf>,
}

#[cfg(test)]
impl Args {
    /// Returns the values of `-n` and `--iters`.
    pub fn ranks_and_iters(&self) -> (u32, Option<u32>) {
        (self.ranks.unwrap_or(0), self.options.iters)
    }
}

/// The arguments of one rank.
#[derive(clap::Args)]
pub struct WorkerArgs {
    subject: Subject,
    /// `Options` as JSON
    options: String,
    /// `Variant` as JSON
    variant: String,
}

/// Runs one rank.
pub fn worker(args: &WorkerArgs) -> ExitCode {
    match (serde_json::from_str(&args.options), serde_json::from_str(&args.variant)) {
        (Ok(options), Ok(variant)) => sweep::run(args.subject, &options, &variant),
        (Err(error), _) | (_, Err(error)) => {
            answer::tell(format_args!("penny {WORKER}: {error}; it is `penny perf` that calls this"));
            ExitCode::from(2)
        }
    }
}

/// Runs every variant, one after the other.
pub fn main(args: Args) -> Result<ExitCode, String> {
    let hosts = args.hosts.hosts(args.ranks)?;
    let ranks = match &hosts {
        Some(hosts) => hosts.iter().map(|host| host.ranks).sum(),
        None => args.ranks.unwrap_or(1),
    };
    let rows = sweep::rows(args.collective, &args.options, ranks)?;
    let variants = variants(&args);
    for variant in &variants {
        let checked = comm::check_environment(variant.algorithm.clone());
        // What a program sets as `algo` is an option here.
        checked.map_err(|error| error.message.replacen("algo ", "--algorithm ", 1))?;
        can_serve(&args, hosts.is_some(), ranks, variant)?;
    }
    let progress = progress(rows * variants.len());
    let mut reports = Reports::default();
    let mut out = PassedOn::default();
    for variant in variants {
        let name = variant.algorithm.as_deref().unwrap_or("auto");
        progress.set_message(format!("{} {name} {}", args.collective, variant.buffers.name()));
        // The table is kept even if its results are wrong.
        let mut show = |line: Line| match reports.take(line.text) {
            true => {}
            false => show(line, &progress, &mut out),
        };
        let outcome = launch::run_work(work(&args, hosts.as_deref(), ranks, &variant)?, Some(&mut show));
        if outcome.code != 0 {
            progress.finish_and_clear();
            write_reports(&args, ranks, &reports.whole)?;
            return Ok(outcome.report("penny perf"));
        }
    }
    progress.finish_and_clear();
    write_reports(&args, ranks, &reports.whole)?;
    out.end().map(|()| ExitCode::SUCCESS)
}

/// Fails if ranks on this host cannot use the algorithm that is named: each of them would say so.
fn can_serve(args: &Args, on_hosts: bool, ranks: u32, variant: &Variant) -> Result<(), String> {
    let is_here = !on_hosts && args.machine.is_none() && env_is_unset("PENNY_FABRIC");
    let (true, Subject::Collective(collective), Some(name)) =
        (is_here, args.collective, variant.algorithm.as_deref())
    else {
        return Ok(());
    };
    // Not the grammar of PENNY_ALGO.
    match algorithms::find(name) {
        Some(_) => candidates::named(name, &RankView::flat(collective, 1, ranks, 0)).map(drop),
        None => Ok(()),
    }
}

fn env_is_unset(name: &str) -> bool {
    std::env::var_os(name).is_none_or(|value| value.is_empty())
}

/// One variant for each algorithm and kind of buffers.
fn variants(args: &Args) -> Vec<Variant> {
    // Text with a colon is in the grammar of PENNY_ALGO, which uses commas itself; other text is a list of names.
    let split = |text: &String| match text.contains(':') {
        true => vec![Some(text.clone())],
        false => text.split(',').map(|name| Some(name.to_owned())).collect(),
    };
    let mut algorithms: Vec<_> = args.algorithms.iter().flat_map(split).collect();
    if algorithms.is_empty() {
        algorithms.push(None);
    }
    let with = |algorithm: Option<String>| {
        args.buffers.iter().map(move |&buffers| Variant {
            buffers,
            local_register: 0,
            algorithm: algorithm.clone(),
            json: Some("-".into()),
        })
    };
    algorithms.into_iter().flat_map(with).collect()
}

fn work(args: &Args, hosts: Option<&[HostRanks]>, ranks: u32, variant: &Variant) -> Result<Work, String> {
    let options = serde_json::to_string(&args.options).map_err(|e| e.to_string())?;
    let variant = serde_json::to_string(variant).map_err(|e| e.to_string())?;
    let arguments = [WORKER, args.collective.name(), &options, &variant].map(OsString::from).to_vec();
    let machine = args.machine.environment(ranks, false)?;
    let mut environment = launch::owned(machine.clone());
    environment.extend(args.hosts.variables()?);
    let timeout = args.timeout.map(Duration::from_secs);
    let here = || std::env::current_exe().map_err(|e| format!("cannot find myself: {e}"));
    // Ranks on a simulated cluster wait for its clock, and take turns.
    let is_simulated = !machine.is_empty() || !env_is_unset("PENNY_FABRIC");
    let own = if hosts.is_none() && !is_simulated && bind::suffice(ranks) { Bind::Cores } else { Bind::None };
    let bind = args.bind.unwrap_or(own);
    let program = if hosts.is_some() { args.hosts.penny()? } else { here()? }.into();
    let job = Job { program, arguments, environment, ranks, part: None, bind, timeout };

    if let Some(hosts) = hosts {
        return args.hosts.work(hosts, Piped::Lines, &job);
    }
    launch::work(&job, true)
}

/// Prints a line of a rank above the progress bar.
fn show(line: Line, progress: &ProgressBar, out: &mut PassedOn) {
    let text = [line.text, b"\n"].concat();
    // A reader that has gone away does not stop the measurement.
    progress.suspend(|| out.write(line.stream, &text));
    if line.stream == Stream::Out && !line.text.starts_with(b"#") {
        progress.inc(1);
    }
}

/// Makes a progress bar on standard error, which is hidden if that is no terminal.
fn progress(rows: usize) -> ProgressBar {
    let target = match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}");
    ProgressBar::with_draw_target(Some(rows as u64), target).with_style(style.expect("a constant template"))
}

fn write_reports(args: &Args, ranks: u32, reports: &[Report]) -> Result<(), String> {
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(reports).map_err(|e| e.to_string())?;
        std::fs::write(path, text + "\n").map_err(|e| format!("--json {}: {e}", path.display()))?;
    }
    if let Some(path) = &args.plot {
        let title = format!("{}, {} ranks", args.collective, ranks);
        plot::draw(path, &title, plot::BUS, &plot::lines(plot::points(reports)))
            .map_err(|e| format!("--plot {}: {e}", path.display()))?;
    }
    Ok(())
}
