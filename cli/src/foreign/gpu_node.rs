//! A node of GPUs as its files describe it, and the machine's file that comes of it.
//!
//! ```text
//!     links into NVSwitches, or PCIe alone      with NICs [nodes], without [switch]
//!     links from GPU to GPU                     with NICs [nodes.wires], without [edges]; PCIe joins what links do not
//!     two GPUs joined by n links                as one switch whose ports are n links wide
//!     no links in the file, a GPU that is known  its links are filled in, and marked as guessed: `gpu_model`
//! ```
//!
//! A place of `[nodes]` has one NIC. Here that is all NICs that are nearest to a GPU, each divided by the GPUs that it is
//! nearest to: two ports of 200 Gb/s beside one GPU are 400 Gb/s, one port beside two GPUs is half of it for each.

use std::collections::BTreeMap;

use penny::sim::topology::units;

use super::gpu_links::{self, LinkKind};
use super::gpu_model::{self, Joined, Model};
use super::nic_share::Share;
use super::toml_text::{From, Text};
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
#[derive(Debug, Default)]
pub struct Gpu {
    /// The number of links to switches.
    pub switched: u32,
    /// Ten times the compute capability, if the file has it and this is NVIDIA's.
    pub sm: Option<u32>,
    /// This is AMD's.
    pub amd: bool,
    /// RCCL's word for AMD's GPU, such as gfx942.
    pub gfx: Option<String>,
    /// The PCI device id of NVIDIA's GPU, if the file has it.
    pub pci_id: Option<u32>,
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
    /// Those that its PCI id tells.
    pub sold_with: Option<u64>,
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
    /// The file would list the links that there are.
    pub lists_links: bool,
    /// The links are not those of the file, but of GPUs that are known.
    pub guessed: bool,
    /// The user says which GPUs these are.
    pub model: Option<Model>,
    /// Remarks for the file's head, a line each.
    pub remarks: Vec<String>,
}

