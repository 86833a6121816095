//! What libraries add to machines.

use super::{read, wired, wrong};
use crate::algorithms;
use crate::error::Error;
use crate::topology::{CarriedCall, Network, open, parse};
use crate::types::Collective;

const SHAPE: &str = "[switch]\nplaces = 4\nport = \"wire\"\n";

/// An all-reduce of eight ranks on a node.
const ANY: CarriedCall =
    CarriedCall { collective: Collective::AllReduce, nranks: 8, nodes: 1, bytes: Some(1 << 30) };

/// A machine with a protocol of these lines.
fn with(lines: &str) -> String {
    wired(&format!("{SHAPE}[[override]]\nlink = \"g1.*\"\nbw = \"0.5x\"\n[[protocol]]\n{lines}"))
}

#[test]
fn a_protocol_changes_classes_and_those_that_overrides_have_made_of_them() {
    let network = read(&format!(
        "launch = \"2us\"\n{}",
        with(
            "name = \"ll\"\nbase = \"3us\"\neff = 0.5\ncap.wire = \"400MB/s\"\nstep.wire = \"7us\"\ngap.wire = \"9ns\"\n"
        )
    ));
    let views = network.views();
    assert_eq!((views.len(), network.protocol_name(0), network.protocol_name(1)), (2, None, Some("ll")));
    assert_eq!((views[0].launch_ps, views[1].launch_ps), (2_000_000, 5_000_000));
    let bare = network.class(0);
    let of = |port| {
        let class = views[1].class(port);
        (class.rate, class.post_ps, class.latency_ps)
    };
    assert_eq!(of(0), (400_000_000.min(bare.rate / 2), 7_000_000, 0));
    assert_eq!(of(2), (400_000_000.min(bare.rate / 4), 7_000_000, 0));
    assert_eq!((views[1].class(0).gap_ps, views[1].class(2).gap_ps), (9_000, 9_000));
    assert_ne!(bare.gap_ps, 9_000);
}

#[test]
fn a_protocol_of_a_library_counts_where_that_is_asked_for() {
    let carries = |network: &Network, name| network.carriers(name, ANY).collect::<Vec<_>>();
    let bare = open("dgx-h100").unwrap();
    assert_eq!((carries(&bare, "ring"), carries(&bare, "torus")), (vec![0], vec![0]));
    let nccl = open("dgx-h100:as=nccl").unwrap();
    assert_eq!((carries(&nccl, "ring").len(), carries(&nccl, "torus").len()), (3, 0));
    let names: Vec<_> = carries(&nccl, "rail_trees").iter().filter_map(|&v| nccl.protocol_name(v)).collect();
    assert_eq!(names, ["ll", "ll128", "simple"]);
    let why = open("dgx-h100:as=rccl").err().expect("there is none").message.clone();
    assert!(
        why.starts_with("dgx-h100: the argument as: there is no [[protocol]] with as = \"rccl\""),
        "{why}"
    );
    assert!(why.ends_with("known here: nccl, nccl-2.26"), "{why}");
}

#[test]
fn what_is_wrong_in_a_protocol_is_said_with_its_line_and_the_remedy() {
    let cases = [
        ("as = \"x\"\n", "has no `name`; add one such as name = \"ll\""),
        ("name = \"ll\"\nstep.wir = \"1us\"\n", "wir: there is no class `wir`; name one of the machine's"),
        ("name = \"ll\"\nstep.wire = 3\n", "wire: `3` has no unit; write it like 700ns"),
        ("name = \"ll\"\ngap.wir = \"1us\"\n", "wir: there is no class `wir`; name one of the machine's"),
        ("name = \"ll\"\ncap.wire = \"0GB/s\"\n", "wire: nothing passes at 0 bytes a second; write more"),
        ("name = \"ll\"\neff = 2\n", "eff: write a part of the whole"),
        ("name = \"ll\"\nbase = \"1\"\n", "base: `1` has no unit; write it like 700ns"),
        (
            "name = \"ll\"\nlat = \"1us\"\n",
            "has no key `lat`; it has name, as, algorithms, collectives, nodes, sizes, base, eff, cap, step, gap, hold, lane, piece, channels",
        ),
        ("name = \"ll\"\nstep = \"1us\"\n", "is not a table"),
        (
            "name = \"ll\"\nslice_least = \"1KiB\"\n",
            "has slice_least, but not how many slices; add slices = 2",
        ),
        ("name = \"ll\"\nslices = 129\n", "slices: "),
        ("name = \"ll\"\nlane.wire = \"0GB/s\"\n", "wire: nothing passes at 0 bytes a second; write more"),
        (
            "name = \"ll\"\nexpects_bw = \"1GB/s\"\n",
            "has expects_bw, but not expects; add expects = \"ring\"",
        ),
        (
            "name = \"ll\"\nexpects = \"rong\"\n",
            "expects: `rong` is not known here; write ring or tree or switch",
        ),
        ("name = \"ll\"\nexpects = \"ring\"\nexpects_inside = \"1us\"\n", "has no `expects_bw`; add one"),
        ("name = \"ll\"\nexpects = \"ring\"\nexpects_bw = \"1GB/s\"\n", "has no `expects_inside`; add one"),
        (
            "name = \"ll\"\nexpects = \"ring\"\nexpects_bw = \"0B/s\"\n",
            "expects_bw: a call with this is never expected to end; write more",
        ),
    ];
    for (lines, said) in cases {
        let why = wrong(&with(lines));
        assert!(why.starts_with("m.toml:") && why.contains(said), "{lines}says: {why}");
    }
}

