//! The machine that a command line names.

use penny::internals::fabric::live::Machine;
use penny::sim::algorithms;
use penny::sim::plan::RankView;
use penny::sim::topology::{self, MachineSpec, Network};
use penny::{Collective, Rank};
use penny_bench::sizes::parse_bytes;

/// Opens `--fabric`, with `--nodes` and `--slice` added to its arguments.
pub fn open(fabric: &str, nodes: Option<u32>, slice: Option<&str>) -> Result<Network, String> {
    let network = topology::open(&spec(fabric, nodes, slice)?).map_err(|e| e.message.clone())?;
    algorithms::check_protocols(&network).map_err(|e| e.message.clone())?;
    Ok(network)
}

/// Returns the machine's name with `--nodes` and `--slice` among its arguments. `Err` names one that the arguments contradict.
pub fn spec(fabric: &str, nodes: Option<u32>, slice: Option<&str>) -> Result<String, String> {
    let nodes = nodes.map(|nodes| ("nodes", nodes.to_string()));
    let slice = slice.map(|slice| ("slice", slice.to_owned()));
    [nodes, slice].into_iter().flatten().try_fold(fabric.to_owned(), |spec, (key, value)| {
        let given = MachineSpec::read(fabric).map_err(|e| e.message.clone())?.arguments;
        let sign = if spec.contains(':') { ',' } else { ':' };
        match given.iter().find(|(known, _)| known == key) {
            None => Ok(format!("{spec}{sign}{key}={value}")),
            Some((_, said)) if *said == value || key == "slice" && self::slice(said) == Ok(value.clone()) => {
                Ok(spec)
            }
            Some((_, said)) => Err(format!(
                "--{key} {value}: --fabric {fabric} says {key}={said} already; leave one of them out"
            )),
        }
    })
}

/// Reads `--slice`; returns the value of the machine's argument `slice`.
pub fn slice(text: &str) -> Result<String, String> {
    match text {
        "auto" => Ok(text.to_owned()),
        text => match parse_bytes(text) {
            Ok(0) => Ok("0".to_owned()),
            Ok(bytes) => Ok(format!("{bytes}B")),
            Err(why) => Err(format!("{why}, or `auto`")),
        },
    }
}

/// Returns the view of ranks that fill the places in order. If they fill whole nodes, it has the machine's nodes; otherwise it
/// is flat. Where devices are joined by direct links, it has the rings over them.
pub fn view(
    network: &Network,
    collective: Collective,
    ranks: Option<u32>,
    root: Rank,
) -> Result<RankView, String> {
    let all =
        if network.placement.is_empty() { network.shape.nranks() } else { network.placement.len() as u32 };
    let nranks = ranks.unwrap_or(all);
    let places = places(network, nranks).map_err(|why| format!("-n {nranks}: {why}"))?;
    if root >= nranks {
        return Err(format!("--root {root} is out of range: ranks are 0 to {}", nranks - 1));
    }
    Ok(RankView::flat(collective, 0, nranks, root).arranged(network.arrangement(&places)))
}

/// Returns the place of each of `nranks` ranks.
pub fn places(network: &Network, nranks: u32) -> Result<Vec<Rank>, String> {
    network.places(nranks).map_err(|e| e.message.clone())
}

/// Returns the machine's hash as sixteen digits, by which tables of the same machine can be recognised.
pub fn hash(network: &Network) -> String {
    format!("{:016x}", network.hash())
}

/// A machine and the number of ranks on it in a simulation.
#[derive(clap::Args)]
pub struct Placed {
    /// Simulated cluster (declared machine): a preset, a preset with arguments (dgx-h100:nodes=2), or a TOML file
    #[arg(long, value_name = "MACHINE")]
    fabric: String,
    /// Nodes of the preset: the same as :nodes=N after its name
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// Ranks; default: one at each place of the machine
    #[arg(short = 'n', long = "ranks", value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// Largest slice of a chunk in bytes; 0: chunks are not cut; auto: for each call the slice with which it is quickest.
    /// Default: what the machine's file says, else auto
    #[arg(long, value_name = "BYTES", value_parser = slice)]
    slice: Option<String>,
}

impl Placed {
    /// The machine.
    pub fn open(&self) -> Result<Network, String> {
        open(&self.fabric, self.nodes, self.slice.as_deref())
    }

    /// Returns what `--fabric` names.
    pub fn fabric(&self) -> &str {
        &self.fabric
    }

    /// Opens one of several machines that `--fabric` names.
    pub fn open_as(&self, fabric: &str) -> Result<Network, String> {
        open(fabric, self.nodes, self.slice.as_deref())
    }

