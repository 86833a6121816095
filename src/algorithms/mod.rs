//! The algorithms, one idea per file. An algorithm is pure: given a [`RankView`] it writes that rank's [`Plan`].
//!
//! To add one: write the file, add its row to [`ALL`]. The plan checker, the executor, `penny plan`, `penny algorithms`
//! and the benchmarks find it there.

pub mod alternating_rings;
pub mod bruck;
pub mod cycles;
pub mod double_ring;
pub mod hierarchical;
pub mod in_switch;
pub mod in_switch_trees;
pub mod line;
pub mod mailbox;
pub mod meet_in_middle;
pub mod messages;
pub mod neighbour_rings;
pub mod one_shot;
pub mod pairwise;
pub mod quad_ring;
pub mod rail_trees;
mod renamed;
pub mod ring;
pub mod ring_pair;
pub mod ring_reverse;
mod rounds;
pub mod simple_ring;
pub mod torus;
pub mod tree;
pub mod two_shot;

pub use cycles::cycles;
pub use messages::{MOST_LISTED, is_followed, least_ps, messages, parts};

use crate::error::{Error, Result};
pub use crate::plan::check::Cost;
#[cfg(test)]
use crate::plan::check::{self, PlanFault, Proof};
pub use crate::plan::link::Alike;
use crate::plan::link::{Linked, link};
use crate::plan::{Chunk, Plan, RankView, Shape};
use crate::topology::{CarriedCall, Network};
use crate::types::Collective;

/// A row of the table of algorithms.
pub struct Algorithm {
    /// The name that `PENNY_ALGO` accepts.
    pub name: &'static str,
    /// The idea in one sentence, for `penny algorithms`.
    pub about: &'static str,
    /// The cost, for `penny algorithms`: n ranks, S bytes, B bandwidth, a latency.
    pub cost_formula: &'static str,
    /// The collectives it can plan.
    pub serves: &'static [Collective],
    /// Folds all inputs in rank order with one rounding, so its bits do not depend on the number of slices or on
    /// the algorithm; `PENNY_REPRODUCIBLE=1` allows only such algorithms for reductions.
    pub rank_order: bool,
    /// Returns the reason for which it cannot serve this view, or `None` if it can. Called only for a collective in
    /// `serves` and at least two ranks.
    pub guard: fn(&RankView) -> Option<&'static str>,
    /// Returns how the programs of all ranks resemble each other, so that the linker can skip most of them. Called as
    /// `plan` is; a test compares the answer with the programs. `Alike::No` is always correct.
    pub alike: fn(&RankView) -> Alike,
    /// Returns the declared cost, which the checker holds against the plan. Called as `plan` is.
    pub cost: fn(&RankView) -> Cost,
    /// Writes the program and sets the number of parts. Called only for what `serves` and `guard` allow, and never
    /// for one rank, whose program is empty.
    pub plan: fn(&RankView, &mut Plan),
}

/// The table of all algorithms.
pub static ALL: &[&Algorithm] = &[
    &ring::RING,
    &ring_reverse::RING_REVERSE,
    &ring_pair::RING_PAIR,
    &simple_ring::SIMPLE_RING,
    &tree::TREE,
    &one_shot::ONE_SHOT,
    &two_shot::TWO_SHOT,
    &pairwise::PAIRWISE,
    &meet_in_middle::MEET_IN_MIDDLE,
    &quad_ring::QUAD_RING,
    &line::LINE,
    &bruck::BRUCK,
    &alternating_rings::ALTERNATING_RINGS,
    &double_ring::DOUBLE_RING,
    &hierarchical::HIERARCHICAL,
    &torus::TORUS,
    &mailbox::MAILBOX,
    &rail_trees::RAIL_TREES,
    &neighbour_rings::NEIGHBOUR_RINGS,
    &in_switch::IN_SWITCH,
    &in_switch_trees::IN_SWITCH_TREES,
];

/// Returns the algorithm of this name.
pub fn find(name: &str) -> Option<&'static Algorithm> {
    ALL.iter().copied().find(|a| a.name == name)
}

/// Returns the place in the table of the algorithm of this name. Panics if there is none: for names that the code knows.
pub fn index(name: &str) -> usize {
    ALL.iter().position(|a| a.name == name).expect("an algorithm of the table")
}

/// Returns the algorithms that plan this collective, in the table's order.
pub fn candidates(collective: Collective) -> impl Iterator<Item = &'static Algorithm> {
    ALL.iter().copied().filter(move |a| a.serves.contains(&collective))
}

