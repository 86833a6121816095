//! A machine as a picture: boxes for places, NICs and switches, lines for links, a colour a class.
//!
//! ```text
//!     nodes    spine over leaves over nodes; in a node its NICs, its places, its switch      columns.rs
//!     cluster  tiers of switches over nodes                                                  tiers.rs
//!     switch   one switch over its places                                                    columns.rs
//!     ring, line, mesh, torus, axes    a grid, the third axis slanting; stubs where it wraps grid.rs
//!     edges, nodes of wired places     places on a circle, a circle a node                   circle.rs
//! ```
//!
//! What is drawn is what was built: the kind of machine is read off its ports' names, so that overrides show.

mod canvas;
mod circle;
mod columns;
mod grid;
mod tiers;

use canvas::Canvas;
use penny::sim::topology::{Network, units};

/// Places above which a picture has no use.
const MOST_PLACES: u32 = 1024;

/// One link or several parallel ones, from one place to another.
struct Link {
    /// From, to, and the class of the port that sends.
    from: u32,
    to: u32,
    class: u32,
    count: u32,
}

/// The drawing, as the text of an SVG file.
pub fn svg(network: &Network) -> Result<String, String> {
    let places = network.shape.nranks();
    if places > MOST_PLACES {
        return Err(format!(
            "{}: {places} places are too many to draw; draw up to {MOST_PLACES}, such as one with fewer nodes or a \
             smaller shape",
            network.name
        ));
    }
    let name = |port: usize| network.ports.get(port).map_or("", |port| port.name.as_str());
    let mut canvas = Canvas::new(network);
    if let Some(cluster) = network.routes.cluster() {
        tiers::draw(&mut canvas, network, cluster);
    } else if name(0).ends_with(".nv.tx") {
        columns::nodes(&mut canvas, network);
    } else if network.ports.iter().any(|port| grid::along_an_axis(&port.name).is_some()) {
        grid::draw(&mut canvas, network);
    } else if name(0).ends_with(".tx") {
        columns::switch(&mut canvas, network);
    } else {
        circle::draw(&mut canvas, network);
    }
    Ok(canvas.finish())
}

/// A link's class and rate: `eth 2x12.5GB/s`.
fn what(network: &Network, link: &Link) -> String {
    let class = &network.classes[link.class as usize];
    let times = if link.count > 1 { format!("{}x", link.count) } else { String::new() };
    format!("{} {times}{}", class.name, units::print_bandwidth(class.rate))
}

