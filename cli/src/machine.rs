//! The machine that a command line names.

use penny::fabric::live::Machine;
use penny::plan::View;
use penny::topology::{self, Network};
use penny::types::{Collective, Rank};

/// Opens `--fabric`, with `--nodes` added to its arguments.
pub fn open(fabric: &str, nodes: Option<u32>) -> Result<Network, String> {
    topology::open(&spec(fabric, nodes)).map_err(|e| e.message)
}

/// The machine's name with `--nodes` among its arguments.
pub fn spec(fabric: &str, nodes: Option<u32>) -> String {
    match nodes {
        None => fabric.to_owned(),
        Some(nodes) => {
            let sign = if fabric.contains(':') { ',' } else { ':' };
            format!("{fabric}{sign}nodes={nodes}")
        }
    }
}

/// Ranks fill the places in order: whole nodes keep the machine's arrangement, anything else is flat.
pub fn view(
    network: &Network,
    collective: Collective,
    ranks: Option<u32>,
    root: Rank,
) -> Result<View, String> {
    let places = network.shape.nranks();
    let nranks = ranks.unwrap_or(places);
    if nranks > places {
        return Err(format!("-n {nranks}: {} has {places} places; give it more nodes", network.name));
    }
    if root >= nranks {
        return Err(format!("--root {root} is not a rank of {nranks}: 0..={}", nranks - 1));
    }
    let shape = network.shape_of(&(0..nranks).collect::<Vec<_>>());
    Ok(View { shape, ..View::flat(collective, 0, nranks, root) })
}

/// Rank r stands at place r.
pub fn places(nranks: u32) -> Vec<Rank> {
    (0..nranks).collect()
}

/// Sixteen digits that differ where machines differ: two tables with the same ones are of the same machine.
///
/// Of what the engine prices with: classes, ports, places, and the ways from the first place to all others. FNV-1a.
pub fn hash(network: &Network) -> String {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    let mut ports = Vec::new();
    for place in 0..network.shape.nranks() {
        if network.routes.route(0, place, 0, &mut ports).is_err() {
            ports.push(u32::MAX);
        }
    }
    use std::fmt::Write;
    let _ = write!(hash, "{:?}{:?}{:?}{ports:?}", network.classes, network.ports, network.shape);
    format!("{:016x}", hash.0)
}

/// FNV-1a over what is written to it: <http://www.isthe.com/chongo/tech/comp/fnv/>.
struct Fnv(u64);

impl std::fmt::Write for Fnv {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        Ok(())
    }
}

/// What machine ranks stand on.
#[derive(clap::Args)]
pub struct MachineArgs {
    /// Machine whose time is told: a preset, a preset with arguments (dgx-h100:nodes=2), or a TOML file
    #[arg(long, value_name = "MACHINE")]
    fabric: Option<String>,
    /// Nodes of the preset: the same as :nodes=N after its name
    #[arg(long, value_name = "N", requires = "fabric", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// virtual: the machine's time is told; paced:D: calls also take it, D times slower
    #[arg(long, value_name = "CLOCK", requires = "fabric")]
    clock: Option<String>,
}

impl MachineArgs {
    /// The variables by which ranks learn of it. `Err` says why so many ranks cannot stand on it.
    pub fn environment(&self, ranks: u32) -> Result<Vec<(&'static str, String)>, String> {
        let Some(fabric) = &self.fabric else { return Ok(Vec::new()) };
        let spec = spec(fabric, self.nodes);
        let machine = Machine::declared(Some(&spec), self.clock.as_deref()).map_err(|e| e.message)?;
        let places = machine.map_or(0, |machine| machine.network.shape.nranks());
        if ranks > places {
            return Err(format!(
                "-n {ranks}: {spec} has {places} places; give it more nodes or start fewer ranks"
            ));
        }
        let clock = self.clock.clone().map(|clock| ("PENNY_FABRIC_CLOCK", clock));
        Ok([Some(("PENNY_FABRIC", spec)), clock].into_iter().flatten().collect())
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
        assert_eq!(spec("dgx-h100", Some(2)), "dgx-h100:nodes=2");
        assert_eq!(spec("dgx-h100:places=4", Some(2)), "dgx-h100:places=4,nodes=2");
        assert_eq!(spec("t3000", None), "t3000");
    }
}
