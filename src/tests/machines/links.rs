//! Rings on machines of direct links, against what their graphs carry.

use super::*;

/// What an Ethernet link carries in one direction, in GB/s.
const ETHERNET: f64 = 12.5 * 1500.0 / 1550.0;

/// Returns the bus bandwidth of an all-reduce of 256 MiB in GB/s.
fn bandwidth(machine: &str, algorithm: &str) -> f64 {
    all_reduce(machine, algorithm, 256 << 20).2
}

#[test]
fn neighbour_rings_reach_the_bandwidth_of_all_their_links() {
    // Rings times what a link carries.
    for (machine, bound) in [
        ("t3000", 4.0 * ETHERNET),
        ("galaxy", 8.0 * ETHERNET),
        ("dgx-1v", 6.0 * 20.0),
        ("mi300x", 6.0 * 48.0),
        ("mi300x:nodes=2", 8.0 * 48.0),
        ("ipu-pod16", 2.0 * 64.0),
        ("tpu-v5e:shape=4x8", 4.0 * 50.0),
        ("tpu-v4", 6.0 * 50.0),
    ] {
        assert_near(all_reduce(machine, "neighbour_rings", 4 << 30).2, bound, 0.01);
    }
}

#[test]
fn each_ring_is_as_fast_as_its_links_and_two_links_are_twice_as_fast_as_one() {
    for (algorithm, rings) in
        [("ring", 1.0), ("ring_reverse", 1.0), ("ring_pair", 2.0), ("neighbour_rings", 2.0)]
    {
        for links in [1, 2, 4] {
            let machine = format!("t3000:links={links}");
            assert_near(bandwidth(&machine, algorithm), rings * f64::from(links) * ETHERNET, 0.01);
        }
    }
    for (algorithm, share) in [("simple_ring", 0.03), ("meet_in_middle", 0.01), ("line", 0.01)] {
        let of_links = |links: u32| bandwidth(&format!("t3000:links={links}"), algorithm);
        assert_near(of_links(2) / of_links(1), 2.0, share);
    }
}

#[test]
fn every_link_of_a_cycle_is_busy_in_both_directions() {
    for (machine, idle) in [("t3000", 2 * 2 * 2), ("dgx-1v", 0), ("tpu-v4", 0), ("galaxy", (52 - 32) * 4 * 2)]
    {
        let (network, outcome, _) = all_reduce(machine, "neighbour_rings", 64 << 20);
        let unused = outcome.counters.iter().filter(|passed| passed.messages == 0).count();
        assert_eq!(unused, idle, "{machine}");
        let bytes: Vec<u64> =
            outcome.counters.iter().map(|passed| passed.bytes).filter(|&bytes| bytes > 0).collect();
        let (least, most) = (bytes.iter().min().unwrap(), bytes.iter().max().unwrap());
        assert!(*most as f64 <= *least as f64 * 1.01, "{}: {least} to {most} bytes a link", network.name);
    }
}

#[test]
fn a_hive_whose_devices_are_all_joined_has_six_rings_of_seven_links() {
    let pairs: Vec<String> = (0..8).flat_map(|a| (a + 1..8).map(move |b| format!("[{a}, {b}]"))).collect();
    let edges = format!("[edges]\nplaces = 8\neth = [{}]\n", pairs.join(", "));
    let network = reshaped("t3000", &edges);
    let last_ps = priced(&network, Collective::AllReduce, "neighbour_rings", 256 << 20).1;
    let busbw = (256 << 20) as f64 / last_ps as f64 * 1e3 * 2.0 * 7.0 / 8.0;
    assert_near(busbw, 6.0 * ETHERNET, 0.015);
}

#[test]
fn where_no_cycle_is_the_order_of_few_shared_links_is_no_slower_than_the_ranks_numbers() {
    for shape in [
        "[mesh]\nshape = \"3x3\"",
        "[mesh]\nshape = \"5x3\"",
        "[line]\nshape = \"5\"",
        "[mesh]\nshape = \"5x5\"",
    ] {
        let network = reshaped("t3000", &format!("{shape}\nlink = \"eth\"\n"));
        let places = places(network.shape.nranks());
        for (algorithm, bytes) in [("ring", 1 << 10), ("ring", 64 << 20), ("ring_pair", 64 << 20)] {
            let time = |orders| {
                let n = network.shape.nranks();
                let view = RankView { orders, ..RankView::flat(Collective::AllReduce, 0, n, 0) };
                let plans = algorithms::plan_all(algorithms::find(algorithm).unwrap(), &view);
                let slice_bytes = u64::MAX;
                let call = PricedCall {
                    plans: &plans,
                    places: &places,
                    view,
                    count: bytes / 4,
                    size: 4,
                    slice_bytes,
                };
                *engine::price(&network, &call, &vec![0; n as usize]).unwrap().exit_ps.iter().max().unwrap()
            };
            let (ordered, by_number) = (time(network.ring_orders(&places)), time(None));
            assert!(
                ordered <= by_number + by_number / 100,
                "{algorithm} on {shape}: {ordered} ps, by number {by_number} ps"
            );
        }
    }
}
