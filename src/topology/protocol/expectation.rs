//! What a library expects a call to take where it chooses an algorithm and a protocol: a formula of latencies and a bandwidth.
//!
//! ```toml
//! expects = "ring"            # ring: every rank passes on 1/n of the vector in each of its steps, over all nodes
//!                             # tree: the vector goes up and down, along the ranks of a node and log2 of the nodes
//!                             # switch: the switches of the nodes sum; log2 of the nodes; the bandwidth is of each rank of a node
//! expects_inside = "1.9us"    # a step within a node
//! expects_across = "4us"      # a step between nodes; left out: none
//! expects_bw = "331GB/s"      # the bandwidth of all channels, as bus bandwidth
//! expects_part = { 4KiB = 0.9 }    # what is left of it from a size on
//! ```
//!
//! A formula knows neither the channels that a call has, nor contention, nor how chunks follow each other: what a call then
//! takes is another time, its price.

use super::CarriedCall;
use super::by_size::from_sizes;
use crate::error::Result;
use crate::topology::source::Section;
use crate::topology::units::{self, Ratio};
use crate::types::Collective;

/// How the steps of an algorithm are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counting {
    Ring,
    Tree,
    Switch,
}

/// The formula by which a library chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    counting: Counting,
    base_ps: u64,
    inside_ps: u64,
    across_ps: u64,
    rate: u64,
    parts: Vec<(u64, Ratio)>,
}

impl Expectation {
    /// Reads the keys of a protocol with this fixed cost a call.
    pub(super) fn read(section: &Section, base_ps: u64) -> Result<Option<Expectation>> {
        let Some(field) = section.get("expects") else {
            let keys = ["expects_inside", "expects_across", "expects_bw", "expects_part"];
            return match keys.iter().find(|key| section.table.contains_key(**key)) {
                Some(key) => {
                    Err(section.error(format_args!("has {key}, but not expects; add expects = \"ring\"")))
                }
                None => Ok(None),
            };
        };
        let counting = match field.word(&["ring", "tree", "switch"])? {
            "ring" => Counting::Ring,
            "tree" => Counting::Tree,
            _ => Counting::Switch,
        };
        let bandwidth = section.need("expects_bw", "\"331GB/s\"")?;
        let rate = bandwidth.read(units::bandwidth)?;
        let parts = from_sizes(section, "expects_part", |field| field.part())?;
        if rate == 0 || parts.iter().any(|(_, part)| part.of(rate) == 0) {
            return Err(bandwidth.error("a call with this is never expected to end; write more"));
        }
        Ok(Some(Expectation {
            counting,
            base_ps,
            inside_ps: section.need("expects_inside", "\"1.9us\"")?.read(units::time)?,
            across_ps: section.get("expects_across").map_or(Ok(0), |field| field.read(units::time))?,
            rate,
            parts,
        }))
    }

    /// Returns the time that is expected of a call; of one of any size, that of its steps.
    pub fn time_ps(&self, call: CarriedCall) -> u64 {
        let (ranks, nodes) = (u64::from(call.nranks.max(1)), u64::from(call.nodes.max(1)));
        let rounds = match call.collective {
            Collective::AllReduce => 2,
            _ => 1,
        };
        let hops = rounds * (ranks - 1);
        let doublings = u64::from(nodes.ilog2());
        let per_node = (ranks / nodes).max(1);
        // Steps within nodes and between them, and how often the vector passes a rank.
        let (inside, across, over, under) = match self.counting {
            Counting::Ring => {
                let across = rounds * (nodes - 1);
                (hops - across.min(hops), across, hops, ranks)
            }
            Counting::Tree => (rounds * (per_node - 1), rounds * doublings, rounds, 1),
            Counting::Switch => (1, 2 * doublings, hops, ranks.saturating_mul(per_node)),
        };
        let steps_ps =
            inside.saturating_mul(self.inside_ps).saturating_add(across.saturating_mul(self.across_ps));
        let bytes = call.bytes.unwrap_or(0);
        let rate = super::by_size::latest(&self.parts, bytes).map_or(self.rate, |part| part.of(self.rate));
        let passed =
            u128::from(bytes) * u128::from(over) * 1_000_000_000_000 / (u128::from(under) * u128::from(rate));
        let passing_ps = u64::try_from(passed).unwrap_or(u64::MAX);
        self.base_ps.saturating_add(steps_ps).saturating_add(passing_ps)
    }

    /// Returns all that times depend on.
    pub fn parameters(&self) -> impl Iterator<Item = u64> {
        let parts = self.parts.iter().flat_map(|&(from, part)| [from, part.parts().0, part.parts().1]);
        [self.counting as u64, self.base_ps, self.inside_ps, self.across_ps, self.rate]
            .into_iter()
            .chain(parts)
    }
}
