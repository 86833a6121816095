//! Ways over NICs, PCIe and tiers are what the drawings say; a wrong cluster is told where and why.

use super::super::{Network, PortId, parse};
use super::{Distance, loads};
use crate::plan::{Lane, Shape};
use crate::types::Rank;
use std::collections::HashSet;

const CLASSES: &str = "name = \"m\"\n[class.w]\nbw = \"400Gbps\"\nlat = \"1us\"\n[class.fast]\nbw = \"800Gbps\"\nlat = \"1us\"\n";

fn text(rest: &str) -> String {
    format!("{CLASSES}{rest}")
}

fn read(rest: &str) -> Network {
    parse("m.toml", &text(rest), &[]).unwrap_or_else(|why| panic!("{why}"))
}

fn wrong(rest: &str) -> String {
    parse("m.toml", &text(rest), &[]).err().unwrap_or_else(|| panic!("accepted: {rest}")).message.clone()
}

fn way(network: &Network, from: Rank, to: Rank, lane: Lane) -> String {
    let mut ports = Vec::new();
    network.routes.route(from, to, lane, &mut ports).unwrap_or_else(|why| panic!("{why}"));
    ports.iter().map(|&port| network.ports[port as usize].name.as_str()).collect::<Vec<_>>().join(" ")
}

/// Leaves of four NICs, spines of two leaves, cores.
const THREE: &str = "[cluster]\nplaces = 2\nnodes = 8\ninside = \"fast\"\nnic = \"w\"\nrouting = \"destination\"\n\
    [[cluster.tier]]\ndown = 4\nuplink = \"w\"\noversubscription = \"2:1\"\n\
    [[cluster.tier]]\ndown = 2\nuplink = \"w\"\nuplinks = 1\n[[cluster.tier]]\n";

#[test]
fn a_message_goes_up_as_far_as_it_must() {
    let n = read(THREE);
    assert_eq!(n.shape, Shape([2, 8, 1]));
    assert_eq!(way(&n, 0, 1, 0), "n0.g0.nv.tx n0.g1.nv.rx");
    assert_eq!(way(&n, 0, 2, 0), "n0.nic0.tx n1.nic0.rx", "the same leaf");
    assert_eq!(way(&n, 0, 4, 0), "n0.nic0.tx leaf0.spine0.up leaf1.spine0.down n2.nic0.rx");
    assert_eq!(way(&n, 0, 5, 0), "n0.nic0.tx leaf0.spine1.up leaf1.spine1.down n2.nic1.rx");
    assert_eq!(
        way(&n, 0, 9, 0),
        "n0.nic0.tx leaf0.spine1.up spine1.core1.up spine3.core1.down leaf2.spine3.down n4.nic1.rx"
    );
    let cluster = n.routes.cluster().unwrap();
    assert_eq!(cluster.switches(), [("leaf", 4), ("spine", 4), ("core", 2)]);
    assert_eq!(cluster.sentences()[0], "leaf: 4 switches, 4 links down, 2 up each");
}

#[test]
fn every_port_has_its_name_and_every_way_ends_where_it_should() {
    let pcie = "[cluster.pcie]\nlink = \"fast\"\nswitches = 2\nhosts = 2\nsmp = \"w\"\n";
    for rails in ["none", "optimised", "only"] {
        for nics in [1, 2, 4, 8] {
            for routing in ["ecmp", "destination"] {
                let n = read(&format!(
                    "[cluster]\nplaces = 4\nnodes = 6\ninside = \"fast\"\nnic = \"w\"\nnics = {nics}\nrails = \"{rails}\"\n\
                     routing = \"{routing}\"\n{pcie}[[cluster.tier]]\ndown = 2\nuplink = \"w\"\nuplinks = 3\n\
                     [[cluster.tier]]\ndown = 2\nuplink = \"fast\"\nuplinks = 2\n[[cluster.tier]]\n"
                ));
                let names: HashSet<&str> = n.ports.iter().map(|port| port.name.as_str()).collect();
                assert_eq!(names.len(), n.ports.len());
                for (from, to) in (0..24).flat_map(|a| (0..24).map(move |b| (a, b))) {
                    for lane in 0..3 {
                        check_way(&n, from, to, lane);
                    }
                }
            }
        }
    }
}

