//! Tiers of switches: what oversubscription, hashed flows, shared NICs and PCIe do to a transfer.

use super::*;

const CLASSES: &str = "name = \"m\"\n[class.nic]\nbw = \"400Gbps\"\nlat = \"1us\"\nmtu = \"4096B\"\n[class.fast]\nbw = \"900GB/s\"\n\
    lat = \"300ns\"\nmtu = \"4096B\"\n";
/// Bytes of a message: enough for latencies not to count.
const BYTES: u64 = 64 << 20;

/// 16 nodes of one place, eight on each of two leaves.
fn two_leaves(oversubscription: &str, routing: &str) -> Network {
    cluster(&format!(
        "places = 1\nnodes = 16\nnic = \"nic\"\nrouting = \"{routing}\"\n[[cluster.tier]]\ndown = 8\nuplink = \"nic\"\n\
         oversubscription = \"{oversubscription}\"\n[[cluster.tier]]\n"
    ))
}

fn cluster(rest: &str) -> Network {
    topology::parse("m.toml", &format!("{CLASSES}[cluster]\n{rest}"), &[])
        .unwrap_or_else(|why| panic!("{why}"))
}

/// Returns GB/s of each of all places, if each sends to the one `by` places ahead.
fn shift(network: &Network, by: u32) -> f64 {
    let n = network.shape.nranks();
    BYTES as f64 / all_send(network, |rank| vec![(rank + by) % n], BYTES, 1 << 20) as f64 * 1e3
}

#[test]
fn a_tier_of_two_to_one_halves_what_crosses_it_and_nothing_else() {
    for (oversubscription, part) in [("1:1", 1.0), ("2:1", 0.5), ("4:1", 0.25), ("8:1", 0.125)] {
        let network = two_leaves(oversubscription, "destination");
        assert_near(shift(&network, 8), 50.0 * part, 0.03);
        // Each to its neighbour of two, on the same leaf.
        let pairs = all_send(&network, |rank| vec![rank ^ 1], BYTES, 1 << 20);
        assert_near(BYTES as f64 / pairs as f64 * 1e3, 50.0, 0.03);
    }
}

#[test]
fn a_superpod_of_two_to_one_halves_what_crosses_its_leaves_and_nothing_else() {
    let pod = |more: &str| topology::open(&format!("dgx-h100-superpod:nodes=64{more}")).unwrap();
    for (more, part) in [("", 1.0), (",oversubscription=2", 0.5)] {
        let network = pod(more);
        // Each to the device of its rail in the other scalable unit, and within its own.
        assert_near(shift(&network, 256), 48.5 * part, 0.03);
        let neighbours = all_send(&network, |rank| vec![rank ^ 8], BYTES, 1 << 20);
        assert_near(BYTES as f64 / neighbours as f64 * 1e3, 48.5, 0.03);
    }
}

#[test]
fn cores_of_two_to_one_halve_what_crosses_spines_and_nothing_else() {
    for (more, spines, cores) in
        [("", 1.0, 1.0), (",oversubscription=[1,2]", 1.0, 0.5), (",oversubscription=2", 0.5, 0.25)]
    {
        let network = topology::open(&format!("dgx-h100-superpod:nodes=257{more}")).unwrap();
        // From the first unit of four scalable units to the second one, and from scalable unit to scalable unit.
        let to = |rank: u32, by: u32| if rank < 1024 { vec![rank + by] } else { Vec::new() };
        let took = |by, bytes| all_send(&network, |rank| to(rank, by), bytes, 1 << 20);
        let rate = |by| BYTES as f64 / took(by, BYTES) as f64 * 1e3;
        assert_near(rate(1024), 48.5 * cores, 0.03);
        let within = |rank: u32| if rank < 512 { vec![rank + 512] } else { Vec::new() };
        let took = all_send(&network, within, BYTES, 1 << 20);
        assert_near(BYTES as f64 / took as f64 * 1e3, 48.5 * spines, 0.03);
    }
}

#[test]
fn a_scalable_unit_is_nodes_on_the_leaves_of_their_rails() {
    let [pod, nodes] =
        ["dgx-h100-superpod:nodes=4", "dgx-h100:nodes=4"].map(|spec| topology::open(spec).unwrap());
    for algorithm in ["alternating_rings", "rail_trees", "hierarchical"] {
        let took = |network| priced(network, Collective::AllReduce, algorithm, 1 << 26).1;
        assert_eq!(took(&pod), took(&nodes), "{algorithm}");
    }
}

#[test]
fn flows_that_a_hash_puts_on_one_uplink_share_it() {
    let network = two_leaves("1:1", "ecmp");
    let load = &topology::loads(&network, (0..16).map(|from| (from, (from + 8) % 16, 0)))[0];
    assert!(load.most > 1, "{load:?}");
    assert_near(shift(&network, 8), 50.0 / f64::from(load.most), 0.03);
}

#[test]
fn devices_that_share_a_nic_have_its_bandwidth_together_and_a_device_of_two_nics_twice_it() {
    let with = |nics: u32| {
        cluster(&format!("places = 4\nnodes = 2\ninside = \"fast\"\nnic = \"nic\"\nnics = {nics}\n"))
    };
    for (nics, each) in [(1, 12.5), (2, 25.0), (4, 50.0)] {
        assert_near(shift(&with(nics), 4), each, 0.03);
    }
    // Two messages of a device on two lanes.
    let two_lanes = |nics: u32| {
        let took = all_send(&with(nics), |rank| vec![(rank + 4) % 8; 2], BYTES, 1 << 20);
        2.0 * BYTES as f64 / took as f64 * 1e3
    };
    assert_near(two_lanes(4), 50.0, 0.03);
    assert_near(two_lanes(8), 100.0, 0.03);
}

#[test]
fn a_nic_behind_a_slow_pcie_link_has_its_bandwidth() {
    let with = |rate: &str| {
        let classes = format!("{CLASSES}[class.pcie]\nbw = \"{rate}\"\nlat = \"200ns\"\nmtu = \"256B\"\n");
        let rest = "[cluster]\nplaces = 4\nnodes = 2\nnic = \"nic\"\n[cluster.pcie]\nlink = \"pcie\"\nswitches = 2\n";
        topology::parse("m.toml", &format!("{classes}{rest}"), &[]).unwrap()
    };
    assert_near(shift(&with("63GB/s"), 4), 50.0, 0.03);
    assert_near(shift(&with("32GB/s"), 4), 32.0, 0.03);
    // Within a node two devices of each switch send over its one link.
    assert_near(
        all_send(&with("32GB/s"), |rank| vec![rank ^ 2], BYTES, 1 << 20) as f64,
        BYTES as f64 / 16e-3,
        0.03,
    );
}

#[test]
fn all_reduce_over_rails_is_as_fast_as_all_nics_on_whole_rails() {
    let network = cluster("places = 4\nnodes = 4\ninside = \"fast\"\nnic = \"nic\"\nrails = \"only\"\n");
    let bytes = 1 << 30;
    let (_, last_ps) = priced(&network, Collective::AllReduce, "alternating_rings", bytes);
    assert_near(bytes as f64 / last_ps as f64 * 1e3 * 2.0 * 15.0 / 16.0, 200.0, 0.01);
}