/// The index of a port by its name.
fn port(network: &Network, name: &str) -> Option<u32> {
    network.ports.iter().position(|port| port.name == name).map(|index| index as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use penny::sim::topology::{open, parse, presets};

    fn count(text: &str, what: &str) -> usize {
        text.matches(what).count()
    }

    #[test]
    fn every_preset_is_drawn_with_its_classes_and_their_rates() {
        for (name, _) in presets() {
            let network = open(name).unwrap();
            let places = network.shape.nranks();
            match svg(&network) {
                Ok(text) => {
                    assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"), "{name}");
                    for class in &network.classes {
                        assert!(text.contains(&format!("{}: ", class.name)), "{name} {}", class.name);
                    }
                    assert_eq!(count(&text, "class=\"place\""), places as usize, "{name}");
                }
                Err(why) => assert!(places > MOST_PLACES, "{why}"),
            }
        }
    }

    #[test]
    fn the_boxes_and_links_of_two_nodes_are_all_there() {
        let text = svg(&open("dgx-h100:nodes=2").unwrap()).unwrap();
        assert_eq!(count(&text, "class=\"nic\""), 16);
        assert_eq!(count(&text, "class=\"leaf\""), 8);
        assert_eq!(count(&text, "class=\"spine\""), 1);
        assert_eq!(count(&text, "class=\"switch\""), 2);
        // Place to switch, NIC to leaf, leaf to spine.
        assert_eq!(count(&text, "class=\"link\""), 16 + 16 + 8);
        assert!(text.contains("48.5GB/s") && text.contains("370.8GB/s"));
    }

    #[test]
    fn a_mesh_has_its_edges_and_a_torus_stubs_for_those_that_wrap() {
        assert_eq!(count(&svg(&open("t3000").unwrap()).unwrap(), "class=\"link\""), 10 * 2);
        assert_eq!(count(&svg(&open("dgx-1v").unwrap()).unwrap(), "class=\"link\""), 24);
        let torus = svg(&open("tpu-v5e:shape=4x4").unwrap()).unwrap();
        assert_eq!(count(&torus, "class=\"link\""), 2 * 4 * 3);
        assert_eq!(count(&torus, "class=\"wrap\""), 2 * 4 * 2);
    }

    #[test]
    fn axes_have_stubs_into_their_switches_and_wired_nodes_a_circle_each() {
        let wire = "name = \"m\"\n[class.wire]\nbw = \"1GB/s\"\nlat = \"1us\"\n";
        let drawn = |rest: &str| svg(&parse("m.toml", &format!("{wire}{rest}"), &[]).unwrap()).unwrap();
        let axes = drawn(
            "[axes]\nshape = \"4x2x3\"\nkinds = \"switch, ring, full\"\nlinks = \"wire, wire, wire\"\n",
        );
        // One wire a pair along the second axis, three a column along the third.
        assert_eq!(count(&axes, "class=\"link\""), 4 * 3 + 8 * 3);
        assert_eq!(count(&axes, "class=\"wrap\""), 24);
        let nodes = drawn(
            "[nodes]\nplaces = 3\nnodes = 2\nnic = \"wire\"\n[nodes.wires]\nwire = [[0, 1], [1, 2, 2]]\n",
        );
        assert_eq!((count(&nodes, "class=\"place\""), count(&nodes, "class=\"link\"")), (6, 6));
        assert!(nodes.contains("Each place has a NIC besides"), "{nodes}");
    }

    #[test]
    fn a_cluster_has_its_tiers_its_nics_and_its_pcie() {
        let text = |more: &str| {
            format!(
                "name = \"m\"\n[class.w]\nbw = \"400Gbps\"\nlat = \"1us\"\n[cluster]\nplaces = 4\nnodes = 4\ninside = \"w\"\nnic = \"w\"\n\
                 rails = \"optimised\"\n{more}[[cluster.tier]]\ndown = 2\nuplink = \"w\"\nuplinks = 2\n[[cluster.tier]]\n"
            )
        };
        let drawn = |text: &str| svg(&parse("m.toml", text, &[]).unwrap()).unwrap();
        let bare = drawn(&text(""));
        assert_eq!((count(&bare, "class=\"nic\""), count(&bare, "class=\"place\"")), (16, 16));
        // Eight leaves, two spines; NIC to leaf, leaf to spine, place to its node's switch.
        assert_eq!(count(&bare, "class=\"tier\""), 8 + 2);
        assert_eq!(count(&bare, "class=\"link\""), 16 + 8 * 2 + 16);
        assert!(bare.contains("leaf: 8 switches, 2 links down, 2 up each"));
        let pcie = drawn(&text("[cluster.pcie]\nlink = \"w\"\nswitches = 2\n"));
        assert_eq!(count(&pcie, "class=\"pcie\""), 4 * 2);
        // Besides, a device and a NIC each to its PCIe switch, and the switches of a node to each other.
        assert_eq!(count(&pcie, "class=\"link\""), 16 + 8 * 2 + 16 + 16 + 16 + 4);
    }

    #[test]
    fn an_override_has_a_colour_of_its_own_and_names_are_escaped() {
        let (_, text) = presets().iter().find(|(name, _)| *name == "t3000").unwrap();
        let text = text.replace("t3000\"", "a<b&c\"") + "[[override]]\nlink = \"g0.x+.*\"\nbw = \"0.5x\"\n";
        let text = svg(&parse("m.toml", &text, &[]).unwrap()).unwrap();
        assert!(text.contains("eth, override 1: 6.25GB/s"), "{text}");
        assert!(text.contains("a&lt;b&amp;c") && !text.contains("a<b"));
    }

    #[test]
    fn what_is_too_large_to_draw_is_refused() {
        let why = svg(&open("dgx-h100:nodes=200").unwrap()).unwrap_err();
        assert!(why.contains("1600 places are too many to draw"), "{why}");
    }
}
