//! Presets open, ways are what the drawings say, and a wrong file is told where and why.

mod axes;
mod conditions;
mod in_switch;
mod manual;
mod movers;
#[cfg(not(loom))]
mod protocols;

use super::*;

fn network(spec: &str) -> Network {
    open(spec).unwrap_or_else(|why| panic!("{why}"))
}

fn read(text: &str) -> Network {
    parse("m.toml", text, &[]).unwrap_or_else(|why| panic!("{why}"))
}

fn way(n: &Network, from: Rank, to: Rank, lane: Lane) -> String {
    let mut ports = Vec::new();
    n.routes.route(from, to, lane, &mut ports).unwrap_or_else(|why| panic!("{why}"));
    ports.iter().map(|&p| n.ports[p as usize].name.as_str()).collect::<Vec<_>>().join(" ")
}

/// What is said about a file that is wrong.
fn wrong(text: &str) -> String {
    parse("m.toml", text, &[]).err().unwrap_or_else(|| panic!("this was accepted: {text}")).message.clone()
}

const WIRE: &str = "name = \"m\"\n[class.wire]\nbw = \"1GB/s\"\nlat = \"1us\"\n";

fn wired(rest: &str) -> String {
    format!("{WIRE}{rest}")
}

#[test]
fn every_preset_opens_and_has_a_way_between_any_two_places() {
    for &(name, text) in presets() {
        let n = network(name);
        assert_eq!(n.name, name);
        let machine = text.split("# As ").next().unwrap_or(text);
        assert!(machine.lines().count() <= 35, "{name} is long");
        let mut used = vec![false; n.ports.len()];
        for (from, to) in (0..n.shape.nranks()).flat_map(|a| (0..n.shape.nranks()).map(move |b| (a, b))) {
            for lane in 0..4 {
                let mut ports = Vec::new();
                n.routes.route(from, to, lane, &mut ports).unwrap_or_else(|why| panic!("{name}: {why}"));
                assert_eq!(ports.is_empty(), from == to, "{name} {from} {to}");
                ports.iter().for_each(|&p| used[p as usize] = true);
            }
        }
        let idle: Vec<&str> =
            n.ports.iter().zip(used).filter(|(_, u)| !u).map(|(p, _)| p.name.as_str()).collect();
        let alone = n.shape.nodes() == 1 && text.contains("\nnic = ");
        assert!(alone || idle.is_empty(), "{name}: no way passes {idle:?}");
    }
}

#[test]
fn port_names_are_unique() {
    for &(name, _) in presets() {
        let n = network(name);
        let mut names: Vec<&str> = n.ports.iter().map(|p| p.name.as_str()).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|w| w[0] != w[1]), "{name}");
    }
}

#[test]
fn the_published_rates_are_declared_exactly() {
    let rate = |spec: &str, class: &str| {
        let n = network(spec);
        n.classes.iter().find(|c| c.name == class).unwrap_or_else(|| panic!("{spec} has no {class}")).rate
    };
    assert_eq!(rate("dgx-h100", "nv18"), 370_800_000_000);
    assert_eq!(rate("dgx-h100", "leaf"), 48_500_000_000);
    for a100 in ["dgx-a100", "oci-a100"] {
        assert_eq!(rate(a100, "nv12"), 240_000_000_000);
        assert_eq!(rate(a100, "leaf"), 23_500_000_000);
    }
    for b200 in ["dgx-b200", "gb200-nvl72"] {
        assert_eq!(rate(b200, "nv18"), 721_800_000_000);
        assert_eq!(rate(b200, "leaf"), 48_500_000_000);
    }
    for efa in ["aws-p5", "aws-p6"] {
        assert_eq!(rate(efa, "efa"), 48_500_000_000);
    }
    assert_eq!(rate("mi300x", "xgmi"), 48_000_000_000);
    assert_eq!(rate("t3000", "eth"), 12_500_000_000);
    assert_eq!(rate("tpu-v5p", "ici"), 100_000_000_000);
}

