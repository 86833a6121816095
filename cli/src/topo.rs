//! `penny topo`: declared machines, shown and checked.

use std::process::ExitCode;

use penny::topology;

use crate::answer;

const EXAMPLES: &str = "\
Examples:
  penny topo list
  penny topo show dgx-h100:nodes=2
  penny topo check ./my-machine.toml
  penny topo print dgx-h100 > my-machine.toml";

/// The subcommands of `penny topo`.
#[derive(clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum Args {
    /// The machines that ship with Penny
    List,
    /// The ways between places, as a matrix
    Show {
        /// A preset, a preset with arguments (dgx-h100:nodes=2), or a TOML file
        machine: String,
    },
    /// Read a machine and say how large it is, or what is wrong with it
    Check {
        /// As above
        machine: String,
    },
    /// A preset's own file, to begin one from
    Print {
        /// A preset's name
        preset: String,
    },
}

/// Answers.
pub fn main(args: &Args) -> Result<ExitCode, String> {
    let text = match args {
        Args::List => list(),
        Args::Show { machine } => topology::matrix(&topology::open(machine).map_err(|e| e.message)?),
        Args::Check { machine } => {
            let network = topology::open(machine).map_err(|e| e.message)?;
            let [x, y, z] = network.shape.0;
            format!("{}: {x} x {y} x {z} places\n", network.name)
        }
        Args::Print { preset } => print(preset)?,
    };
    answer::print(&text)
}

/// Name and the first comment line of each preset.
fn list() -> String {
    let about = |text: &str| text.lines().next().unwrap_or("").trim_start_matches('#').trim().to_owned();
    topology::presets().iter().map(|(name, text)| format!("{name:<12} {}\n", about(text))).collect()
}

fn print(preset: &str) -> Result<String, String> {
    let known = topology::presets();
    known.iter().find(|(name, _)| *name == preset).map(|(_, text)| (*text).to_owned()).ok_or_else(|| {
        let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
        format!("{preset}: no such preset; there are {}", names.join(", "))
    })
}
