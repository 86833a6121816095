//! Rings of presets and of graphs without a name, held against their links.

use super::super::{Network, open, parse};
use crate::plan::{Lane, RingOrders};
use crate::types::Rank;
use std::collections::HashMap;
use std::sync::Arc;

/// Returns the rings of ranks at all places.
fn rings(network: &Network) -> Arc<RingOrders> {
    let places: Vec<Rank> = (0..network.shape.nranks()).collect();
    network.ring_orders(&places).expect("a machine of direct links")
}

/// Returns a machine of edges.
fn machine(places: u32, edges: &[(u32, u32, u32)]) -> Network {
    let edges: Vec<String> = edges.iter().map(|(a, b, links)| format!("[{a}, {b}, {links}]")).collect();
    let text = format!(
        "name = \"m\"\n[class.wire]\nbw = \"10GB/s\"\nlat = \"1us\"\n[edges]\nplaces = {places}\nwire = [{}]\n",
        edges.join(", ")
    );
    parse("m.toml", &text, &[]).unwrap()
}

/// Returns the most lanes that pass a port, and the most ports of a hop. Every lane visits every rank once.
fn census(network: &Network, lanes: &[Vec<Rank>]) -> (u32, usize) {
    let (mut load, mut longest) = (HashMap::new(), 0);
    for (lane, order) in (0..).zip(lanes) {
        let mut visited = order.clone();
        visited.sort_unstable();
        assert!(visited.iter().copied().eq(0..network.shape.nranks()), "{}: {order:?}", network.name);
        for (&from, &to) in order.iter().zip(order.iter().cycle().skip(1)) {
            let mut ports = Vec::new();
            network.routes.route(from, to, lane as Lane, &mut ports).unwrap();
            longest = longest.max(ports.len());
            ports.into_iter().for_each(|port| *load.entry(port).or_default() += 1);
        }
    }
    (load.values().copied().max().unwrap_or(0), longest)
}

/// Asserts that a machine has `lanes` rings, which share no link and go from neighbour to neighbour.
#[track_caller]
fn has_rings(network: &Network, lanes: usize) {
    let rings = rings(network);
    assert!(rings.is_direct(), "{}", network.name);
    assert_eq!(census(network, rings.lanes()), (1, 1), "{}", network.name);
    assert_eq!(rings.lanes().len(), lanes, "{}", network.name);
    let width = rings.cycles()[0].width as usize;
    assert_eq!((rings.forward().len(), rings.backward().len()), (width, width));
    assert_eq!(census(network, &rings.forward()), (1, 1), "{}", network.name);
}

#[test]
fn presets_have_as_many_rings_as_their_links_allow() {
    for (name, lanes) in [
        ("n300", 2),
        ("t3000", 4),
        ("t3000:links=1", 2),
        ("galaxy", 8),
        ("dgx-1v", 6),
        ("ipu-pod16", 2),
        ("tpu-v4", 6),
        ("tpu-v5e", 4),
        ("tpu-v5e:shape=4x4", 4),
        ("tpu-v4:shape=4x4x8", 6),
    ] {
        has_rings(&open(name).unwrap(), lanes);
    }
}

#[test]
fn every_torus_is_cycles_that_use_all_of_its_links() {
    let shape = |extents: &[u32]| extents.iter().map(u32::to_string).collect::<Vec<_>>().join("x");
    for a in 3..=9 {
        for b in 3..=9 {
            has_rings(&open(&format!("tpu-v5e:shape={}", shape(&[a, b]))).unwrap(), 4);
        }
    }
    for extents in [[3, 3, 3], [3, 4, 5], [4, 4, 4], [5, 3, 3], [5, 5, 5], [3, 7, 4], [8, 8, 8], [6, 3, 9]] {
        has_rings(&open(&format!("tpu-v4:shape={}", shape(&extents))).unwrap(), 6);
    }
}

#[test]
fn every_mesh_of_an_even_number_of_places_has_one_cycle() {
    for extents in ["2x2", "2x3", "3x2", "5x6", "4x8", "3x3x2", "2x3x3", "3x2x5", "4x4x4", "2x2x2"] {
        for links in [1, 2, 3] {
            has_rings(&open(&format!("t3000:shape={extents},links={links}")).unwrap(), 2 * links);
        }
    }
}

