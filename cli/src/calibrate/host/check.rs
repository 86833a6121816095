//! `penny calibrate host --check`: times `auto` with the profile against the built-in table, in turns.

use std::path::Path;
use std::process::ExitCode;

use penny::Collective;
use penny::internals::comm::{HostProfileFound, find_host_profile};
use penny::internals::planner::profile::HostProfile;
use penny::sim::algorithms;
use penny::sim::plan::RankView;

use super::compare::{SIZES, collectives, near, of_table, quartiles};
use super::timed::{self, TimedCall};
use crate::answer;

/// The largest ratio that passes; above it the profile does harm, and the check fails.
const WORST: f64 = 1.05;
/// Rounds in one launch. Launches with and without the profile take turns.
const ROUNDS_A_LAUNCH: u32 = 3;

/// Times the calls, prints the ratios, and fails if one is above [`WORST`].
pub fn main(ranks: &[u32], rounds: u32, all: bool) -> Result<ExitCode, String> {
    let (path, profile) = match find_host_profile() {
        HostProfileFound::Good(path, profile) => (path, profile),
        HostProfileFound::Off => return Err("PENNY_HOST_PROFILE is none; unset it, or name a profile".into()),
        HostProfileFound::None(_) => {
            return Err("this host has no profile; write one with `penny calibrate host`".into());
        }
        HostProfileFound::Bad(path, why) => {
            return Err(format!("{}: {why}; write a new one with `penny calibrate host`", path.display()));
        }
    };
    let mut text = format!("# {}\n{}", path.display(), row(&TITLES.map(str::to_owned)));
    let (mut worst, mut differing) = (0f64, 0);
    for &nranks in ranks {
        let calls = calls(&profile, nranks, all);
        if calls.is_empty() {
            continue;
        }
        let ratios = compare(nranks, &calls, rounds, &path)?;
        for (call, [median, upper]) in calls.iter().zip(ratios) {
            let (table, auto) = both(&profile, nranks, call);
            if table != auto {
                differing += 1;
                worst = worst.max(median);
            }
            text += &row(&[
                nranks.to_string(),
                call.collective.clone(),
                call.bytes.to_string(),
                if call.shared { "shared" } else { "private" }.to_owned(),
                table.to_owned(),
                auto.to_owned(),
                format!("{median:.3}"),
                format!("{upper:.3}"),
            ]);
        }
    }
    text += &match differing {
        0 => "# auto takes the built-in table's algorithms for all these calls\n".to_owned(),
        _ => format!("# {differing} calls differ; largest ratio of auto's time to the table's: {worst:.3}\n"),
    };
    answer::print(&text)?;
    Ok(if worst > WORST { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

const TITLES: [&str; 8] = ["# ranks", "collective", "bytes", "buffers", "table", "auto", "ratio", "quartile"];

fn row(fields: &[String; 8]) -> String {
    let [ranks, collective, bytes, buffers, table, auto, ratio, quartile] = fields;
    format!(
        "{ranks:>7}  {collective:<14} {bytes:>8}  {buffers:<7}  {table:<14} {auto:<14} {ratio:>6} {quartile:>8}\n"
    )
}

/// Returns the names of the table's algorithm and of auto's for a call.
fn both(profile: &HostProfile, nranks: u32, call: &TimedCall) -> (&'static str, &'static str) {
    let collective = Collective::from_name(&call.collective).unwrap_or(Collective::Barrier);
    let table = of_table(&RankView::flat(collective, 0, nranks, 0), call.bytes);
    let auto = profile.algorithm(nranks, collective, call.bytes).unwrap_or(table);
    (algorithms::ALL[table].name, algorithms::ALL[auto].name)
}

/// Returns the calls to time: those for which the two algorithms differ, or all. Each size is timed, and one near the next.
fn calls(profile: &HostProfile, nranks: u32, all: bool) -> Vec<TimedCall> {
    let mut calls = Vec::new();
    for collective in collectives() {
        for bytes in SIZES.into_iter().enumerate().flat_map(|(size, bytes)| [bytes, near(size)]) {
            for shared in [false, true] {
                let collective = collective.name().to_owned();
                let call = TimedCall { collective, bytes, shared, algorithms: vec![None] };
                let (table, auto) = both(profile, nranks, &call);
                if all || table != auto {
                    calls.push(call);
                }
            }
        }
    }
    calls
}

/// Returns the median and the upper quartile of the ratios of auto's time to the table's, call by call.
fn compare(nranks: u32, calls: &[TimedCall], rounds: u32, profile: &Path) -> Result<Vec<[f64; 2]>, String> {
    let path = profile.to_str().ok_or("the profile's path is not UTF-8; name it by PENNY_HOST_PROFILE")?;
    let mut times: [Vec<Vec<f64>>; 2] = [vec![Vec::new(); calls.len()], vec![Vec::new(); calls.len()]];
    for _ in 0..rounds.div_ceil(ROUNDS_A_LAUNCH) {
        for (times, profile) in times.iter_mut().zip([path, "none"]) {
            let parts = calls
                .chunks(timed::CALLS_A_LAUNCH)
                .map(|part| timed::times(nranks, part, ROUNDS_A_LAUNCH, profile));
            let all: Vec<timed::Rounds> =
                parts.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
            for (times, rounds) in times.iter_mut().zip(all) {
                times.extend(rounds.into_iter().flatten());
            }
        }
    }
    let [auto, table] = times;
    Ok(auto.iter().zip(&table).map(|(auto, table)| quartiles(auto, table)).collect())
}