#[test]
fn a_rail_takes_one_leaf_and_another_rail_the_spine() {
    let n = network("dgx-h100:nodes=2");
    assert_eq!((n.shape, n.name.as_str()), (Shape([8, 2, 1]), "dgx-h100:nodes=2"));
    assert_eq!(way(&n, 0, 7, 0), "n0.g0.nv.tx n0.g7.nv.rx");
    assert_eq!(way(&n, 3, 11, 5), "n0.g3.nic.tx n1.g3.nic.rx");
    assert_eq!(way(&n, 3, 12, 0), "n0.g3.nic.tx n0.g3.spine n1.g4.nic.rx");
    assert_eq!(way(&n, 5, 5, 0), "");
}

#[test]
fn a_superpod_has_the_switches_and_cables_of_its_reference_architecture() {
    // The published numbers of leaves, of spines where all of their 64 ports are taken or cores are above them, and of cables between switches.
    for (nodes, more, leaves, spines, cables) in [
        (32, "", 8, 32, vec![256]),
        (64, "", 16, 32, vec![512]),
        (128, "", 32, 32, vec![1024]),
        (256, "", 64, 32, vec![2048]),
        (256, ",oversubscription=2", 64, 16, vec![1024]),
        (512, "", 128, 128, vec![4096, 4096]),
        (1024, "", 256, 256, vec![8192, 8192]),
        (2048, "", 512, 512, vec![16384, 16384]),
        (512, ",oversubscription=2", 128, 64, vec![2048, 1024]),
        (512, ",oversubscription=[1,2:1]", 128, 128, vec![4096, 2048]),
    ] {
        let n = network(&format!("dgx-h100-superpod:nodes={nodes}{more}"));
        let cluster = n.routes.cluster().unwrap();
        let switches = cluster.switches();
        assert_eq!(switches[..2], [("leaf", leaves), ("spine", spines)], "{nodes}{more}");
        assert_eq!(switches.len(), cables.len() + 1);
        let links = |tier| cluster.uplinks(tier).len() / 2;
        assert_eq!((0..cables.len()).map(links).collect::<Vec<_>>(), cables, "{nodes}{more}");
    }
    let n = network("dgx-h100-superpod:nodes=33");
    assert_eq!(way(&n, 3, 251, 0), "n0.nic3.tx n31.nic3.rx");
    assert_eq!(way(&n, 3, 259, 0), "n0.nic3.tx leaf3.spine0.up leaf11.spine0.down n32.nic3.rx");
    let n = network("dgx-h100-superpod:nodes=257");
    assert_eq!(way(&n, 3, 259, 0), "n0.nic3.tx leaf3.spine0.up leaf11.spine0.down n32.nic3.rx");
    assert_eq!(
        way(&n, 3, 2051, 0),
        "n0.nic3.tx leaf3.spine0.up spine0.core3.up spine64.core3.down leaf67.spine64.down n256.nic3.rx"
    );
    let why = open("dgx-h100-superpod:nodes=8193").err().unwrap().message.clone();
    assert!(why.contains("core is the last tier and has 2 switches, which nothing joins"), "{why}");
    let why = open("dgx-h100-superpod:nodes=64,oversubscription=[1,2]").err().unwrap().message.clone();
    assert!(why.contains("2 proportions are listed, and 1 tiers have uplinks"), "{why}");
}

#[test]
fn a_message_of_a_slice_reaches_the_published_share_of_a_nic() {
    let n = network("dgx-h100");
    let nic = n.classes.iter().find(|c| c.name == "leaf").expect("a NIC");
    for slice in [1u64 << 19, 1 << 22] {
        let ps = nic.serialisation_ps(slice) + nic.gap_ps;
        let all_nics = 8.0 * slice as f64 / ps as f64 * 1000.0;
        assert!((387.5..=388.0).contains(&all_nics), "{slice} B a message: {all_nics} GB/s");
    }
}

#[test]
fn a_torus_wraps_and_goes_axis_by_axis() {
    let n = network("tpu-v4:shape=4x4x4");
    assert_eq!(way(&n, 0, 3, 0), "g0.x-");
    assert_eq!(way(&n, 3, 0, 0), "g3.x+");
    assert_eq!(way(&n, 0, 1 + 4 + 16, 0), "g0.x+ g1.y+ g5.z+");
    assert_eq!(way(&n, 0, 2, 0), "g0.x+ g1.x+");
    assert_eq!(way(&n, 0, 2, 1), "g0.x- g3.x-");
    assert_eq!(n.ports.len(), 64 * 6);
    assert_eq!(network("tpu-v4:shape=4x2x1").ports.len(), 8 * 4);
}

