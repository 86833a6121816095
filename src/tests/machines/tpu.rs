//! TPUs: what Google's pages and the Pallas tutorial say of their interconnect.

use super::*;

#[test]
fn both_directions_double_a_ring() {
    for machine in ["tpu-v5e:shape=8x1", "tpu-v4:shape=4x1x1", "tpu-v5p:shape=8x1x1"] {
        let one = all_reduce(machine, "ring", 1 << 30).2;
        let both = all_reduce(machine, "ring_pair", 1 << 30).2;
        assert_near(both / one, 2.0, 0.01);
    }
}

/// "All-reduce bandwidth per pod" counts what all chips send: chips x links a chip x bandwidth of a link in one
/// direction, 256 x 4 x 50 GB/s = 51.2 TB/s. An all-reduce of S bytes in time T has every chip send 2(n-1)/n S, which
/// over T is the bus bandwidth; so the count is n times that, and full where all links are busy all the time.
#[test]
fn a_v5e_pod_reduces_at_51_2_terabytes_a_second() {
    let (network, _, busbw) = all_reduce("tpu-v5e", "torus", 1 << 30);
    assert_eq!(network.shape.0, [16, 16, 1]);
    let chips = f64::from(network.shape.nranks());
    assert_near(chips * busbw / 1e3, 51.2, 0.03);
    // A ring over both directions of one axis keeps half of the links idle.
    let pair = all_reduce("tpu-v5e", "ring_pair", 1 << 30).2;
    assert_near(chips * pair / 1e3, 25.6, 0.06);
}

/// The bisection cuts the 16 rings of one axis in two places each: 2 x 16 x 50 GB/s = 1.6 TB/s one way.
#[test]
fn a_v5e_pod_has_a_bisection_of_1_6_terabytes_a_second() {
    let network = topology::open("tpu-v5e:direct=powers_of_two").unwrap();
    let half = |rank: Rank| network.shape.coordinates(rank)[0] / 8;
    let all = 0..network.shape.nranks();
    let neighbours = all.clone().flat_map(|a| all.clone().map(move |b| (a, b)));
    let mut cut = 0;
    for (from, to) in neighbours.filter(|&(a, b)| half(a) == 0 && half(b) == 1) {
        let mut way = Vec::new();
        if network.routes.route(from, to, 0, &mut way).is_ok() && way.len() == 1 {
            cut += network.class(way[0]).rate;
        }
    }
    assert_eq!(cut, 1_600_000_000_000);
    // Each chip sends to the one half way round, in both directions, so every link carries this much.
    let opposite = |rank: Rank| {
        let [x, y, z] = network.shape.coordinates(rank);
        vec![network.shape.rank([(x + 8) % 16, y, z]); 2]
    };
    let bytes = 1u64 << 24;
    let time_ps = all_send(&network, opposite, bytes, 1 << 16);
    let crossed = 128.0 * 2.0 * bytes as f64;
    assert_near(crossed / time_ps as f64, 1.6, 0.03);
}

#[test]
fn a_chip_sends_over_all_of_its_links_at_once() {
    // Links a chip, and its bandwidth in GB/s: v5p's 600 are the 4.8 Tb/s of its data sheet.
    for (machine, links, published) in [("tpu-v4", 6, 300.0), ("tpu-v5p", 6, 600.0), ("tpu-v5e", 4, 200.0)] {
        let network = topology::open(machine).unwrap();
        let shape = network.shape;
        let neighbours = |rank: Rank| -> Vec<Rank> {
            let at = shape.coordinates(rank);
            let step = |axis: usize, by: u32| {
                let mut next = at;
                next[axis] = (at[axis] + by) % shape.0[axis];
                shape.rank(next)
            };
            let axes = (0..3).filter(|&axis| shape.0[axis] > 1);
            axes.flat_map(|axis| [step(axis, 1), step(axis, shape.0[axis] - 1)]).collect()
        };
        assert_eq!(neighbours(0).len(), links, "{machine}");
        let bytes = 1u64 << 28;
        let rate = |peers: &dyn Fn(Rank) -> Vec<Rank>, links: usize| {
            (links as u64 * bytes) as f64 / all_send(&network, peers, bytes, u64::MAX) as f64 * 1e3
        };
        assert_near(rate(&neighbours, links), published, 0.01);
        let one = |rank: Rank| neighbours(rank)[..1].to_vec();
        assert_near(rate(&one, 1), published / links as f64, 0.01);
    }
}

#[test]
fn a_v5e_chip_sends_to_powers_of_two_only_and_plans_must_keep_to_it() {
    let network = topology::open("tpu-v5e:direct=powers_of_two").unwrap();
    let route = |from, to| network.routes.route(from, to, 0, &mut Vec::new());
    for to in 1..network.shape.nranks() {
        let [x, y, _] = network.shape.coordinates(to);
        // The short way round.
        let (x, y) = (x.min(16 - x), y.min(16 - y));
        let served = (y == 0 && x.is_power_of_two()) || (x == 0 && y.is_power_of_two());
        assert_eq!(route(0, to).is_ok(), served, "{to}");
    }
    let refused = |algorithm: &str| {
        let view = RankView { shape: network.shape, ..RankView::flat(Collective::AllReduce, 0, 256, 0) };
        let plans = algorithms::plan_all(algorithms::find(algorithm).unwrap(), &view);
        let places: Vec<u32> = (0..256).collect();
        let call = PricedCall {
            plans: &plans,
            places: &places,
            view,
            count: 1 << 20,
            size: 4,
            slice_bytes: u64::MAX,
        };
        engine::price(&network, &call, &[0; 256]).err().map(|why| why.message.clone())
    };
    assert_eq!(refused("torus"), None);
    let why = refused("one_shot").expect("places that are 3 apart");
    assert!(why.contains("place 0") && why.contains("power of two"), "{why}");
}
