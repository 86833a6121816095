//! Other programs' descriptions of machines, from the file to a priced collective, and back.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use penny::sim::topology::{self, Network};
use penny_cli::foreign::{File, Format, import, nccl_export};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign")
}

/// The TOML that files of the folder become.
fn imported(names: &[&str]) -> String {
    let texts: Vec<String> =
        names.iter().map(|name| std::fs::read_to_string(folder().join(name)).unwrap()).collect();
    let files: Vec<File> = names.iter().zip(&texts).map(|(name, text)| File { name, text }).collect();
    import(&files, None).unwrap_or_else(|why| panic!("{why}"))
}

fn network(names: &[&str]) -> Network {
    topology::parse("imported.toml", &imported(names), &[]).unwrap_or_else(|why| panic!("{why}"))
}

fn rate(network: &Network, class: &str) -> u64 {
    network.classes.iter().find(|c| c.name == class).unwrap_or_else(|| panic!("no class {class}")).rate
}

/// What is said of a text that is wrong.
fn wrong(text: &str, from: Option<Format>) -> String {
    import(&[File { name: "m", text }], from).expect_err("this was accepted")
}

fn penny(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_penny")).args(arguments).current_dir(folder()).output().unwrap()
}

fn answer(arguments: &[&str]) -> String {
    let output = penny(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Every file of the folder that is a machine, with what goes with it.
const MACHINES: [&[&str]; 16] = [
    &["two-port-nics.xml"],
    &["wired-gpus.xml"],
    &["devices-only.xml"],
    &["topo-m-h100.txt"],
    &["topo-m-h100.txt", "ibstatus-h100.txt"],
    &["ibstatus-h100.txt", "topo-m-h100.txt"],
    &["topo-m-bridges.txt"],
    &["topo-m-pcie.txt"],
    &["t3000-flow.yaml"],
    &["t3000-block-empty-chips.yaml"],
    &["blackhole-sparse-ids.yaml"],
    &["ring.yml"],
    &["torus.yml"],
    &["switches.yml"],
    &["fully-connected.yml"],
    &["mixed.yml"],
];

#[test]
fn every_import_can_be_checked_shown_drawn_and_priced() {
    let place = tempfile::tempdir().unwrap();
    let machine = place.path().join("machine.toml");
    let machine = machine.to_str().unwrap();
    for files in MACHINES {
        let text = answer(&[&["topo", "import"], files].concat());
        std::fs::write(machine, text).unwrap();
        assert!(answer(&["topo", "check", machine]).contains("places"), "{files:?}");
        assert!(answer(&["topo", "show", machine]).lines().count() > 2, "{files:?}");
        assert!(answer(&["topo", "draw", machine]).contains("</svg>"), "{files:?}");
        let priced = answer(&["sim", "all_reduce", "--fabric", machine, "-b", "1M", "--json"]);
        let row: serde_json::Value = serde_json::from_str(&priced).unwrap();
        assert!(row["time_ps"].as_u64().unwrap() > 0, "{files:?}");
    }
}

#[test]
fn every_number_that_the_file_does_not_hold_is_marked() {
    // What these files hold, as it is written in the machine's file.
    let held = [
        "400Gb/s",
        "50GB/s",
        "500ns",
        "200GB/s",
        "50ns",
        "100GB/s",
        "500ps",
        "400GB/s",
        "300ns",
        "46.3GB/s",
        "1.5us",
        "25GB/s",
        "700ns",
        "31.507GB/s",
        "2us",
    ];
    for files in MACHINES {
        for line in imported(files).lines() {
            let Some((key, value)) = line.split_once(" = ") else { continue };
            let physics = ["bw", "eff", "lat", "mtu", "hdr", "post", "gap"].contains(&key);
            let known = held.iter().any(|text| value.starts_with(&format!("\"{text}\"")));
            assert!(!physics || known || value.contains("# guessed"), "{files:?}: {line}");
        }
    }
    // A rate that two importers read from their files and a third has to guess.
    assert!(imported(&["topo-m-h100.txt"]).contains("bw = \"400Gb/s\"         # guessed"));
    assert!(
        !imported(&["topo-m-h100.txt", "ibstatus-h100.txt"]).contains("bw = \"400Gb/s\"         # guessed")
    );
    assert!(!imported(&["two-port-nics.xml"]).contains("bw = \"400Gb/s\"         # guessed"));
}

#[test]
fn two_ports_of_a_nic_add_up_and_a_lying_upper_switch_caps_nothing() {
    let node = network(&["two-port-nics.xml"]);
    assert_eq!(node.shape.0, [8, 1, 1]);
    assert_eq!(rate(&node, "nv18"), 370_800_000_000);
    // 400 Gb/s at the efficiency of 200 Gb/s ports.
    assert_eq!(rate(&node, "nic"), 47_000_000_000);
    // The same file with a NIC's own link that is believable and slow: 8 GT/s, 16 lanes.
    let text = std::fs::read_to_string(folder().join("two-port-nics.xml")).unwrap();
    let slow = text.replace("device=\"0x101e\" link_speed=\"32.0", "device=\"0x101e\" link_speed=\"8.0");
    let slow = import(&[File { name: "slow.xml", text: &slow }], None).unwrap();
    assert!(slow.contains("bw = \"15.753GB/s\""), "{slow}");
    // A network's plugin that knows its latency is believed.
    let told = text.replace("latency=\"0.000000\"", "latency=\"5.0\"");
    let told = import(&[File { name: "told.xml", text: &told }], None).unwrap();
    assert!(told.contains("lat = \"2.5us\"          # half of the file's"), "{told}");
}

#[test]
fn gpus_that_are_wired_to_each_other_are_the_preset_of_that_machine() {
    let (node, preset) = (network(&["wired-gpus.xml"]), topology::open("dgx-1v").unwrap());
    let names = |network: &Network, nic: bool| -> Vec<String> {
        let ports = network.ports.iter().map(|port| port.name.trim_start_matches("n0.").to_owned());
        ports.filter(|name| name.contains(".nic.") == nic).collect()
    };
    assert_eq!(names(&node, false), names(&preset, false));
    assert_eq!(rate(&node, "nv"), rate(&preset, "nv"));
    // Its NICs are kept: two GPUs share one, and other nodes are reached over them.
    assert_eq!(names(&node, true).len(), 16);
    let two = topology::parse("m.toml", &imported(&["wired-gpus.xml"]), &[("nodes".into(), "2".into())]);
    assert_eq!(two.unwrap().shape.0, [8, 2, 1]);
}

#[test]
fn a_matrix_with_ibstatus_is_a_node_of_eight_whose_storage_nics_are_left_out() {
    let text = imported(&["topo-m-h100.txt", "ibstatus-h100.txt"]);
    assert!(
        text.contains("NICs that are down: mlx5_9.") && text.contains("nearest to no GPU: mlx5_8."),
        "{text}"
    );
    let (node, preset) =
        (network(&["topo-m-h100.txt", "ibstatus-h100.txt"]), topology::open("dgx-h100").unwrap());
    assert_eq!(node.shape, preset.shape);
    for (ours, theirs) in [("nv18", "nv18"), ("nic", "leaf")] {
        assert_eq!(rate(&node, ours), rate(&preset, theirs));
    }
}

#[test]
fn bridged_pairs_keep_their_nvlinks_and_meet_over_pcie() {
    let node = network(&["topo-m-bridges.txt"]);
    let names: Vec<&str> = node.ports.iter().map(|port| port.name.as_str()).collect();
    assert!(
        names.contains(&"n0.g0.g1.3") && names.contains(&"n0.g0.g2") && !names.contains(&"n0.g0.g2.1"),
        "{names:?}"
    );
    let pcie = network(&["topo-m-pcie.txt"]);
    // One NIC for two GPUs: half of a guessed 100 Gb/s for each.
    assert_eq!(rate(&pcie, "nic"), 5_875_000_000);
}

#[test]
fn both_styles_of_a_descriptor_are_one_machine_and_chips_may_be_empty() {
    let (flow, block) = (network(&["t3000-flow.yaml"]), network(&["t3000-block-empty-chips.yaml"]));
    // The one with coordinates is a mesh, and the preset; the other has the same links, edge by edge.
    assert_eq!((flow.ports.len(), &flow.classes), (block.ports.len(), &block.classes));
    let preset = topology::open("t3000").unwrap();
    assert_eq!(
        (&flow.ports, flow.shape, rate(&flow, "eth")),
        (&preset.ports, preset.shape, rate(&preset, "eth"))
    );
    let bare = std::fs::read_to_string(folder().join("t3000-flow.yaml")).unwrap();
    let (head, rest) = bare.split_once("chips: {").unwrap();
    let bare = format!("{head}chips: {{}}\n{}", rest.split_once('}').unwrap().1);
    let bare = import(&[File { name: "bare.yaml", text: &bare }], None).unwrap();
    assert_eq!(topology::parse("m.toml", &bare, &[]).unwrap().ports, block.ports);
    let sparse = imported(&["blackhole-sparse-ids.yaml"]);
    assert!(
        sparse.contains("Places in order are chips 10, 11, 12, 13.") && sparse.contains("other hosts (1)")
    );
}

#[test]
fn networks_of_astra_sim_keep_their_numbers() {
    let torus = network(&["torus.yml"]);
    let class =
        |name: &str| torus.class(torus.ports.iter().position(|port| port.name == name).unwrap() as u32);
    assert_eq!((class("g0.x+").rate, class("g0.x+").latency_ps), (200_000_000_000, 50_000));
    assert_eq!((class("g0.y-").rate, class("g0.y-").latency_ps), (100_000_000_000, 500));
    let switches = network(&["switches.yml"]);
    assert_eq!((switches.shape.0, rate(&switches, "axis2")), ([8, 4, 1], 46_300_000_000));
    let mixed = network(&["mixed.yml"]);
    let way = |from: u32, to: u32| {
        let mut ports = Vec::new();
        mixed.routes.route(from, to, 0, &mut ports).expect("a way");
        ports.iter().map(|&port| mixed.ports[port as usize].name.clone()).collect::<Vec<_>>().join(" ")
    };
    // Two by eight by four: along the ring of two, straight to the seventh, through the switch.
    assert_eq!(way(0, 1 + 2 * 7 + 16 * 3), "g0.x+ g1.y.7 g15.z.tx g63.z.rx");
    assert_eq!((rate(&mixed, "axis1"), rate(&mixed, "axis2")), (200_000_000_000, 100_000_000_000));
    for (blocks, what) in [
        ("Ring, Switch, Ring, Switch", "of 4 axes; a machine's file has up to three"),
        (
            "Switch, Tree, Ring",
            "has an axis `Tree`, which is not known here; write Ring, Switch or FullyConnected",
        ),
    ] {
        let axes = blocks.split(',').count();
        let list = |value: &str| vec![value; axes].join(", ");
        let text = format!(
            "topology: [ {blocks} ]\nnpus_count: [ {} ]\nbandwidth: [ {} ]\nlatency: [ {} ]\n",
            list("2"),
            list("50.0"),
            list("500.0")
        );
        assert!(wrong(&text, None).contains(what), "{}", wrong(&text, None));
    }
}

#[test]
fn a_node_goes_to_nccl_xml_and_comes_back() {
    for (machine, pairs) in [
        ("dgx-h100:nodes=2", &[("nv18", "nv18"), ("leaf", "nic")][..]),
        ("dgx-a100", &[("nv12", "nv12"), ("leaf", "nic")][..]),
        ("dgx-1v", &[("nv", "nv")][..]),
    ] {
        let before = topology::open(machine).unwrap();
        let xml = nccl_export::write(&before).unwrap();
        assert_eq!(xml, answer(&["topo", "export", machine, "--format", "nccl-xml"]));
        let text = import(&[File { name: "node.xml", text: &xml }], None).unwrap();
        let after = topology::parse("node.toml", &text, &[]).unwrap();
        assert_eq!((after.shape.per_node(), after.shape.nodes()), (8, 1), "{machine}");
        for (old, new) in pairs {
            assert_eq!(rate(&before, old), rate(&after, new), "{machine} {old}");
        }
        if machine == "dgx-1v" {
            assert_eq!(before.ports, after.ports);
        }
        // And what came back goes out again as the same file, but for the machine's name.
        let again = nccl_export::write(&after).unwrap();
        assert!(again.lines().skip(1).eq(xml.lines().skip(1)), "{again}");
    }
    let output = penny(&["topo", "export", "t3000", "--format", "nccl-xml"]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("t3000: NCCL's XML holds GPUs of a node"));
}

#[test]
fn what_is_malformed_is_answered_with_file_line_and_remedy() {
    let cases = [
        ("<system>\n<cpu>\n</system>", "m:3: cannot be read as XML"),
        ("\n\n<graph/>", "m:3: begins with <graph>"),
        ("<system/>", "m: names no GPU"),
        ("<system><cpu><gpu sm=\"ninety\"/></cpu></system>", "m:1: sm=\"ninety\" is no number"),
        (
            "<system><gpu>\n<nvlink target=\"x\" count=\"0\"/></gpu></system>",
            "m:2: has no count from 1 to 64",
        ),
        ("<!DOCTYPE s [<!ENTITY a \"b\">]><system>&a;</system>", "m:1: cannot be read as XML"),
        ("GPU0 GPU1\nGPU0 X NV18\nGPU1 NV17 X", "says different things of GPU"),
        ("GPU0 GPU1\nGPU0 X", "m:2: has 1 cells for 2 columns"),
        ("GPU0 GPU1\nGPU0 X NVX\n", "m:2: has `NVX`"),
        ("GPU0 GPU1\nGPU0 X PIX\n", "m: has no row GPU1"),
        ("ethernet_connections: [[{chip: 0}]]", "m:1: is no link"),
        ("ethernet_connections: []", "names no chip"),
        (
            "arch: {0: a, 1: a, 2: a}\nethernet_connections: [[{chip: 0, chan: 0}, {chip: 1, chan: 0}]]",
            "m:2: gives no way from chip 0 to chip 2",
        ),
        (
            "topology: [ Ring ]\nnpus_count: [ 8, 8 ]\nbandwidth: [ 1 ]\nlatency: [ 1 ]",
            "m:2: npus_count has 2 values",
        ),
        (
            "topology: [ Ring ]\nnpus_count: [ 8 ]\nbandwidth: [ fast ]\nlatency: [ 1 ]",
            "m:3: is no bandwidth",
        ),
        ("topology: [ Ring ]\nbandwith: [ 8 ]", "m:2: `bandwith` is not known here"),
        ("Infiniband device 'a' port 1 status:", "has no machine in it"),
        ("hello", "is none of the formats"),
    ];
    for (text, what) in cases {
        let why = wrong(text, None);
        assert!(why.contains(what), "{text}\n  gives {why}");
        assert!(why.starts_with("m:") && why.contains([';', ',']) && !why.contains('\n'), "{why}");
    }
    assert!(wrong("<system/>", Some(Format::TtUmd)).starts_with("m:1: "));
}

#[test]
fn what_would_fill_the_memory_is_refused() {
    let many = format!("<system>{}</system>", "<gpu/>".repeat(100_000));
    assert!(wrong(&many, None).contains("cannot be read as XML"));
    let deep = format!("<system>{}", "<pci>".repeat(30_000));
    assert!(wrong(&deep, None).starts_with("m:1: "));
    let chips = format!(
        "ethernet_connections: [{}]",
        (0..600).fold(String::new(), |text, chip| {
            text + &format!("[{{chip: {chip}, chan: 0}}, {{chip: {}, chan: 1}}],", chip + 1)
        })
    );
    assert!(wrong(&chips, None).contains("beyond 512 chips"));
    assert!(wrong(&" ".repeat(9 << 20), None).contains("larger than 8 MiB"));
    let wide = format!("{}\n", (0..3000).fold(String::new(), |text, gpu| text + &format!("GPU{gpu} ")));
    assert!(wrong(&wide, None).contains("too many columns"));
}