#[test]
fn a_mesh_does_not_wrap_and_lanes_choose_links() {
    let n = network("t3000");
    assert_eq!(n.shape, Shape([2, 4, 1]));
    assert_eq!(n.ports.len(), 10 * 2 * 2);
    assert_eq!(way(&n, 0, 7, 0), "g0.x+.0 g1.y+.0 g3.y+.0 g5.y+.0");
    assert_eq!(way(&n, 7, 0, 3), "g7.x-.1 g6.y-.1 g4.y-.1 g2.y-.1");
    assert_eq!(network("galaxy").ports.len(), 52 * 2 * 4);
}

#[test]
fn rings_and_lines_have_one_axis() {
    assert_eq!(way(&read(&wired("[ring]\nshape = \"5\"\nlink = \"wire\"")), 0, 3, 0), "g0.x- g4.x-");
    assert_eq!(way(&read(&wired("[line]\nshape = \"5\"\nlink = \"wire\"")), 0, 3, 0), "g0.x+ g1.x+ g2.x+");
}

#[test]
fn powers_of_two_hold_sends_to_one_axis() {
    let n = network("tpu-v5e:shape=8x8,direct=powers_of_two");
    assert_eq!(way(&n, 0, 4, 0).split(' ').count(), 4);
    assert_eq!(way(&n, 0, 7, 0), "g0.x-");
    for to in [3, 9] {
        let why = n.routes.route(0, to, 0, &mut Vec::new()).expect_err("no direct way");
        assert!(why.contains(&format!("place {to}")) && why.contains("direct=any"), "{why}");
    }
}

#[test]
fn the_shortest_way_over_edges_takes_the_lowest_place() {
    let n = network("dgx-1v");
    assert_eq!(n.ports.len(), 24 * 2, "6 links at each of 8 places, one port a direction");
    assert_eq!(way(&n, 0, 3, 0), "g0.g3.0");
    assert_eq!(way(&n, 0, 3, 1), "g0.g3.1");
    assert_eq!(way(&n, 0, 5, 0), "g0.g1 g1.g5.0");
    assert_eq!(way(&n, 7, 0, 0), "g7.g3 g3.g0.0");
}

#[test]
fn an_override_changes_the_ports_it_names() {
    let n = read(&wired(
        "[switch]\nplaces = 4\nport = \"wire\"\n[[override]]\nlink = \"g1.*\"\nbw = \"0.5x\"\n[[override]]\nlink = \"*.rx\"\nlat = \"3us\"",
    ));
    let of = |name: &str| n.class(n.ports.iter().position(|p| p.name == name).expect("a port") as PortId);
    assert_eq!((of("g0.tx").rate, of("g0.tx").latency_ps), (1_000_000_000, 1_000_000));
    assert_eq!((of("g1.tx").rate, of("g1.tx").latency_ps), (500_000_000, 1_000_000));
    assert_eq!((of("g1.rx").rate, of("g1.rx").latency_ps), (500_000_000, 3_000_000));
    assert_eq!(of("g1.rx").name, "wire, override 1, override 2");
    assert!(matrix(&n).lines().nth(1).is_some_and(|row| row.contains("WIRE")), "{}", matrix(&n));
}

#[test]
fn a_class_says_all_that_it_was_told() {
    let text = "name = \"m\"\n[class.w]\nbw = \"100Gb/s\"\neff = 0.5\nlat = \"1us\"\npost = \"2ns\"\ngap = \"3ps\"\nmtu = \"1KiB\"\n\
                hdr = \"50B\"\ncredits = 7\nstore_and_forward = true\n[switch]\nplaces = 2\nport = \"w\"";
    let class = Class {
        in_switch: None,
        lane_rate: 0,
        lane_piece: 0,
        name: "w".into(),
        rate: 6_250_000_000,
        line_rate: 12_500_000_000,
        latency_ps: 1_000_000,
        post_ps: 2_000,
        gap_ps: 3,
        least_hold_ps: 0,
        mtu: 1024,
        header: 50,
        store_and_forward: true,
        credits: 7,
        mover: None,
    };
    assert_eq!(read(text).classes, [class]);
}

