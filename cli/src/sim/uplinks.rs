//! How the flows of a call lie on the uplinks of a cluster: which of them share one.

use std::collections::BTreeSet;

use penny::Rank;
use penny::sim::plan::Lane;
use penny::sim::topology::{Network, TierLoad, loads};
use serde::Serialize;

use super::Programs;

/// The load of a tier, in JSON.
#[derive(Serialize)]
pub struct TierRow {
    tier: String,
    flows: u64,
    uplinks: u32,
    uplinks_used: u32,
    most_flows_on_an_uplink: u32,
    most_flows_if_even: u32,
    busiest_uplink: String,
}

impl From<&TierLoad> for TierRow {
    fn from(load: &TierLoad) -> TierRow {
        TierRow {
            tier: load.tier.clone(),
            flows: load.flows,
            uplinks: load.uplinks,
            uplinks_used: load.used,
            most_flows_on_an_uplink: load.most,
            most_flows_if_even: load.least_most,
            busiest_uplink: load.port.clone(),
        }
    }
}

/// Returns the load of each tier by an algorithm's flows; nothing for a machine without tiers.
pub fn of(network: &Network, programs: &Programs, places: &[Rank]) -> Vec<TierLoad> {
    if network.routes.cluster().is_none() {
        return Vec::new();
    }
    let place = |rank: Rank| places[rank as usize];
    let mut flows: BTreeSet<(Rank, Rank, Lane)> = BTreeSet::new();
    programs.flows(|from, to, lane| {
        flows.insert((place(from), place(to), lane));
    });
    loads(network, flows).into_iter().filter(|load| load.flows > 0).collect()
}

/// Says how many flows meet on an uplink of a tier.
pub fn sentence(load: &TierLoad) -> String {
    let TierLoad { tier, flows, uplinks, used, most, port, least_most } = load;
    let flows = if *flows == 1 { "1 flow".to_owned() } else { format!("{flows} flows") };
    let meet = match most > least_most {
        true => format!("{most} meet on {port} where {least_most} would if they were spread evenly"),
        false => format!("at most {most} on one"),
    };
    format!("{tier}: {flows} on {used} of {uplinks} uplinks, {meet}")
}
