//! The machine that a command line names.

use penny::plan::{Shape, View};
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
    let node = network.shape.per_node();
    let shape = match () {
        () if nranks == places => network.shape,
        () if nranks.is_multiple_of(node) => Shape([node, nranks / node, 1]),
        () => Shape::flat(nranks),
    };
    Ok(View { shape, ..View::flat(collective, 0, nranks, root) })
}

/// Sixteen digits that differ where machines differ: two tables with the same ones are of the same machine.
///
/// Of what the engine prices with: classes, ports, places, and the ways from the first place to all others. FNV-1a.
pub fn hash(network: &Network) -> String {
    // Once a network knows its own hash, this is `format!("{:016x}", network.hash())`.
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
