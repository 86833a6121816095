//! `penny calibrate host`: measures this host, prices the algorithms on it, and writes the host profile that `auto` chooses by.
//!
//! ```text
//!     cores      how far apart the cores are                    /sys
//!     probe      hand-offs, rates, the change of ranks          threads, about a second
//!     price      the time of each algorithm's plans             none: a walk through the plans
//!     compare    each algorithm against the built-in table
//!     timed      times of the cheapest, and of the table's      real ranks, in turns
//!     choose     the algorithms that beat the table             -> the profile
//! ```

mod check;
mod choose;
mod compare;
pub mod cores;
mod price;
mod probe;
pub mod timed;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use penny::Collective;
use penny::internals::comm::{host_profile_path, this_host};
use penny::internals::planner::profile::{FORMAT, HostProfile, VERSION};
use penny::sim::algorithms;
use penny::sim::plan::RankView;

use crate::answer;
use compare::Comparison;
use cores::Cores;
use price::{HostModel, LinkedPrograms};
use probe::HostNumbers;
use timed::{Rounds, TimedCall};

const EXAMPLES: &str = "\
Rank 0 of a job reads the profile when the ranks join; PENNY_ALGO comes before it. Measure on a quiet machine, with a release
build. Without a profile, and for calls that it does not name, the built-in table decides. PENNY_HOST_PROFILE=none switches
profiles off, PENNY_HOST_PROFILE=FILE names another file.

Examples:
  penny calibrate host
  penny calibrate host --ranks 2,4,8,16 -o host.toml
  penny calibrate host --check --ranks 2,4,8";

/// The options of `penny calibrate host`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Numbers of ranks to measure; default: 2, 4, 8, and powers of two up to the cores. Other numbers are priced
    #[arg(short = 'n', long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(2..=128))]
    ranks: Vec<u32>,
    /// Rounds of a measurement: each times the table and its rivals once
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(3..=1001))]
    rounds: u32,
    /// Time for measurements; calls that are not measured within it keep the built-in table's algorithm
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "check")]
    seconds: u64,
    /// File to write; default: this host's in ~/.cache/penny, or in $XDG_CACHE_HOME/penny
    #[arg(short = 'o', long, value_name = "FILE", conflicts_with = "check")]
    output: Option<PathBuf>,
    /// Time auto with the profile that is there against the built-in table, and print the ratios; exit code 1 if one is above 1.05
    #[arg(long)]
    check: bool,
    /// With --check, also time the calls for which both take the same algorithm
    #[arg(long, requires = "check")]
    all: bool,
}

/// The largest number of ranks that is measured or priced.
const MOST_RANKS: u32 = 128;
/// The launches in which a choice is confirmed.
const CONFIRMING_LAUNCHES: u32 = 4;

/// Measures the host and writes its profile, or checks the profile that exists.
pub fn main(args: &Args) -> Result<ExitCode, String> {
    // Each of these variables would choose the algorithm of the ranks that are measured.
    for variable in ["PENNY_ALGO", "PENNY_OPTIONS", "PENNY_REPRODUCIBLE", "PENNY_FABRIC"] {
        if std::env::var_os(variable).is_some_and(|value| !value.is_empty()) {
            return Err(format!("{variable} is set and would decide for the measured ranks; unset it"));
        }
    }
    let cores = Cores::read()?;
    let host = this_host();
    if cores.len() < host.cores {
        answer::tell(format_args!(
            "penny calibrate host: this process is bound to {} of {} cores, and a host profile is of all: start it without taskset",
            cores.len(),
            host.cores
        ));
    }
    let ranks = measured_ranks(&args.ranks, cores.len() as u32);
    if args.check {
        return check::main(&ranks, args.rounds, args.all);
    }
    let path = args.output.clone().or_else(host_profile_path).ok_or(
        "there is no folder for caches, for neither XDG_CACHE_HOME nor HOME is an absolute path; name a file with -o",
    )?;
    answer::tell(format_args!("cores: {} on {} nodes", cores.len(), cores.nodes()));
    let mut numbers = probe::measure(&cores)?;
    numbers.call_ns = call_ns(&numbers, args.rounds)?;
    let model = HostModel { cores, numbers };
    let until = Instant::now() + Duration::from_secs(args.seconds);
    let mut comparison = compare(&model, &ranks, args.rounds, until)?;
    let error = comparison.error();
    let mut agrees = |nranks: u32, collective: Collective, bytes: u64, algorithm: usize| {
        model.prefers(nranks, collective, bytes, algorithm)
    };
    let first = comparison.profile(error, &mut agrees)?;
    for &nranks in &ranks {
        let calls = comparison.confirming(nranks, &first);
        answer::tell(format_args!(
            "{nranks} ranks: timing {} calls again, to confirm the choices",
            calls.len()
        ));
        let times = confirm(nranks, &calls, args.rounds, until + Duration::from_secs(args.seconds))?;
        comparison.confirmed(nranks, &calls, &times);
    }
    let profile = comparison.profile(error, &mut agrees)?;
    let text = file(&model, &profile, &ranks, error);
    write(&path, &text).map_err(|e| format!("{}: cannot be written: {e}", path.display()))?;
    answer::tell(format_args!(
        "{}: {} choices differ from the built-in table",
        path.display(),
        profile.choices().len()
    ));
    answer::print(&text)
}

