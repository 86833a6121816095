//! How the flows of a call lie on the uplinks of a cluster.

use super::super::{Network, PortId};
use super::Cluster;
use crate::plan::Lane;
use crate::types::Rank;
use std::collections::HashMap;

/// How flows lie on the uplinks of a tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierLoad {
    /// The tier from which the links lead up.
    pub tier: String,
    /// Flows that go up from it.
    pub flows: u64,
    /// All its uplinks.
    pub uplinks: u32,
    /// Those that some flow takes.
    pub used: u32,
    /// The most flows on one uplink.
    pub most: u32,
    /// The uplink with the most flows.
    pub port: String,
    /// The most flows on one uplink if every switch spread those that go up from it evenly.
    pub least_most: u32,
}

/// Counts the flows on the uplinks of each tier of a cluster, without those of the highest tier. A flow is sender's place, receiver's place
/// and lane; each is given once. Nothing for other machines.
pub fn loads(network: &Network, flows: impl IntoIterator<Item = (Rank, Rank, Lane)>) -> Vec<TierLoad> {
    let Some(cluster) = network.routes.cluster() else { return Vec::new() };
    let mut carried: HashMap<PortId, u32> = HashMap::new();
    let mut ports = Vec::new();
    for (from, to, lane) in flows {
        ports.clear();
        if network.routes.route(from, to, lane, &mut ports).is_ok() {
            ports.iter().for_each(|&port| *carried.entry(port).or_default() += 1);
        }
    }
    let tiers = cluster.switches();
    (0..tiers.len() - 1).map(|tier| load(network, cluster, tier, &carried)).collect()
}

fn load(network: &Network, cluster: &Cluster, tier: usize, carried: &HashMap<PortId, u32>) -> TierLoad {
    let uplinks = cluster.uplinks(tier);
    let mut of_switch: HashMap<u32, u64> = HashMap::new();
    let (mut flows, mut used, mut most) = (0, 0, (0, uplinks.start));
    for (link, port) in (0..).zip(uplinks.clone().step_by(2)) {
        let Some(&here) = carried.get(&port) else { continue };
        *of_switch.entry(cluster.ends(tier, link).0).or_default() += u64::from(here);
        flows += u64::from(here);
        used += 1;
        if here > most.0 {
            most = (here, port);
        }
    }
    let number = uplinks.len() as u32 / 2;
    let of_each = u64::from(number / cluster.switches()[tier].1);
    let least_most = of_switch.values().map(|flows| flows.div_ceil(of_each)).max().unwrap_or(0);
    TierLoad {
        tier: cluster.switches()[tier].0.to_owned(),
        flows,
        uplinks: number,
        used,
        most: most.0,
        port: network.ports[most.1 as usize].name.clone(),
        least_most: least_most as u32,
    }
}
