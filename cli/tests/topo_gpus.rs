//! Nodes of GPUs in files that say little, or say it in AMD's words, and Tenstorrent's chips; and what is told of what is left out.

use penny::sim::topology::{self, Network};
use penny_cli::foreign::{File, Hints, import, import_with};

fn imported(name: &str, text: &str) -> String {
    import(&[File { name, text }], None).unwrap_or_else(|why| panic!("{why}"))
}

fn network(text: &str) -> Network {
    topology::parse("imported.toml", text, &[]).unwrap_or_else(|why| panic!("{why}\n{text}"))
}

fn rate(network: &Network, class: &str) -> u64 {
    network.classes.iter().find(|c| c.name == class).unwrap_or_else(|| panic!("no class {class}")).rate
}

/// A line of the head that holds all of these words.
fn told(text: &str, words: &[&str]) {
    let found =
        text.lines().any(|line| line.starts_with("# ") && words.iter().all(|word| line.contains(word)));
    assert!(found, "no line with {words:?} in\n{text}");
}

/// Four of AMD's GPUs in a square with a doubled side, two of them beside a NIC of this speed.
fn square(speed: &str, gcn: &str) -> String {
    let gpu = |number: usize, links: &[(usize, u32)]| {
        let links = links.iter().map(|(to, count)| {
            format!("<xgmi target=\"0000:{to:02x}:00.0\" count=\"{count}\" tclass=\"0x038000\"/>")
        });
        format!(
            "<pci busid=\"0000:{number:02x}:00.0\" class=\"0x038000\" vendor=\"0x1002\" device=\"0x7408\" \
             link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"{number}\" sm=\"104\" gcn=\"{gcn}\" arch=\"38911\" \
             rank=\"{number}\" gdr=\"1\">{}</gpu></pci>\n",
            links.collect::<String>()
        )
    };
    let nic = |number: usize| {
        format!(
            "<pci busid=\"0000:a{number}:00.0\" class=\"0x020000\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"><nic>\
             <net name=\"cxi{number}\" dev=\"{number}\" speed=\"{speed}\" port=\"1\"/></nic></pci>\n"
        )
    };
    format!(
        "<system version=\"2\"><cpu numaid=\"0\" arch=\"x86_64\">\n{}{}{}</cpu><cpu numaid=\"1\" arch=\"x86_64\">\n{}{}{}\
         <nic><net name=\"veth12ab\" dev=\"7\" speed=\"10000\" port=\"0\"/></nic></cpu></system>\n",
        gpu(0, &[(1, 4), (2, 1)]),
        gpu(1, &[(0, 4), (3, 1)]),
        nic(0),
        gpu(2, &[(0, 1), (3, 4)]),
        gpu(3, &[(1, 1), (2, 4)]),
        nic(1),
    )
}

#[test]
fn amds_links_are_wires_with_their_own_rates_and_the_nics_stay() {
    for (gcn, payload, line) in [
        ("910", 36_000_000_000, "published for gfx90a"),
        ("gfx942", 48_000_000_000, "published for gfx942"),
        ("906", 24_012_000_000, "published for gfx906"),
    ] {
        let text = imported("node.xml", &square("200000", gcn));
        let node = network(&text);
        assert_eq!(rate(&node, "xgmi"), payload, "{text}");
        assert!(text.contains("RCCL's topology XML") && text.contains(line), "{text}");
        let names: Vec<&str> = node.ports.iter().map(|port| port.name.as_str()).collect();
        assert!(names.contains(&"n0.g0.g1.3") && names.contains(&"n0.g0.g2"), "{names:?}");
        assert!(!names.contains(&"n0.g0.g2.1") && !names.contains(&"n0.g0.g3"), "{names:?}");
        // One of two NICs is nearest to two GPUs: half of 200 Gb/s at 0.94 for each.
        assert_eq!(rate(&node, "nic"), 11_750_000_000);
        told(&text, &["bridges or pairs within the host", "veth12ab"]);
    }
    let unknown = imported("node.xml", &square("200000", "gfx1200"));
    assert!(unknown.contains("# guessed: of GPUs that are not known here, so as gfx942"), "{unknown}");
}