const NICS_JOINED: &str =
    "The NICs of several nodes (nodes = N) are on one switch: guessed. A spine gives rails.";

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
                "shows no link for GPU {bare}, though others have them; see `nvidia-smi nvlink -s` and dump again"
            )));
        }
        let kind = gpu_links::kind(&self.gpus[0], 0);
        if self.peers.is_empty() && self.gpus.iter().all(|gpu| gpu.switched == 0) && self.gpus.len() > 1 {
            self.fill_in(file, kind.noun)?;
        }
        let links = self.gpus.iter().map(|gpu| gpu.switched).max().unwrap_or(0);
        if links > 0 && !self.peers.is_empty() {
            self.remarks.push(format!(
                "Not carried over: {}s from GPU to GPU beside those into switches.",
                kind.noun
            ));
        }
        match (links, self.gpus.len(), self.peers.get(&(0, 1)).copied()) {
            (1.., _, _) => Ok(self.switched(what, file, links)),
            (0, 2, Some(links)) => Ok(self.switched(what, file, links)),
            _ if self.peers.is_empty() => Ok(self.switched(what, file, 0)),
            _ => Ok(self.wired(what, file)),
        }
    }

    /// Fills in the links of GPUs that are known, or says that there are none.
    fn fill_in(&mut self, file: &File<'_>, noun: &str) -> Result<(), String> {
        let ids: Vec<Option<u32>> = self.gpus.iter().map(|gpu| gpu.pci_id).collect();
        let by_name = || {
            gpu_model::by_file_name(file.name).map(|(m, word)| (m, format!("`{word}` in the file's name")))
        };
        let told = match self.model {
            Some(model) => Some((model, "--gpu".to_owned())),
            None if self.lists_links => None,
            None if ids[0].is_some() => gpu_model::by_pci_ids(&ids)
                .map(|model| (model, format!("PCI id 10de:{:04x}", ids[0].unwrap_or_default()))),
            None => by_name(),
        };
        let sm = self.gpus.iter().find_map(|gpu| gpu.sm);
        let over_pcie = "so GPUs reach each other over PCIe";
        let Some((model, why)) = told else {
            self.remarks.push(match self.lists_links {
                true => format!("The file lists no {noun}s between GPUs, {over_pcie}."),
                false => format!(
                    "The file has no {noun}s, and neither PCI ids nor its name tell which GPUs these are, {over_pcie}: \
                     guessed; --gpu says which they are."
                ),
            });
            return Ok(());
        };
        if sm.is_some_and(|sm| sm != model.sm) || self.gpus[0].amd {
            return Err(file.error(format_args!(
                "describes other GPUs than the {} that {why} says; name the right ones with --gpu",
                model.name
            )));
        }
        self.gpus.iter_mut().for_each(|gpu| gpu.sm = Some(model.sm));
        let Some((joined, how)) = gpu_model::board(&model, self.gpus.len()) else {
            self.remarks.push(format!(
                "GPUs are {} by {why}; {} of them have no {noun}s that are known here, {over_pcie}: guessed.",
                model.name,
                self.gpus.len()
            ));
            return Ok(());
        };
        self.remarks.push(format!(
            "The file has no {noun}s. GPUs are {} by {why}, and have {} each, {how}: guessed.",
            model.name, model.links
        ));
        self.guessed = true;
        match joined {
            Joined::Switched(links) => self.gpus.iter_mut().for_each(|gpu| gpu.switched = links),
            Joined::Wired(peers) => self.peers = peers,
        }
        Ok(())
    }

    /// Describes GPUs behind one switch: NVSwitches, or PCIe if there are no NVLinks.
    fn switched(mut self, what: &str, file: &File<'_>, links: u32) -> String {
        let (gpus, shares) = (self.gpus.len(), self.shares());
        if gpus > 1 && !shares.is_empty() {
            self.remarks.push(NICS_JOINED.into());
        }
        let mut text = Text::new(what, file.name, &self.remarks);
        let inside = if links == 0 {
            self.pcie_class(&mut text);
            "pcie".to_owned()
        } else {
            self.kind(links).class(&mut text, Some(links));
            format!("{}{links}", self.kind(links).class)
        };
        let inner = if shares.is_empty() { "g" } else { "n*.g" };
        if let Some(most) = self.nodes_of_shares(&mut text, &shares) {
            text.word("inside", &inside, From::File(""));
            self.lesser_shares(&mut text, &shares, Some(most));
        } else {
            text.section("switch", "no NIC, so one node alone");
            text.bare("places", gpus, From::File(""));
            text.word("port", &inside, From::File(""));
        }
        for (gpu, fewer) in self.gpus.iter().enumerate().filter(|(_, gpu)| (1..links).contains(&gpu.switched))
        {
            let ports = if shares.is_empty() { "*" } else { "nv.*" };
            text.section("[override]", &format!("{} links of {links}", fewer.switched));
            text.word("link", &format!("{inner}{gpu}.{ports}"), From::File(""));
            let rate = self.kind(links).payload(fewer.switched);
            text.word("bw", &rate, From::Guess("with the class's eff"));
        }
        text.finish()
    }

    /// Describes GPUs that are wired to one another.
    fn wired(mut self, what: &str, file: &File<'_>) -> String {
        let (gpus, shares) = (self.gpus.len(), self.shares());
        if !shares.is_empty() {
            self.remarks.push(NICS_JOINED.into());
        }
        let groups = self.groups();
        let links: Vec<(usize, usize, u32)> = self.peers.iter().map(|(&(a, b), &n)| (a, b, n)).collect();
        let mut bridged = Vec::new();
        for a in 0..gpus {
            bridged.extend((a + 1..gpus).filter(|&b| groups[a] != groups[b]).map(|b| (a, b, 1)));
        }
        let mut text = Text::new(what, file.name, &self.remarks);
        let total =
            |gpu: usize| links.iter().filter(|(a, b, _)| *a == gpu || *b == gpu).map(|(.., n)| n).sum();
        let kind = self.kind((0..gpus).map(total).max().unwrap_or(0));
        kind.class(&mut text, None);
        if !bridged.is_empty() {
            self.pcie_class(&mut text);
        }
        let most = self.nodes_of_shares(&mut text, &shares);
        if most.is_none() {
            text.section("edges", "");
            text.bare("places", gpus, From::File(""));
        } else {
            text.section("nodes.wires", "");
        }
        let guessed = if self.guessed { "guessed: " } else { "" };
        text.edges(kind.class, &links, &format!("{guessed}GPU, GPU, links where there are several"));
        if !bridged.is_empty() {
            text.edges(
                "pcie",
                &bridged,
                "guessed: each pair has its own; what a switch shares is not carried over",
            );
        }
        self.lesser_shares(&mut text, &shares, most);
        text.finish()
    }

    /// Writes the class of the NICs and begins `[nodes]`, if there are NICs; returns the bits of the largest share.
    fn nodes_of_shares(&self, text: &mut Text, shares: &[Share]) -> Option<u64> {
        let most = shares.iter().max_by_key(|share| share.bits)?;
        self.nic_class(text, most);
        text.section("nodes", "");
        text.bare("places", self.gpus.len(), From::File(""));
        text.bare("nodes", 1, From::File("the file is of one; the argument nodes=N declares more"));
        text.word("nic", "nic", From::File(""));
        Some(most.bits)
    }

    /// Overrides the NICs of GPUs whose share is not the largest.
    fn lesser_shares(&self, text: &mut Text, shares: &[Share], most: Option<u64>) {
        for (gpu, share) in shares.iter().enumerate().filter(|(_, share)| Some(share.bits) < most) {
            text.section("[override]", &format!("{} NICs are nearest", share.nics));
            text.word("link", &format!("n*.g{gpu}.nic.*"), From::File(""));
            let rate = share.bits / 8;
            let rate = units::ratio(share.eff()).map_or(rate, |eff| eff.of(rate));
            text.word("bw", &units::print_bandwidth(rate), From::Guess("with the class's eff"));
        }
    }

    fn kind(&self, links: u32) -> LinkKind {
        gpu_links::kind(&self.gpus[0], links)
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
}
