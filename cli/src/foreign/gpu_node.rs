//! A node of GPUs as its files describe it, and the machine's file that comes of it.
//!
//! ```text
//!     links into NVSwitches, or PCIe alone      with NICs [nodes], without [switch]
//!     links from GPU to GPU                     [edges]; PCIe joins the groups that NVLink does not
//!     two GPUs joined by n links                as one switch whose ports are n links wide
//! ```
//!
//! A place of `[nodes]` has one NIC. Here that is all NICs that are nearest to a GPU, each divided by the GPUs that it is
//! nearest to: two ports of 200 Gb/s beside one GPU are 400 Gb/s, one port beside two GPUs is half of it for each.

use std::collections::BTreeMap;

use penny::sim::topology::units;

use super::nvlink::{Generation, generation};
use super::toml_text::{From, Text, bit_rate, plain};
use super::{File, MOST_DEVICES};

/// The distance of a NIC from a GPU, in the terms of `nvidia-smi topo -m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// At most one PCIe bridge between them.
    Pix,
    /// Several bridges.
    Pxb,
    /// The CPU's host bridge.
    Phb,
    /// Host bridges of one NUMA node.
    Node,
    /// The interconnect of the sockets.
    Sys,
}

/// A GPU.
#[derive(Debug)]
pub struct Gpu {
    /// The number of links to switches.
    pub switched: u32,
    /// Ten times the compute capability, if the file has it.
    pub sm: Option<u32>,
    /// The GPU's own PCIe link: bytes per second in one direction, and the file's words for it.
    pub pcie: Option<(u64, String)>,
    /// The distance to each NIC.
    pub distances: Vec<Distance>,
}

/// A NIC: the ports of one PCIe device.
#[derive(Debug)]
pub struct Nic {
    /// The name that remarks use.
    pub name: String,
    /// Bits per second in one direction, if the file has it.
    pub bits: Option<u64>,
    /// The number of ports that `bits` counts together.
    pub ports: u32,
    /// The latency from NIC to NIC, one way, if the file has it.
    pub latency_ns: Option<u64>,
}

/// A node.
#[derive(Debug, Default)]
pub struct GpuNode {
    /// The GPUs, in the order of places.
    pub gpus: Vec<Gpu>,
    /// The number of links between two GPUs; the key has the lower GPU first.
    pub peers: BTreeMap<(usize, usize), u32>,
    /// The NICs that work.
    pub nics: Vec<Nic>,
    /// Remarks for the file's head, a line each.
    pub remarks: Vec<String>,
}

/// One GPU's share of the NICs.
struct Share {
    bits: u64,
    nics: u32,
    ports: u32,
    /// The rate of one port in bits per second.
    port_bits: u64,
    divided: bool,
}

impl GpuNode {
    /// The machine's file.
    pub fn machine(mut self, what: &str, file: &File<'_>) -> Result<String, String> {
        if self.gpus.is_empty() {
            return Err(file.error("names no GPU; dump the topology where the GPUs are visible"));
        }
        if self.gpus.len().max(self.nics.len()) > MOST_DEVICES {
            return Err(file.error(format_args!("has more than {MOST_DEVICES} GPUs or NICs; give one node")));
        }
        if let Some(bare) = self.gpus.iter().position(|gpu| gpu.switched == 0)
            && self.gpus.iter().any(|gpu| gpu.switched > 0)
        {
            return Err(file.error(format_args!(
                "shows no NVLink for GPU {bare}, though others have them; see `nvidia-smi nvlink -s` and dump again"
            )));
        }
        let links = self.gpus.iter().map(|gpu| gpu.switched).max().unwrap_or(0);
        if links > 0 && !self.peers.is_empty() {
            self.remarks.push("Not carried over: NVLinks from GPU to GPU beside those into switches.".into());
        }
        match (links, self.gpus.len(), self.peers.get(&(0, 1)).copied()) {
            (1.., _, _) => Ok(self.switched(what, file, links)),
            (0, 2, Some(links)) => Ok(self.switched(what, file, links)),
            _ if self.peers.is_empty() => Ok(self.switched(what, file, 0)),
            _ => Ok(self.wired(what, file)),
        }
    }

