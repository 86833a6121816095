//! Plans priced on the machines that ship with Penny, against what is published of those machines.

mod ethernet;
mod in_switch;
mod ipu;
mod links;
mod tiers;
mod tpu;

use crate::algorithms;
use crate::fabric::{CallTimes, PricedCall, engine};
use crate::plan::{Plan, RankView};
use crate::topology::{self, Network};
use crate::types::{Collective, Rank};

/// Runs a collective of `bytes` bytes over all places. Returns the traffic, and the time of the last rank's end in picoseconds.
fn priced(network: &Network, collective: Collective, algorithm: &str, bytes: u64) -> (CallTimes, u64) {
    let nranks = network.shape.nranks();
    let places = places(nranks);
    let view = RankView::flat(collective, 0, nranks, 0).arranged(network.arrangement(&places));
    let plans = algorithms::plan_all(algorithms::find(algorithm).unwrap(), &view);
    let blocks = u64::from(if collective == Collective::AllReduce { 1 } else { nranks });
    let call = PricedCall {
        plans: &plans,
        places: &places,
        view,
        count: bytes / 4 / blocks,
        size: 4,
        slice_bytes: u64::MAX,
    };
    let outcome = engine::price(network, &call, &vec![0; nranks as usize]).unwrap();
    let last_ps = *outcome.exit_ps.iter().max().unwrap();
    (outcome, last_ps)
}

/// Rank r stands at place r.
fn places(nranks: u32) -> Vec<u32> {
    (0..nranks).collect()
}

/// Runs an all-reduce of `bytes` bytes over all places, and returns its bus bandwidth in GB/s.
fn all_reduce(machine: &str, algorithm: &str, bytes: u64) -> (Network, CallTimes, f64) {
    let network = topology::open(machine).unwrap();
    let nranks = network.shape.nranks();
    let (outcome, last_ps) = priced(&network, Collective::AllReduce, algorithm, bytes);
    let factor = 2.0 * f64::from(nranks - 1) / f64::from(nranks);
    let busbw = bytes as f64 / last_ps as f64 * 1e3 * factor;
    (network, outcome, busbw)
}

/// The shape of a preset replaced: its classes on another machine.
fn reshaped(preset: &str, shape: &str) -> Network {
    let text = topology::presets().iter().find(|(name, _)| *name == preset).unwrap().1;
    let classes: String = text.lines().take_while(|line| !is_shape(line)).flat_map(|l| [l, "\n"]).collect();
    topology::parse(preset, &format!("{classes}{shape}"), &[]).unwrap()
}

fn is_shape(line: &str) -> bool {
    line.starts_with('[') && !line.starts_with("[class")
}

/// Every rank sends `bytes` bytes to each of its peers on a lane each, in slices: until the last is there, in
/// picoseconds.
fn all_send(network: &Network, peers: impl Fn(Rank) -> Vec<Rank>, bytes: u64, slice_bytes: u64) -> u64 {
    let nranks = network.shape.nranks();
    let chunk = crate::plan::Chunk::part(0);
    let mut plans = vec![Plan::new(1); nranks as usize];
    for rank in 0..nranks {
        for (lane, to) in (0..).zip(peers(rank)) {
            plans[rank as usize].copy_send(chunk, to).on(lane);
        }
    }
    for rank in 0..nranks {
        for (lane, to) in (0..).zip(peers(rank)) {
            plans[to as usize].recv_copy(rank, chunk).on(lane);
        }
    }
    let view = RankView::flat(Collective::Broadcast, 0, nranks, 0);
    let places = places(nranks);
    let call = PricedCall { plans: &plans, places: &places, view, count: bytes, size: 1, slice_bytes };
    *engine::price(network, &call, &vec![0; nranks as usize]).unwrap().exit_ps.iter().max().unwrap()
}

#[track_caller]
fn assert_near(value: f64, published: f64, share: f64) {
    assert!((value / published - 1.0).abs() <= share, "{value} is not within {share} of {published}");
}

/// How many ports whose names end so carried something.
fn busy(network: &Network, outcome: &CallTimes, end: &str) -> usize {
    let ports = network.ports.iter().zip(&outcome.counters);
    ports.filter(|(port, passed)| port.name.ends_with(end) && passed.messages > 0).count()
}

#[test]
fn one_ring_over_two_nodes_is_as_fast_as_one_nic() {
    let (network, outcome, busbw) = all_reduce("dgx-h100:nodes=2", "ring", 8 << 30);
    assert_near(busbw, 48.5, 0.002);
    // One of eight a node transmits.
    assert_eq!((busy(&network, &outcome, ".nic.tx"), busy(&network, &outcome, ".nic.rx")), (2, 2));
}

#[test]
fn alternating_rings_keep_every_nic_busy_both_ways() {
    for nodes in [2, 3, 4, 5] {
        let (network, outcome, busbw) =
            all_reduce(&format!("dgx-h100:nodes={nodes}"), "alternating_rings", 8 << 30);
        assert_near(busbw, 388.0, 0.002);
        let nics = 8 * nodes;
        assert_eq!((busy(&network, &outcome, ".nic.tx"), busy(&network, &outcome, ".nic.rx")), (nics, nics));
    }
}

