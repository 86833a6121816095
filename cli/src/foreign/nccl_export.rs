//! One node of a machine as NCCL's topology XML.
//!
//! Places of `[nodes]`, `[switch]` and `[edges]` are GPUs; grids of links are no GPUs, and are refused. NCCL knows links
//! by their number and the GPU's compute capability, so a rate is given as the links that come nearest to it; a NIC's
//! as the speed that such NICs are sold with. Each GPU and its NIC lie below a PCIe switch of their own, which is
//! invented, and so are bus ids.

use std::collections::BTreeMap;

use penny::sim::topology::Network;
use penny::sim::topology::units;

use super::nvlink::{GENERATIONS, Generation};

/// Gb/s that NICs are sold with.
const NIC_SPEEDS: [u64; 8] = [10, 25, 40, 50, 100, 200, 400, 800];

/// A GPU as its ports tell it.
#[derive(Default)]
struct Gpu {
    /// Rate into the node's switch.
    inside: u64,
    /// Rate of the NIC.
    nic: u64,
    /// To other places: links, and the rate of one.
    peers: BTreeMap<u32, (u32, u64)>,
}

/// The XML of a machine's first node. `Err` says why there is none, in a sentence.
pub fn write(network: &Network) -> Result<String, String> {
    let node = network.shape.per_node();
    if network.routes.cluster().is_some_and(|cluster| cluster.nics() != node) {
        return Err(format!(
            "{}: only machines with one NIC a device are written as NCCL's XML; export it with --format toml",
            network.name
        ));
    }
    let mut gpus: BTreeMap<u32, Gpu> = BTreeMap::new();
    for (id, port) in network.ports.iter().enumerate() {
        let rate = network.class(id as u32).rate;
        let parts: Vec<&str> = port.name.split('.').collect();
        let place = |text: &str| text.strip_prefix('g').and_then(|number| number.parse::<u32>().ok());
        match (parts.first().and_then(|part| place(part)), &parts[..]) {
            (_, ["n0", gpu, "nv", "tx"]) => gpus.entry(place(gpu).unwrap_or(0)).or_default().inside = rate,
            (_, ["n0", nic, "tx"]) if network.routes.cluster().is_some() => {
                let gpu = nic.strip_prefix("nic").and_then(|number| number.parse().ok());
                gpus.entry(gpu.unwrap_or(0)).or_default().nic = rate;
            }
            (_, ["n0", gpu, "nic", "tx"]) => gpus.entry(place(gpu).unwrap_or(0)).or_default().nic = rate,
            (_, ["n0", gpu, peer, ..]) if place(peer).is_some() => {
                let gpu = gpus.entry(place(gpu).unwrap_or(0)).or_default();
                wire(gpu, place(peer).unwrap_or(0), rate);
            }
            (Some(gpu), [_, "tx"]) => gpus.entry(gpu).or_default().inside = rate,
            (Some(gpu), [_, peer, ..]) => {
                let Some(peer) = place(peer) else { continue };
                wire(gpus.entry(gpu).or_default(), peer, rate);
            }
            _ => {}
        }
    }
    if gpus.len() != node as usize || gpus.is_empty() {
        return Err(format!(
            "{}: NCCL's XML holds GPUs of a node, and this machine's places are no such; export it with --format toml",
            network.name
        ));
    }
    let rates = gpus.values().flat_map(|gpu| [gpu.inside].into_iter().chain(gpu.peers.values().map(|p| p.1)));
    let fastest = rates.max().unwrap_or(0);
    let total = gpus.values().map(|gpu| gpu.peers.values().map(|p| p.0).sum::<u32>()).max().unwrap_or(0);
    let like = generation(fastest, total);
    let mut text = format!(
        "<!-- {}: places of its first node. Bus ids and PCIe switches are invented; an NVLink of sm {} is counted as {}. -->\n\
         <system version=\"1\">\n",
        network.name.replace("--", "- -"),
        like.sm,
        units::print_bandwidth(counted(like))
    );
    // Half of the GPUs on each socket, as on such boards.
    let half = node.div_ceil(2);
    for socket in 0..node.div_ceil(half) {
        text +=
            &format!("  <cpu numaid=\"{socket}\" affinity=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\">\n");
        for (&place, gpu) in gpus.iter().filter(|(place, _)| *place / half == socket) {
            text += &device(place, gpu, like);
        }
        text += "  </cpu>\n";
    }
    Ok(text + "</system>\n")
}

/// Counts a link to another GPU.
fn wire(gpu: &mut Gpu, peer: u32, rate: u64) {
    let (links, slowest) = gpu.peers.entry(peer).or_insert((0, rate));
    (*links, *slowest) = (*links + 1, rate.min(*slowest));
}

/// A PCIe switch with a GPU and its NIC.
fn device(place: u32, gpu: &Gpu, like: Generation) -> String {
    let link = "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"";
    let mut text = format!(
        "    <pci busid=\"{}\" class=\"0x060400\" {link}>\n      <pci busid=\"{}\" class=\"0x030200\" {link}>\n        \
         <gpu dev=\"{place}\" sm=\"{}\" rank=\"{place}\" gdr=\"1\">\n",
        bus(place, 0),
        bus(place, 1),
        like.sm
    );
    let mut nvlink = |target: &str, count: u64, class: &str| {
        text += &format!("          <nvlink target=\"{target}\" count=\"{count}\" tclass=\"{class}\"/>\n");
    };
    if gpu.inside > 0 {
        nvlink("fffffff:ff:ff.0", nearest(gpu.inside, counted(like)), "0x068000");
    }
    for (&peer, &(links, rate)) in &gpu.peers {
        nvlink(&bus(peer, 1), u64::from(links) * nearest(rate, counted(like)), "0x030200");
    }
    text += "        </gpu>\n      </pci>\n";
    if gpu.nic > 0 {
        let speed = NIC_SPEEDS.into_iter().find(|giga| giga * 1_000_000_000 / 8 >= gpu.nic);
        let mega = speed.map_or(gpu.nic * 8 / 1_000_000, |giga| giga * 1000);
        text += &format!(
            "      <pci busid=\"{}\" class=\"0x020700\" {link}>\n        <nic>\n          <net name=\"mlx5_{place}\" \
             dev=\"{place}\" speed=\"{mega}\" port=\"1\" gdr=\"1\"/>\n        </nic>\n      </pci>\n",
            bus(place, 2)
        );
    }
    text + "    </pci>\n"
}

fn bus(place: u32, device: u32) -> String {
    format!("{:04x}:{:02x}:{device:02x}.0", place / 240, 0x10 + place % 240)
}

/// What NCCL counts a link of a generation.
fn counted(like: Generation) -> u64 {
    units::ratio(like.eff).map_or(like.rate, |eff| eff.of(like.rate))
}

fn nearest(rate: u64, link: u64) -> u64 {
    ((rate + link / 2) / link).max(1)
}

/// The oldest generation whose links make up a rate, or come nearest to it; wires need `total` of them.
fn generation(rate: u64, total: u32) -> Generation {
    let miss = |g: &Generation| {
        let links = nearest(rate, counted(*g));
        let all = if total == 0 { links } else { links * u64::from(total) };
        (all > u64::from(g.links), rate.abs_diff(links * counted(*g)))
    };
    GENERATIONS.into_iter().min_by_key(miss).unwrap_or(GENERATIONS[4])
}
