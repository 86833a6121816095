//! `penny calibrate`: finds the numbers of a declared machine that explain a table of measured times.
//!
//! The model is the engine itself. The residuals are the logarithms of modelled over measured times, so that every size has the
//! same weight, and the parameters are fitted as logarithms, too. The result is a machine's file, with the residuals in comments.

mod declared;
mod fit;
pub mod host;
mod simplex;
mod table;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use declared::{Declared, Parameter};
use fit::Fit;
use penny::sim::algorithms;
use penny::sim::fabric::engine;
use penny::sim::fabric::tuning::Tuning;
use penny::sim::plan::RankView;
use penny::sim::topology::Network;
use penny_bench::layout;
use penny_bench::subject::Subject;
use table::{Place, Sample, Table};

use crate::args_or::ArgsOr;
use crate::sim::{self, Block, Programs, Views, Wanted};
use crate::{answer, machine};

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
The table is what nccl-tests, `penny perf` or `penny sim` print, or sizes and microseconds by commas.

Examples:
  penny calibrate table.txt --fabric dgx-h100 --nodes 2 --algorithm ring --fit leaf.bw,leaf.post > fitted.toml
  penny calibrate table.csv --fabric dgx-a100 --collective all_gather
  penny sim all_reduce --fabric ./fitted.toml -b 8 -e 1G -f 4
  penny calibrate host";

/// The options of `penny calibrate`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Measured times
    table: PathBuf,
    /// The machine to begin from: a preset, a preset with arguments, or a TOML file
    #[arg(long, value_name = "MACHINE")]
    fabric: String,
    /// Nodes of the preset: the same as :nodes=N after its name
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// Ranks that were measured; default: one at each place of the machine
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// Collective that was measured; default: the one that the table's comments name
    #[arg(long, value_name = "COLLECTIVE")]
    collective: Option<Subject>,
    /// Algorithms that the measured program may have used (also --algo), or `auto` for all; at each size the quickest counts
    #[arg(long, alias = "algo", value_name = "NAME,...", value_delimiter = ',', default_value = "auto")]
    algorithm: Vec<String>,
    /// Parameters to fit, at most eight: a link class with one of bw, eff, lat, post, gap; or launch, the time of a call
    /// outside of the machine. Default: bw and lat of the classes that are used
    #[arg(long, value_name = "CLASS.KEY,...", value_delimiter = ',')]
    fit: Vec<String>,
    /// Columns of nccl-tests' table to read
    #[arg(long, value_name = "PLACE", default_value = "out")]
    place: Place,
    /// Largest slice of a chunk in bytes, 0, or auto, as for `penny sim`; it becomes a part of the machine's file
    #[arg(long, value_name = "BYTES", value_parser = machine::slice)]
    slice: Option<String>,
}

/// The times of a table, and the settings to price them.
struct Question {
    subject: Subject,
    view: RankView,
    candidates: Vec<Programs>,
    places: Vec<u32>,
    samples: Vec<Sample>,
    /// No algorithm was named.
    auto: bool,
}

/// The fastest algorithm at a size, and its time.
struct Answer {
    seconds: f64,
    algorithm: &'static str,
}

/// The largest table that is read, in bytes.
const MOST_BYTES: u64 = 16 << 20;

/// Reads the text of a table. It may come from a pipe; the limit protects from a device that never ends.
fn read(table: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    File::open(table)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        let why = format!("it has more than {} MiB; name the output of nccl-tests", MOST_BYTES >> 20);
        return Err(std::io::Error::other(why));
    }
    Ok(text)
}