#[test]
fn a_protocol_of_an_unknown_algorithm_is_refused() {
    let network = read(&with("name = \"ll\"\nalgorithms = \"ring, rong\"\n"));
    let why = algorithms::check_protocols(&network).unwrap_err().message.clone();
    assert_eq!(why, "m: [[protocol]] ll: algorithms: `rong` is no algorithm; `penny algorithms` lists them");
}

/// Returns what is left of 1 GB/s for these calls by the protocols of these lines.
fn rates(lines: &str, calls: &[CarriedCall]) -> Vec<Option<u64>> {
    let network = read(&wired(&format!("{SHAPE}[[protocol]]\nname = \"p\"\n{lines}")));
    let views = network.views();
    let rate = |&call: &CarriedCall| {
        let mut carriers = network.carriers("ring", call);
        let view = carriers.next()?;
        assert_eq!(carriers.next(), None, "one protocol, whatever the size");
        Some(views[view].class(0).rate)
    };
    calls.iter().map(rate).collect()
}

fn of_bytes(bytes: u64) -> CarriedCall {
    CarriedCall { bytes: Some(bytes), ..ANY }
}

#[test]
fn a_call_has_a_channel_for_each_so_many_bytes() {
    let sizes = [1, 4095, 8191, 8192, 12_287, 12_288, 16_384, 1 << 30].map(of_bytes);
    let quarters = [1, 1, 1, 2, 2, 3, 4, 4].map(|n| Some(n * 250_000_000));
    assert_eq!(rates("channels = 4\nchannel_bytes = \"4KiB\"\n", &sizes), quarters);
    let by_rank = [8191, 65_535, 65_536, 1 << 30].map(of_bytes);
    let of_eight = [1, 1, 2, 4].map(|n| Some(n * 250_000_000));
    assert_eq!(rates("channels = 4\nchannel_bytes_per_rank = \"4KiB\"\n", &by_rank), of_eight);
}

#[test]
fn parts_and_slices_hold_from_a_size_on() {
    let lines = "eff = 0.5\npart = { 4KiB = 0.8, 1MiB = 1, 64KiB = 0.6 }\nslice = { 1MiB = \"256KiB\" }\n";
    let sizes = [1, 4096, 65_535, 65_536, 1 << 20, 1 << 30].map(of_bytes);
    let tenths = [5, 4, 4, 3, 5, 5].map(|n| Some(n * 100_000_000));
    assert_eq!(rates(lines, &sizes), tenths);
    let network = read(&wired(&format!("{SHAPE}[[protocol]]\nname = \"p\"\n{lines}")));
    let slice =
        |bytes| network.protocol_slice(network.carriers("ring", of_bytes(bytes)).next().unwrap(), bytes);
    assert_eq!((slice(1), slice(1 << 20)), (None, Some(256 << 10)));
    assert_eq!(network.protocol_slice(0, 1), None);
}

#[test]
fn chunks_are_cut_in_so_many_slices_that_are_neither_too_small_nor_too_large() {
    let lines = "slices = 4\nslice_least = \"1KiB\"\n";
    let slice = |lines: &str, chunk| {
        let network = read(&wired(&format!("{SHAPE}[[protocol]]\nname = \"p\"\n{lines}")));
        network.protocol_slice(1, chunk)
    };
    assert_eq!(
        [0, 4096, 4097, 1 << 20].map(|chunk| slice(lines, chunk)),
        [1024, 1024, 1025, 256 << 10].map(Some)
    );
    let bounded = format!("{lines}slice = \"64KiB\"\n");
    assert_eq!([4096, 1 << 20].map(|chunk| slice(&bounded, chunk)), [1024, 64 << 10].map(Some));
    assert_eq!(slice("slices = 1\n", 4096), None);
}

