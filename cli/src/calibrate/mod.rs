//! `penny calibrate`: finds the numbers of a declared machine that explain a table of measured times.
//!
//! The model is the engine itself. The residuals are the logarithms of modelled over measured times, so that every size has the
//! same weight, and the parameters are fitted as logarithms, too, within what hardware can be. The result is a machine's file, with
//! the residuals in comments; `penny sim` on it gives the times that the comments name.

mod declared;
mod fit;
pub mod host;
mod log;
mod question;
mod report;
mod simplex;
mod table;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use declared::{Declared, Parameter};
use fit::{Fit, Reach};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use penny_bench::subject::Subject;
use question::{Question, ShortLists};
use table::{Place, Table};

use crate::args_or::ArgsOr;
use crate::sim;
use crate::{answer, input, machine, planned};

/// The arguments of `penny calibrate`, which fits a declared machine to a table, or of its subcommand.
pub type Calibrate = ArgsOr<Args, OfHost>;

#[derive(clap::Subcommand)]
pub enum OfHost {
    /// Measure this host and write the host profile, by which auto chooses algorithms on it
    Host(host::Args),
}

/// Fits a machine, or measures this host.
pub fn main(calibrate: &Calibrate) -> Result<ExitCode, String> {
    match calibrate {
        ArgsOr::Args(args) => fit_machine(args),
        ArgsOr::Subcommand(OfHost::Host(args)) => host::main(args),
    }
}

const EXAMPLES: &str = "\
The log is what nccl-tests or rccl-tests print, with whatever launchers add, what `penny perf` or `penny sim` print, or sizes and
microseconds by commas.

Examples:
  penny calibrate slurm-1234.out --fabric dgx-h100 --nodes 2 > fitted.toml
  penny calibrate table.txt --fabric dgx-h100 --nodes 2 --algorithm ring --fit leaf.bw,leaf.post > fitted.toml
  penny calibrate table.csv --fabric dgx-a100 --collective all_gather
  penny sim all_reduce --fabric ./fitted.toml -b 8 -e 1G -f 4
  penny calibrate host";

/// The options of `penny calibrate`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Measured times: a log, or a table
    table: PathBuf,
    /// Table of a log with several; default: the one with the most rows
    #[arg(long = "table", value_name = "NUMBER")]
    number: Option<usize>,
    /// The machine to begin from: a preset, a preset with arguments, or a TOML file
    #[arg(long, value_name = "MACHINE")]
    fabric: String,
    /// Nodes of the preset: the same as :nodes=N after its name
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// Ranks that were measured; default: those that the log lists, else one at each place of the machine
    #[arg(short = 'n', long = "ranks", value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// Collective that was measured; default: the one that the log tells
    #[arg(long, value_name = "COLLECTIVE", value_parser = planned::collectives())]
    collective: Option<Subject>,
    /// Algorithms that the measured program may have used (also --algo), or `auto` for all; at each size the quickest counts
    #[arg(long, alias = "algo", value_name = "NAME,...", value_delimiter = ',', default_value = "auto")]
    algorithm: Vec<String>,
    /// Parameters to fit, at most eight: a link class with one of bw, eff, lat, post, gap; or launch, what every call takes before
    /// its first message. Default: launch, and bw and lat of the classes that are used
    #[arg(long, value_name = "CLASS.KEY,...", value_delimiter = ',')]
    fit: Vec<String>,
    /// Columns of nccl-tests' table to read
    #[arg(long, value_name = "PLACE", default_value = "out")]
    place: Place,
    /// Largest slice of a chunk in bytes, 0, or auto, as for `penny sim`; it becomes a part of the machine's file
    #[arg(long, value_name = "BYTES", value_parser = machine::slice)]
    slice: Option<String>,
}

/// The most searches, each of which begins where the one before ended.
const MOST_ROUNDS: usize = 3;
/// A full choice whose times differ from a short list's by this part at most is no reason to search again.
const ALIKE: f64 = 2e-3;

/// The most machines that a search prices for each parameter.
const EVALUATIONS: usize = 300;
/// How often the line that shows how far the search is moves.
const TICK: Duration = Duration::from_millis(120);
/// The work of the first search at most, in messages: about ten seconds.
const MOST_WORK: u64 = 30_000_000;

/// The largest table that is read, in bytes.
const MOST_BYTES: u64 = 16 << 20;

