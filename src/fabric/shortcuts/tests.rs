//! Every shortcut held against the general engine, wherever both run.

use super::*;
use crate::algorithms::{self, ALL};
use crate::fabric::tests::machines::{Wiring, any_class, machine, plain};
use crate::fabric::{PricedCall, engine};
use crate::plan::{Lane, RankView, Shape};
use crate::topology::{self, Class, PortId, Routes};
use crate::types::Collective;
use proptest::prelude::*;

/// Which of the ways a call was priced in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ran {
    sweep: bool,
    folded_sweep: bool,
    folded_events: bool,
    periodic: bool,
}

/// Rank r stands at place r.
fn places(nranks: u32) -> Vec<Rank> {
    (0..nranks).collect()
}

/// An algorithm's cycles over a shape.
fn cycles(algorithm: &str, collective: Collective, shape: Shape) -> (RankView, Cycles) {
    let view = RankView { shape, ..RankView::flat(collective, 0, shape.nranks(), 0) };
    let cycles = algorithms::cycles(algorithms::find(algorithm).unwrap(), &view).unwrap();
    (view, cycles)
}

/// Price by each way that does not refuse, and hold each against the general engine: every rank, every port.
#[track_caller]
fn assert_all_ways_agree(network: &Network, algorithm: &str, view: &RankView, ask: &Ask<'_>) -> Ran {
    let plans = algorithms::plan_all(algorithms::find(algorithm).unwrap(), view);
    let Ask { count, size, slice_bytes, entry_ps, .. } = *ask;
    let call = PricedCall { plans: &plans, places: ask.places, view: view.clone(), count, size, slice_bytes };
    let expected: Summary = engine::price(network, &call, entry_ps).unwrap().into();
    let same = |what: &str, links: &Links, fold: &fold::SymmetryFold, priced: Option<Priced>| {
        let Some(priced) = priced else { return false };
        let got = priced.summary(links, fold.port_class.clone());
        assert_eq!(got.events, expected.events, "events by {what}");
        for rank in 0..view.nranks {
            assert_eq!(got.exit_ps(rank), expected.exit_ps(rank), "exit of rank {rank} by {what}");
        }
        for port in 0..network.ports.len() as u32 {
            assert_eq!(got.counters(port), expected.counters(port), "port {port} by {what}");
        }
        true
    };
    let mut ran = Ran::default();
    let ways = Ways::of(network, ask).unwrap();
    let all = fold::unfolded(network, &ways);
    for fold in [Some(all), fold::fold(network, ask, &ways).unwrap()].into_iter().flatten() {
        let links = Links::new(network, ask, &ways, &fold).unwrap();
        let swept = same("sweep", &links, &fold, sweep::run(&links, entry_ps));
        let events = same("events", &links, &fold, events::run(&links, entry_ps, None).unwrap());
        let watched = events::run(&links, entry_ps, Some(PeriodFinder::new())).unwrap();
        ran.periodic |= watched.as_ref().is_some_and(|priced| priced.periods > 0);
        assert_eq!(same("periods", &links, &fold, watched), events);
        match links.is_folded() {
            true => (ran.folded_sweep, ran.folded_events) = (swept, events),
            false => ran.sweep = swept,
        }
        assert!(events || links.is_folded(), "events of all ranks are never refused");
    }
    let (summary, _) = price(network, ask).unwrap();
    assert_eq!((summary.last_ps(), summary.events), (expected.last_ps(), expected.events));
    ran
}

/// All ranks of a preset enter at 0.
#[track_caller]
fn on_preset(spec: &str, algorithm: &str, collective: Collective, count: u64) -> Ran {
    let network = topology::open(spec).unwrap();
    let (view, cycles) = cycles(algorithm, collective, network.shape);
    let entry_ps = &vec![0; view.nranks as usize];
    let ask = Ask { cycles: &cycles, places: &places(view.nranks), count, size: 4, slice_bytes: 0, entry_ps };
    assert_all_ways_agree(&network, algorithm, &view, &ask)
}

