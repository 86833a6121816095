//! The algorithms that consist of cycles only, so that their programs have a closed form and need no list of steps.

use super::{Algorithm, alternating_rings, neighbour_rings, quad_ring, ring};
use crate::plan::RankView;
use crate::plan::cycles::Cycles;
use crate::types::Rank;

/// An algorithm's name, and its orders, one a lane.
type Row = (&'static str, fn(&RankView) -> Vec<Vec<Rank>>);

const ROWS: &[Row] = &[
    ("ring", ring::forward),
    ("ring_reverse", ring::backward),
    ("ring_pair", ring::both_ways),
    ("quad_ring", |v| quad_ring::orders(v).into()),
    ("alternating_rings", alternating_rings::rings),
    ("neighbour_rings", neighbour_rings::lanes),
];

/// Returns the programs of all ranks in closed form, where the algorithm has such: the same as [`super::plan_all`] lists.
pub fn cycles(algorithm: &Algorithm, v: &RankView) -> Option<Cycles> {
    if v.nranks == 1 || algorithm.refuses(v).is_some() {
        return None;
    }
    let (_, orders) = ROWS.iter().find(|(name, _)| *name == algorithm.name)?;
    Cycles::new(v, orders(v))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::{ALL, plan_all};
    use crate::plan::Operand::From;
    use crate::plan::{Lane, Shape, Step};

    /// Asserts that the closed form gives the same steps as the plans: the sender, the receiver and the chunk of each round.
    fn assert_same(cycles: &Cycles, plans: &[crate::plan::Plan]) {
        let n = cycles.nranks();
        for lane in 0..cycles.lanes() as Lane {
            let order = cycles.order(lane);
            for position in 0..n {
                let rank = order[position as usize];
                let beside = |hops: u32| order[((position + hops) % n) as usize];
                let plan = &plans[rank as usize];
                assert_eq!(plan.parts, cycles.parts());
                let steps: Vec<&Step> = plan.steps.iter().filter(|s| s.lane == lane).collect();
                assert_eq!(steps.len() as u32, cycles.rounds() + 1);
                for (round, step) in (0..).zip(steps) {
                    assert_eq!(step.chunk, cycles.chunk(lane, position, round));
                    let from = (round > 0).then(|| From(beside(n - 1)));
                    let arrives = step.operands.iter().copied().find(|o| matches!(o, From(_)));
                    assert_eq!(
                        (arrives, step.operands.iter().filter(|o| matches!(o, From(_))).count()),
                        (from, from.iter().count())
                    );
                    let to: Vec<Rank> = (round < cycles.rounds()).then(|| beside(1)).into_iter().collect();
                    assert_eq!(step.to, to);
                }
            }
        }
    }

    #[test]
    fn the_closed_form_says_what_the_list_of_steps_says() {
        let mut held = 0;
        for shape in [[2, 1, 1], [3, 1, 1], [7, 1, 1], [12, 1, 1], [8, 2, 1], [2, 5, 1], [4, 3, 1], [3, 2, 2]]
        {
            for algorithm in ALL {
                for &collective in algorithm.serves {
                    let shape = Shape(shape);
                    let view = RankView { shape, ..RankView::flat(collective, 0, shape.nranks(), 0) };
                    if let Some(cycles) = cycles(algorithm, &view) {
                        assert_same(&cycles, &plan_all(algorithm, &view));
                        held += 1;
                    }
                }
            }
        }
        assert_eq!(held, 8 * (ROWS.len() - 1) * 3);
    }

    #[test]
    fn over_the_links_of_a_machine_the_closed_form_says_the_same() {
        let mut held = 0;
        for machine in ["t3000", "dgx-1v", "n300:shape=5", "tpu-v4:shape=3x3x3"] {
            let network = crate::topology::open(machine).unwrap();
            let places: Vec<Rank> = (0..network.shape.nranks()).collect();
            for algorithm in ALL {
                for &collective in algorithm.serves {
                    let orders = network.ring_orders(&places);
                    let view = RankView { orders, ..RankView::flat(collective, 0, places.len() as u32, 0) };
                    if let Some(cycles) = cycles(algorithm, &view) {
                        assert_same(&cycles, &plan_all(algorithm, &view));
                        held += 1;
                    }
                }
            }
        }
        // A line has no neighbour rings.
        assert_eq!(held, (4 * ROWS.len() - 1) * 3);
    }

    #[test]
    fn what_does_not_go_round_has_no_closed_form() {
        use crate::types::Collective::{AllReduce, Broadcast};
        for (name, collective, nranks) in
            [("tree", AllReduce, 4), ("ring", Broadcast, 4), ("ring", AllReduce, 1)]
        {
            let view = RankView::flat(collective, 0, nranks, 0);
            assert_eq!(cycles(crate::algorithms::find(name).unwrap(), &view), None);
        }
    }
}
