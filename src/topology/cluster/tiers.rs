//! Tiers of switches above NICs: an extended generalised fat tree.
//!
//! ```text
//!     down = 2, uplinks = 2           spine0    spine1        each uplink of a switch leads to a switch of its own,
//!     down = 2                         |    \  /    |         which the same uplink of its neighbours leads to
//!                                      |     \/     |
//!                                      |     /\     |         leaf0.spine1.up    from leaf 0 into spine 1
//!                                      |    /  \    |         leaf0.spine1.down  from spine 1 into leaf 0
//!                                     leaf0      leaf1
//!                                     /  \       /  \
//! ```
//!
//! A message goes up to the lowest switch above both NICs. Which uplinks it takes is the flow's, that is sender, receiver and lane:
//! `routing = "ecmp"` takes a hash of them, so that flows may meet on one uplink while another is idle; `destination` takes the
//! receiver's number (d-mod-k), so that the flows of a permutation of a leaf's NICs never meet. The way down follows from the way up.
//! The hash is the same everywhere; `seed` makes it another one.

use super::super::{Port, PortId};
use crate::plan::Lane;
use std::ops::Range;

/// How a flow finds its uplinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Routing {
    Ecmp,
    Destination,
}

/// One tier.
pub(super) struct Tier {
    pub name: String,
    /// Links of a switch to what is below it.
    pub down: u32,
    /// Links of a switch to the tier above; 0 for the highest.
    pub uplinks: u32,
    /// The class of the uplinks.
    pub class: u32,
}

/// Tiers above the NICs of a machine.
pub(super) struct Tiers {
    /// The lowest first.
    tiers: Vec<Tier>,
    /// The first port of each tier's uplinks, and the first port after the last.
    first: Vec<PortId>,
    /// Positions of a rail, and rails, which nothing joins.
    positions: u32,
    rails: u32,
    routing: Routing,
    seed: u64,
}

impl Tiers {
    /// Makes tiers whose first port has this number. `None`: the numbers of switches or ports do not fit.
    pub fn new(
        tiers: Vec<Tier>,
        first_port: PortId,
        positions: u32,
        rails: u32,
        routing: Routing,
        seed: u64,
    ) -> Option<Tiers> {
        let mut all = Tiers { tiers, first: vec![first_port], positions, rails, routing, seed };
        for tier in 0..all.tiers.len() {
            let links = u64::from(all.tiers[tier].uplinks) * u64::from(all.groups(tier)) * u64::from(rails);
            let ports = links.checked_mul(2 * u64::from(all.choices(tier)?))?;
            all.first.push(u32::try_from(u64::from(all.first[tier]) + ports).ok()?);
        }
        Some(all)
    }

    /// Returns the number of the first port after those of all tiers.
    pub fn end(&self) -> PortId {
        self.first[self.tiers.len()]
    }

    /// Positions below a switch of the lowest tier.
    pub fn below_a_leaf(&self) -> u32 {
        self.tiers[0].down
    }

    /// Positions below a switch of a tier.
    fn below(&self, tier: usize) -> u64 {
        self.tiers[..=tier].iter().map(|tier| u64::from(tier.down)).product()
    }

    /// Sets of switches of a tier of one rail: a set is above the same positions.
    fn groups(&self, tier: usize) -> u32 {
        u64::from(self.positions).div_ceil(self.below(tier)) as u32
    }

    /// Switches of a set.
    fn choices(&self, tier: usize) -> Option<u32> {
        self.tiers[..tier].iter().try_fold(1u32, |all, tier| all.checked_mul(tier.uplinks))
    }

    fn group_of(&self, tier: usize, (rail, index): (u32, u32)) -> u32 {
        rail * self.groups(tier) + (u64::from(index) / self.below(tier)) as u32
    }

    /// The number of a switch by its set and its place in the set.
    fn switch(&self, tier: usize, group: u32, choice: u32) -> u32 {
        group * self.choices(tier).unwrap_or(1) + choice
    }

    pub fn leaf_of(&self, position: (u32, u32)) -> u32 {
        self.group_of(0, position)
    }