#[test]
fn what_is_wrong_is_said_with_its_line_and_the_remedy() {
    let cases = [
        ("name = \"m\"\nname = \"n\"\n", "m.toml:2: duplicate key"),
        ("name = [\n", "m.toml:"),
        (
            "nam = \"m\"",
            "m.toml:1: the file has no key `nam` (did you mean name?); it has name, class, override, load, fault, placement, arb, slice, launch, protocol, mailbox, mover, device, switch, nodes, ring",
        ),
        ("", "m.toml:1: the file has no `name`; add one such as name = "),
        (
            "name = \"m\"",
            "m.toml:1: the file declares no class; add one such as [class.wire] with bw and lat",
        ),
        ("name = \"m\"\nclass = 3", "m.toml:2: [class] is not a table"),
        (
            "name = \"m\"\n[class.w]\nbw = \"1GB/s\"",
            "m.toml:2: [class.w] has no `lat`; add one such as lat = ",
        ),
        (
            "name = \"m\"\n[class.w]\nbw = \"1GB/s\"\nlag = \"1us\"",
            "m.toml:4: [class.w] has no key `lag` (did you mean lat?); it has bw, eff,",
        ),
        (
            "name = \"m\"\n[class.w]\nbw = 450\nlat = \"1us\"",
            "m.toml:3: bw: `450` has no unit; write it like 450GB/s",
        ),
        (
            "name = \"m\"\n[class.w]\nbw = \"450GHz\"",
            "m.toml:3: bw: `450GHz` has a unit that is not known here",
        ),
        ("name = \"m\"\n[class.w]\nbw = [1]\n", "m.toml:3: bw: this is a list"),
        (
            "name = \"m\"\n[class.w]\nbw = \"0GB/s\"",
            "m.toml:3: bw: nothing passes at 0 bytes a second; write more",
        ),
        ("name = \"m\"\n[class.w]\nbw = \"1GB/s\"\neff = 1.5", "m.toml:4: eff: write a part of the whole"),
        (
            "name = \"m\"\n[class.w]\nbw = \"1GB/s\"\nlat = \"1s\"\nstore_and_forward = 1",
            "m.toml:5: store_and_forward: `1` is neither true nor false",
        ),
    ];
    for (text, said) in cases {
        assert!(wrong(text).starts_with(said), "{text}\nsays: {}", wrong(text));
    }
}

#[test]
fn what_is_wrong_in_a_shape_is_said_with_its_line_and_the_remedy() {
    let cases = [
        ("", "m.toml:1: the file declares no shape; add one of [switch], [nodes], [ring]"),
        (
            "[ring]\nshape=\"3\"\nlink=\"wire\"\n[switch]",
            "m.toml:5: [ring] is a second shape beside [switch]; keep one",
        ),
        ("[switch]\nplaces = 0", "m.toml:6: places: `0` is not a whole number from 1 to 1048576; write one"),
        (
            "[switch]\nplaces = 2\nport = \"x\"",
            "m.toml:7: port: there is no class `x`; declare [class.x] or use one of wire",
        ),
        ("[nodes]\nplaces = 8", "m.toml:5: [nodes] has no `nodes`; add one such as nodes = 1"),
        (
            "[torus]\nshape = \"4xx\"\nlink = \"wire\"",
            "m.toml:6: shape: `4xx` is not a grid; write its extents like 4x8",
        ),
        ("[torus]\nshape = \"2x2x2x2\"", "m.toml:6: shape: `2x2x2x2` has 4 axes; write at most 3 axes"),
        ("[ring]\nshape = \"2x2\"", "m.toml:6: shape: `2x2` has 2 axes; write at most 1 axis"),
        (
            "[mesh]\nshape = \"9999x9999x9999\"",
            "m.toml:6: shape: `9999x9999x9999` has more than 1048576 places; write fewer",
        ),
        (
            "[mesh]\nshape = \"2\"\nlink = \"wire\"\ndirect = \"no\"",
            "m.toml:8: direct: `no` is not known here; write any or",
        ),
        (
            "[edges]\nplaces = 3\nwire = [[0, 1]]",
            "m.toml:5: [edges] have no way from place 2 to place 0; add an edge",
        ),
        (
            "[edges]\nplaces = 3\nwire = [[0, 1],\n[1, 3]]",
            "m.toml:8: the edge [1, 3] does not join two places of 0..3",
        ),
        (
            "[edges]\nplaces = 3\nwire = [[0, 1],\n[1, 0]]",
            "m.toml:8: the edge [1, 0] is there twice; write [1, 0, 2]",
        ),
        ("[edges]\nplaces = 3\nwire = [[0, 1, 0]]", "m.toml:7: the edge [0, 1] has 0 links; write 1 to 64"),
        (
            "[edges]\nplaces = 3\nwire = [\"a\"]",
            "m.toml:7: an edge is two places and perhaps a number of links",
        ),
        (
            "[edges]\nplaces = 3\nfibre = [[0, 1]]",
            "m.toml:7: [edges] has no key `fibre`; it has places, wire",
        ),
        (
            "[switch]\nplaces = 2\nport = \"wire\"\n[[override]]\nlink = \"g9.tx\"",
            "m.toml:9: link: no port is called `g9.tx`; names are like g0.tx",
        ),
        (
            "[switch]\nplaces = 2\nport = \"wire\"\n[[override]]\nlink = \"g1.tx\"\nbw = \"0x\"",
            "m.toml:8: [[override]] leaves a link of 0 bytes a second; write more",
        ),
        (
            "[switch]\nplaces = 2\nport = \"wire\"\n[[override]]\nlink = \"g1.tx\"\nbw = \"half\"",
            "m.toml:10: bw: `half` does not begin with a number",
        ),
    ];
    for (rest, said) in cases {
        let why = wrong(&wired(rest));
        assert!(why.starts_with(said), "{rest}\nsays: {why}");
    }
}