    /// Describes GPUs behind one switch: NVSwitches, or PCIe if there are no NVLinks.
    fn switched(mut self, what: &str, file: &File<'_>, links: u32) -> String {
        let (gpus, shares) = (self.gpus.len(), self.shares());
        if gpus > 1 && !shares.is_empty() {
            self.remarks.push(
                "The NICs of several nodes (nodes = N) are on one switch: guessed. A spine gives rails."
                    .into(),
            );
        }
        let mut text = Text::new(what, file.name, &self.remarks);
        let inside = if links == 0 {
            self.pcie_class(&mut text);
            "pcie".to_owned()
        } else {
            let (like, why) = generation(self.gpus[0].sm, links);
            text.section(&format!("class.nv{links}"), &format!("a GPU's {links} NVLinks in one direction"));
            let why = format!("{} a link, {why}", units::print_bandwidth(like.rate));
            text.word("bw", &units::print_bandwidth(like.rate * u64::from(links)), From::Guess(&why));
            nvlink_rest(
                &mut text,
                like,
                "300ns",
                "each of a way's two ports; NCCL's NVLink ring step is 0.6 us",
            );
            format!("nv{links}")
        };
        let inner = if shares.is_empty() { "g" } else { "n*.g" };
        if let Some(most) = shares.iter().max_by_key(|share| share.bits) {
            self.nic_class(&mut text, most);
            text.section("nodes", "");
            text.bare("places", gpus, From::File(""));
            text.bare("nodes", 1, From::File("the file is of one; the argument nodes=N declares more"));
            text.word("inside", &inside, From::File(""));
            text.word("nic", "nic", From::File(""));
            for (gpu, share) in shares.iter().enumerate().filter(|(_, share)| share.bits < most.bits) {
                text.section("[override]", &format!("{} NICs are nearest", share.nics));
                text.word("link", &format!("n*.g{gpu}.nic.*"), From::File(""));
                text.word(
                    "bw",
                    &effective(share.bits / 8, nic_eff(share)),
                    From::Guess("with the class's eff"),
                );
            }
        } else {
            text.section("switch", "no NIC, so one node alone");
            text.bare("places", gpus, From::File(""));
            text.word("port", &inside, From::File(""));
        }
        for (gpu, fewer) in self.gpus.iter().enumerate().filter(|(_, gpu)| (1..links).contains(&gpu.switched))
        {
            let like = generation(self.gpus[0].sm, links).0;
            let ports = if shares.is_empty() { "*" } else { "nv.*" };
            text.section("[override]", &format!("{} links of {links}", fewer.switched));
            text.word("link", &format!("{inner}{gpu}.{ports}"), From::File(""));
            let rate = effective(like.rate * u64::from(fewer.switched), like.eff);
            text.word("bw", &rate, From::Guess("with the class's eff"));
        }
        text.finish()
    }

    /// Describes GPUs that are wired to one another.
    fn wired(mut self, what: &str, file: &File<'_>) -> String {
        let gpus = self.gpus.len();
        if !self.nics.is_empty() {
            let names = listed(self.nics.iter().map(|nic| nic.name.as_str()));
            self.remarks.push(format!("Not carried over: the NICs {names}, for [edges] is one node alone."));
        }
        let groups = self.groups();
        let nvlinks: Vec<(usize, usize, u32)> = self.peers.iter().map(|(&(a, b), &n)| (a, b, n)).collect();
        let mut bridged = Vec::new();
        for a in 0..gpus {
            bridged.extend((a + 1..gpus).filter(|&b| groups[a] != groups[b]).map(|b| (a, b, 1)));
        }
        let mut text = Text::new(what, file.name, &self.remarks);
        let total =
            |gpu: usize| nvlinks.iter().filter(|(a, b, _)| *a == gpu || *b == gpu).map(|(.., n)| n).sum();
        let (like, why) = generation(self.gpus[0].sm, (0..gpus).map(total).max().unwrap_or(0));
        text.section("class.nv", "one NVLink in one direction");
        text.word("bw", &units::print_bandwidth(like.rate), From::Guess(&why));
        nvlink_rest(&mut text, like, "600ns", "NCCL's NVLink ring step is 0.6 us");
        if !bridged.is_empty() {
            self.pcie_class(&mut text);
        }
        text.section("edges", "");
        text.bare("places", gpus, From::File(""));
        text.edges("nv", &nvlinks, "GPU, GPU, links where there are several");
        if !bridged.is_empty() {
            text.edges(
                "pcie",
                &bridged,
                "guessed: each pair has its own; what a switch shares is not carried over",
            );
        }
        text.finish()
    }