    pub fn switches(&self) -> Vec<(&str, u32)> {
        let number = |tier| self.switch(tier, self.rails * self.groups(tier), 0);
        self.tiers.iter().enumerate().map(|(tier, of)| (of.name.as_str(), number(tier))).collect()
    }

    pub fn uplinks(&self, tier: usize) -> Range<PortId> {
        self.first[tier]..self.first[tier + 1]
    }

    pub fn ends(&self, tier: usize, link: u32) -> (u32, u32) {
        let (uplinks, choices) = (self.tiers[tier].uplinks, self.choices(tier).unwrap_or(1));
        let (switch, up) = (link / uplinks, link % uplinks);
        let (group, choice) = (switch / choices, switch % choices);
        let (rail, own) = (group / self.groups(tier), group % self.groups(tier));
        let above = rail * self.groups(tier + 1) + own / self.tiers[tier + 1].down;
        (switch, self.switch(tier + 1, above, choice * uplinks + up))
    }

    pub fn ports(&self) -> Vec<Port> {
        let mut ports = Vec::new();
        for (tier, of) in self.tiers.iter().enumerate().filter(|(_, tier)| tier.uplinks > 0) {
            for link in 0..self.uplinks(tier).len() as u32 / 2 {
                let (below, above) = self.ends(tier, link);
                let name = format!("{}{below}.{}{above}", of.name, self.tiers[tier + 1].name);
                let named = |way: &str| Port { name: format!("{name}.{way}"), class: of.class };
                ports.extend(["up", "down"].map(named));
            }
        }
        ports
    }

    /// Appends the ports between two positions of a rail.
    pub fn route(&self, from: (u32, u32), to: (u32, u32), lane: Lane, ports: &mut Vec<PortId>) {
        let first = ports.len();
        let (mut choice, mut spread) = (0, 1);
        for (tier, of) in self.tiers.iter().enumerate() {
            let (here, there) = (self.group_of(tier, from), self.group_of(tier, to));
            if here == there || of.uplinks == 0 {
                break;
            }
            let up = match self.routing {
                Routing::Ecmp => (self.flow(from, to, lane, tier) % u64::from(of.uplinks)) as u32,
                Routing::Destination => (u64::from(to.1) / spread % u64::from(of.uplinks)) as u32,
            };
            spread *= u64::from(of.uplinks);
            let link = |group| self.first[tier] + 2 * (self.switch(tier, group, choice) * of.uplinks + up);
            // The ways down lie behind the ways up, the last first.
            let middle = first + tier;
            ports.insert(middle, link(here));
            ports.insert(middle + 1, link(there) + 1);
            choice = choice * of.uplinks + up;
        }
    }

    /// A hash of a flow, another one at each tier.
    fn flow(&self, from: (u32, u32), to: (u32, u32), lane: Lane, tier: usize) -> u64 {
        let words = [from.0, from.1, to.0, to.1, u32::from(lane), tier as u32];
        words.into_iter().fold(mixed(self.seed), |state, word| mixed(state ^ u64::from(word)))
    }

    pub fn describe(&self) -> String {
        let tiers: Vec<String> =
            self.tiers.iter().map(|tier| format!("{} down, {} up", tier.down, tier.uplinks)).collect();
        format!("routing {:?}, seed {}; tiers: {}", self.routing, self.seed, tiers.join("; "))
    }

    pub fn sentences(&self) -> Vec<String> {
        let switches = self.switches();
        let about = self.tiers.iter().zip(switches).map(|(tier, (name, number))| {
            let (switches, links) = (
                if number == 1 { "switch" } else { "switches" },
                if tier.down == 1 { "link" } else { "links" },
            );
            let up = match tier.uplinks {
                0 => String::new(),
                uplinks => format!(", {uplinks} up each"),
            };
            format!("{name}: {number} {switches}, {} {links} down{up}", tier.down)
        });
        about.collect()
    }
}

/// One step of SplitMix64 (Steele, Lea and Flood, 2014): every bit of the word changes half of the bits.
fn mixed(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
