//! A machine's file: TOML to a [`Network`].
//!
//! ```toml
//! name = "two nodes of four"
//! [class.nvlink]                 # the physics of a kind of port, one direction of it
//! bw = "450GB/s"                 # must be there; eff = 0.824 is the part of it that payload gets
//! lat = "700ns"                  # must be there
//! [class.nic]                    # left out: post and gap take no time, mtu and hdr divide and add nothing,
//! bw = "400Gb/s"                 # credits are unlimited, and store_and_forward is false
//! lat = "1us"
//! post = "4us"
//! [nodes]                        # one shape: switch, nodes, cluster, ring, line, mesh, torus, axes, edges
//! places = 4
//! nodes = 2
//! inside = "nvlink"
//! nic = "nic"
//! [[override]]                   # ports by name; `*` is any text. bw, lat, post, gap: a quantity or a factor
//! link = "n1.g3.nic.*"
//! bw = "0.5x"
//! ```
//!
//! `[[load]]` with `link` and `bw`: other traffic takes this part of the link's payload bandwidth at all times.
//!
//! `slice = "64KiB"` beside `name`: ranks hand chunks on in slices of at most this size; 0: whole; `auto`, if it is left out: each
//! call with the slice of its least price. Also an argument, `dgx-h100:nodes=2,slice=0`.
//!
//! `in_switch = 0.85` in a class: a switch between two such ports copies and sums, `in_switch.rs`.
//!
//! `launch` and `[[protocol]]`, which the argument `as=nccl` selects: what a library adds, `protocol.rs`.
//!
//! `arb = "fair"` beside `name`: ports serve connections in turns, a packet each, and not whole messages as they come.
//! What goes wrong at times, `[[fault]]`: `faults.rs`. Where ranks stand: `placement.rs`. Places that are mailboxes,
//! `[mailbox]`: `mailbox.rs`. The software at the ends of Ethernet links, `[mover]`: `mover.rs`. What places compute with, `[device]`: `device.rs`. The keys of each shape are with its code:
//! `switch.rs`, `wired_nodes.rs`, `cluster/mod.rs`, `grid.rs`, `axes.rs`, `edges.rs`. Arguments, as in `dgx-h100:nodes=2`, replace keys of the shape.

use super::built::Built;
use super::source::{Field, Section, SourceText};
use super::units::{self, Ratio};
use super::{
    Class, Network, Port, PortId, Protocol, Slicing, axes, cluster, device, edges, faults, grid, in_switch,
    mailbox, mover, placement, protocol, switch,
};
use crate::error::{Error, Result};
use std::sync::Arc;
use toml::de::DeTable;

type Builder = fn(&Section, &[Class]) -> Result<Built>;

const SHAPES: &[(&str, Builder)] = &[
    ("switch", switch::switch),
    ("nodes", switch::nodes),
    ("ring", grid::ring),
    ("line", grid::line),
    ("mesh", grid::mesh),
    ("torus", grid::torus),
    ("axes", axes::axes),
    ("edges", edges::edges),
    ("cluster", cluster::cluster),
];

macro_rules! presets {
    ($($name:literal $(+ $shared:literal)?)*) => {
        &[$(($name, concat!(
            include_str!(concat!("presets/", $name, ".toml")),
            $(include_str!(concat!("presets/shared/", $shared, ".toml")))?
        ))),*]
    };
}

/// The machines' files, each with what it shares with others.
const PRESETS: &[(&str, &str)] = presets! {
    "dgx-h100" + "h100" "dgx-a100" "oci-a100" "dgx-b200" "dgx-h100-superpod" + "h100" "gb200-nvl72" "aws-p5" "aws-p6" "gh200" "dgx-1v" "mi300x" "n300" "t3000" "galaxy" "tpu-v4" "tpu-v5e" "tpu-v5p" "ipu-pod16" "poets" "host"
};

/// The machines that come with the library: name and file.
pub fn presets() -> &'static [(&'static str, &'static str)] {
    PRESETS
}