#[test]
fn a_ring_over_nodes_is_swept_with_eight_ranks_for_all() {
    for collective in [Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather] {
        for count in [1 << 10, 1 << 22] {
            let ran = on_preset("dgx-h100:nodes=8", "ring", collective, count);
            assert!(ran.sweep && ran.folded_sweep && ran.folded_events, "{ran:?}");
        }
    }
}

#[test]
fn chunks_of_unlike_sizes_are_swept_without_symmetry() {
    for count in [1, 63, 65, 100_001, 64 * 1024 - 5] {
        let ran = on_preset("dgx-h100:nodes=8", "ring", Collective::AllReduce, count);
        assert!(ran.sweep && !ran.folded_sweep && !ran.folded_events, "{ran:?}");
    }
}

#[test]
fn alternating_rings_are_two_nodes_for_all_and_become_periodic() {
    for count in [64 << 6, 64 << 16] {
        let ran = on_preset("dgx-h100:nodes=8", "alternating_rings", Collective::AllReduce, count * 8);
        assert!(ran.folded_events && ran.periodic, "{ran:?}");
    }
}

#[test]
fn events_of_few_ranks_that_stand_for_all_become_periodic() {
    let spec = "tpu-v5e:shape=16x1";
    for algorithm in ["ring", "ring_pair"] {
        let ran = on_preset(spec, algorithm, Collective::AllReduce, 32 << 12);
        assert!(ran.folded_events && ran.periodic, "{algorithm}: {ran:?}");
    }
}

#[test]
fn every_preset_agrees_with_the_general_engine() {
    for spec in [
        "dgx-h100:nodes=2",
        "dgx-a100:nodes=3",
        "dgx-1v",
        "n300",
        "t3000",
        "n300:mover=ethernet",
        "t3000:mover=ethernet,mover.channels=1,mover.payload=1KiB",
        "tpu-v4:shape=4x2x1",
        "tpu-v5e:shape=4x4",
        "tpu-v5p:shape=2x2x2",
        "ipu-pod16",
        "host",
    ] {
        for algorithm in ["ring", "ring_reverse", "ring_pair", "quad_ring", "alternating_rings"] {
            let network = topology::open(spec).unwrap();
            let n = u64::from(network.shape.nranks());
            for count in [8 * n * 1000, 12_345] {
                on_preset(spec, algorithm, Collective::AllReduce, count);
            }
        }
    }
}

#[test]
fn every_machine_of_direct_links_agrees_with_the_general_engine() {
    for spec in
        ["dgx-1v", "t3000", "n300:shape=5", "t3000:shape=3x3", "tpu-v5e:shape=4x4", "tpu-v4:shape=3x3x3"]
    {
        let network = topology::open(spec).unwrap();
        let n = network.shape.nranks();
        let orders = network.ring_orders(&places(n));
        for name in ["ring", "ring_reverse", "ring_pair", "quad_ring", "neighbour_rings"] {
            let algorithm = algorithms::find(name).unwrap();
            let view = RankView { orders: orders.clone(), ..RankView::flat(Collective::AllReduce, 0, n, 0) };
            let Some(cycles) = algorithms::cycles(algorithm, &view) else { continue };
            for (count, slice_bytes) in [(8 * u64::from(n) * 1000, 0), (12_345, 1024)] {
                let entry_ps = &vec![0; n as usize];
                let ask = Ask { cycles: &cycles, places: &places(n), count, size: 4, slice_bytes, entry_ps };
                assert_all_ways_agree(&network, name, &view, &ask);
            }
        }
    }
}

#[test]
fn ten_thousand_ranks_are_priced_by_those_that_stand_for_them() {
    let network = topology::open("dgx-h100:nodes=1250").unwrap();
    let (_, cycles) = cycles("ring", Collective::AllReduce, network.shape);
    let ask = Ask {
        cycles: &cycles,
        places: &places(10_000),
        count: 20_000 << 10,
        size: 4,
        slice_bytes: 0,
        entry_ps: &[0; 10_000],
    };
    let (summary, used) = price(&network, &ask).unwrap();
    assert_eq!((used.means, used.simulated, summary.classes()), (Means::Sweep, 8, 8));
    assert_eq!(summary.events, 10_000 + 19_998 * (8_750 * 3 + 1_250 * 4));
}