/// Follows a way between nodes from switch to switch by the names of its ports.
fn check_way(n: &Network, from: Rank, to: Rank, lane: Lane) {
    let way = way(n, from, to, lane);
    let hops: Vec<Vec<&str>> = way.split(' ').map(|name| name.split('.').collect()).collect();
    let cluster = n.routes.cluster().unwrap();
    let (own, other) = (from / 4, to / 4);
    if own == other {
        return assert_eq!(way.is_empty(), from == to);
    }
    let nic =
        |words: &Vec<&str>, end: &str| words.len() == 3 && words[1].starts_with("nic") && words[2] == end;
    let number =
        |word: &str| word.trim_start_matches(|c: char| c.is_ascii_lowercase()).parse::<u32>().unwrap();
    let first = hops.iter().position(|hop| nic(hop, "tx")).unwrap();
    let last = hops.iter().position(|hop| nic(hop, "rx")).unwrap();
    let leaf = |hop: &Vec<&str>, node| format!("leaf{}", cluster.leaf_of(node, number(hop[1])));
    let mut at = leaf(&hops[first], own);
    for hop in &hops[first + 1..last] {
        let (out, into) = if hop[2] == "up" { (hop[0], hop[1]) } else { (hop[1], hop[0]) };
        assert_eq!(out, at, "{way}");
        at = into.to_owned();
    }
    assert_eq!(at, leaf(&hops[last], other), "{way}");
    assert_eq!(hops[first][0], format!("n{own}"));
    assert_eq!(hops[last][0], format!("n{other}"));
    assert_eq!(hops.last().unwrap()[..2], [format!("n{other}").as_str(), &format!("g{}", to % 4)]);
}

#[test]
fn lanes_take_the_nics_of_a_device_in_turns_and_devices_share_one() {
    let with = |nics: u32| {
        read(&format!("[cluster]\nplaces = 4\nnodes = 2\ninside = \"fast\"\nnic = \"w\"\nnics = {nics}\n"))
    };
    assert_eq!(way(&with(8), 1, 6, 0), "n0.nic2.tx n1.nic4.rx");
    assert_eq!(way(&with(8), 1, 6, 3), "n0.nic3.tx n1.nic5.rx");
    assert_eq!(way(&with(2), 1, 6, 3), "n0.nic0.tx n1.nic1.rx");
}

#[test]
fn pcie_is_passed_on_the_way_to_a_nic_and_has_the_distances_of_nvidia_smi() {
    let n = read(
        "[cluster]\nplaces = 8\nnodes = 2\nnics = 2\nnic = \"w\"\n[cluster.pcie]\nlink = \"fast\"\nswitches = 4\nhosts = 2\nsmp = \"w\"\njoin = \"switch\"\n",
    );
    let cluster = n.routes.cluster().unwrap();
    let row = |place| (0..2).map(|nic| cluster.distance(place, nic).unwrap()).collect::<Vec<_>>();
    assert_eq!(row(0), [Distance::Pix, Distance::Sys]);
    assert_eq!(row(2), [Distance::Pxb, Distance::Sys]);
    assert_eq!(row(15), [Distance::Sys, Distance::Pxb]);
    assert_eq!(
        way(&n, 0, 8, 0),
        "n0.g0.pcie.tx n0.nic0.pcie.rx n0.nic0.tx n1.nic0.rx n1.nic0.pcie.tx n1.g0.pcie.rx"
    );
    assert_eq!(
        way(&n, 2, 15, 0),
        "n0.g2.pcie.tx n0.pcie1.tx n0.pcie0.rx n0.nic0.pcie.rx n0.nic0.tx n1.nic1.rx n1.nic1.pcie.tx n1.pcie2.tx n1.pcie3.rx \
         n1.g7.pcie.rx"
    );
    assert_eq!(way(&n, 0, 7, 0), "n0.g0.pcie.tx n0.pcie0.tx n0.host0.smp n0.pcie3.rx n0.g7.pcie.rx");
    assert_eq!(way(&n, 0, 1, 0), "n0.g0.pcie.tx n0.g1.pcie.rx");
}

#[test]
fn rails_are_leaves_and_where_nothing_joins_them_a_message_changes_rail_in_its_node() {
    let with = |rails: &str, tiers: &str| {
        read(&format!(
            "[cluster]\nplaces = 4\nnodes = 4\ninside = \"fast\"\nnic = \"w\"\nrails = \"{rails}\"\n{tiers}"
        ))
    };
    let n = with("optimised", "[[cluster.tier]]\ndown = 2\nuplink = \"w\"\nuplinks = 1\n[[cluster.tier]]\n");
    assert_eq!(n.routes.cluster().unwrap().switches(), [("leaf", 8), ("spine", 1)]);
    assert_eq!(way(&n, 3, 7, 0), "n0.nic3.tx n1.nic3.rx");
    assert_eq!(way(&n, 3, 6, 0), "n0.nic3.tx leaf3.spine0.up leaf2.spine0.down n1.nic2.rx");
    assert_eq!(way(&n, 3, 11, 0), "n0.nic3.tx leaf3.spine0.up leaf7.spine0.down n2.nic3.rx");
    let n = with("only", "");
    assert_eq!(n.routes.cluster().unwrap().switches(), [("switch", 4)]);
    assert_eq!(way(&n, 3, 7, 0), "n0.nic3.tx n1.nic3.rx");
    assert_eq!(way(&n, 3, 6, 0), "n0.g3.nv.tx n0.g2.nv.rx n0.nic2.tx n1.nic2.rx");
}

