//! `penny sim --workload`: whole steps on declared machines, computing and communication together.
//!
//! ```text
//!     short_form, chakra --> program --> check --> replay --> account --> table
//!                                          compute, pricing ---'
//! ```

mod account;
mod amounts;
pub mod chakra;
mod check;
mod compute;
mod pricing;
mod program;
mod replay;
mod short_form;
mod table;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use compute::ComputeRule;
use program::Workload;
use table::{Context, StepRow};

use crate::machine::{self, Placed};
use crate::{answer, input, machine_list};

/// The options of `penny sim --workload`.
#[derive(clap::Args)]
pub struct Options {
    /// Price this workload instead of a collective: computing, collectives and messages of all ranks. A TOML file in Penny's
    /// short form, or a Chakra trace: STEP for the files STEP.0.et, STEP.1.et, ... or STEP.0.json, ...
    #[arg(long, value_name = "FILE")]
    pub workload: Option<PathBuf>,
    /// The groups that a Chakra trace names and does not list: a JSON file such as {"1": [0, 1], "2": [2, 3]}
    #[arg(long, value_name = "FILE", requires = "workload")]
    groups: Option<PathBuf>,
    /// How long a workload's computing takes: `keep` its times, `scale=X` them, or as the machine's [device] declares
    #[arg(long, value_name = "RULE", default_value = "keep", requires = "workload")]
    compute: ComputeRule,
    /// Print a workload's collectives as well: how each is carried, what it takes alone and in the workload
    #[arg(long, requires = "workload")]
    calls: bool,
}

/// What is printed, and how.
pub struct Request<'a> {
    pub options: &'a Options,
    pub machine: &'a Placed,
    pub algorithms: &'a [String],
    pub json: bool,
}

/// Prices a workload on each machine, and prints the tables.
pub fn main(file: &Path, request: &Request<'_>) -> Result<ExitCode, String> {
    let Request { options, machine, algorithms, json } = request;
    let machines = machine_list::split(machine.fabric());
    let networks = machines.iter().map(|fabric| machine.open_as(fabric)).collect::<Result<Vec<_>, _>>()?;
    let workload = read(file, options, machine.ranks())?;
    if let Some(ranks) = machine.ranks().filter(|&ranks| ranks as usize != workload.ranks.len()) {
        return Err(format!(
            "-n {ranks}: {} is of {} ranks; leave -n out, or give that number",
            workload.name,
            workload.ranks.len()
        ));
    }
    let matches = check::matches(&workload)?;
    let rule = &options.compute;
    // All that may be wrong with a machine is told before the first is priced.
    let nranks = workload.ranks.len() as u32;
    let places = networks
        .iter()
        .map(|network| machine::places(network, nranks).map_err(|why| format!("{}: {why}", workload.name)))
        .collect::<Result<Vec<_>, _>>()?;
    let devices =
        networks.iter().map(|network| rule.check(&workload, network)).collect::<Result<Vec<_>, _>>()?;
    let counts = devices.first().map(|(_, counts)| *counts).unwrap_or_default();
    let mut text = if *json { String::new() } else { table::head(&workload, rule, counts) };
    let mut compared = Vec::new();
    for ((network, places), &(device, counts)) in networks.iter().zip(&places).zip(&devices) {
        let mut carrier = pricing::Carrier::new(network, algorithms)?;
        let stage = replay::Stage { network, places, rule, device };
        let played = replay::play(&workload, &matches, &stage, &mut carrier)
            .map_err(|why| format!("{} on {}: {why}", workload.name, network.name))?;
        let steps = account::steps(&workload, &played);
        let context = Context { workload: &workload, network, rule, counts };
        let mut rows: Vec<StepRow> = Vec::new();
        let sums = account::sum(&steps);
        if networks.len() == 1 && steps.len() > 1 {
            rows.extend((0..).zip(&steps).map(|(step, ranks)| StepRow::new(&context, Some(step), ranks)));
        }
        rows.push(StepRow::new(&context, None, &sums));
        match (*json, networks.len()) {
            (true, _) => text += &table::json(&rows)?,
            (false, 1) => text += &table::of_machine(network, &rows),
            (false, _) => compared.append(&mut rows),
        }
        if options.calls {
            let rows = table::calls(&context, &matches, &played);
            text += &if *json { table::json(&rows)? } else { table::call_lines(&network.name, &rows) };
        }
    }
    if !compared.is_empty() {
        text += &table::of_machines(&compared);
    }
    answer::print(&text)
}

/// Reads a workload in any of its forms.
fn read(file: &Path, options: &Options, ranks: Option<u32>) -> Result<Workload, String> {
    let name = file.display().to_string();
    let text = |option: &str, file: &Path| {
        input::text(file)
            .map_err(|why| format!("{option} {}: cannot be read ({why}); name a text file", file.display()))
    };
    if file.extension().is_some_and(|ending| ending == "toml") {
        if options.groups.is_some() {
            return Err(format!("--groups: {name} has its groups itself; leave the option out"));
        }
        return short_form::read(&name, &text("--workload", file)?);
    }
    let groups = match &options.groups {
        Some(file) => chakra::groups(&text("--groups", file)?)
            .map_err(|why| format!("--groups {}: {why}", file.display()))?,
        None => chakra::Groups::new(),
    };
    match chakra::find(file, ranks)? {
        Some(traces) => chakra::lower(&name, &traces, &groups),
        None => Err(format!(
            "--workload {name}: there is no such workload; give a TOML file, or a Chakra trace by the prefix of its files \
             {name}.0.et or {name}.0.json"
        )),
    }
}