/// Returns the numbers of ranks to measure, sorted.
fn measured_ranks(asked: &[u32], cores: u32) -> Vec<u32> {
    let mut ranks = match asked.is_empty() {
        false => asked.to_vec(),
        true => (1..8).map(|k| 1 << k).filter(|&n| n <= 8 || n <= cores).collect(),
    };
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

/// Measures a barrier of two ranks and returns its time less one hand-off, in nanoseconds.
fn call_ns(numbers: &HostNumbers, rounds: u32) -> Result<f64, String> {
    let collective = Collective::Barrier.name().to_owned();
    let barrier = TimedCall { collective, bytes: 0, shared: false, algorithms: vec![None] };
    let times = timed::times(2, &[barrier], rounds, "none")?;
    let meeting = times.into_iter().flatten().map(probe::median).next().unwrap_or(0.0);
    let line_ns = numbers.links.first().map_or(0.0, |(_, link)| link.line_ns);
    // The upper bound excludes a rank that waited for its core: that time is not the call's.
    Ok((meeting - line_ns).clamp(20.0, 2000.0))
}

/// Times calls in several launches, and returns the rounds of all: which ranks share a core differs between launches, and with it
/// the times by a third. After `until` there is one launch only.
fn confirm(nranks: u32, calls: &[TimedCall], rounds: u32, until: Instant) -> Result<Vec<Rounds>, String> {
    let mut all: Vec<Rounds> = calls.iter().map(|call| vec![Vec::new(); call.algorithms.len()]).collect();
    for launch in 0..CONFIRMING_LAUNCHES {
        if launch > 0 && Instant::now() >= until {
            break;
        }
        let parts = calls.chunks(timed::CALLS_A_LAUNCH);
        let launches = parts.map(|part| timed::times(nranks, part, rounds, "none"));
        let times = launches.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().flatten();
        all.iter_mut().flatten().zip(times).for_each(|(all, rounds)| all.extend(rounds));
    }
    Ok(all)
}

/// Prices the algorithms for all numbers of ranks, and measures them for the numbers in `measured`.
fn compare(model: &HostModel, measured: &[u32], rounds: u32, until: Instant) -> Result<Comparison, String> {
    let mut comparison = Comparison::default();
    for &nranks in measured {
        comparison.price(model, nranks, true)?;
        let calls = comparison.calls(nranks);
        answer::tell(format_args!(
            "{nranks} ranks: timing {} calls, each with the table and its rivals",
            calls.len()
        ));
        let mut parts = calls.chunks(timed::CALLS_A_LAUNCH);
        while let Some(part) = parts.next() {
            if Instant::now() >= until {
                let left = parts.map(<[_]>::len).sum::<usize>() + part.len();
                answer::tell(format_args!(
                    "{nranks} ranks: no time for {left} calls, which keep the table; is the machine busy? (--seconds)"
                ));
                break;
            }
            let times = timed::times(nranks, part, rounds, "none")?;
            comparison.measured(nranks, part, &times);
        }
    }
    let others = (1..8).map(|k| 1 << k).filter(|n| !measured.contains(n));
    for nranks in others.filter(|&n| n <= MOST_RANKS.min(model.cores.len() as u32)) {
        comparison.price(model, nranks, false)?;
    }
    Ok(comparison)
}

impl HostModel {
    /// Tells whether the price of `algorithm` is lower than that of the table's.
    fn prefers(&self, nranks: u32, collective: Collective, bytes: u64, algorithm: usize) -> bool {
        let view = RankView::flat(collective, 0, nranks, 0);
        let price = |index: usize| {
            let algorithm = algorithms::ALL[index];
            if algorithm.refuses(&view).is_some() {
                return None;
            }
            self.price(&LinkedPrograms::of(algorithm, &view).ok()?, bytes).ok()
        };
        match (price(algorithm), price(compare::of_table(&view, bytes))) {
            (Some(price), Some(table)) => price < table,
            _ => false,
        }
    }
}

/// Returns the text of the profile's file.
fn file(model: &HostModel, profile: &HostProfile, ranks: &[u32], error: f64) -> String {
    let host = this_host();
    let HostNumbers { links, switch_ns, copy, fold, call_ns } = &model.numbers;
    let ranks = ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let mut text = format!(
        "# Host profile of Penny, written by `penny calibrate host`: what `auto` takes on this host in place of the built-in\n\
         # table. Write it anew after a change of the machine, its kernel or Penny; without it the table decides.\n\
         format = {FORMAT}\nversion = \"{VERSION}\"\ncpu = {}\ncores = {}\n\n{}\n\
         [measured] # by this the algorithms were priced; the library does not read it\nranks = [{ranks}]\n\
         price_error = {error:.2} # root mean square of the logarithm of priced over measured ratios\n",
        toml_edit::Value::from(&host.cpu),
        host.cores,
        profile.section()
    );
    for (distance, link) in links {
        text +=
            &format!("{distance} = {{ line_ns = {:.1}, bytes_per_ns = {:.2} }}\n", link.line_ns, link.rate);
    }
    for (name, rates) in [("copy", copy), ("fold", fold)] {
        text += &format!(
            "{name} = {{ cache_bytes_per_ns = {:.2}, memory_bytes_per_ns = {:.2} }}\n",
            rates.cache, rates.memory
        );
    }
    text + &format!("call_ns = {call_ns:.1}\nswitch_ns = {switch_ns:.1}\nnodes = {}\n", model.cores.nodes())
}

/// Replaces a file atomically: a reader finds either the old text or the new one.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(folder)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let unfinished = folder.join(format!(".{name}.{}", std::process::id()));
    let written = std::fs::write(&unfinished, text).and_then(|()| std::fs::rename(&unfinished, path));
    written.inspect_err(|_| drop(std::fs::remove_file(&unfinished)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cores::Distance;
    use penny::internals::planner::profile::ProfileChoice;
    use probe::{HandOff, Rates};

    #[test]
    fn what_is_written_is_a_profile_of_this_host() {
        let rates = Rates { cache: 20.0, memory: 5.0 };
        let links = vec![(Distance::Cache, HandOff { line_ns: 70.0, rate: 9.0 })];
        let numbers = HostNumbers { links, switch_ns: 900.0, copy: rates, fold: rates, call_ns: 100.0 };
        let model = HostModel { cores: Cores::imagined(1, 2), numbers };
        let ring = algorithms::ALL.iter().position(|a| a.name == "ring").unwrap();
        let collective = Collective::AllReduce;
        let choice = ProfileChoice { ranks: 3..=4, collective, sizes: 65536..u64::MAX, algorithm: ring };
        let profile = HostProfile::of(vec![choice]).unwrap();
        let text = file(&model, &profile, &[2, 4], 0.25);
        assert_eq!(HostProfile::parse(&text, &this_host()).unwrap(), profile, "{text}");
        assert!(text.contains("same_cache = { line_ns = 70.0, bytes_per_ns = 9.00 }"), "{text}");
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/host.toml");
        write(&path, "one").unwrap();
        write(&path, "two").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
        assert!(write(&folder.path().join("new"), "x").is_err(), "a folder is in the way");
        for (place, entries) in [("new", 1), (".", 1)] {
            assert_eq!(std::fs::read_dir(folder.path().join(place)).unwrap().count(), entries);
        }
    }

    #[test]
    fn two_four_and_eight_ranks_are_measured_and_more_where_there_are_cores() {
        assert_eq!(measured_ranks(&[], 2), [2, 4, 8]);
        assert_eq!(measured_ranks(&[], 128), [2, 4, 8, 16, 32, 64, 128]);
        assert_eq!(measured_ranks(&[8, 3, 8], 2), [3, 8]);
    }
}
