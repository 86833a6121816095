//! Switches that copy and sum, in machines' files.

use super::{network, wrong};
use crate::plan::InSwitch;
use crate::topology::parse;
use crate::types::Rank;

const CLASS: &str = "name = \"m\"\n[class.wire]\nbw = \"1GB/s\"\nlat = \"1us\"\nin_switch = 0.5\n";

fn declared(rest: &str) -> crate::topology::Network {
    parse("m.toml", &format!("{CLASS}{rest}"), &[]).unwrap()
}

#[test]
fn ranks_behind_one_switch_and_those_of_nodes_are_told_apart() {
    let standing = |name: &str, places: &[Rank]| network(name).in_switch(places);
    let all = |n: Rank| (0..n).collect::<Vec<_>>();
    assert_eq!(standing("dgx-h100", &all(8)), InSwitch::All);
    assert_eq!(standing("dgx-h100:nodes=2", &all(16)), InSwitch::Nodes);
    assert_eq!(standing("dgx-h100:nodes=2", &[8, 9, 12]), InSwitch::All);
    assert_eq!(standing("dgx-h100:nodes=2", &[0, 1, 8]), InSwitch::None, "unlike nodes are flat");
    assert_eq!(standing("dgx-h100:nodes=2", &[3, 11]), InSwitch::None, "one rank a node");
    assert_eq!(standing("dgx-h100", &[3]), InSwitch::None);
    assert_eq!(standing("dgx-a100", &all(8)), InSwitch::None);
    assert_eq!(standing("t3000", &all(8)), InSwitch::None);
}

#[test]
fn the_leaf_of_nodes_of_one_place_and_a_switch_of_places_sum_for_all() {
    let leaf = declared("[nodes]\nplaces = 1\nnodes = 4\ninside = \"wire\"\nnic = \"wire\"\n");
    assert_eq!(leaf.in_switch(&[0, 1, 2, 3]), InSwitch::All);
    let switch = declared("[switch]\nplaces = 4\nport = \"wire\"\n");
    assert_eq!(switch.in_switch(&[3, 1]), InSwitch::All);
    let cluster = "[class.nic]\nbw = \"1GB/s\"\nlat = \"1us\"\n[cluster]\nplaces = 4\nnodes = 2\ninside = \"wire\"\nnic = \"nic\"\n";
    for machine in [leaf, switch, network("dgx-h100:nodes=2"), declared(cluster)] {
        for (a, b) in [(0, 1), (1, 0), (2, 3)] {
            let ((at, to), (_, from)) =
                (machine.routes.switch(a).unwrap(), machine.routes.switch(b).unwrap());
            let mut ports = Vec::new();
            machine.routes.route(a, b, 0, &mut ports).unwrap();
            assert_eq!((ports, at), (vec![to[0], from[1]], 0), "the way between two places at one switch");
        }
    }
}

#[test]
fn what_a_switch_that_sums_cannot_do_is_refused_with_the_remedy() {
    let refused = |rest: &str| wrong(&format!("{CLASS}{rest}"));
    let switch = "[switch]\nplaces = 4\nport = \"wire\"\n";
    assert!(refused("[ring]\nshape = \"5\"\nlink = \"wire\"\n").contains("a shape without switches"));
    let fair = format!("arb = \"fair\"\n{CLASS}{switch}");
    assert!(wrong(&fair).contains("arb = \"fair\""));
    let whole = CLASS.replace("0.5", "1.5");
    assert!(wrong(&format!("{whole}{switch}")).contains("in_switch: write a part of the whole"));
}

#[test]
fn a_switch_that_sums_makes_another_machine() {
    let with = declared("[switch]\nplaces = 4\nport = \"wire\"\n").hash();
    let text = format!("{CLASS}[switch]\nplaces = 4\nport = \"wire\"\n");
    let without = parse("m.toml", &text.replace("in_switch = 0.5\n", ""), &[]).unwrap().hash();
    assert_ne!(with, without);
}