    /// Returns the number of each GPU's group. GPUs that NVLinks connect form a group.
    fn groups(&self) -> Vec<usize> {
        let mut group: Vec<usize> = (0..self.gpus.len()).collect();
        for &(a, b) in self.peers.keys() {
            let (to, from) = (group[a].min(group[b]), group[a].max(group[b]));
            group.iter_mut().filter(|g| **g == from).for_each(|g| *g = to);
        }
        group
    }

    fn pcie_class(&self, text: &mut Text) {
        text.section("class.pcie", "a GPU's PCIe link in one direction");
        match self.gpus.iter().filter_map(|gpu| gpu.pcie.as_ref()).min_by_key(|(rate, _)| *rate) {
            Some((rate, how)) => text.word("bw", &units::print_bandwidth(*rate), From::File(how)),
            None => text.word("bw", "31.5GB/s", From::Guess("16 GT/s, 16 lanes")),
        }
        text.bare("eff", "0.8", From::Guess("headers of 256 B packets, and what switches take"));
        text.word("lat", "700ns", From::Guess("each of a way's ports"));
        text.word("mtu", "256B", From::Guess("the usual largest payload"));
    }

    fn nic_class(&self, text: &mut Text, share: &Share) {
        let known = self.nics.iter().all(|nic| nic.bits.is_some());
        let ports = if share.ports == share.nics { "" } else { ", all ports of a NIC as one" };
        let about = match (share.nics, share.divided) {
            (1, false) => format!("a NIC a GPU{ports}"),
            (nics, false) => format!("{nics} NICs a GPU as one{ports}"),
            (_, true) => format!("a GPU's part of the NICs that are nearest to it{ports}"),
        };
        text.section("class.nic", &about);
        let from = match (known, share.divided) {
            (true, false) => From::File(""),
            (true, true) => From::Guess("each of these GPUs has an equal part"),
            (false, false) => From::Guess("as such GPUs are sold with"),
            (false, true) => From::Guess("an equal part of what such GPUs are sold with"),
        };
        text.word("bw", &bit_rate(share.bits), from);
        text.bare("eff", nic_eff(share), From::Guess("what libraries reach"));
        match self.nics.iter().filter_map(|nic| nic.latency_ns).max() {
            Some(ns) => text.word(
                "lat",
                &units::print_time(ns * 500),
                From::File("half of the file's, for each of a way's ports"),
            ),
            None => text.word(
                "lat",
                "600ns",
                From::Guess("each of a way's two ports, the switch's share included"),
            ),
        }
        text.word("mtu", "4096B", From::Guess("the largest InfiniBand MTU"));
        text.word("post", "4us", From::Guess("4 to 6 us a message give published curves"));
        text.word("gap", "5ns", From::Guess("200 million messages a second"));
    }