    /// Returns the number of ranks, if it is given.
    pub fn ranks(&self) -> Option<u32> {
        self.ranks
    }

    /// Returns the view of a collective of its ranks.
    pub fn view(&self, network: &Network, collective: Collective, root: Rank) -> Result<RankView, String> {
        view(network, collective, self.ranks, root)
    }
}

/// The variable that tells the CUDA runtime of Penny's how many devices there are; how many there are without it, and at most.
const DEVICES: &str = "PENNY_DEVICES";
const FEW_DEVICES: u32 = 8;
const MOST_DEVICES: u32 = 254;

/// The simulated cluster on which ranks run.
#[derive(clap::Args)]
pub struct MachineArgs {
    /// Simulated cluster (declared machine) on which the ranks run: a preset, a preset with arguments (dgx-h100:nodes=2), or a TOML file
    #[arg(long, value_name = "MACHINE")]
    fabric: Option<String>,
    /// Nodes of the preset: the same as :nodes=N after its name
    #[arg(long, value_name = "N", requires = "fabric", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// Largest slice of a chunk on the cluster in bytes, 0, or auto, as for `penny sim`
    #[arg(long, value_name = "BYTES", requires = "fabric", value_parser = slice)]
    slice: Option<String>,
    /// virtual: the cluster's time is reported; paced:D: calls also take that time, D times slower
    #[arg(long, value_name = "CLOCK", requires = "fabric")]
    clock: Option<String>,
}

impl MachineArgs {
    /// Tells whether no machine is named.
    pub fn is_none(&self) -> bool {
        self.fabric.is_none()
    }

    /// Returns the environment variables that declare the machine to ranks. `Err` says why it has no places for `ranks` ranks.
    /// `has_devices`: the program asks a CUDA runtime of Penny's for devices, of which there is one for each place.
    pub fn environment(&self, ranks: u32, has_devices: bool) -> Result<Vec<(&'static str, String)>, String> {
        let Some(fabric) = &self.fabric else { return Ok(Vec::new()) };
        let spec = spec(fabric, self.nodes, self.slice.as_deref())?;
        let machine = Machine::declared(Some(&spec), self.clock.as_deref()).map_err(|e| e.message.clone())?;
        let mut variables = vec![("PENNY_FABRIC", spec)];
        if let Some(machine) = machine {
            places(&machine.network, ranks).map_err(|why| format!("-n {ranks}: {why}"))?;
            let devices = machine.network.place_count();
            if has_devices && devices > FEW_DEVICES && std::env::var_os(DEVICES).is_none() {
                variables.push((DEVICES, devices.min(MOST_DEVICES).to_string()));
            }
        }
        variables.extend(self.clock.clone().map(|clock| ("PENNY_FABRIC_CLOCK", clock)));
        Ok(variables)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_that_differ_in_one_number_have_different_hashes() {
        let text = |name: &str, lat: &str| {
            format!(
                "name = \"{name}\"\n[class.wire]\nbw = \"1GB/s\"\nlat = \"{lat}\"\n[ring]\nshape = \"4\"\nlink = \"wire\"\n"
            )
        };
        let hash = |name: &str, lat: &str| hash(&topology::parse("m.toml", &text(name, lat), &[]).unwrap());
        assert_eq!(hash("one", "1us"), hash("another name", "1us"));
        assert_ne!(hash("one", "1us"), hash("one", "1.000001us"));
    }

    #[test]
    fn nodes_are_one_argument_among_others() {
        let spec = |fabric, nodes, slice| spec(fabric, nodes, slice).unwrap();
        assert_eq!(spec("dgx-h100", Some(2), None), "dgx-h100:nodes=2");
        assert_eq!(spec("dgx-h100:places=4", Some(2), None), "dgx-h100:places=4,nodes=2");
        assert_eq!(spec("dgx-h100", Some(2), Some("64B")), "dgx-h100:nodes=2,slice=64B");
        assert_eq!(spec("t3000", None, None), "t3000");
    }

    #[test]
    fn an_argument_and_an_option_may_say_the_same_and_nothing_else() {
        assert_eq!(spec("dgx-h100:nodes=2", Some(2), None), Ok("dgx-h100:nodes=2".into()));
        assert_eq!(spec("dgx-h100:slice=1KiB", None, Some("1024B")), Ok("dgx-h100:slice=1KiB".into()));
        let refused = "--nodes 3: --fabric dgx-h100:nodes=2 says nodes=2 already; leave one of them out";
        assert_eq!(spec("dgx-h100:nodes=2", Some(3), None), Err(refused.into()));
        assert!(spec("dgx-h100:slice=0", None, Some("auto")).unwrap_err().contains("--slice auto"));
    }
}