#[test]
fn an_axis_of_two_whose_ends_are_joined_is_two_links() {
    has_rings(&open("tpu-v5e:shape=2x2").unwrap(), 4);
    has_rings(&open("tpu-v5e:shape=2x4").unwrap(), 4);
    has_rings(&open("tpu-v5e:shape=2").unwrap(), 2);
    has_rings(&open("tpu-v4:shape=2x2x2").unwrap(), 4);
    has_rings(&open("tpu-v5e:shape=2,links=2").unwrap(), 4);
    has_rings(&open("tpu-v5e:shape=2x2,links=2").unwrap(), 8);
}

#[test]
fn nodes_whose_places_are_all_joined_have_a_ring_for_each_nic() {
    for (places, nodes) in [(2, 2), (4, 2), (4, 3), (6, 2), (6, 5), (8, 2), (8, 4), (8, 7), (8, 64)] {
        for spine in ["", "spine = \"wire\"\n"] {
            let pairs: Vec<String> =
                complete(places, 1).iter().map(|(a, b, links)| format!("[{a}, {b}, {links}]")).collect();
            let text = format!(
                "name = \"m\"\n[class.wire]\nbw = \"10GB/s\"\nlat = \"1us\"\n[nodes]\nplaces = {places}\nnodes = {nodes}\n\
                 nic = \"wire\"\n{spine}[nodes.wires]\nwire = [{}]\n",
                pairs.join(", ")
            );
            let network = parse("m.toml", &text, &[]).unwrap();
            let rings = rings(&network);
            assert_eq!(rings.lanes().len() as u32, places, "{places} places, {nodes} nodes");
            let (most, longest) = census(&network, rings.lanes());
            // A NIC's two ports, and the spine's where the last of an odd number of nodes meets the first.
            let ports = if nodes % 2 == 1 && !spine.is_empty() { 3 } else { 2 };
            assert_eq!((most, longest), (1, ports), "{places} places, {nodes} nodes");
        }
    }
    let few = open("gh200:nodes=2").unwrap();
    assert_eq!(few.ring_orders(&(0..8).collect::<Vec<Rank>>()), None, "behind switches");
}

/// Returns every pair of n places.
fn complete(n: u32, links: u32) -> Vec<(u32, u32, u32)> {
    (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b, links))).collect()
}

#[test]
fn all_to_all_wires_are_divided_among_rings() {
    for (n, lanes) in [(3, 2), (4, 2), (5, 4), (6, 4), (7, 6), (8, 6), (16, 14)] {
        has_rings(&machine(n, &complete(n, 1)), lanes);
    }
    has_rings(&machine(8, &complete(8, 2)), 12);
    has_rings(&machine(4, &complete(4, 2)), 4);
}

#[test]
fn a_wire_that_is_slower_is_left_out_where_it_would_hold_up_the_others() {
    let text = "name = \"m\"\n[class.fast]\nbw = \"10GB/s\"\nlat = \"1us\"\n[class.slow]\nbw = \"1GB/s\"\nlat = \"1us\"\n\
                [edges]\nplaces = 5\nfast = [[0, 1], [1, 2], [2, 3], [3, 4], [0, 4]]\nslow = [[0, 2], [1, 3], [2, 4], [0, 3], [1, 4]]\n";
    has_rings(&parse("m.toml", text, &[]).unwrap(), 2);
    has_rings(
        &parse(
            "m.toml",
            &text.replace("1GB/s\"\nlat = \"1us\"\n[edges", "9GB/s\"\nlat = \"1us\"\n[edges"),
            &[],
        )
        .unwrap(),
        4,
    );
}