    /// Returns each GPU's share of the NICs; an empty list if there are no NICs.
    fn shares(&mut self) -> Vec<Share> {
        if self.nics.is_empty() {
            return Vec::new();
        }
        let guess = self.usual_nic();
        let bits_of = |nic: usize| self.nics[nic].bits.unwrap_or(guess);
        let nearest: Vec<Vec<usize>> = self
            .gpus
            .iter()
            .map(|gpu| {
                let least = gpu.distances.iter().min();
                let near: Vec<usize> =
                    (0..self.nics.len()).filter(|&nic| gpu.distances.get(nic) == least).collect();
                let fastest = near.iter().map(|&nic| bits_of(nic)).max();
                near.into_iter().filter(|&nic| Some(bits_of(nic)) == fastest).collect()
            })
            .collect();
        let mut users = vec![0u64; self.nics.len()];
        nearest.iter().flatten().for_each(|&nic| users[nic] += 1);
        let share = |near: &Vec<usize>| {
            // All near NICs are equally fast, so a GPU's share is a multiple or a fraction of one NIC's rate.
            let bits = near.iter().map(|&nic| bits_of(nic) / users[nic].max(1)).sum();
            let ports: u32 = near.iter().map(|&nic| self.nics[nic].ports).sum();
            let port_bits =
                near.iter().map(|&nic| bits_of(nic) / u64::from(self.nics[nic].ports.max(1))).max();
            let port_bits = port_bits.unwrap_or(0);
            let nics = near.len() as u32;
            if nics > 1 && near.iter().all(|&nic| users[nic] == u64::from(nics)) {
                // There are as many NICs as GPUs, all equally distant: each GPU gets one.
                return Share { bits, nics: 1, ports: ports / nics, port_bits, divided: false };
            }
            Share { bits, nics, ports, port_bits, divided: near.iter().any(|&nic| users[nic] > 1) }
        };
        let shares = nearest.iter().map(share).collect();
        let idle =
            (0..self.nics.len()).filter(|&nic| users[nic] == 0).map(|nic| self.nics[nic].name.as_str());
        let idle = listed(idle);
        if !idle.is_empty() {
            self.remarks
                .push(format!("Not carried over: NICs that are slower, or nearest to no GPU: {idle}."));
        }
        shares
    }

    /// Returns the usual rate of NICs beside GPUs of this generation, or of this PCIe rate, in bits per second.
    fn usual_nic(&self) -> u64 {
        let links = self.gpus.iter().map(|gpu| gpu.switched).max().unwrap_or(0);
        let pcie = self.gpus.iter().filter_map(|gpu| gpu.pcie.as_ref()).map(|(rate, _)| *rate).max();
        match (self.gpus[0].sm.or((links > 0).then(|| generation(None, links).0.sm)), pcie) {
            (Some(90..), _) | (None, Some(60_000_000_000..)) => 400_000_000_000,
            (Some(80..), _) | (None, Some(30_000_000_000..)) => 200_000_000_000,
            _ => 100_000_000_000,
        }
    }
}

/// Writes all keys of an NVLink class except its rate.
fn nvlink_rest(text: &mut Text, like: Generation, latency: &str, why: &str) {
    let counted = units::ratio(like.eff).map_or(like.rate, |eff| eff.of(like.rate));
    text.bare(
        "eff",
        like.eff,
        From::Guess(&format!("NCCL counts {} a link", units::print_bandwidth(counted))),
    );
    text.word("lat", latency, From::Guess(why));
    text.word("mtu", "256B", From::Guess("the largest payload of an NVLink packet"));
}

/// Returns the fraction of a NIC's rate that libraries reach; it is published for 400 Gb/s and for 200 Gb/s.
fn nic_eff(share: &Share) -> &'static str {
    if share.port_bits >= 400_000_000_000 { "0.97" } else { "0.94" }
}

/// Joins names from the file for a remark, as many as fit in a line.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let shown: Vec<String> = names.iter().take(16).map(|name| plain(name)).collect();
    shown.join(", ") + if names.len() > shown.len() { " and more" } else { "" }
}

/// Formats a rate times an efficiency.
fn effective(rate: u64, eff: &str) -> String {
    units::print_bandwidth(units::ratio(eff).map_or(rate, |eff| eff.of(rate)))
}
