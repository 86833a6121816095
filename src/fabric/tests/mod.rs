//! The engine held against numbers worked out by hand, and against a naive engine.

mod fair;
mod faults;
pub(super) mod machines;
mod memory;
mod model;
mod naive;
mod worlds;

use super::engine::{price, price_traced};
use super::world::World;
use super::{CallTimes, Finished, PortCounters, PortState, PricedCall, SharedCall};
use crate::algorithms::{self, ALL};
use crate::plan::{Plan, RankView};
use crate::topology::Network;
use crate::types::{Collective, Rank};

/// Rank r at place r.
const PLACES: [Rank; 32] = {
    let mut places = [0; 32];
    let mut rank = 0;
    while rank < 32 {
        places[rank] = rank as Rank;
        rank += 1;
    }
    places
};

/// A call of bytes; rank r stands at place r.
fn call<'a>(plans: &'a [Plan], count: u64, slice_bytes: u64) -> PricedCall<'a> {
    let view = RankView::flat(Collective::AllReduce, 0, plans.len() as u32, 0);
    PricedCall { plans, places: &PLACES[..plans.len()], view, count, size: 1, slice_bytes }
}

/// The price of a call of bytes into which all ranks enter at 0.
fn outcome(network: &Network, plans: &[Plan], bytes: u64, slice_bytes: u64) -> CallTimes {
    price(network, &call(plans, bytes, slice_bytes), &vec![0; plans.len()]).unwrap()
}

/// When the last rank is done.
fn last(outcome: &CallTimes) -> u64 {
    *outcome.exit_ps.iter().max().unwrap()
}

/// An all-reduce's programs.
fn all_reduce(name: &str, nranks: u32) -> Vec<Plan> {
    algorithms::plan_all(
        algorithms::find(name).unwrap(),
        &RankView::flat(Collective::AllReduce, 0, nranks, 0),
    )
}