/// Fits the parameters, and prints the machine's file.
fn fit_machine(args: &Args) -> Result<ExitCode, String> {
    let file = args.table.display().to_string();
    let text = input::at_most(MOST_BYTES, &args.table, "; name the output of nccl-tests")
        .map_err(|e| format!("{file}: cannot read: {e}"))?;
    let table = table::read(&file, &text, args.place, args.number, args.collective)?;
    let Some(subject) = args.collective.or(table.subject.map(|(subject, _)| subject)) else {
        return Err(format!("{file}: nothing says what was measured; say it, as in --collective all_reduce"));
    };
    let collective = planned::collective(subject)?;
    let machine = Declared::open(&machine::spec(&args.fabric, args.nodes, args.slice.as_deref())?)?;
    let before = machine.network(&machine.with(&[], &[], false))?;
    let ranks = ranks(args, &table, before.shape.nranks())?;
    let view = machine::view(&before, collective, ranks, 0)?;
    let candidates = sim::programs(&args.algorithm, &view)?;
    let places = machine::places(&before, view.nranks)?;
    let question = Question::new(subject, view, candidates, places, &table, args.algorithm.clone())?;
    let names = match args.fit.is_empty() {
        true => machine.usual(&question.used_classes(&before)?),
        false => args.fit.clone(),
    };
    let parameters = machine.parameters(&names)?;
    let progress = progress();
    let fit = fitted(&machine, &parameters, &question, &progress)?;
    progress.finish_and_clear();
    let numbers: Vec<f64> = fit.point.iter().map(|p| p.exp()).collect();
    let text = machine.with(&parameters, &numbers, true);
    let after = machine.network(&text)?;
    let report = report::of(args, &table, &question, (&before, &after), &parameters, &fit)?;
    if let Some(unexplained) = &report.unexplained {
        // The answer often goes to a file, where nobody reads it at once.
        answer::tell(format_args!("penny: {file}: {unexplained}"));
    }
    answer::print(&(report.text + &text))
}

/// Returns the ranks to price: those that are asked for, else those of the log.
fn ranks(args: &Args, table: &Table, places: u32) -> Result<Option<u32>, String> {
    let (None, Some(ranks)) = (args.ranks, table.ranks) else {
        return Ok(args.ranks);
    };
    if ranks > places {
        return Err(format!(
            "{}: is of {ranks} ranks, and {} has {places} places; give it more nodes, as with --nodes, or say -n",
            args.table.display(),
            machine::spec(&args.fabric, args.nodes, None)?
        ));
    }
    Ok(Some(ranks))
}

/// Returns the logarithms of the parameters with which the machine comes closest to the table.
fn fitted(
    machine: &Declared,
    parameters: &[Parameter],
    question: &Question,
    progress: &ProgressBar,
) -> Result<Fit, String> {
    let start: Vec<f64> = parameters.iter().map(|parameter| parameter.start.ln()).collect();
    let bounds: Vec<(f64, f64)> = parameters
        .iter()
        .map(|parameter| {
            let (least, most) = parameter.bounds();
            (least.ln(), most.ln())
        })
        .collect();
    let machine_at = |logarithms: &[f64]| {
        let numbers: Vec<f64> = logarithms.iter().map(|p| p.exp()).collect();
        machine.network(&machine.with(parameters, &numbers, false))
    };
    let (mut best, mut lists) = (f64::INFINITY, ShortLists::default());
    let lengthen = |lists: &mut ShortLists, point: &[f64]| {
        progress.set_message(format!("all ways of {} sizes", question.samples.len()));
        question.lengthen(&machine_at(point)?, lists)
    };
    lengthen(&mut lists, &start)?;
    let mut fit: Option<Fit> = None;
    // BOUND: a round begins only if the one before has found other ways or times, and there are at most as many as this.
    for round in 1..=MOST_ROUNDS {
        let begin = fit.as_ref().map_or(&start, |fit| &fit.point).clone();
        let (reach, work) =
            if fit.is_none() { (Reach::Far, MOST_WORK) } else { (Reach::Near, MOST_WORK / 8) };
        let evaluations =
            ((work / question.work(&lists).max(1)) as usize).min(EVALUATIONS * parameters.len());
        let found = fit::least_squares(&begin, &bounds, reach, evaluations, &mut |logarithms| {
            let times = question.short(&machine_at(logarithms)?, &lists)?;
            let residuals: Vec<f64> = times
                .iter()
                .zip(&question.samples)
                .map(|(ps, s)| (*ps as f64 * 1e-12 / s.seconds).ln())
                .collect();
            let square: f64 = residuals.iter().map(|r| r * r).sum();
            best = best.min((square / residuals.len() as f64).sqrt());
            progress.set_message(format!("residuals {:.2} %", best * 100.0));
            progress.inc(1);
            Ok(residuals)
        })?;
        let short = question.short(&machine_at(&found.point)?, &lists)?;
        let full = if round < MOST_ROUNDS { lengthen(&mut lists, &found.point)? } else { short.clone() };
        fit = Some(found);
        if short.iter().zip(&full).all(|(short, full)| (*full as f64 / *short as f64 - 1.0).abs() <= ALIKE) {
            break;
        }
        best = f64::INFINITY;
    }
    fit.ok_or_else(|| "no round of the search was made".to_owned())
}

/// Makes a line that shows how far the search is, on standard error, and hidden if that is no terminal.
fn progress() -> ProgressBar {
    let target = match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let style = ProgressStyle::with_template("{spinner} fitting: {pos} machines priced, {msg}, {elapsed}");
    let progress =
        ProgressBar::with_draw_target(None, target).with_style(style.expect("a constant template"));
    if !progress.is_hidden() {
        // Between two machines a minute may pass: all ways of large calls are priced.
        progress.enable_steady_tick(TICK);
    }
    progress
}