impl Algorithm {
    /// Returns the reason for which this algorithm cannot plan for this view, or `None` if it can.
    pub fn refuses(&self, v: &RankView) -> Option<&'static str> {
        if !self.serves.contains(&v.collective) {
            return Some("it does not know this collective");
        }
        if v.nranks == 1 { None } else { (self.guard)(v) }
    }
}

/// Refuses a machine with a protocol for an algorithm that is not in the table.
pub fn check_protocols(network: &Network) -> Result<()> {
    let named = network.protocols.iter().flat_map(|p| p.algorithms.iter().map(move |name| (p, name)));
    for (protocol, name) in named {
        if find(name).is_none() {
            return Err(Error::argument(format!(
                "{}: [[protocol]] {}: algorithms: `{name}` is no algorithm; `penny algorithms` lists them",
                network.name, protocol.name
            )));
        }
    }
    Ok(())
}

/// Tells whether a protocol of the machine carries an algorithm that serves the view. If none does, calls go over the bare machine.
pub fn is_carried(network: &Network, view: &RankView) -> bool {
    let able = candidates(view.collective).filter(|algorithm| algorithm.refuses(view).is_none());
    able.into_iter()
        .any(|algorithm| network.carriers(algorithm.name, CarriedCall::of_any_size(view)).next().is_some())
}

/// Returns the program of one rank. A single rank copies its input, whatever the algorithm.
///
/// Panics if the algorithm refuses the view.
pub fn plan(algorithm: &Algorithm, v: &RankView) -> Plan {
    if let Some(why) = algorithm.refuses(v) {
        panic!("{} cannot plan {} over {} ranks: {why}", algorithm.name, v.collective, v.nranks);
    }
    let mut out = Plan::new(1);
    if v.nranks == 1 {
        out.copy(Chunk::part(0));
    } else {
        renamed::host_by_host(algorithm, v, &mut out);
    }
    out
}

/// Returns the declared cost of [`plan`] for this rank.
#[cfg(test)]
pub fn cost(algorithm: &Algorithm, v: &RankView) -> Cost {
    if v.nranks == 1 {
        Cost { parts: 1, ..Cost::default() }
    } else {
        (algorithm.cost)(&renamed::in_host_order(algorithm, v))
    }
}

/// Returns the program of the view's rank, linked to those of its peers.
pub fn linked(algorithm: &Algorithm, v: &RankView) -> std::result::Result<Linked, String> {
    link(v, alike(algorithm, v), &|v| plan(algorithm, v))
}

/// Returns how the programs of all ranks resemble each other.
pub fn alike(algorithm: &Algorithm, v: &RankView) -> Alike {
    match (algorithm.alike)(v) {
        _ if v.nranks == 1 => Alike::No,
        // Renamed ranks do not stand where their names say.
        Alike::Shifted(_) | Alike::Exclusive if renamed::host_order(algorithm, v).is_some() => {
            Alike::StepByStep
        }
        alike => alike,
    }
}

/// Returns the programs of all ranks of a view.
pub fn plan_all(algorithm: &Algorithm, v: &RankView) -> Vec<Plan> {
    (0..v.nranks).map(|rank| plan(algorithm, &v.of(rank))).collect()
}

/// Proves the programs of all ranks, and what the algorithm claims about them.
#[cfg(test)]
pub fn prove(algorithm: &Algorithm, v: &RankView) -> std::result::Result<Proof, Box<PlanFault>> {
    let proof = check::prove(&plan_all(algorithm, v), v.collective, v.root)?;
    for rank in 0..v.nranks {
        proof.costs(rank, cost(algorithm, &v.of(rank)))?;
    }
    if algorithm.rank_order {
        proof.folds_in_rank_order()?;
    }
    Ok(proof)
}

/// Returns the guard of an algorithm that serves any number of ranks.
fn any(_: &RankView) -> Option<&'static str> {
    None
}

/// Returns the programs of algorithms that differ by the root, or by who stands at an end.
fn unlike(_: &RankView) -> Alike {
    Alike::No
}

/// Returns the programs of algorithms that speak of other ranks by their distance: without a root, all are one program, turned.
fn turned(v: &RankView) -> Alike {
    if v.collective.rooted() { Alike::No } else { Alike::Shifted(Shape::flat(v.nranks)) }
}

/// An algorithm was asked for what its row does not offer.
fn unserved(v: &RankView) -> ! {
    unreachable!("the table does not offer this algorithm for {}", v.collective)
}