#[test]
fn a_protocol_may_have_a_least_port_time_of_messages() {
    let network = read(&wired(&format!("{SHAPE}[[protocol]]\nname = \"p\"\nhold.wire = \"11us\"\n")));
    let views = network.views();
    let took = |view: usize, bytes| views[view].class(0).hold_ps(bytes);
    assert_eq!([1000, 1_000_000].map(|bytes| took(1, bytes)), [11_000_000, took(0, 1_000_000)]);
    assert!(took(0, 1000) < 11_000_000 && took(0, 1_000_000) > 11_000_000);
    assert_ne!(network.hash(), read(&wired(&format!("{SHAPE}[[protocol]]\nname = \"p\"\n"))).hash());
    let fair = format!(
        "arb = \"fair\"\n{}",
        wired(&format!("{SHAPE}[[protocol]]\nname = \"p\"\nhold.wire = \"1us\"\n"))
    );
    assert!(wrong(&fair).contains("hold, which is for whole messages; leave one of them out"));
}

#[test]
fn a_protocol_may_hand_on_pieces_of_a_lanes_messages() {
    let of = |lines: &str| read(&wired(&format!("{SHAPE}[[protocol]]\nname = \"p\"\n{lines}")));
    let lane = "lane.wire = \"1GB/s\"\n";
    let network = of(&format!("{lane}piece.wire = \"100B\"\n"));
    let class = network.views()[1].class(0).clone();
    assert_eq!([50, 100, 4000].map(|bytes| class.piece_ps(bytes)), [50_000, 100_000, 100_000]);
    assert_eq!(class.feed_ps(4000), 4_000_000);
    assert_eq!(of(lane).views()[1].class(0).piece_ps(4000), 4_000_000);
    assert_ne!(network.hash(), of(lane).hash());
    let wrong = |lines: &str| wrong(&with(&format!("name = \"p\"\n{lines}")));
    assert!(wrong("piece.wire = \"1KiB\"\n").contains("is of lanes; give wire a lane, too"));
    assert!(wrong("lane.wire = \"1GB/s\"\npiece.wire = \"0B\"\n").contains("after 0 bytes; write more"));
}

#[test]
fn a_protocol_of_several_libraries_is_there_for_each() {
    let text = wired(&format!(
        "{SHAPE}[[protocol]]\nname = \"both\"\nas = \"a, b\"\n[[protocol]]\nname = \"first\"\nas = \"a\"\n"
    ));
    let names = |library: &str| {
        let network = parse("m.toml", &text, &[("as".into(), library.into())])?;
        Ok::<_, Error>(network.protocols.iter().map(|p| p.name.clone()).collect::<Vec<_>>())
    };
    assert_eq!(names("a").unwrap(), ["both", "first"]);
    assert_eq!(names("b").unwrap(), ["both"]);
    assert!(names("c").is_err_and(|why| why.message.ends_with("known here: a, b")));
}

#[test]
fn a_protocol_of_some_sizes_carries_no_others() {
    let lines = "sizes = \"4KiB..1MiB\"\npart = { 1B = 0.5, 64KiB = 0.8 }\n";
    let sizes = [4095, 4096, 65_536, (1 << 20) - 1, 1 << 20].map(of_bytes);
    let tenths = [None, Some(5), Some(8), Some(8), None].map(|n| n.map(|n: u64| n * 100_000_000));
    assert_eq!(rates(lines, &sizes), tenths);
    let carried = |lines: &str| {
        rates(lines, &[of_bytes(1), of_bytes(1 << 30)]).iter().map(Option::is_some).collect::<Vec<_>>()
    };
    assert_eq!(carried("sizes = \"..1MiB\"\n"), [true, false]);
    assert_eq!(carried("sizes = \"1MiB..\"\n"), [false, true]);
}

#[test]
fn a_protocol_of_some_collectives_and_nodes_carries_no_others() {
    let gather = CarriedCall { collective: Collective::AllGather, ..ANY };
    let two_nodes = CarriedCall { nodes: 2, ..ANY };
    let carried =
        |lines: &str| rates(lines, &[ANY, gather, two_nodes]).iter().map(Option::is_some).collect::<Vec<_>>();
    assert_eq!(carried("collectives = \"reduce, all_reduce\"\n"), [true, false, true]);
    assert_eq!(carried("nodes = 1\n"), [true, true, false]);
    assert_eq!(carried("nodes = \"2..\"\n"), [false, false, true]);
    assert_eq!(carried("nodes = \"1..2\"\n"), [true, true, true]);
}