#[test]
fn a_slow_nic_halves_its_ring_only() {
    let text = topology::presets().iter().find(|(name, _)| *name == "dgx-h100").unwrap().1;
    let slow = format!("{text}\n[[override]]\nlink = \"n0.g7.nic.tx\"\nbw = \"0.5x\"\n");
    let arguments = [("nodes".to_owned(), "2".to_owned())];
    let network = topology::parse("slow.toml", &slow, &arguments).unwrap();
    let view = RankView { shape: network.shape, ..RankView::flat(Collective::AllReduce, 0, 16, 0) };
    let plans = algorithms::plan_all(algorithms::find("alternating_rings").unwrap(), &view);
    let call = PricedCall {
        plans: &plans,
        places: &places(16),
        view,
        count: 1 << 28,
        size: 4,
        slice_bytes: u64::MAX,
    };
    let time = |network: &Network| engine::price(network, &call, &[0; 16]).unwrap();
    let (whole, slow) = (time(&topology::open("dgx-h100:nodes=2").unwrap()), time(&network));
    let end = |outcome: &CallTimes| *outcome.exit_ps.iter().max().unwrap() as f64;
    assert_near(end(&slow) / end(&whole), 2.0, 0.01);
    // The bytes are the same everywhere; the slow port alone is taken twice as long.
    for ((port, a), b) in network.ports.iter().zip(&whole.counters).zip(&slow.counters) {
        assert_eq!((a.bytes, a.messages), (b.bytes, b.messages), "{}", port.name);
        let longer = b.busy_ps as f64 / a.busy_ps.max(1) as f64;
        if port.name == "n0.g7.nic.tx" {
            assert_near(longer, 2.0, 0.01);
        }
    }
}

/// Two DGX nodes with something appended to their file, the price of alternating rings on them, and when the last is
/// done.
fn with(faults: &str) -> (Network, CallTimes, u64) {
    let text = topology::presets().iter().find(|(name, _)| *name == "dgx-h100").unwrap().1;
    let arguments = [("nodes".to_owned(), "2".to_owned())];
    let network = topology::parse("faults.toml", &format!("{text}\n{faults}"), &arguments).unwrap();
    let view = RankView { shape: network.shape, ..RankView::flat(Collective::AllReduce, 0, 16, 0) };
    let plans = algorithms::plan_all(algorithms::find("alternating_rings").unwrap(), &view);
    let call = PricedCall {
        plans: &plans,
        places: &places(16),
        view,
        count: 1 << 28,
        size: 4,
        slice_bytes: 1 << 22,
    };
    let outcome = engine::price(&network, &call, &[0; 16]).unwrap();
    let end = *outcome.exit_ps.iter().max().unwrap();
    (network, outcome, end)
}

#[test]
fn a_link_that_is_slow_for_a_time_halves_its_ring_only() {
    let slow =
        "[[fault]]\nlink = \"n0.g7.nic.tx\"\nkind = \"slow\"\nat = \"0s\"\nfor = \"1s\"\nfactor = \"0.5x\"\n";
    let ((network, whole, end), (_, half, late)) = (with(""), with(slow));
    assert_near(late as f64 / end as f64, 2.0, 0.01);
    for ((port, a), b) in network.ports.iter().zip(&whole.counters).zip(&half.counters) {
        assert_eq!((a.bytes, a.messages), (b.bytes, b.messages), "{}", port.name);
        if port.name.ends_with(".nic.tx") {
            // A NIC is in the way of one ring.
            let longer = b.busy_ps as f64 / a.busy_ps as f64;
            assert_near(longer, if port.name == "n0.g7.nic.tx" { 2.0 } else { 1.0 }, 0.01);
        }
    }
    let lanes = slow.replace("slow", "drop_lane").replace("factor = \"0.5x\"", "lanes = \"2/4\"");
    assert_eq!(with(&lanes).1, half);
}

#[test]
fn a_flap_of_a_millisecond_shows_as_about_a_millisecond() {
    let flap = "[[fault]]\nlink = \"n0.g0.nic.tx\"\nkind = \"down\"\nat = \"1ms\"\nfor = \"1ms\"\nretrain = \"0s\"\n";
    let ((network, whole, end), (_, flapped, late)) = (with(""), with(flap));
    let lost_ms = (late - end) as f64 * 1e-9;
    // A slice of 4 MiB, 86 us, is cut off and sent again.
    assert!((0.9..1.2).contains(&lost_ms), "{lost_ms} ms");
    for ((port, a), b) in network.ports.iter().zip(&whole.counters).zip(&flapped.counters) {
        assert_eq!((a.bytes, a.messages), (b.bytes, b.messages), "{}", port.name);
        let expected = if port.name == "n0.g0.nic.tx" { (0, 1, 1_000_000_000) } else { (0, 0, 0) };
        assert_eq!((b.errors, b.resends, b.down_ps), expected, "{}", port.name);
    }
}