/// The machine that a text declares; `file_name` is for errors, and `arguments` replace keys of its shape.
pub fn parse(file_name: &str, text: &str, arguments: &[(String, String)]) -> Result<Network> {
    let source = SourceText { file: file_name, text };
    let document = DeTable::parse(text).map_err(|why| {
        let what = why.message().replace('\n', ", ");
        source.error(
            why.span().map_or(0, |s| s.start),
            format_args!("{what}; see https://toml.io for the form"),
        )
    })?;
    let root = Section { source, name: "the file".into(), at: 0, table: document.get_ref(), arguments: &[] };
    let shapes = SHAPES.iter().map(|(name, _)| *name);
    root.knows(
        &[
            "name",
            "class",
            "override",
            "load",
            "fault",
            "placement",
            "arb",
            "slice",
            "launch",
            "protocol",
            "mailbox",
            "mover",
            "device",
        ]
        .into_iter()
        .chain(shapes)
        .collect::<Vec<_>>(),
    )?;
    let name = root.need("name", "\"my-machine\"")?.plain()?;
    let mut classes = read_classes(&root)?;
    let [of_mover, others] = mover::arguments(arguments);
    mover::attach(&root, &of_mover, &mut classes)?;
    let (own, of_shape): (Vec<_>, Vec<_>) =
        others.iter().cloned().partition(|(key, _)| ["placement", "slice", "launch", "as"].contains(&&**key));
    let given = |name: &str| own.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let Built { mut ports, shape, routes } = build(&root, &classes, &of_shape)?;
    let fair = root.get("arb").map_or(Ok("fifo"), |field| field.word(&["fifo", "fair"]))? == "fair";
    if let Some(class) = classes.iter().find(|class| fair && class.mover.is_some()) {
        return Err(root.error(format_args!(
            "has arb = \"fair\" and a mover on [class.{}], whose channels take turns already; leave one out",
            class.name
        )));
    }
    in_switch::check(&root, &classes, &*routes, fair)?;
    let placement = placement::read(&root, given("placement"), shape.nranks())?;
    for (number, section) in root.listed("override", "[[override]]")?.iter().enumerate() {
        section.knows(&["link", "bw", "lat", "post", "gap"])?;
        reclass(section, &mut classes, &mut ports, |old| change(section, number, old))?;
    }
    for (number, section) in root.listed("load", "[[load]]")?.iter().enumerate() {
        section.knows(&["link", "bw"])?;
        reclass(section, &mut classes, &mut ports, |old| take(section, number, old))?;
    }
    let mut faults = Vec::new();
    for section in root.listed("fault", "[[fault]]")? {
        faults::read(&section, &ports, &mut faults)?;
    }
    let (mailbox, device) = (mailbox::read(&root)?, device::read(&root)?);
    let given_or_file =
        Section { source, name: "the file".into(), at: 0, table: root.table, arguments: &own };
    let slicing = slicing(&given_or_file)?;
    let launch_ps = given_or_file.get("launch").map_or(Ok(0), |field| field.read(units::time))?;
    let programs_ps = classes.iter().filter_map(Class::programs_ps).max().unwrap_or(0);
    let protocols = protocols(&root, given("as"), &classes)?;
    if fair && protocols.iter().flat_map(|protocol| &protocol.classes).any(|class| class.least_hold_ps > 0) {
        return Err(root.error(
            "has arb = \"fair\" and a protocol with hold, which is for whole messages; leave one of them out",
        ));
    }
    let arguments: Vec<String> = arguments.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let name = if arguments.is_empty() { name.to_owned() } else { format!("{name}:{}", arguments.join(",")) };
    Ok(Network {
        name,
        classes,
        ports: Arc::new(ports),
        shape,
        routes,
        faults,
        placement,
        fair,
        slicing,
        launch_ps: launch_ps.saturating_add(programs_ps),
        protocols,
        mailbox,
        device,
    })
}

/// The protocols of the library that the argument `as` names, and those of no library.
fn protocols(root: &Section, library: Option<&str>, classes: &[Class]) -> Result<Vec<Protocol>> {
    let sections = root.listed("protocol", "[[protocol]]")?;
    let libraries = protocol::libraries(&sections)?;
    if let Some(library) = library.filter(|library| !libraries.contains(library)) {
        let known = if libraries.is_empty() { "none".to_owned() } else { libraries.join(", ") };
        return Err(Error::argument(format!(
            "{}: the argument as: there is no [[protocol]] with as = \"{library}\"; known here: {known}",
            root.source.file
        )));
    }
    protocol::read(&sections, library, classes)
}

/// `slice`, the key or the argument.
fn slicing(root: &Section) -> Result<Slicing> {
    let Some(field) = root.get("slice") else { return Ok(Slicing::Auto) };
    field.read(|text| match text {
        "auto" => Ok(Slicing::Auto),
        "0" => Ok(Slicing::Bytes(0)),
        text => units::size(text)
            .map(Slicing::Bytes)
            .map_err(|why| format!("{why}, `auto`, or 0 for whole chunks")),
    })
}

fn read_classes(root: &Section) -> Result<Vec<Class>> {
    let Some(value) = root.table.get("class") else {
        return Err(root.error("declares no class; add one such as [class.wire] with bw and lat"));
    };
    let all = root.inner("[class]".into(), value)?;
    all.table
        .iter()
        .map(|(name, value)| class(name.get_ref(), &all.inner(format!("[class.{}]", name.get_ref()), value)?))
        .collect()
}