/// Fits the parameters, and prints the machine's file.
fn fit_machine(args: &Args) -> Result<ExitCode, String> {
    let file = args.table.display().to_string();
    let text = read(&args.table).map_err(|e| format!("{file}: cannot read: {e}"))?;
    let Table { subject, samples } = table::read(&file, &text, args.place)?;
    let Some(subject) = args.collective.or(subject) else {
        return Err(format!(
            "{file}: no comment says what was measured; say it, as in --collective all_reduce"
        ));
    };
    let Subject::Collective(collective) = subject else {
        return Err(format!("{subject} is two calls, not a collective: it has no plan"));
    };
    let machine = Declared::open(&machine::spec(&args.fabric, args.nodes, args.slice.as_deref()))?;
    let before = machine.network(&machine.with(&[], &[], false))?;
    let view = machine::view(&before, collective, args.ranks, 0)?;
    let candidates = sim::programs(&args.algorithm, &view)?;
    let places = machine::places(&before, view.nranks)?;
    let auto = args.algorithm.iter().any(|name| name == "auto");
    let question = Question { subject, view, candidates, places, samples, auto };
    let names = match args.fit.is_empty() {
        true => machine.usual(&question.used_classes(&before)?),
        false => args.fit.clone(),
    };
    let parameters = machine.parameters(&names)?;
    let fit = fitted(&machine, &parameters, &question)?;
    let numbers: Vec<f64> = fit.point.iter().map(|p| p.exp()).collect();
    let text = machine.with(&parameters, &numbers, true);
    let after = machine.network(&text)?;
    let report = report(args, &question, (&before, &after), &parameters, &fit)?;
    answer::print(&(report + &text))
}

/// Returns the logarithms of the parameters with which the machine comes closest to the table.
fn fitted(machine: &Declared, parameters: &[Parameter], question: &Question) -> Result<Fit, String> {
    let start: Vec<f64> = parameters.iter().map(|parameter| parameter.start.ln()).collect();
    fit::least_squares(&start, &mut |logarithms| {
        let numbers: Vec<f64> = logarithms.iter().map(|p| p.exp()).collect();
        if let Some((parameter, _)) = parameters.iter().zip(&numbers).find(|(p, n)| !p.may_be(**n)) {
            return Err(format!("{} would have to be more than it can be", parameter.name()));
        }
        let network = machine.network(&machine.with(parameters, &numbers, false))?;
        let answers = question.answers(&network, launch_seconds(parameters, &numbers))?;
        Ok(answers.iter().zip(&question.samples).map(|(a, s)| (a.seconds / s.seconds).ln()).collect())
    })
}

/// Returns the time of a call outside of the machine.
fn launch_seconds(parameters: &[Parameter], numbers: &[f64]) -> f64 {
    parameters.iter().zip(numbers).map(|(parameter, &number)| parameter.launch_seconds(number)).sum()
}

impl Question {
    /// Computes the time of each size on a machine, plus the launch time.
    fn answers(&self, network: &Network, launch_seconds: f64) -> Result<Vec<Answer>, String> {
        let answers = self.samples.iter().map(|sample| {
            let answer = self.answer(network, sample)?;
            Ok(Answer { seconds: launch_seconds + answer.seconds, ..answer })
        });
        answers.collect()
    }

    fn answer(&self, network: &Network, sample: &Sample) -> Result<Answer, String> {
        let machine = Views::of(network);
        let auto = self.auto && algorithms::is_carried(network, &self.view);
        let mut best: Option<(u64, &'static str)> = None;
        for candidate in &self.candidates {
            let wanted = if auto { Wanted::Quicker(best.map(|(ps, _)| ps)) } else { Wanted::Named };
            let Some(priced) = candidate.price(&machine, &self.places, self.block(sample), wanted)? else {
                continue;
            };
            let time_ps = priced.summary.last_ps();
            if best.is_none_or(|(least_ps, _)| time_ps < least_ps) {
                best = Some((time_ps, candidate.algorithm.name));
            }
        }
        match best {
            Some((time_ps, algorithm)) if time_ps > 0 => {
                Ok(Answer { seconds: time_ps as f64 * 1e-12, algorithm })
            }
            _ => Err(format!("{} B take no time among {} ranks", sample.bytes, self.view.nranks)),
        }
    }

    fn block(&self, sample: &Sample) -> Block {
        // The type decides only where a chunk is rounded.
        let element = if sample.bytes.is_multiple_of(4) { 4 } else { 1 };
        let count = layout::count(self.subject, self.view.nranks, sample.bytes, element) as u64;
        Block { count, size: element as u64 }
    }

    /// Returns the names of the link classes that messages pass.
    fn used_classes<'a>(&self, network: &'a Network) -> Result<Vec<&'a str>, String> {
        let mut used = Vec::new();
        for candidate in &self.candidates {
            let call = candidate.call(&self.places, self.block(&self.samples[0]), Tuning::default());
            let entry = vec![0; self.view.nranks as usize];
            let outcome = engine::price(network, &call, &entry).map_err(|e| e.message.clone())?;
            let ports = (0..).zip(&outcome.counters).filter(|(_, passed)| passed.messages > 0);
            used.extend(ports.map(|(port, _)| network.class(port).name.as_str()));
        }
        Ok(used)
    }
}