#[test]
fn wires_join_the_places_of_a_node_as_those_of_edges() {
    let n =
        read("[cluster]\nplaces = 3\nnodes = 2\nnic = \"w\"\n[cluster.wires]\nfast = [[0, 1, 2], [1, 2]]\n");
    assert_eq!(way(&n, 3, 5, 1), "n1.g0.g1.1 n1.g1.g2");
    assert_eq!(way(&n, 0, 5, 0), "n0.nic0.tx n1.nic2.rx");
}

/// The loads of a shift by `by` places of 16 nodes of one place, four on a leaf.
fn shifted(routing: &str, by: u32) -> Vec<super::TierLoad> {
    let n = read(&format!(
        "[cluster]\nplaces = 1\nnodes = 16\nnic = \"w\"\n{routing}\n[[cluster.tier]]\ndown = 4\nuplink = \"w\"\n\
         oversubscription = \"1:1\"\n[[cluster.tier]]\n"
    ));
    loads(&n, (0..16).map(|from| (from, (from + by) % 16, 0)))
}

#[test]
fn hashed_flows_collide_and_flows_by_destination_do_not() {
    let hashed = shifted("", 4);
    assert_eq!((hashed[0].flows, hashed[0].uplinks, hashed[0].least_most), (16, 16, 1));
    assert!(hashed[0].most > 1 && hashed[0].used < 16, "{hashed:?}");
    assert_eq!(shifted("", 4), hashed, "the same flows take the same uplinks");
    let seeds: HashSet<u32> = (1..20).map(|seed| shifted(&format!("seed = {seed}"), 4)[0].used).collect();
    assert!(seeds.len() > 1, "{seeds:?}");
    let even = shifted("routing = \"destination\"", 4);
    assert_eq!((even[0].used, even[0].most), (16, 1));
    assert_eq!(shifted("", 1)[0].flows, 4, "three of four stay on their leaf");
}

#[test]
fn the_hash_spreads_many_flows_evenly() {
    let n = read(
        "[cluster]\nplaces = 1\nnodes = 64\nnic = \"w\"\n[[cluster.tier]]\ndown = 32\nuplink = \"w\"\nuplinks = 16\n[[cluster.tier]]\n",
    );
    let flows =
        (0..32).flat_map(|from| (32..64).flat_map(move |to| (0..4).map(move |lane| (from, to, lane))));
    let mut of_port = vec![0u32; n.ports.len()];
    let mut ports = Vec::new();
    for (from, to, lane) in flows {
        ports.clear();
        n.routes.route(from, to, lane, &mut ports).unwrap();
        ports.iter().for_each(|&port| of_port[port as usize] += 1);
    }
    let up = |port: &PortId| {
        n.ports[*port as usize].name.starts_with("leaf0") && n.ports[*port as usize].name.ends_with("up")
    };
    let carried: Vec<u32> =
        (0..n.ports.len() as PortId).filter(up).map(|port| of_port[port as usize]).collect();
    // 4096 flows on 16 uplinks: 256 each, with a deviation of 16.
    assert_eq!(carried.len(), 16);
    assert!(carried.iter().all(|flows| (192..=320).contains(flows)), "{carried:?}");
}

#[test]
fn machines_with_the_same_ports_and_other_ways_have_other_hashes() {
    let of = |more: &str| {
        let n = read(&format!(
            "[cluster]\nplaces = 2\nnodes = 4\ninside = \"fast\"\nnic = \"w\"\n{more}\n[[cluster.tier]]\ndown = 2\nuplink = \"w\"\n\
             uplinks = 2\n[[cluster.tier]]\n"
        ));
        n.hash()
    };
    let hashes: HashSet<u64> =
        ["", "seed = 1", "routing = \"destination\"", "rails = \"only\""].into_iter().map(of).collect();
    assert_eq!(hashes.len(), 4);
    assert_eq!(of(""), of("seed = 0"));
}

