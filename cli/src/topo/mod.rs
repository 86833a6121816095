//! `penny topo`: declared machines, shown, checked, drawn, and exchanged with other programs.

mod drawing;
mod export;
mod nics;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use penny::internals::comm::{HostProfileFound, find_host_profile, this_host};
use penny::sim::topology::{self, Network};
use penny_cli::foreign::{self, Format, Hints};

use crate::answer::counted;
use crate::calibrate::host::cores::Cores;
use crate::{answer, host_profile, input, rings};

const EXAMPLES: &str = "\
Examples:
  penny topo list
  penny topo show dgx-h100:nodes=2
  penny topo host
  penny topo draw dgx-h100:nodes=2 -o two-nodes.svg
  penny topo check ./my-machine.toml
  penny topo print dgx-h100 > my-machine.toml
  penny topo import topo-m.txt ibstatus.txt > my-node.toml
  penny topo export dgx-a100:nodes=4 --format nccl-xml > topo.xml";

/// The subcommands of `penny topo`.
#[derive(clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum Args {
    /// List the presets
    List,
    /// Show the routes between places as a matrix, and the NICs
    Show {
        /// A preset, a preset with arguments (dgx-h100:nodes=2), or a TOML file
        machine: String,
    },
    /// Show this host: its processors, how far apart they are, and by which host profile auto chooses on it
    Host,
    /// Check a machine and print its size, or its errors
    Check {
        /// A preset, a preset with arguments (dgx-h100:nodes=2), or a TOML file
        machine: String,
    },
    /// Print the file of a preset, as a starting point for a new machine
    Print {
        /// A preset's name
        preset: String,
    },
    /// Convert another program's description of a machine into a file for Penny; guessed values are marked
    Import {
        /// NCCL or RCCL topology XML, `nvidia-smi topo -m` (and `ibstatus`), tt-umd descriptor, or ASTRA-sim network; - is
        /// standard input
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Format of the file, if its content does not determine it
        #[arg(long, value_name = "FORMAT")]
        from: Option<Format>,
        /// The GPUs, such as h100, where the file lists PCI devices alone: their NVLinks are filled in
        #[arg(long, value_name = "GPU")]
        gpu: Option<String>,
        /// A chip of a tt-umd descriptor with several machines: the one with this chip is imported
        #[arg(long, value_name = "CHIP")]
        chip: Option<u64>,
    },
    /// Write a machine as a file: its TOML with the arguments applied, or one node as NCCL's topology XML
    Export {
        /// A preset, a preset with arguments (dgx-h100:nodes=2), or a TOML file
        machine: String,
        /// Format to write
        #[arg(long, default_value = "toml")]
        format: export::Format,
    },
    /// Draw a machine as SVG: places, NICs, switches and the links between them
    Draw {
        /// A preset, a preset with arguments (dgx-h100:nodes=2), or a TOML file
        machine: String,
        /// Output file; default, and `-`: standard output
        #[arg(short, long, value_name = "FILE.svg", value_parser = answer::svg)]
        output: Option<PathBuf>,
    },
}

/// Runs the subcommand.
pub fn main(args: &Args) -> Result<ExitCode, String> {
    let text = match args {
        Args::List => list(),
        Args::Show { machine } => {
            let network = topology::open(machine).map_err(|e| e.message.clone())?;
            topology::matrix(&network)
                + &nics::table(&network)
                + &nics::cluster(&network)
                + &mailbox(&network)
                + &rings_of(&network)?
        }
        Args::Host => host()?,
        Args::Check { machine } => {
            let network = topology::open(machine).map_err(|e| e.message.clone())?;
            let [x, y, z] = network.shape.0;
            format!("{}: {x} x {y} x {z} places\n", network.name)
        }
        Args::Print { preset } => print(preset)?,
        Args::Import { files, from, gpu, chip } => {
            import(files, Hints { from: *from, gpu: gpu.as_deref(), chip: *chip })?
        }
        Args::Export { machine, format } => export::text(machine, *format)?,
        Args::Draw { machine, output } => {
            let drawing = drawing::svg(&topology::open(machine).map_err(|e| e.message.clone())?)?;
            match output {
                None => drawing,
                Some(path) => {
                    answer::save("-o", path, &drawing)?;
                    String::new()
                }
            }
        }
    };
    answer::print(&text)
}

