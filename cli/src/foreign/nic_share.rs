//! The NICs of a node of GPUs: each GPU's share of those that are nearest to it, and their class.

use penny::sim::topology::units;

use super::gpu_node::GpuNode;
use super::nvlink::generation;
use super::toml_text::{From, Text, bit_rate, plain};

/// One GPU's share of the NICs.
pub struct Share {
    /// Bits a second in one direction.
    pub bits: u64,
    /// The NICs that it is made of.
    pub nics: u32,
    ports: u32,
    /// The rate of one port in bits per second.
    port_bits: u64,
    divided: bool,
}

/// A NIC that is slower than the fastest by this factor is a NIC for management.
const SLOW: u64 = 8;

impl GpuNode {
    /// Writes the class of the largest share.
    pub fn nic_class(&self, text: &mut Text, share: &Share) {
        let known = self.nics.iter().all(|nic| nic.bits.is_some());
        let by_id = self.nics.iter().all(|nic| nic.bits.or(nic.sold_with).is_some());
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
            (false, false) if by_id => From::Guess("by its PCI id"),
            (false, true) if by_id => From::Guess("an equal part of what its PCI id tells"),
            (false, false) => From::Guess("as such GPUs are sold with"),
            (false, true) => From::Guess("an equal part of what such GPUs are sold with"),
        };
        text.word("bw", &bit_rate(share.bits), from);
        text.bare("eff", share.eff(), From::Guess("what libraries reach"));
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
    pub fn shares(&mut self) -> Vec<Share> {
        if self.nics.is_empty() {
            return Vec::new();
        }
        let guess = self.usual_nic();
        let bits_of = |nic: usize| self.nics[nic].bits.or(self.nics[nic].sold_with).unwrap_or(guess);
        let fastest = (0..self.nics.len()).map(bits_of).max().unwrap_or(0);
        let nearest: Vec<Vec<usize>> = self
            .gpus
            .iter()
            .map(|gpu| {
                let quick = || (0..self.nics.len()).filter(|&nic| bits_of(nic) * SLOW > fastest);
                let least = quick().filter_map(|nic| gpu.distances.get(nic)).min();
                let near: Vec<usize> = quick().filter(|&nic| gpu.distances.get(nic) == least).collect();
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

impl Share {
    /// Returns the fraction of a NIC's rate that libraries reach; it is published for 400 Gb/s and for 200 Gb/s.
    pub fn eff(&self) -> &'static str {
        if self.port_bits >= 400_000_000_000 { "0.97" } else { "0.94" }
    }
}

/// Joins names from the file for a remark, as many as fit in a line.
pub fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let shown: Vec<String> = names.iter().take(16).map(|name| plain(name)).collect();
    shown.join(", ") + if names.len() > shown.len() { " and more" } else { "" }
}

/// Tells whether a network device is one that the kernel makes up: bridges of virtual machines, containers' pairs.
pub fn is_made_up(name: &str) -> bool {
    let begins = |prefix: &&str| name.starts_with(prefix);
    name == "lo" || ["veth", "virbr", "docker", "br-", "cni", "flannel", "cali", "vnet"].iter().any(begins)
}