#[test]
fn what_is_wrong_in_a_cluster_is_said_with_its_line_and_the_remedy() {
    let base = "[cluster]\nplaces = 4\nnodes = 4\nnic = \"w\"\n";
    let tier = "inside = \"w\"\n[[cluster.tier]]\ndown = 8\nuplink = \"w\"\n";
    let top = "\n[[cluster.tier]]\n";
    let cases = [
        (String::new(), "m.toml:8: [cluster] does not say what joins the places of a node; add inside = "),
        (
            "nics = 3".into(),
            "m.toml:12: nics: 3 NICs and 4 devices do not divide evenly; write a multiple of 4",
        ),
        (
            "inside = \"w\"\nrails = \"two\"".into(),
            "m.toml:13: rails: `two` is not known here; write none or optimised or only",
        ),
        ("inside = \"w\"\nrails = \"optimised\"".into(), "m.toml:8: [cluster] joins rails at a tier above"),
        ("inside = \"w\"\nracks = 3".into(), "m.toml:13: [cluster] has no key `racks`; it has places, nodes"),
        (
            format!("{tier}oversubscription = 0{top}"),
            "m.toml:16: oversubscription: `0` is not a proportion of two bandwidths above 0; write it like 2:1 or 2",
        ),
        (
            format!("{tier}oversubscription = \"3:1\"{top}"),
            "m.toml:16: oversubscription: 8 links of 50GB/s below are 2.67 uplinks of 50GB/s, and not a whole number",
        ),
        (
            format!("{tier}oversubscription = \"100:1\"{top}"),
            "m.toml:16: oversubscription: 8 links of 50GB/s below are 0.08 uplinks",
        ),
        (
            format!("{tier}{top}"),
            "m.toml:13: [[cluster.tier]] does not say how many links lead up; add oversubscription = ",
        ),
        (
            format!("{tier}uplinks = 4\noversubscription = 2{top}"),
            "m.toml:17: oversubscription: `uplinks` says how many",
        ),
        (tier.into(), "m.toml:15: uplink: the last tier has none above it; leave this out"),
        (
            "inside = \"w\"\n[[cluster.tier]]\ndown = 3\n".into(),
            "m.toml:13: [[cluster.tier]] leaf is the last tier and has 6 switches",
        ),
        (format!("{tier}uplinks = 4\nname = \"A 1\"{top}"), "m.toml:17: name: `A 1` is no name of a tier"),
        (
            "inside = \"w\"\n[cluster.wires]\nw = [[0, 1]]".into(),
            "m.toml:8: [cluster] has both `inside` and [cluster.wires]",
        ),
        (
            "inside = \"w\"\n[cluster.pcie]\nlink = \"w\"\nswitches = 3".into(),
            "m.toml:15: switches: 4 devices do not divide evenly among 3",
        ),
        (
            "inside = \"w\"\n[cluster.pcie]\nlink = \"w\"\nswitches = 2\nhosts = 2".into(),
            "m.toml:13: [cluster.pcie] has no `smp`; add one such as",
        ),
        (
            "inside = \"w\"\n[cluster.tier]\ndown = 3".into(),
            "m.toml:13: tier is no list; begin each one with [[cluster.tier]]",
        ),
    ];
    for (rest, said) in cases {
        let why = wrong(&format!("{base}{rest}"));
        assert!(why.starts_with(said), "{rest}\nsays: {why}");
    }
}

#[test]
fn a_hundred_thousand_places_on_three_tiers_are_built() {
    let n = read(
        "[cluster]\nplaces = 8\nnodes = 12500\ninside = \"fast\"\nnic = \"w\"\nrails = \"optimised\"\n\
         [[cluster.tier]]\ndown = 32\nuplink = \"w\"\noversubscription = \"1:1\"\n\
         [[cluster.tier]]\ndown = 32\nuplink = \"w\"\noversubscription = \"2:1\"\n[[cluster.tier]]\n",
    );
    assert_eq!(n.shape.nranks(), 100_000);
    assert_eq!(way(&n, 0, 99_999, 0).split(' ').count(), 6);
    let many = wrong(
        "[cluster]\nplaces = 8\nnodes = 12500\ninside = \"fast\"\nnic = \"w\"\n[[cluster.tier]]\ndown = 2\nuplink = \"w\"\nuplinks = 999\n\
         [[cluster.tier]]\n",
    );
    assert!(many.contains("may have more than 16777216 ports; write fewer nodes"), "{many}");
}