#[test]
fn a_call_that_is_out_of_reach_is_refused_with_a_count_that_is_not() {
    let network = topology::open("dgx-h100:nodes=12500").unwrap();
    let (_, cycles) = cycles("ring", Collective::AllReduce, network.shape);
    let entry_ps = &vec![0; 100_000];
    let places = &places(100_000);
    let ask = |count| Ask { cycles: &cycles, places, count, size: 4, slice_bytes: 0, entry_ps };
    let refusal = price(&network, &ask(1_234_567)).unwrap_err().message.clone();
    let expected = "1234567 elements do not divide evenly into 100000 chunks, and 19999800000 unlike messages are too \
         many to follow; take a multiple, such as 1300000";
    assert_eq!(refusal, expected);
    assert!(price(&network, &ask(1_300_000)).is_ok());
    assert_eq!(count_within_reach(&cycles, 1_234_567), 1_200_000);
    assert_eq!(count_within_reach(&cycles, 9), 100_000);
}

#[test]
fn one_unlike_port_ends_the_symmetry() {
    let mut network = machine(Wiring::Ring, 12, vec![plain(), Class { latency_ps: 9, ..plain() }]);
    let (view, cycles) = cycles("ring", Collective::AllReduce, Shape::flat(12));
    let ask = Ask {
        cycles: &cycles,
        places: &places(view.nranks),
        count: 1200,
        size: 4,
        slice_bytes: 0,
        entry_ps: &[0; 12],
    };
    let simulated = |network: &Network| {
        assert_all_ways_agree(network, "ring", &view, &ask);
        price(network, &ask).unwrap().1.simulated
    };
    assert_eq!(simulated(&network), 2);
    std::sync::Arc::make_mut(&mut network.ports)[7].class = 0;
    assert_eq!(simulated(&network), 12);
    // Unlike, but the same after every four.
    std::sync::Arc::make_mut(&mut network.ports)[3].class = 0;
    std::sync::Arc::make_mut(&mut network.ports)[11].class = 0;
    assert_eq!(simulated(&network), 4);
}

#[test]
fn one_late_rank_ends_the_symmetry() {
    let network = machine(Wiring::Ring, 6, vec![Class { latency_ps: 9, ..plain() }]);
    let (view, cycles) = cycles("ring", Collective::AllGather, Shape::flat(6));
    for (entry_ps, simulated) in [([7; 6], 1), ([7, 9, 7, 9, 7, 9], 2), ([7, 7, 7, 7, 7, 8], 6)] {
        let ask = Ask {
            cycles: &cycles,
            places: &places(view.nranks),
            count: 100,
            size: 4,
            slice_bytes: 0,
            entry_ps: &entry_ps,
        };
        assert_all_ways_agree(&network, "ring", &view, &ask);
        assert_eq!(price(&network, &ask).unwrap().1.simulated, simulated);
    }
}

/// Two rings of 24 ranks, lanes 0 and 1, in the same direction. On its way from rank 0 lane 1 goes through a slow port of its own, then
/// through the port with which lane 0 begins.
struct TwoRings;

impl Routes for TwoRings {
    fn route(
        &self,
        from: Rank,
        _: Rank,
        lane: Lane,
        ports: &mut Vec<PortId>,
    ) -> std::result::Result<(), String> {
        match (from, lane) {
            (0, 0) => ports.extend([0, 1]),
            (0, _) => ports.extend([2, 0, 3]),
            _ => ports.push(4 + 2 * from + u32::from(lane)),
        }
        Ok(())
    }
}

