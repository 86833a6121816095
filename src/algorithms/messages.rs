//! The number of messages of a call, and whether that many can be simulated one by one.
//!
//! ```text
//!     1024 ranks     ring                        cycles: followed by their repeating parts, whatever their number
//!                    tree             2 046      listed step by step
//!                    two_shot     2 095 104      listed step by step
//!                    torus        8 380 416      too many: left out of `auto`
//! ```
//!
//! The numbers come from the declared costs, which the checker holds against the programs: nothing is written to count it.

use super::{Algorithm, cycles};
use crate::plan::RankView;
use crate::topology::Network;

/// The most messages of a call that a choice among algorithms simulates, if its programs are lists of steps: more take seconds, and
/// hundreds of megabytes.
pub const MOST_LISTED: u64 = 1 << 21;

/// Returns the messages of all ranks if chunks are not cut. Called for what the algorithm serves.
pub fn messages(algorithm: &Algorithm, v: &RankView) -> u64 {
    match v.nranks {
        1 => 0,
        n => (0..n).map(|rank| u64::from((algorithm.cost)(&v.of(rank)).chunks_sent)).sum(),
    }
}

/// Returns the parts of a block.
pub fn parts(algorithm: &Algorithm, v: &RankView) -> u32 {
    if v.nranks == 1 { 1 } else { (algorithm.cost)(v).parts }
}

/// Tells whether an algorithm is among those from which `auto` chooses on a declared machine, for ranks and for `penny sim` alike.
pub fn is_followed(algorithm: &Algorithm, v: &RankView) -> bool {
    // An algorithm of so few ranks has fewer messages, whatever it is.
    v.nranks <= 128 || messages(algorithm, v) <= MOST_LISTED || cycles(algorithm, v).is_some()
}

/// Returns a time that no call of an algorithm is below on a machine as it is carried: that of the longest chain of messages, each made from
/// the one before it, if every one of them passes one port and has no bytes.
pub fn least_ps(algorithm: &Algorithm, v: &RankView, network: &Network) -> u64 {
    let depth = if v.nranks == 1 { 0 } else { (algorithm.cost)(v).depth };
    network.launch_ps.saturating_add(network.least_hop_ps().saturating_mul(depth.into()))
}

#[cfg(test)]
mod tests {
    use super::super::{ALL, plan_all};
    use super::*;
    use crate::plan::Shape;

    #[test]
    fn the_declared_costs_count_the_messages_and_parts_of_the_programs() {
        for shape in [[2, 1, 1], [7, 1, 1], [8, 3, 1], [4, 4, 2], [1, 5, 1]] {
            let shape = Shape(shape);
            for algorithm in ALL {
                for &collective in algorithm.serves {
                    let v = RankView { shape, ..RankView::flat(collective, 0, shape.nranks(), 0) };
                    if algorithm.refuses(&v).is_some() {
                        continue;
                    }
                    let plans = plan_all(algorithm, &v);
                    let sent: usize =
                        plans.iter().flat_map(|plan| &plan.steps).map(|step| step.to.len()).sum();
                    assert_eq!(
                        messages(algorithm, &v),
                        sent as u64,
                        "{} {collective} {shape:?}",
                        algorithm.name
                    );
                    assert!(
                        plans.iter().all(|plan| plan.parts == parts(algorithm, &v)),
                        "{}",
                        algorithm.name
                    );
                }
            }
        }
    }

    #[test]
    fn no_algorithm_of_128_ranks_has_too_many_messages() {
        for shape in [[128, 1, 1], [8, 16, 1], [8, 4, 4]] {
            for algorithm in ALL {
                for &collective in algorithm.serves {
                    let v = RankView { shape: Shape(shape), ..RankView::flat(collective, 0, 128, 0) };
                    if algorithm.refuses(&v).is_none() {
                        assert!(messages(algorithm, &v) <= MOST_LISTED, "{} {collective}", algorithm.name);
                    }
                }
            }
        }
    }
}
