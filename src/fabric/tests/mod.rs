//! The engine held against numbers worked out by hand, and against a naive engine.

pub(super) mod machines;
mod memory;
mod model;
mod naive;

use super::engine::{price, price_traced};
use super::{Call, Outcome};
use crate::algorithms::{self, ALL};
use crate::plan::{Plan, View};
use crate::topology::Network;
use crate::types::Collective;

/// A call of bytes.
fn call<'a>(plans: &'a [Plan], count: u64, slice_bytes: u64) -> Call<'a> {
    let view = View::flat(Collective::AllReduce, 0, plans.len() as u32, 0);
    Call { plans, view, count, size: 1, slice_bytes }
}

/// The price of a call of bytes into which all ranks enter at 0.
fn outcome(network: &Network, plans: &[Plan], bytes: u64, slice_bytes: u64) -> Outcome {
    price(network, &call(plans, bytes, slice_bytes), &vec![0; plans.len()]).unwrap()
}

/// When the last rank is done.
fn last(outcome: &Outcome) -> u64 {
    *outcome.exit_ps.iter().max().unwrap()
}

/// An all-reduce's programs.
fn all_reduce(name: &str, nranks: u32) -> Vec<Plan> {
    algorithms::plan_all(algorithms::find(name).unwrap(), &View::flat(Collective::AllReduce, 0, nranks, 0))
}
