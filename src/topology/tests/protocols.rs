//! What libraries add to machines.

use super::{read, wired, wrong};
use crate::algorithms;
use crate::topology::{Network, open};

const SHAPE: &str = "[switch]\nplaces = 4\nport = \"wire\"\n";

/// A machine with a protocol of these lines.
fn with(lines: &str) -> String {
    wired(&format!("{SHAPE}[[override]]\nlink = \"g1.*\"\nbw = \"0.5x\"\n[[protocol]]\n{lines}"))
}

#[test]
fn a_protocol_changes_classes_and_those_that_overrides_have_made_of_them() {
    let network = read(&format!(
        "launch = \"2us\"\n{}",
        with("name = \"ll\"\nbase = \"3us\"\neff = 0.5\ncap.wire = \"400MB/s\"\nstep.wire = \"7us\"\n")
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
    assert_eq!(views[1].class(0).gap_ps, bare.gap_ps);
}

#[test]
fn a_protocol_of_a_library_counts_where_that_is_asked_for() {
    let carries = |network: &Network, name| network.carriers(name).collect::<Vec<_>>();
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
    assert!(why.ends_with("known here: nccl"), "{why}");
}

#[test]
fn what_is_wrong_in_a_protocol_is_said_with_its_line_and_the_remedy() {
    let cases = [
        ("as = \"x\"\n", "has no `name`; add one such as name = \"ll\""),
        ("name = \"ll\"\nstep.wir = \"1us\"\n", "wir: there is no class `wir`; name one of the machine's"),
        ("name = \"ll\"\nstep.wire = 3\n", "wire: `3` has no unit; write it like 700ns"),
        ("name = \"ll\"\ncap.wire = \"0GB/s\"\n", "wire: nothing passes at 0 bytes a second; write more"),
        ("name = \"ll\"\neff = 2\n", "eff: write a part of the whole"),
        ("name = \"ll\"\nbase = \"1\"\n", "base: `1` has no unit; write it like 700ns"),
        (
            "name = \"ll\"\nlat = \"1us\"\n",
            "has no key `lat`; it has name, as, algorithms, base, eff, cap, step",
        ),
        ("name = \"ll\"\nstep = \"1us\"\n", "is not a table"),
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
