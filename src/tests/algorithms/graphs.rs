//! The algorithms on declared machines: every plan is proved over direct links and switches that sum, and rings go from neighbour to
//! neighbour.

use crate::algorithms::{self, ALL};
use crate::plan::RankView;
use crate::topology::{self, Network};
use crate::types::{Collective, Rank};

/// Machines of direct links: with one cycle, with several, with parallel links, and without a cycle.
pub const GRAPHS: [&str; 14] = [
    "n300",
    "t3000",
    "t3000:shape=3x2,links=1",
    "dgx-1v",
    "mi300x",
    "mi300x:nodes=2",
    "ipu-pod16",
    "tpu-v5e:shape=4x4",
    "tpu-v5e:shape=5",
    "tpu-v4:shape=2x2x4",
    "tpu-v4:shape=3x3x3",
    "t3000:shape=3x3",
    "n300:shape=5",
    "n300:shape=3,links=1",
];

/// Machines whose switches copy and sum: those of nodes, and one that joins all.
pub const SWITCHES: [&str; 6] = [
    "dgx-h100",
    "dgx-h100:places=2",
    "dgx-h100:nodes=2",
    "dgx-h100:nodes=3,places=2",
    "dgx-h100:nodes=5,places=3",
    "dgx-h100:nodes=7,places=4",
];

/// Returns the view of a collective of all places.
fn view(network: &Network, collective: Collective, root: Rank) -> RankView {
    let n = network.shape.nranks();
    let places: Vec<Rank> = (0..n).collect();
    RankView::flat(collective, 0, n, root).arranged(network.arrangement(&places))
}

#[test]
fn every_plan_over_links_and_switches_is_proved_with_its_declared_cost() {
    let mut proved = 0;
    for name in GRAPHS.into_iter().chain(SWITCHES) {
        let network = topology::open(name).unwrap();
        let n = network.shape.nranks();
        for algorithm in ALL {
            for &collective in algorithm.serves {
                let roots = if collective.rooted() { vec![0, n / 2, n - 1] } else { vec![0] };
                for root in roots {
                    let v = view(&network, collective, root);
                    if algorithm.refuses(&v).is_some() {
                        continue;
                    }
                    if let Err(fault) = algorithms::prove(algorithm, &v) {
                        panic!("{} {collective} on {name}, root {root}: {fault}", algorithm.name);
                    }
                    proved += 1;
                }
            }
        }
    }
    assert!(proved > 500, "{proved}");
}

#[test]
fn rings_over_a_graph_with_a_cycle_pass_one_link_and_no_two_lanes_share_one() {
    let names = [
        "ring",
        "ring_reverse",
        "ring_pair",
        "simple_ring",
        "meet_in_middle",
        "line",
        "quad_ring",
        "neighbour_rings",
    ];
    for name in GRAPHS {
        let network = topology::open(name).unwrap();
        let v = view(&network, Collective::AllReduce, 0);
        let direct = v.orders.as_ref().unwrap().is_direct();
        assert_eq!(algorithms::find("neighbour_rings").unwrap().refuses(&v).is_none(), direct, "{name}");
        if !direct {
            continue;
        }
        for algorithm in names {
            let plans = algorithms::plan_all(algorithms::find(algorithm).unwrap(), &v);
            let mut lane_of = std::collections::HashMap::new();
            for (rank, plan) in (0..).zip(&plans) {
                for step in &plan.steps {
                    for &to in &step.to {
                        let mut ports = Vec::new();
                        network.routes.route(rank, to, step.lane, &mut ports).unwrap();
                        // Between nodes there are two NICs.
                        let node =
                            |rank: Rank| if name.contains("nodes=") { rank / v.shape.per_node() } else { 0 };
                        let links = 1 + usize::from(node(rank) != node(to));
                        assert_eq!(ports.len(), links, "{algorithm} on {name}: {rank} to {to}");
                        let lane = *lane_of.entry(ports[0]).or_insert(step.lane);
                        // Two places are there and back, and a quad ring has fewer links than rings on some machines.
                        let may_share =
                            algorithm == "quad_ring" || (algorithm == "ring_pair" && v.nranks == 2);
                        assert!(may_share || lane == step.lane, "{algorithm} on {name}: {rank} to {to}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_ring_over_neighbours_that_is_not_there_is_refused_with_what_to_ask_for() {
    let neighbour_rings = algorithms::find("neighbour_rings").unwrap();
    let why = |name: &str| {
        let network = topology::open(name).unwrap();
        neighbour_rings.refuses(&view(&network, Collective::AllReduce, 0)).expect("it is refused")
    };
    assert!(
        why("t3000:shape=3x3").contains("no cycle over the machine's links")
            && why("n300:shape=5").contains("ask for ring")
    );
    assert!(why("dgx-h100").contains("switches"));
    let bare = neighbour_rings.refuses(&RankView::flat(Collective::AllReduce, 0, 4, 0));
    assert!(bare.expect("it is refused").contains("direct links of a declared machine"));
}

#[test]
fn an_algorithm_of_switches_that_do_not_sum_is_refused_with_what_is_missing() {
    let why = |algorithm: &str, name: &str| {
        let network = topology::open(name).unwrap();
        algorithms::find(algorithm).unwrap().refuses(&view(&network, Collective::AllReduce, 0))
    };
    assert_eq!(why("in_switch", "dgx-h100"), None);
    assert_eq!(why("in_switch_trees", "dgx-h100:nodes=2"), None);
    assert!(why("in_switch", "dgx-h100:nodes=2").unwrap().contains("no single switch"));
    assert!(why("in_switch", "dgx-a100").unwrap().contains("in_switch in a machine's file"));
    assert!(why("in_switch_trees", "dgx-h100").unwrap().contains("several nodes"));
    let bare =
        algorithms::find("in_switch").unwrap().refuses(&RankView::flat(Collective::AllReduce, 0, 8, 0));
    assert!(bare.unwrap().contains("no switch that copies and sums"));
}