#[test]
fn what_is_wrong_in_a_spec_is_said_with_what_there_is() {
    let said = |spec: &str| open(spec).err().unwrap_or_else(|| panic!("{spec} was accepted")).message.clone();
    assert!(said("dgx").starts_with(
        "there is no machine `dgx`; give a file such as ./dgx.toml, or one of dgx-h100, dgx-a100"
    ));
    assert!(said("./none.toml").starts_with("./none.toml: cannot be read"));
    assert!(said("dgx-h100:nodes").contains("`nodes` is no argument; write it like nodes=2"));
    assert!(
        said("dgx-h100:racks=2")
            .starts_with("dgx-h100: [nodes] takes no argument `racks`; it takes places, nodes")
    );
    assert!(
        said("dgx-h100:nodes=no").starts_with("dgx-h100: the argument nodes: `no` is not a whole number")
    );
    assert!(said("tpu-v4:nodes=2").contains("takes no argument `nodes`; it takes shape, link"));
}

#[test]
fn a_file_is_opened_by_its_path() {
    let path = format!("{}/src/topology/presets/n300.toml", env!("CARGO_MANIFEST_DIR"));
    assert_eq!(network(&path).ports.len(), 4);
    assert_eq!(network(&format!("{path}:shape=4")).shape, Shape([4, 1, 1]));
}

#[test]
fn a_hundred_thousand_places_are_built() {
    let n = network("dgx-h100:nodes=12500");
    assert_eq!((n.shape.nranks(), n.ports.len()), (100_000, 500_000));
    assert_eq!(way(&n, 0, 99_999, 0), "n0.g0.nic.tx n0.g0.spine n12499.g7.nic.rx");
    let many = open("tpu-v4:shape=128x128x64,links=64").err().expect("too many");
    assert!(many.message.contains("[torus] may have more than 16777216 ports; write fewer"), "{many}");
    let torus = network("tpu-v4:shape=64x64x24");
    assert_eq!(way(&torus, 0, 64 * 64 * 24 - 1, 0), "g0.x- g63.y- g4095.z-");
}

#[test]
fn the_matrix_names_the_kinds_of_ways() {
    let text = matrix(&network("dgx-h100:nodes=2,places=2"));
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["0", "1", "2", "3"]);
    assert_eq!(rows[1], ["0", "X", "NV18", "LEAF", "LEAF+SPINE"]);
    assert!(text.lines().all(|line| line.len() == text.find('\n').unwrap_or_default()), "{text}");
    let text = matrix(&network("tpu-v5e:shape=4x1,direct=powers_of_two"));
    assert!(text.contains("ICIx2"), "{text}");
}