/// Returns the residuals in percent: each one, their root mean square, and the largest.
fn residuals(answers: &[Answer], samples: &[Sample]) -> (Vec<f64>, f64, f64) {
    let pairs = answers.iter().zip(samples);
    let each: Vec<f64> = pairs.map(|(a, s)| (a.seconds / s.seconds - 1.0) * 100.0).collect();
    let square: f64 = each.iter().map(|r| r * r).sum();
    let largest = each.iter().map(|r| r.abs()).fold(0.0, f64::max);
    let mean = (square / each.len() as f64).sqrt();
    (each, mean, largest)
}

/// Returns the comments for the head of the file.
fn report(
    args: &Args,
    question: &Question,
    (before, after): (&Network, &Network),
    parameters: &[Parameter],
    fit: &Fit,
) -> Result<String, String> {
    let mut text = format!(
        "# calibrate  {} of {} ranks, {}  fabric: {} {}, fitted {}\n#\n# {:>10} {:>12} {:>12} {:>10}  {}\n# {:>10} {:>12} {:>12} {:>10}\n",
        question.subject,
        question.view.nranks,
        args.table.display(),
        machine::spec(&args.fabric, args.nodes, args.slice.as_deref()),
        machine::hash(before),
        machine::hash(after),
        "size",
        "measured",
        "model",
        "residual",
        "algorithm",
        "(B)",
        "(us)",
        "(us)",
        "(%)"
    );
    let numbers: Vec<f64> = fit.point.iter().map(|p| p.exp()).collect();
    let answers = question.answers(after, launch_seconds(parameters, &numbers))?;
    let (each, mean, largest) = residuals(&answers, &question.samples);
    for ((answer, sample), residual) in answers.iter().zip(&question.samples).zip(each) {
        text += &format!(
            "# {:>10} {:>12.2} {:>12.2} {residual:>+10.2}  {}\n",
            sample.bytes,
            sample.seconds * 1e6,
            answer.seconds * 1e6,
            answer.algorithm
        );
    }
    let (_, mean_before, largest_before) = residuals(&question.answers(before, 0.0)?, &question.samples);
    for (name, mean, largest) in [("before", mean_before, largest_before), ("fitted", mean, largest)] {
        text += &format!("# {name}: residuals {mean:.2} % (root mean square), {largest:.2} % (largest)\n");
    }
    text += "#\n";
    for (index, parameter) in parameters.iter().enumerate() {
        let (name, number) = (parameter.name(), numbers[index]);
        text += &format!("# {name} {} -> {}\n", parameter.was, parameter.print(number));
        // Doubling the parameter changes the times by less than one percent in all.
        if fit.weight[index] < 1e-2 {
            text += &format!("# note: the table hardly depends on {name}; its value here is no finding\n");
        }
    }
    for &(one, other) in &fit.alike {
        let (one, other) = (parameters[one].name(), parameters[other].name());
        text += &format!("# note: the table cannot tell {one} from {other}; fit one of them\n");
    }
    Ok(text + "#\n")
}
