//! Events per second of the fabric's engine, and the cost of a price that is remembered.
//!
//! The machine is one switch with a transmit and a receive port a place. `elements` are events.

use penny::sim::fabric::tuning::Tuning;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use penny::internals::algorithms;
use penny::internals::fabric::engine;
use penny::internals::fabric::pricer::{LazyPorts, Pricer};
use penny::internals::fabric::shortcuts::{self, Ask};
use penny::internals::fabric::{PortState, PricedCall, SharedCall};
use penny::internals::plan::{Lane, Plan, RankView, Shape};
use penny::internals::topology::{self, Class, Network, Port, PortId, Routes};
use penny::internals::types::{Collective, Rank};

struct Switch;

impl Routes for Switch {
    fn route(&self, from: Rank, to: Rank, _: Lane, ports: &mut Vec<PortId>) -> Result<(), String> {
        ports.extend([2 * from, 2 * to + 1]);
        Ok(())
    }
}

fn switch(places: u32) -> Network {
    let class = Class {
        in_switch: None,
        name: "link".into(),
        rate: 48_500_000_000,
        line_rate: 50_000_000_000,
        lane_rate: 0,
        lane_piece: 0,
        latency_ps: 700_000,
        post_ps: 100_000,
        gap_ps: 20_000,
        least_hold_ps: 0,
        mtu: 4096,
        header: 64,
        store_and_forward: false,
        credits: 0,
        mover: None,
    };
    Network {
        name: format!("switch of {places}"),
        classes: vec![class],
        ports: std::sync::Arc::new(
            (0..2 * places).map(|p| Port { name: format!("p{p}"), class: 0 }).collect(),
        ),
        shape: Shape::flat(places),
        routes: std::sync::Arc::new(Switch),
        faults: Vec::new(),
        placement: Vec::new(),
        fair: false,
        slicing: penny::sim::topology::Slicing::Auto,
        launch_ps: 0,
        protocols: Vec::new(),
        mailbox: None,
        device: None,
    }
}

fn all_reduce(name: &str, view: &RankView) -> Vec<Plan> {
    algorithms::plan_all(algorithms::find(name).expect("a method of the table"), view)
}

fn price(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("engine");
    group.sample_size(10);
    for (name, nranks, slice_bytes) in
        [("ring", 64, 0), ("ring", 1024, 0), ("two_shot", 256, 0), ("tree", 1024, 1 << 18)]
    {
        let (network, view) = (switch(nranks), RankView::flat(Collective::AllReduce, 0, nranks, 0));
        let plans = all_reduce(name, &view);
        let places: Vec<Rank> = (0..nranks).collect();
        let call = PricedCall { plans: &plans, places: &places, view, count: 1 << 26, size: 4, slice_bytes };
        // If the ranks enter at different times, no two events have the same time.
        for (entries, spread) in [("together", 0), ("apart", 12_347)] {
            let entry_ps: Vec<u64> = (0..nranks as u64).map(|r| r * 7919 % 1009 * spread).collect();
            let events = engine::price(&network, &call, &entry_ps).expect("a price").events;
            group.throughput(Throughput::Elements(events));
            group.bench_function(format!("{name}/{nranks} ranks/{entries}"), |bencher| {
                let price = |entry_ps: Vec<u64>| engine::price(&network, black_box(&call), &entry_ps);
                bencher.iter_batched(|| entry_ps.clone(), price, BatchSize::LargeInput);
            });
        }
    }
    group.finish();
}

/// Every event of eight alternating rings over 128 nodes: one rank is a picosecond late, so that no two nodes are alike and
/// nothing repeats.
fn rails(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("events");
    group.sample_size(10);
    let network = topology::open("dgx-h100:nodes=128").expect("a preset");
    let nranks = network.shape.nranks();
    let view = RankView { shape: network.shape, ..RankView::flat(Collective::AllReduce, 0, nranks, 0) };
    let method = algorithms::find("alternating_rings").expect("a method of the table");
    let cycles = algorithms::cycles(method, &view).expect("rings are cycles");
    let places: Vec<Rank> = (0..nranks).collect();
    let mut entry_ps = vec![0; nranks as usize];
    entry_ps[nranks as usize / 2] = 1;
    let ask = Ask {
        cycles: &cycles,
        places: &places,
        count: 1 << 28,
        size: 4,
        slice_bytes: 0,
        entry_ps: &entry_ps,
    };
    let (summary, used) = shortcuts::price(&network, &ask).expect("a price");
    assert_eq!(used.to_string(), "events", "all of them are followed");
    group.throughput(Throughput::Elements(summary.events));
    group.bench_function(format!("alternating_rings/{nranks} ranks"), |bencher| {
        bencher.iter(|| shortcuts::price(&network, black_box(&ask)).expect("a price").0.last_ps());
    });
    group.finish();
}

fn repeat(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pricer");
    for nranks in [8, 64, 1024] {
        let view = RankView::flat(Collective::AllReduce, 0, nranks, 0);
        let plans = all_reduce("ring", &view).into();
        let call = SharedCall {
            plans,
            view,
            count: 1 << 10,
            size: 4,
            tuning: Tuning { protocol: 0, slice_bytes: 0 },
        };
        let network = Arc::new(switch(nranks));
        let mut ports = vec![PortState::default(); network.ports.len()];
        let mut pricer = Pricer::new(network);
        let places: Vec<Rank> = (0..nranks).collect();
        let mut entry_ps: Vec<u64> = (0..nranks as u64).map(|r| r * 31 % 17).collect();
        // Far enough apart for the ports to be free again.
        let apart_ps = 10_000_000_000;
        pricer.price(&call, &places, &entry_ps, &mut ports).expect("a price");
        group.bench_function(format!("repeat/{nranks} ranks"), |bencher| {
            bencher.iter(|| {
                entry_ps.iter_mut().for_each(|at| *at += apart_ps);
                pricer.price(black_box(&call), &places, &entry_ps, &mut ports).expect("a price").base_ps
            });
        });
        // The same with ports that are settled only when they are read.
        let mut ledger = LazyPorts::new(ports);
        group.bench_function(format!("repeat onto a ledger/{nranks} ranks"), |bencher| {
            bencher.iter(|| {
                entry_ps.iter_mut().for_each(|at| *at += apart_ps);
                pricer.price_onto(black_box(&call), &places, &entry_ps, &mut ledger).expect("a price").base_ps
            });
        });
    }
    group.finish();
}

criterion_group!(benches, price, rails, repeat);
criterion_main!(benches);