#[test]
fn a_lane_that_falls_behind_unseen_is_no_period() {
    // Lane 1 leaves its slow port every 100 ns and takes the shared one for 40 ns, just before lane 0's next message is there, which
    // is ready every 100 ns, too. But lane 0 takes 101 ns to feed one. For 35 rounds this only shortens its wait for the port, and
    // nothing but how long the lane is taken tells one round from the next; after that the lane is the slowest of all.
    const N: u32 = 24;
    let class = |rate, latency_ps| Class { rate, latency_ps, ..plain() };
    let shared = Class { lane_rate: 9_900_990_099, store_and_forward: true, ..class(25_000_000_000, 1000) };
    let classes = vec![
        shared,
        class(u64::MAX, 2_262_011),
        class(10_000_000_000, 56_000),
        class(u64::MAX, 2_153_000),
        class(u64::MAX, 43),
        class(u64::MAX, 0),
    ];
    let mut network = machine(Wiring::Switch, N + 3, classes);
    let ports = std::sync::Arc::make_mut(&mut network.ports);
    ports.iter_mut().zip(0..).for_each(|(port, at)| port.class = if at < 4 { at } else { 4 + at % 2 });
    network.routes = std::sync::Arc::new(TwoRings);
    let view = RankView::flat(Collective::AllReduce, 0, N, 0);
    let order: Vec<Rank> = (0..N).collect();
    let cycles = Cycles::new(&view, vec![order.clone(), order]).unwrap();
    // Each rank enters when its message is to be at rank 0 in turn.
    let entry_ps: Vec<u64> = (0..N).map(|rank| u64::from((N - rank) % N) * (100_000 - 43)).collect();
    let ask = Ask {
        cycles: &cycles,
        places: &places(N),
        count: u64::from(cycles.parts()) * 1000,
        size: 1,
        slice_bytes: 0,
        entry_ps: &entry_ps,
    };
    let ways = Ways::of(&network, &ask).unwrap();
    let links = Links::new(&network, &ask, &ways, &fold::unfolded(&network, &ways)).unwrap();
    let all = events::run(&links, &entry_ps, None).unwrap().unwrap();
    let watched = events::run(&links, &entry_ps, Some(PeriodFinder::new())).unwrap().unwrap();
    assert_eq!((watched.exit_ps, watched.counters), (all.exit_ps, all.counters));
}

/// When ranks enter: together, in turn, or each at a time of its own.
fn entries() -> impl Strategy<Value = Vec<u64>> {
    let at = || prop::sample::select(vec![0u64, 0, 1000, 54_321]);
    prop_oneof![
        Just(vec![0; 24]),
        prop::collection::vec(at(), 2).prop_map(|two| two.repeat(12)),
        prop::collection::vec(at(), 24),
    ]
}

/// What a random call is made of.
fn call() -> impl Strategy<Value = (u32, u32, Wiring, Vec<Class>, u64, u64, Vec<u64>)> {
    let wiring = prop::sample::select(vec![
        Wiring::Switch,
        Wiring::Ring,
        Wiring::Nodes(1),
        Wiring::Nodes(2),
        Wiring::Nodes(3),
        Wiring::Nodes(4),
    ]);
    let slice = prop::sample::select(vec![0u64, 5, 64, 1000]);
    (1..5u32, 1..7u32, wiring, prop::collection::vec(any_class(), 1..4), 0..6u64, slice, entries())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_shortcut_is_the_general_engine_or_refuses(
        (a_node, nodes, wiring, classes, some, slice_bytes, entries) in call(),
        odd in 0..40u64,
    ) {
        let shape = Shape([a_node, nodes, 1]);
        let n = shape.nranks();
        let network = machine(wiring, n, classes);
        for algorithm in ALL {
            for collective in [Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather] {
                let view = RankView { shape, ..RankView::flat(collective, 0, n, 0) };
                let Some(cycles) = algorithms::cycles(algorithm, &view) else { continue };
                // Half of the calls divide evenly.
                let count = some * u64::from(cycles.parts()) + odd.saturating_sub(20);
                let ask = Ask { cycles: &cycles, places: &places(view.nranks), count, size: 3, slice_bytes, entry_ps: &entries[..n as usize] };
                assert_all_ways_agree(&network, algorithm.name, &view, &ask);
            }
        }
    }
}