#[test]
fn speeds_a_thousand_times_too_high_are_read_as_such_and_told_and_others_refused() {
    let text = imported("node.xml", &square("200000000", "910"));
    assert_eq!(rate(&network(&text), "nic"), 11_750_000_000);
    told(&text, &["read as kb/s", "guessed", "cxi0, cxi1"]);
    let file = File { name: "m.xml", text: &square("200000000000", "910") };
    let why = import(&[file], None).expect_err("no NIC has this");
    assert!(why.starts_with("m.xml:4: has a speed that no NIC has"), "{why}");
}

/// GPUs and NICs as cloud providers list them; `attributes` are those of the GPUs.
fn devices(gpus: usize, attributes: &str) -> String {
    let pair = |number: usize| {
        format!(
            "<pci busid=\"ffff:ff:0{number}.0\" class=\"0x060400\">\
             <pci busid=\"000{number}:00:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\" {attributes}/>\
             <pci busid=\"010{number}:00:00.0\" class=\"0x020700\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"/></pci>\n"
        )
    };
    format!("<system><cpu numaid=\"0\">{}</cpu></system>", (0..gpus).map(pair).collect::<String>())
}

#[test]
fn nvlinks_that_a_list_of_devices_lacks_are_those_of_the_preset_and_marked() {
    for (name, attributes, class, preset, why) in [
        ("ndv5-topo.xml", "", "nv18", "dgx-h100", "`ndv5` in the file's name"),
        ("ndv4.xml", "", "nv12", "dgx-a100", "`ndv4` in the file's name"),
        ("node.xml", "vendor=\"0x10de\" device=\"0x2330\"", "nv18", "dgx-h100", "PCI id 10de:2330"),
        ("node.xml", "vendor=\"0x10de\" device=\"0x20b2\"", "nv12", "dgx-a100", "PCI id 10de:20b2"),
        ("node.xml", "vendor=\"0x10de\" device=\"0x2901\"", "nv18", "dgx-b200", "PCI id 10de:2901"),
    ] {
        let text = imported(name, &devices(8, attributes));
        told(&text, &["has no NVLinks", why, preset, "guessed"]);
        let (node, like) = (network(&text), topology::open(preset).unwrap());
        assert_eq!((rate(&node, class), node.shape), (rate(&like, class), like.shape));
        assert_eq!(rate(&node, "nic"), rate(&like, "leaf"), "{text}");
        // Switches that copy and sum are known by the generation of their links.
        let of_all = |machine: &topology::Network| machine.in_switch(&[0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(of_all(&node), of_all(&like), "{text}");
        let part = |machine: &topology::Network| {
            machine.classes.iter().find(|known| known.name == class).map(|known| known.in_switch)
        };
        assert_eq!(part(&node), part(&like), "{text}");
    }
    let v100 = imported("ndv2-topo.xml", &devices(8, ""));
    assert!(v100.contains("# guessed: GPU, GPU, links where"), "{v100}");
    let cube: Vec<String> = topology::open("dgx-1v").unwrap().ports.iter().map(|p| p.name.clone()).collect();
    let node = network(&v100);
    let wires = node.ports.iter().filter(|port| !port.name.contains("nic"));
    assert!(
        wires.map(|port| port.name.trim_start_matches("n0.")).eq(cube.iter().map(String::as_str)),
        "{v100}"
    );
}

#[test]
fn gpus_that_nobody_names_reach_each_other_over_pcie_until_the_user_names_them() {
    let text = devices(8, "");
    let plain = imported("node.xml", &text);
    told(&plain, &["neither PCI ids nor its name", "over PCIe: guessed", "--gpu"]);
    assert!(plain.contains("[class.pcie]") && !plain.contains("nv18"), "{plain}");
    let with = |gpu| {
        import_with(&[File { name: "node.xml", text: &text }], Hints { gpu: Some(gpu), ..Hints::default() })
    };
    assert!(with("h100").unwrap().contains("[class.nv18]"));
    let why = with("h1000").unwrap_err();
    assert!(why.contains("--gpu h1000: no such GPU is known here; there are v100, a100"), "{why}");
    let amd = text.replace("width=\"16\" />", "width=\"16\" vendor=\"0x1002\" device=\"0x74a1\"/>");
    let why =
        import_with(&[File { name: "m.xml", text: &amd }], Hints { gpu: Some("h100"), ..Hints::default() });
    assert!(why.unwrap_err().contains("describes other GPUs than the H100 SXM that --gpu says"));
    // PCI ids of GPUs without NVLinks, and a dump, which would list the links that there are.
    let a10 = imported("node.xml", &devices(8, "vendor=\"0x10de\" device=\"0x2237\""));
    told(&a10, &["GPUs are A10G by PCI id 10de:2237", "over PCIe: guessed"]);
    let dump = devices(2, "vendor=\"0x10de\" device=\"0x2330\"")
        .replace("2330\"/>", "2330\"><gpu dev=\"0\" sm=\"90\"/></pci>");
    told(&imported("h100.xml", &dump), &["The file lists no NVLinks between GPUs", "over PCIe."]);
}

#[test]
fn nothing_in_an_xml_is_passed_over_in_silence() {
    let text = "<system version=\"1\" colour=\"red\"><cpu numaid=\"0\" host_hash=\"0x1\">\
        <pci busid=\"a\" class=\"0x030200\" link_speed=\"8 GT/s\" link_width=\"16\"><gpu dev=\"0\" sm=\"90\">\
        <nvlink target=\"b\" count=\"2\" bw=\"25\"/><nvlink target=\"a\" count=\"3\"/><c2c bw=\"44\" count=\"5\"/></gpu><fan/></pci>\
        <pci busid=\"b\" class=\"0x030200\"><gpu dev=\"1\" sm=\"90\"><nvlink target=\"c\" count=\"4\"/></gpu></pci>\
        <pci busid=\"n\" class=\"0x010802\"/><pci busid=\"m\"/><tpm/></cpu><cpu host_hash=\"0x2\">\
        <pci busid=\"i\" class=\"0x020000\" link_speed=\"8 GT/s\" link_width=\"1\"><nic><net name=\"eth7\" speed=\"100000\"/></nic></pci>\
        </cpu></system>";
    let text = imported("node.xml", text);
    told(&text, &["elements", "c2c of gpu (1)", "fan below a device (1)", "tpm (1)"]);
    told(&text, &["attributes", "bw of nvlink (1)", "colour of system (1)"]);
    told(&text, &["PCI devices that are neither", "0x010802 (1)", "no class (1)"]);
    told(&text, &["3 links of GPUs to themselves"]);
    told(&text, &["4 links to what is neither GPU nor switch"]);
    told(&text, &["CPUs of 2 hosts"]);
    told(&text, &["rate of their own PCIe link", "eth7"]);
    let bridges = "<system><cpu><pci busid=\"0000:00:16.0\"/><pci busid=\"0000:00:17.0\"/></cpu></system>";
    let why = import(&[File { name: "g.xml", text: bridges }], None).expect_err("no GPU");
    assert!(why.starts_with("g.xml: names 2 PCI devices, none of a class that GPUs have; dump"), "{why}");
}

#[test]
fn nics_that_are_far_slower_than_the_others_serve_no_gpu() {
    // The slow one lies beside the GPUs, the quick one beyond the host's bridge.
    let gpu = |number: usize| {
        format!("<pci busid=\"{number}\" class=\"0x030200\"><gpu dev=\"{number}\" sm=\"90\"/></pci>")
    };
    let nic = |name: &str, speed: u32| {
        format!(
            "<pci busid=\"{name}\" class=\"0x020000\"><nic><net name=\"{name}\" speed=\"{speed}\"/></nic></pci>"
        )
    };
    let text = |slow: u32| {
        let bridge =
            format!("<pci busid=\"b\" class=\"0x060400\">{}{}{}</pci>", gpu(0), gpu(1), nic("eno1", slow));
        imported("m.xml", &format!("<system><cpu>{bridge}{}</cpu></system>", nic("ib0", 400_000)))
    };
    told(&text(1000), &["slower, or nearest to no GPU: eno1"]);
    assert!(text(1000).contains("bw = \"200Gb/s\""), "{}", text(1000));
    // Half as quick is no reason to go further.
    told(&text(200_000), &["slower, or nearest to no GPU: ib0"]);
}

/// A descriptor of chips at these coordinates, with two links between chips that these pairs name.
fn descriptor(at: &[(u64, [u64; 4])], pairs: &[(u64, u64)]) -> String {
    let chips: String = at.iter().map(|(chip, at)| format!("  {chip}: {at:?}\n")).collect();
    let arch: String = at.iter().map(|(chip, _)| format!("  {chip}: wormhole_b0\n")).collect();
    let ends = pairs.iter().enumerate().flat_map(|(index, (a, b))| {
        [0, 1].map(|way| {
            let channel = 2 * index + way;
            format!("  - [{{chip: {a}, chan: {channel}}}, {{chip: {b}, chan: {channel}}}]\n")
        })
    });
    let links: String = ends.collect();
    format!("arch:\n{arch}chips:\n{chips}ethernet_connections:\n{links}mystery: 7\nharvesting: {{}}\n")
}

#[test]
fn chips_whose_links_are_a_grid_of_their_coordinates_are_one_and_others_are_edges() {
    let square = [(4, [0, 0, 0, 0]), (0, [1, 0, 0, 0]), (9, [0, 1, 0, 0]), (2, [1, 1, 0, 0])];
    let text = imported("four.yaml", &descriptor(&square, &[(4, 0), (4, 9), (0, 2), (9, 2)]));
    assert!(text.contains("[mesh]\nshape = \"2x2\"") && text.contains("links = 2"), "{text}");
    told(&text, &["0 = 4 at 0, 0, 0, 0; 1 = 0 at 1, 0, 0, 0; 2 = 9 at 0, 1, 0, 0; 3 = 2 at 1, 1, 0, 0"]);
    told(&text, &["not known here: mystery"]);
    told(&text, &["about chips and their PCIe: harvesting"]);
    // A link is missing: the same chips are edges, and stand in the same order.
    let text = imported("four.yaml", &descriptor(&square, &[(4, 0), (4, 9), (0, 2)]));
    assert!(text.contains("[edges]") && text.contains("[0, 1, 2], [0, 2, 2], [1, 3, 2]"), "{text}");
    let row: Vec<(u64, [u64; 4])> = (0..4).map(|x| (x, [x, 0, 0, 0])).collect();
    let ring = imported("ring.yaml", &descriptor(&row, &[(0, 1), (1, 2), (2, 3), (3, 0)]));
    assert!(ring.contains("[torus]\nshape = \"4\""), "{ring}");
    let line = imported("line.yaml", &descriptor(&row, &[(0, 1), (1, 2), (2, 3)]));
    assert!(line.contains("[mesh]\nshape = \"4\""), "{line}");
    // Two chips at one place have no coordinates of their own.
    let twins = imported("two.yaml", &descriptor(&[(0, [0, 0, 0, 0]), (1, [0, 0, 0, 0])], &[(0, 1)]));
    assert!(twins.contains("[edges]") && !twins.contains("order of coordinates"), "{twins}");
    told(&twins, &["about chips and their PCIe: chips, harvesting"]);
}

#[test]
fn a_chip_alone_is_a_machine_and_one_of_several_machines_is_asked_for() {
    let alone = imported("n150.yaml", &descriptor(&[(3, [0, 0, 0, 0])], &[]));
    assert_eq!(network(&alone).shape.nranks(), 1);
    told(&alone, &["One chip alone"]);
    let two = descriptor(
        &[(0, [0, 0, 0, 0]), (1, [1, 0, 0, 0]), (2, [5, 0, 0, 0]), (3, [6, 0, 0, 0])],
        &[(0, 1), (2, 3)],
    );
    let with = |chip| import_with(&[File { name: "m", text: &two }], Hints { chip, ..Hints::default() });
    let why = with(None).unwrap_err();
    assert!(
        why.contains(
            "no way from chip 0 to chip 2, for these are 2 machines; import one of them, as with --chip 0"
        ),
        "{why}"
    );
    let second = with(Some(3)).unwrap();
    assert_eq!(network(&second).shape.nranks(), 2);
    told(&second, &["0 = 2 at 5, 0, 0, 0; 1 = 3 at 6, 0, 0, 0"]);
    assert!(with(Some(7)).unwrap_err().contains("has no chip 7; it has 0, 1, 2, 3"));
    let xml = devices(2, "");
    let why = import_with(&[File { name: "m", text: &xml }], Hints { chip: Some(1), ..Hints::default() });
    assert!(why.unwrap_err().contains("is no tt-umd descriptor, which --chip 1 is for"));
}