fn class(name: &str, section: &Section) -> Result<Class> {
    section.knows(&[
        "bw",
        "eff",
        "lat",
        "post",
        "gap",
        "mtu",
        "hdr",
        "credits",
        "store_and_forward",
        "in_switch",
    ])?;
    let time = |key: &str| section.get(key).map_or(Ok(0), |f| f.read(units::time));
    let size = |key: &str| section.get(key).map_or(Ok(0), |f| f.read(units::size));
    let mtu = match (section.get("mtu"), size("mtu")?) {
        (Some(field), 0) => {
            return Err(field.error("a packet carries at least 1 byte; write more, or leave mtu out"));
        }
        (_, mtu) => mtu,
    };
    let bandwidth = section.need("bw", "\"50GB/s\"")?;
    let line_rate = bandwidth.read(units::bandwidth)?;
    let rate = section.get("eff").map_or(Ok(Ratio::ONE), |f| f.part())?.of(line_rate);
    if rate == 0 {
        return Err(bandwidth.error("nothing passes at 0 bytes a second; write more"));
    }
    Ok(Class {
        name: name.to_owned(),
        rate,
        line_rate,
        latency_ps: section.need("lat", "\"700ns\"")?.read(units::time)?,
        post_ps: time("post")?,
        gap_ps: time("gap")?,
        least_hold_ps: 0,
        mtu,
        header: size("hdr")?,
        lane_rate: 0,
        lane_piece: 0,
        store_and_forward: section.get("store_and_forward").map_or(Ok(false), |f| f.flag())?,
        credits: section.get("credits").map_or(Ok(0), |f| f.count(u32::MAX))?,
        mover: None,
        in_switch: section.get("in_switch").map(|f| f.part()).transpose()?,
    })
}

/// The one section that is a shape.
fn build(root: &Section, classes: &[Class], arguments: &[(String, String)]) -> Result<Built> {
    let mut given = SHAPES.iter().filter_map(|(name, builder)| Some((name, builder, root.table.get(*name)?)));
    let Some((name, builder, value)) = given.next() else {
        let known: Vec<String> = SHAPES.iter().map(|(name, _)| format!("[{name}]")).collect();
        return Err(root.error(format_args!("declares no shape; add one of {}", known.join(", "))));
    };
    if let Some((other, _, value)) = given.next() {
        let at = value.span().start;
        return Err(root
            .source
            .error(at, format_args!("[{other}] is a second shape beside [{name}]; keep one")));
    }
    let section = Section { arguments, ..root.inner(format!("[{name}]"), value)? };
    builder(&section, classes)
}

/// Gives the ports of an override classes of their own.
fn reclass(
    section: &Section,
    classes: &mut Vec<Class>,
    ports: &mut [Port],
    change: impl Fn(&Class) -> Result<Class>,
) -> Result<()> {
    let link = section.need("link", "\"n0.g0.nic.tx\"")?;
    // Old class and new.
    let mut replaced: Vec<(u32, u32)> = Vec::new();
    for port in named(&link, ports)? {
        let port = &mut ports[port as usize];
        let known = replaced.iter().find(|(old, _)| *old == port.class);
        port.class = match known {
            Some((_, new)) => *new,
            None => {
                let changed = change(&classes[port.class as usize])?;
                classes.push(changed);
                replaced.push((port.class, classes.len() as u32 - 1));
                classes.len() as u32 - 1
            }
        };
    }
    Ok(())
}

/// The ports whose names fit, of which there is at least one.
pub(super) fn named(link: &Field, ports: &[Port]) -> Result<Vec<PortId>> {
    let pattern = link.text()?;
    let found: Vec<PortId> =
        (0..).zip(ports).filter(|(_, port)| matches(pattern, &port.name)).map(|(id, _)| id).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let example = ports.first().map_or("none, for there are no ports", |p| p.name.as_str());
    Err(link
        .error(format_args!("no port is called `{pattern}`; names are like {example}, and `*` is any text")))
}

fn change(section: &Section, number: usize, old: &Class) -> Result<Class> {
    let changed = |key: &str, old: u64, reader: fn(&str) -> Result<u64, String>| match section.get(key) {
        Some(field) => {
            field.read(|text| units::factor(text).map_or_else(|| reader(text), |f| Ok(f?.of(old))))
        }
        None => Ok(old),
    };
    let rate = changed("bw", old.rate, units::bandwidth)?;
    if rate == 0 {
        return Err(section.error("leaves a link of 0 bytes a second; write more"));
    }
    Ok(Class {
        name: format!("{}, override {}", old.name, number + 1),
        rate,
        line_rate: changed("bw", old.line_rate, units::bandwidth)?,
        latency_ps: changed("lat", old.latency_ps, units::time)?,
        post_ps: changed("post", old.post_ps, units::time)?,
        gap_ps: changed("gap", old.gap_ps, units::time)?,
        ..old.clone()
    })
}

/// Returns a class whose rate is reduced by the other traffic that a `[[load]]` section declares.
fn take(section: &Section, number: usize, old: &Class) -> Result<Class> {
    let bandwidth = section.need("bw", "\"10GB/s\"")?;
    let left = old.rate.saturating_sub(bandwidth.read(units::bandwidth)?);
    if left == 0 {
        let rate = units::print_bandwidth(old.rate);
        return Err(bandwidth.error(format_args!("this leaves nothing of the link's {rate}; write less")));
    }
    Ok(Class { name: format!("{}, load {}", old.name, number + 1), rate: left, ..old.clone() })
}

/// A name fits a pattern in which `*` is any text.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => name.strip_prefix(head).is_some_and(|rest| {
            rest.char_indices().map(|(i, _)| i).chain([rest.len()]).any(|i| matches(tail, &rest[i..]))
        }),
    }
}
