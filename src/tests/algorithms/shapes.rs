//! The algorithms on ranks that are arranged: nodes with a NIC a rank, and tori.

use std::collections::HashMap;

use crate::algorithms::{self, ALL, Algorithm};
use crate::plan::{Plan, RankView, Shape};
use crate::types::{Collective, Rank};

/// Nodes of 1, 2, 4 and 8 ranks.
fn nodes() -> impl Iterator<Item = Shape> {
    [1, 2, 4, 8].into_iter().flat_map(|g| (1..=9).map(move |nodes| Shape([g, nodes, 1])))
}

const TORI: [Shape; 6] = [
    Shape([2, 2, 1]),
    Shape([4, 4, 1]),
    Shape([3, 4, 2]),
    Shape([2, 2, 2]),
    Shape([5, 1, 1]),
    Shape([4, 2, 1]),
];

fn view(collective: Collective, shape: Shape) -> RankView {
    RankView { shape, ..RankView::flat(collective, 0, shape.nranks(), 0) }
}

fn find(name: &str) -> &'static Algorithm {
    algorithms::find(name).expect("an algorithm of the table")
}

fn prove(algorithm: &Algorithm, shape: Shape) {
    for &collective in algorithm.serves {
        let v = view(collective, shape);
        if algorithm.refuses(&v).is_some() {
            continue;
        }
        if let Err(fault) = algorithms::prove(algorithm, &v) {
            panic!("{} {collective} over {shape:?}: {fault}", algorithm.name);
        }
    }
}

#[test]
fn every_plan_over_nodes_is_proved_with_its_declared_cost() {
    for name in ["alternating_rings", "double_ring", "hierarchical", "torus"] {
        for shape in nodes() {
            prove(find(name), shape);
        }
    }
}

#[test]
fn every_plan_over_a_torus_is_proved_with_its_declared_cost() {
    for algorithm in ALL {
        for shape in TORI {
            prove(algorithm, shape);
        }
    }
}

/// How many chunks pass each pair of ranks.
fn traffic(plans: &[Plan]) -> HashMap<(Rank, Rank), u32> {
    let mut traffic = HashMap::new();
    for (rank, plan) in (0..).zip(plans) {
        for &to in plan.steps.iter().flat_map(|step| &step.to) {
            *traffic.entry((rank, to)).or_default() += 1;
        }
    }
    traffic
}

/// The chunks that each rank sends out of its node, in parts of the buffer: (chunks, parts).
fn out_of_node(name: &str, shape: Shape) -> Vec<(u32, u32)> {
    let g = shape.per_node();
    let plans = algorithms::plan_all(find(name), &view(Collective::AllReduce, shape));
    let mut sent = vec![(0, plans[0].parts); shape.nranks() as usize];
    for ((from, to), chunks) in traffic(&plans) {
        if from / g != to / g {
            sent[from as usize].0 += chunks;
        }
    }
    sent
}

#[test]
fn a_ring_over_two_nodes_keeps_one_nic_a_node_busy_and_alternating_rings_all_of_them() {
    let shape = Shape([4, 2, 1]);
    assert_eq!(out_of_node("ring", shape), [(0, 8), (0, 8), (0, 8), (14, 8)].repeat(2));
    assert_eq!(out_of_node("alternating_rings", shape), [(14, 32)].repeat(8));
}

#[test]
fn a_double_ring_sends_as_many_times_more_between_nodes_as_they_have_ranks() {
    for shape in nodes().filter(|s| s.nodes() > 1) {
        let [g, nodes, _] = shape.0;
        let n = shape.nranks();
        assert!(out_of_node("hierarchical", shape).iter().all(|&sent| sent == (2 * (nodes - 1), n)));
        assert!(out_of_node("double_ring", shape).iter().all(|&sent| sent == (2 * g * (nodes - 1), n)));
    }
}

#[test]
fn no_ring_over_nodes_of_four_leaves_its_rail() {
    for shape in nodes().filter(|s| s.per_node() >= 4 && s.nranks() <= 40) {
        let g = shape.per_node();
        for name in ["alternating_rings", "hierarchical", "double_ring"] {
            let plans = algorithms::plan_all(find(name), &view(Collective::AllReduce, shape));
            assert!(
                traffic(&plans).keys().all(|&(p, r)| p / g == r / g || p % g == r % g),
                "{name} {shape:?}"
            );
        }
    }
}

#[test]
fn a_torus_of_equal_axes_carries_the_same_over_each_of_its_links() {
    for shape in [Shape([4, 4, 1]), Shape([3, 3, 3]), Shape([2, 2, 2])] {
        let traffic = traffic(&algorithms::plan_all(find("torus"), &view(Collective::AllReduce, shape)));
        let links: u32 = shape.0.iter().map(|&x| (x - 1).min(2)).sum();
        let n = shape.nranks();
        assert_eq!(traffic.len() as u32, n * links, "{shape:?}");
        let most = traffic.values().max();
        assert_eq!(most, traffic.values().min(), "{shape:?}");
    }
}