#[test]
fn what_is_wrong_in_sizes_and_nodes_is_said_with_the_remedy() {
    for (lines, said) in [
        ("channels = 4\n", "has channels, but not for how many bytes; add channel_bytes"),
        ("channel_bytes = \"4KiB\"\n", "has channel_bytes, but not how many channels; add channels = 16"),
        ("channels = 4\nchannel_bytes = \"0B\"\n", "a channel for each 0 bytes is none"),
        ("channels = 257\nchannel_bytes = \"1B\"\n", "channels"),
        ("part = { 4K = 0.5 }\n", "the key is no size"),
        ("part = { 4KiB = 2 }\n", "write a part of the whole"),
        ("channels = 2\nchannel_bytes_per_rank = \"1B\"\npart = { 4KiB = 0.5 }\n", "leave one out"),
        ("nodes = \"4..2\"\n", "is no number of nodes"),
        ("sizes = \"4KiB\"\n", "is no range of sizes; write one such as ..30MiB"),
        ("sizes = \"4KiB..4KiB\"\n", "is no range of sizes"),
        ("sizes = \"..4K\"\n", "sizes: "),
        ("collectives = \"all_reduce, sum\"\n", "`sum` is no collective"),
    ] {
        let why = wrong(&with(&format!("name = \"p\"\n{lines}")));
        assert!(why.starts_with("m.toml:") && why.contains(said), "{lines}says: {why}");
    }
}

#[test]
fn lanes_have_their_share_by_channels_and_parts_too() {
    let lines = "lane.wire = \"400MB/s\"\nchannels = 4\nchannel_bytes = \"4KiB\"\npart = { 8KiB = 0.5 }\n";
    let network = read(&wired(&format!("{SHAPE}[[protocol]]\nname = \"p\"\n{lines}")));
    let views = network.views();
    let lane = |bytes| views[network.carriers("ring", of_bytes(bytes)).next().unwrap()].class(0).lane_rate;
    assert_eq!([1, 8192, 16_384].map(lane), [100_000_000, 100_000_000, 200_000_000]);
    assert_eq!(views[0].class(0).lane_rate, 0, "the bare machine");
    let port = |bytes| views[network.carriers("ring", of_bytes(bytes)).next().unwrap()].class(0).rate;
    assert_eq!([1, 8192].map(port), [1_000_000_000, 500_000_000], "channels do not share ports then");
}

/// Returns what is expected of a call by a protocol of these lines, in nanoseconds, the launch of 2 us included.
fn expected_ns(lines: &str, call: CarriedCall) -> u64 {
    let protocol = format!("[[protocol]]\nname = \"p\"\nbase = \"10us\"\n{lines}");
    let network = read(&format!("launch = \"2us\"\n{}", wired(&format!("{SHAPE}{protocol}"))));
    assert!(!network.chooses_by_price());
    assert_eq!(network.expected_ps(0, call), None);
    network.expected_ps(1, call).unwrap() / 1000
}

#[test]
fn a_library_counts_steps_and_the_vector_at_a_bandwidth() {
    let lines = |counting: &str| {
        format!(
            "expects = \"{counting}\"\nexpects_inside = \"1us\"\nexpects_across = \"5us\"\nexpects_bw = \"16GB/s\"\nexpects_part = {{ 1MiB = 0.5 }}\n"
        )
    };
    let call = CarriedCall { nranks: 16, nodes: 4, bytes: Some(16_000), ..ANY };
    let gather = CarriedCall { collective: Collective::AllGather, ..call };
    // 24 steps within nodes and 6 between them; 30 sixteenths of a microsecond for the vector.
    assert_eq!(expected_ns(&lines("ring"), call), 12_000 + 24_000 + 30_000 + 1_875);
    assert_eq!(expected_ns(&lines("ring"), gather), 12_000 + 12_000 + 15_000 + 937);
    // Three hops within a node and two between nodes, up and down, as the vector goes.
    assert_eq!(expected_ns(&lines("tree"), call), 12_000 + 6_000 + 20_000 + 2_000);
    // Four ranks of a node share the vector.
    assert_eq!(expected_ns(&lines("switch"), call), 12_000 + 1_000 + 20_000 + 1_875 / 4);
    let one = CarriedCall { nranks: 8, nodes: 1, ..call };
    assert_eq!(expected_ns(&lines("switch"), one), 12_000 + 1_000 + 1_750 / 8);
    let large = CarriedCall { bytes: Some(16_000_000), ..call };
    assert_eq!(expected_ns(&lines("tree"), large), 12_000 + 6_000 + 20_000 + 4_000_000);
    let steps = CarriedCall { bytes: None, ..call };
    assert_eq!(expected_ns(&lines("tree"), steps), 12_000 + 6_000 + 20_000);
}