#[test]
fn without_a_cycle_no_link_carries_two_messages_one_way_and_no_hop_is_long() {
    let line = "[line]\nshape = \"5\"";
    for (shape, longest) in [
        (line, 2),
        ("[mesh]\nshape = \"3x3\"", 2),
        ("[mesh]\nshape = \"5x5\"", 2),
        ("[line]\nshape = \"3\"", 2),
    ] {
        let text = format!(
            "name = \"m\"\n[class.wire]\nbw = \"10GB/s\"\nlat = \"1us\"\n{shape}\nlink = \"wire\"\nlinks = 2\n"
        );
        let network = parse("m.toml", &text, &[]).unwrap();
        let rings = rings(&network);
        assert!(!rings.is_direct());
        assert_eq!(rings.longest_hop(), longest, "{shape}: {:?}", rings.first());
        assert_eq!(rings.forward().len(), 2, "{shape}");
        assert_eq!(census(&network, &rings.forward()), (1, longest as usize), "{shape}: {:?}", rings.first());
        assert_eq!(
            census(&network, &rings.backward()),
            (1, longest as usize),
            "{shape}: {:?}",
            rings.first()
        );
    }
    // A line whose middle edge has one link of two.
    let line = machine(4, &[(0, 1, 2), (1, 2, 1), (2, 3, 2)]);
    assert_eq!(census(&line, &self::rings(&line).forward()).0, 1);
    // A tree: a rank with three neighbours that have two each.
    let tree = machine(
        10,
        &[(0, 1, 1), (0, 2, 1), (0, 3, 1), (1, 4, 1), (1, 5, 1), (2, 6, 1), (2, 7, 1), (3, 8, 1), (3, 9, 1)],
    );
    let rings = rings(&tree);
    assert_eq!((rings.longest_hop(), census(&tree, &rings.forward())), (3, (1, 3)), "{:?}", rings.first());
}

#[test]
fn ranks_on_a_part_of_a_machine_have_the_rings_of_that_part() {
    let network = open("galaxy").unwrap();
    // Two columns beside each other, in an order of their own.
    let places = [1, 0, 4, 5, 9, 8];
    let rings = network.ring_orders(&places).unwrap();
    assert!(rings.is_direct() && rings.lanes().len() == 8);
    // Places of three columns, odd: none.
    assert!(!network.ring_orders(&[0, 1, 2, 4, 5, 6, 8, 9, 10]).unwrap().is_direct());
    // Corners: their messages pass others.
    let corners = network.ring_orders(&[0, 3, 28, 31]).unwrap();
    assert_eq!(corners.longest_hop(), 7);
    assert_eq!(network.ring_orders(&[3]), None);
}

/// Returns a machine of one class of wires.
fn of_shape(shape: &str) -> Network {
    let class = "name = \"m\"\n[class.wire]\nbw = \"10GB/s\"\nlat = \"1us\"\n";
    parse("m.toml", &format!("{class}{shape}"), &[]).unwrap()
}

#[test]
fn axes_of_rings_and_of_places_that_are_all_joined_are_graphs_and_switches_are_not() {
    let axes = |shape: &str, kinds: &str| {
        let links = kinds.replace("ring", "wire").replace("full", "wire").replace("switch", "wire");
        of_shape(&format!("[axes]\nshape = \"{shape}\"\nkinds = \"{kinds}\"\nlinks = \"{links}\"\n"))
    };
    has_rings(&axes("4x8", "ring, ring"), 4);
    has_rings(&axes("16x16", "ring, ring"), 4);
    has_rings(&axes("5x4", "full, ring"), 6);
    has_rings(&axes("2x4", "ring, ring"), 2);
    has_rings(&axes("4x4", "full, full"), 6);
    let places: Vec<Rank> = (0..8).collect();
    assert_eq!(axes("4x2", "switch, ring").ring_orders(&places), None);
}

#[test]
fn ranks_in_one_of_several_nodes_that_are_wired_have_the_rings_of_its_wires() {
    let network = of_shape(
        "[nodes]\nplaces = 4\nnodes = 3\nnic = \"wire\"\n[nodes.wires]\nwire = [[0, 2, 2], [2, 1, 2], [1, 3, 2], [3, 0, 2]]\n",
    );
    for node in 0..3 {
        let places: Vec<Rank> = (4 * node..4 * node + 4).collect();
        let rings = network.ring_orders(&places).unwrap();
        assert!(
            rings.is_direct() && rings.lanes().len() == 4 && rings.first() == [0, 2, 1, 3],
            "{:?}",
            rings.first()
        );
    }
    assert_eq!(network.ring_orders(&[0, 1, 2, 3, 4]), None);
}

#[test]
fn machines_with_switches_have_no_rings_over_links() {
    for name in ["dgx-h100:nodes=2", "dgx-a100", "host"] {
        let network = open(name).unwrap();
        let places: Vec<Rank> = (0..network.shape.nranks()).collect();
        assert_eq!(network.ring_orders(&places), None, "{name}");
    }
}