/// Describes this host.
fn host() -> Result<String, String> {
    let cores = Cores::read()?;
    let mut text = format!("{}, {}\n", this_host(), counted(cores.nodes(), "node"));
    for (distance, [one, other]) in cores.pairs() {
        let [one, other] = [one, other].map(|index| cores.number(index));
        text += &format!("{distance}: such as processors {one} and {other}\n");
    }
    let found = find_host_profile();
    let line = host_profile::line(&found).unwrap_or_else(|why| format!("{why}; {}", host_profile::REMEDY));
    text += &format!("host profile: {line}\n");
    if let HostProfileFound::Good(_, profile) = found {
        text += &profile.section();
    }
    Ok(text)
}

/// Describes the rings of ranks at all places.
fn rings_of(network: &Network) -> Result<String, String> {
    let all =
        if network.placement.is_empty() { network.shape.nranks() } else { network.placement.len() as u32 };
    let places = network.places(all).map_err(|e| e.message.clone())?;
    Ok(Some(rings::sentence(network, &places))
        .filter(|text| !text.is_empty())
        .map_or_else(String::new, |text| format!("\n{text}\n")))
}

/// Describes a place of a machine of mailboxes.
fn mailbox(network: &Network) -> String {
    let Some(mailbox) = network.mailbox else { return String::new() };
    let ns = |mask: u64| format!("{} ns", mailbox.delivery_ps(mask) as f64 / 1e3);
    format!(
        "\na place is a mailbox of {} on {}: a message to one of them takes {}, to all of them {}\n",
        counted(mailbox.threads as usize, "thread"),
        counted(mailbox.cores as usize, "core"),
        ns(1),
        ns(u64::MAX)
    )
}

/// Name and the first comment line of each preset.
fn list() -> String {
    let about = |text: &str| text.lines().next().unwrap_or("").trim_start_matches('#').trim().to_owned();
    topology::presets().iter().map(|(name, text)| format!("{name:<18} {}\n", about(text))).collect()
}

fn print(preset: &str) -> Result<String, String> {
    let known = topology::presets();
    known.iter().find(|(name, _)| *name == preset).map(|(_, text)| (*text).to_owned()).ok_or_else(|| {
        let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
        format!("{preset}: no such preset; there are {}", names.join(", "))
    })
}

fn import(paths: &[PathBuf], hints: Hints) -> Result<String, String> {
    let texts: Vec<(String, String)> = paths.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
    let files: Vec<_> = texts.iter().map(|(name, text)| foreign::File { name, text }).collect();
    foreign::import_with(&files, hints)
}

/// A file's name and text. No more is read than an importer takes, so that no device fills the memory.
fn read(path: &Path) -> Result<(String, String), String> {
    let name = path.display().to_string();
    let wrong = |why: std::io::Error| format!("{name}: cannot be read ({why}); name a text file");
    let mut bytes = Vec::new();
    let most = foreign::MOST_BYTES + 1;
    input::open(path).map_err(wrong)?.take(most).read_to_end(&mut bytes).map_err(wrong)?;
    // A letter cut in two at the limit is not the reader's business: the file is refused for its size.
    match String::from_utf8(bytes) {
        Ok(text) => Ok((name, text)),
        Err(why) if why.as_bytes().len() as u64 == most => Ok((name, "\n".repeat(most as usize))),
        Err(why) => {
            let line =
                1 + why.as_bytes()[..why.utf8_error().valid_up_to()].iter().filter(|&&b| b == b'\n').count();
            Err(format!("{name}:{line}: is not UTF-8; save it as UTF-8 text"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_of_mailboxes_says_how_long_a_message_takes_to_its_threads() {
        let shown = |machine: &str| mailbox(&topology::open(machine).expect("a preset"));
        let told =
            "64 threads on 4 cores: a message to one of them takes 14.286 ns, to all of them 157.146 ns";
        assert!(shown("poets").contains(told), "{}", shown("poets"));
        assert_eq!(shown("dgx-h100"), "");
    }
}
