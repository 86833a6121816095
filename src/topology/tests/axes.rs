//! Grids of unlike axes, and nodes of places that are wired to one another.

use super::*;

/// Three by four by two places.
const MIXED: &str =
    "[axes]\nshape = \"3x4x2\"\nkinds = \"full, ring, switch\"\nlinks = \"wire, wire, wire\"\n";
const NODES: &str = "[nodes]\nplaces = 4\nnodes = 2\nnic = \"wire\"\n[nodes.wires]\nwire = [[0, 1, 2], [0, 2], [1, 3], [2, 3]]\n";

#[test]
fn a_way_crosses_each_axis_as_its_kind_does() {
    let n = read(&wired(MIXED));
    assert_eq!(n.shape.0, [3, 4, 2]);
    // Place x + 3 y + 12 z.
    assert_eq!(way(&n, 0, 2, 0), "g0.x.2");
    assert_eq!(way(&n, 1, 2, 0), "g1.x.2");
    assert_eq!(way(&n, 2, 0, 0), "g2.x.0");
    assert_eq!(way(&n, 0, 9, 0), "g0.y-");
    assert_eq!((way(&n, 0, 6, 0), way(&n, 0, 6, 1)), ("g0.y+ g3.y+".into(), "g0.y- g9.y-".into()));
    assert_eq!(way(&n, 0, 12, 0), "g0.z.tx g12.z.rx");
    assert_eq!(way(&n, 1, 17, 0), "g1.x.2 g2.y+ g5.z.tx g17.z.rx");
}

#[test]
fn two_places_of_a_ring_have_one_wire_and_one_place_has_none() {
    let n = read(&wired(
        "[axes]\nshape = \"4x2x1\"\nkinds = \"switch, ring, ring\"\nlinks = \"wire, wire, wire\"\n",
    ));
    assert_eq!(n.ports.len(), 8 * 3);
    assert_eq!((way(&n, 1, 5, 0), way(&n, 5, 1, 1)), ("g1.y+".into(), "g5.y+".into()));
}

#[test]
fn every_port_of_an_axis_is_used_and_each_way_ends_where_it_should() {
    for (shape, kinds) in
        [("5x3", "ring, full"), ("2x2x2", "full, switch, ring"), ("6", "full"), ("8x4", "switch, ring")]
    {
        let links = vec!["wire"; kinds.split(',').count()].join(", ");
        let text = format!("[axes]\nshape = \"{shape}\"\nkinds = \"{kinds}\"\nlinks = \"{links}\"\n");
        let n = read(&wired(&text));
        let mut used = vec![0; n.ports.len()];
        for (from, to) in (0..n.shape.nranks()).flat_map(|a| (0..n.shape.nranks()).map(move |b| (a, b))) {
            for lane in 0..2 {
                let mut ports = Vec::new();
                n.routes.route(from, to, lane, &mut ports).expect("a way");
                ports.iter().for_each(|&port| used[port as usize] += 1);
                let first = ports.first().map(|&port| n.ports[port as usize].name.clone());
                assert!(first.is_none_or(|name| name.starts_with(&format!("g{from}."))), "{from} to {to}");
            }
        }
        assert!(used.iter().all(|&times| times > 0), "{shape} {kinds}");
    }
}

#[test]
fn wired_places_use_their_wires_within_a_node_and_their_nics_between_nodes() {
    let n = read(&wired(NODES));
    assert_eq!((n.shape.per_node(), n.shape.nodes()), (4, 2));
    assert_eq!((way(&n, 4, 5, 0), way(&n, 4, 5, 1)), ("n1.g0.g1.0".into(), "n1.g0.g1.1".into()));
    assert_eq!(way(&n, 0, 3, 0), "n0.g0.g1.0 n0.g1.g3");
    assert_eq!(way(&n, 1, 6, 0), "n0.g1.nic.tx n1.g2.nic.rx");
    let rails = read(&wired(&NODES.replace("nic = \"wire\"", "nic = \"wire\"\nspine = \"wire\"")));
    assert_eq!(way(&rails, 1, 6, 0), "n0.g1.nic.tx n0.g1.spine n1.g2.nic.rx");
    assert_eq!(way(&rails, 1, 5, 0), "n0.g1.nic.tx n1.g1.nic.rx");
}

#[test]
fn what_is_wrong_in_axes_and_wires_is_said_with_the_remedy() {
    for (text, what) in [
        (
            "[axes]\nshape = \"4\"\nkinds = \"tree\"\nlinks = \"wire\"",
            "m.toml:7: kinds: `tree` is no kind of axis; write ring",
        ),
        (
            "[axes]\nshape = \"4\"\nkinds = \"ring\"\nlinks = \"fibre\"",
            "m.toml:8: links: there is no class `fibre`",
        ),
        (
            "[axes]\nshape = \"4x2\"\nkinds = \"ring\"\nlinks = \"wire\"",
            "has more axes than kinds; write a kind for each axis",
        ),
        (
            "[axes]\nshape = \"4x2\"\nkinds = \"ring, ring\"\nlinks = \"wire\"",
            "names 1 classes for 2 kinds; write one an axis",
        ),
        (
            "[axes]\nshape = \"1024x1024\"\nkinds = \"full, ring\"\nlinks = \"wire, wire\"",
            "more than 16777216 ports; write fewer places",
        ),
        (
            "[nodes]\nplaces = 2\nnodes = 1\nnic = \"wire\"\n[nodes.wires]\nfibre = [[0, 1]]",
            "[nodes.wires] has no key `fibre`; it has wire",
        ),
        (
            "[nodes]\nplaces = 3\nnodes = 1\nnic = \"wire\"\n[nodes.wires]\nwire = [[0, 1]]",
            "[nodes.wires] have no way from place 2 to place 0",
        ),
        (
            "[nodes]\nplaces = 2\nnodes = 1\nnic = \"wire\"\nwires = 1",
            "[nodes.wires] is not a table; write its keys below",
        ),
        (
            "[nodes]\nplaces = 2\nnodes = 1\ninside = \"wire\"\nnic = \"wire\"\n[nodes.wires]\nwire = [[0, 1]]",
            "[nodes] has no key `inside`; it has places, nodes, nic, spine, wires",
        ),
    ] {
        let why = wrong(&wired(text));
        assert!(why.contains(what), "{text}\n  gives {why}");
    }
}
