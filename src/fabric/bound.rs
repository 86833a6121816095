//! A time that no price of a call is below, from the programs of a few ranks.
//!
//! ```text
//!     programs of ranks 0 and 1     g0.tx  [--][--][--]         a port serves one message at a time: no call is over
//!                                   n0.tx  [-----][-----]       before its ports have served what these ranks send
//! ```
//!
//! Messages of other ranks only add to it, and so do latencies, waits and cuts into slices, each of which has a gap and a frame of its
//! own. What a switch copies or sums, and what a data mover sends, has other costs, and is not counted.

use super::PricedCall;
use super::engine::program::chunk_bytes;
use crate::plan::{Lane, Plan};
use crate::topology::{Network, PortId};
use crate::types::Rank;
use std::collections::HashMap;

/// Returns a time that no price of a call is below in which all ranks enter at once, after the network's launch. `write` gives the programs,
/// of which those of `ranks` are looked at; the call's own list is not used.
pub fn least_ps(
    network: &Network,
    call: &PricedCall<'_>,
    write: &dyn Fn(Rank) -> Plan,
    ranks: impl Iterator<Item = Rank>,
) -> u64 {
    let mut busy_ps: HashMap<PortId, u64> = HashMap::new();
    let mut ways: HashMap<(Rank, Lane), Vec<PortId>> = HashMap::new();
    for rank in ranks {
        ways.clear();
        let plan = write(rank);
        for step in plan.steps.iter().filter(|step| !step.in_switch) {
            let Ok(bytes) = chunk_bytes(step.chunk, plan.parts, call) else { continue };
            for &to in &step.to {
                let way = ways
                    .entry((to, step.lane))
                    .or_insert_with(|| way(network, call.places, rank, to, step.lane));
                for &port in way.iter() {
                    let busy_ps = busy_ps.entry(port).or_default();
                    *busy_ps = busy_ps.saturating_add(network.class(port).hold_ps(bytes));
                }
            }
        }
    }
    network.launch_ps.saturating_add(busy_ps.into_values().max().unwrap_or(0))
}

/// Returns the ports of a way that serve messages as their class says.
fn way(network: &Network, places: &[Rank], from: Rank, to: Rank, lane: Lane) -> Vec<PortId> {
    let mut ports = Vec::new();
    let found = network.routes.route(places[from as usize], places[to as usize], lane, &mut ports);
    ports.retain(|&port| found.is_ok() && network.class(port).mover.is_none());
    ports
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::algorithms::{self, ALL};
    use crate::fabric::engine;
    use crate::plan::RankView;
    use crate::topology;
    use crate::types::Collective;

    #[test]
    fn no_price_is_below_the_bound_and_direct_exchanges_are_near_it() {
        let mut nearest = 0.0f64;
        for machine in ["dgx-h100", "dgx-h100:nodes=2", "t3000", "gh200:nodes=2"] {
            let network = topology::open(machine).unwrap();
            let places = network.places(network.shape.nranks()).unwrap();
            let flat = RankView::flat(Collective::AllReduce, 0, places.len() as u32, 0);
            let view = flat.arranged(network.arrangement(&places));
            for algorithm in ALL.iter().filter(|algorithm| algorithm.refuses(&view).is_none()) {
                let plans = algorithms::plan_all(algorithm, &view);
                for (network, count) in network.views().iter().flat_map(|view| [(view, 100), (view, 1 << 22)])
                {
                    let write = |rank: Rank| plans[rank as usize].clone();
                    for slice_bytes in [0, 1 << 18] {
                        let call = PricedCall {
                            plans: &plans,
                            places: &places,
                            view: view.clone(),
                            count,
                            size: 4,
                            slice_bytes,
                        };
                        let bound_ps = least_ps(network, &call, &write, 0..8);
                        let entry_ps = vec![network.launch_ps; places.len()];
                        let exit_ps = engine::price(network, &call, &entry_ps).unwrap().exit_ps;
                        let last_ps = exit_ps.into_iter().max().unwrap_or(0);
                        assert!(bound_ps <= last_ps, "{machine} {}: {bound_ps} > {last_ps}", algorithm.name);
                        nearest = nearest.max(bound_ps as f64 / last_ps as f64);
                    }
                }
            }
        }
        assert!(nearest > 0.9, "{nearest}");
    }
}
