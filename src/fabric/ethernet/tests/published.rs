//! The figures of the guide and of the measurements that it describes.

use super::*;
use crate::fabric::ethernet::measure::{
    Directions, one_way_ps, ring_ps, round_trip_ps, streamed, utilisation,
};

#[track_caller]
fn assert_near(value: f64, published: f64) {
    assert!((value / published - 1.0).abs() <= 0.03, "{value} is not within 3 % of {published}");
}

fn ns(ps: u64) -> f64 {
    ps as f64 / 1e3
}

const MACHINES: [&str; 3] = ["n300", "t3000", "galaxy"];

#[test]
fn a_ping_round_eight_chips_takes_690_ns_a_hop_and_650_with_the_signal_merged() {
    for machine in MACHINES {
        let p = parameters(machine);
        assert_near(ns(ring_ps(&p, 8, 16, 1, SignalMode::Separate).unwrap()) / 8.0, 690.0);
        assert_near(ns(ring_ps(&p, 8, 16, 1, SignalMode::Merged).unwrap()) / 8.0, 650.0);
        assert_near(ns(ring_ps(&p, 8, 16, 1, SignalMode::Merged).unwrap()), 5200.0);
    }
}

#[test]
fn one_way_takes_530_to_620_ns_and_back_again_about_1100() {
    for machine in MACHINES {
        let p = parameters(machine);
        for signal in SIGNALS {
            // As published: without the payload's own time on the wire.
            for bytes in [16, 256, 1024, 4096] {
                let wire_ps = p.wire.serialisation_ps(bytes);
                let one_way = ns(one_way_ps(&p, bytes, signal).unwrap() - wire_ps);
                assert!((530.0..=620.0).contains(&one_way), "{bytes} B: {one_way}");
                let half = ns(round_trip_ps(&p, bytes, signal).unwrap() - 2 * wire_ps) / 2.0;
                assert!((530.0..=620.0).contains(&half), "{bytes} B: {half}");
            }
        }
        assert_near(ns(round_trip_ps(&p, 16, SignalMode::Merged).unwrap()), 1100.0);
    }
}

#[test]
fn small_packets_use_91_per_cent_of_a_wire_and_tiles_95() {
    // Tiles of 32 x 32: 4 bits an element and exponents, 8 bits and exponents, 16 bits.
    let [bfp4, bfp8, fp16] = [576, 1088, 2048];
    let p = parameters("t3000");
    assert_near(streamed(&p, bfp4).unwrap(), 0.91);
    for tile in [bfp8, fp16] {
        assert!(streamed(&p, tile).unwrap() > 0.95);
    }
    // Above 1 KB: 6 to 3 % of framing.
    for bytes in (1024..=16384).step_by(16) {
        let framing = 1.0 - streamed(&p, bytes).unwrap();
        assert!((0.03..0.065).contains(&framing), "{bytes} B: {framing}");
    }
}

#[test]
fn the_data_mover_reaches_95_per_cent_with_the_packets_that_are_recommended() {
    let p = parameters("t3000");
    for bytes in [4096, 8192, 16384] {
        let channels = p.room_for(bytes);
        let share = utilisation(&p, bytes, channels, SignalMode::Merged, Directions::One).unwrap();
        assert!(share > 0.95, "{bytes} B over {channels} channels: {share}");
        // 23.5 GB/s of 25 were measured.
        assert_near(
            utilisation(&p, bytes, channels, SignalMode::Merged, Directions::Both).unwrap(),
            23.5 / 25.0,
        );
    }
    // Below 4 KB the channels are too few and the core too slow.
    let shares: Vec<f64> = [256, 1024, 2048, 4096]
        .into_iter()
        .map(|bytes| {
            utilisation(&p, bytes, 30.min(p.room_for(bytes)), SignalMode::Merged, Directions::Both).unwrap()
        })
        .collect();
    assert!(shares.is_sorted() && shares[1] < 0.8, "{shares:?}");
}

#[test]
fn buffers_give_the_numbers_of_channels_that_were_measured() {
    let p = parameters("galaxy");
    let channels = [36864, 32768, 24576, 16384, 8192, 4096, 2048, 1024].map(|bytes| p.room_for(bytes));
    assert_eq!(channels, [2, 2, 3, 4, 9, 18, 30, 30]);
}

#[test]
fn more_channels_and_a_merged_signal_never_slow_a_link_down() {
    let p = parameters("t3000");
    for bytes in [1024, 4096, 16384] {
        let most = p.room_for(bytes);
        let share = |channels, signal| utilisation(&p, bytes, channels, signal, Directions::One).unwrap();
        let shares: Vec<f64> = [1, 2, 4].map(|channels| share(channels.min(most), SignalMode::Merged)).into();
        assert!(shares.is_sorted(), "{bytes} B: {shares:?}");
        for channels in [1, 2, 4] {
            let (merged, apart) =
                (share(channels, SignalMode::Merged), share(channels, SignalMode::Separate));
            assert!(merged >= apart, "{bytes} B over {channels}: {merged} and {apart}");
        }
    }
}

#[test]
fn the_general_engine_takes_as_long_for_a_hop() {
    use crate::fabric::{PricedCall, engine};
    use crate::plan::{Chunk, Plan, RankView};
    use crate::types::Collective;
    for machine in MACHINES {
        let network = topology::open(machine).unwrap();
        let n = network.shape.nranks();
        let mut plans = vec![Plan::new(1); n as usize];
        plans[0].copy_send(Chunk::part(0), 1);
        plans[1].recv_copy(0, Chunk::part(0));
        let view = RankView::flat(Collective::Broadcast, 0, n, 0);
        let places: Vec<u32> = (0..n).collect();
        let call = PricedCall { plans: &plans, places: &places, view, count: 16, size: 1, slice_bytes: 0 };
        let hop_ps = engine::price(&network, &call, &vec![0; n as usize]).unwrap().exit_ps[1];
        assert_near(
            ns(hop_ps),
            ns(ring_ps(&parameters(machine), 8, 16, 1, SignalMode::Merged).unwrap()) / 8.0,
        );
    }
}
