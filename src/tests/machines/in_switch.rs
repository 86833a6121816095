//! Switches that copy and sum: by hand, by what ports carry, and against the published table of one H100 node.

use super::{all_reduce, assert_near};
use crate::algorithms;
use crate::fabric::{PricedCall, engine};
use crate::plan::RankView;
use crate::sim;
use crate::topology;
use crate::types::{Collective, DataType};

#[test]
fn an_all_reduce_of_three_chunks_takes_the_time_that_was_worked_out_by_hand() {
    let machine = "name = \"m\"\n[class.wire]\nbw = \"1GB/s\"\nlat = \"100ns\"\nin_switch = 0.5\n\
                   [switch]\nplaces = 3\nport = \"wire\"\n";
    let network = topology::parse("m.toml", machine, &[]).unwrap();
    let places = [0, 1, 2];
    let view = RankView::flat(Collective::AllReduce, 0, 3, 0).arranged(network.arrangement(&places));
    let plans = algorithms::plan_all(&algorithms::in_switch::IN_SWITCH, &view);
    let call = PricedCall { plans: &plans, places: &places, view, count: 3000, size: 1, slice_bytes: 0 };
    let outcome = engine::price(&network, &call, &[0; 3]).unwrap();
    // A chunk takes 2 us. Out: three of them, the last with its head in the switch at 6.1 us; in: their sum until 8.2 us.
    // Out: the result until 10.2 us; in: three results from 10.3 us on.
    assert_eq!(outcome.exit_ps, [16_400_000; 3]);
    for port in outcome.counters {
        assert_eq!((port.bytes, port.messages, port.busy_ps), (4000, 4, 8_000_000));
    }
}

#[test]
fn each_port_carries_the_buffer_and_one_chunk_of_it() {
    let (network, outcome, _) = all_reduce("dgx-h100", "in_switch", 8 << 20);
    for (port, passed) in network.ports.iter().zip(&outcome.counters) {
        let bytes = if port.name.contains(".nv.") { 9 << 20 } else { 0 };
        assert_eq!(passed.bytes, bytes, "{}", port.name);
    }
}

#[test]
fn credits_count_for_what_no_switch_copies_or_sums() {
    let (_, text) = topology::presets().iter().find(|(name, _)| *name == "dgx-h100").unwrap();
    let took = |text: &str, algorithm| {
        let network = topology::parse("m.toml", text, &[("nodes".into(), "4".into())]).unwrap();
        let places: Vec<u32> = (0..32).collect();
        let view = RankView::flat(Collective::AllReduce, 0, 32, 0).arranged(network.arrangement(&places));
        let plans = algorithms::plan_all(algorithms::find(algorithm).unwrap(), &view);
        let (count, slice_bytes) = (32 << 20, 16 << 10);
        let call = PricedCall { plans: &plans, places: &places, view, count, size: 1, slice_bytes };
        engine::price(&network, &call, &[0; 32]).unwrap().exit_ps
    };
    let bounded = text.replacen("in_switch = 0.85", "in_switch = 0.85\ncredits = 4", 1);
    assert_eq!(took(&bounded, "in_switch_trees"), took(text, "in_switch_trees"));
    // Without them a rank posts all slices at once, and its NVLink serves one lane of its trees after the other.
    let last = |text: &str| took(text, "rail_trees").into_iter().max().unwrap();
    assert!(last(&bounded) * 5 < last(text) * 4, "{} of {}", last(&bounded), last(text));
}

/// nccl-tests on one DGX H100, out of place: bytes, and microseconds.
const PUBLISHED: [(u64, f64); 4] =
    [(64 << 20, 324.7), (256 << 20, 1112.5), (1 << 30, 4029.0), (4 << 30, 15749.0)];

#[test]
fn a_node_of_h100_that_sums_in_its_switches_is_as_quick_as_the_published_one() {
    let network = topology::open("dgx-h100:as=nccl").unwrap();
    for (bytes, published_us) in PUBLISHED {
        let times = sim::times(&network, Collective::AllReduce, 8, bytes / 4, DataType::Float32).unwrap();
        assert_eq!(times[0].algorithm, "in_switch");
        assert_near(times[0].picoseconds as f64 / 1e6, published_us, 0.15);
    }
}
