//! A network of ASTRA-sim's analytical backend.
//!
//! ```text
//!     topology: [ Ring, Ring ]          one of Ring, FullyConnected, Switch an axis
//!     npus_count: [ 4, 8 ]
//!     bandwidth: [ 100.0, 50.0 ]        GB/s a link and direction
//!     latency: [ 500.0, 700.0 ]         ns
//!
//!     [Ring]            [ring]          [Ring, Ring], [Ring, Ring, Ring]    [torus], an override where axes differ
//!     [Switch]          [switch]        two or three axes of other kinds    [axes]
//!     [FullyConnected]  [edges]         more axes                           cannot be said, and is refused
//! ```

use penny::sim::topology::units;

use super::File;
use super::toml_text::{From, Text, plain};
use super::yaml::{self, Node};

const KEYS: [&str; 4] = ["topology", "npus_count", "bandwidth", "latency"];

/// The square of it is what `[edges]` lists; above, `[axes]` says it in a word.
const MOST_LISTED: u64 = 128;

/// One dimension.
struct Axis {
    block: String,
    npus: u64,
    /// Bytes a second.
    rate: u64,
    latency_ps: u64,
}

/// The machine of a network.
pub fn read(file: &File<'_>) -> Result<String, String> {
    let root = yaml::parse(file)?;
    let axes = axes(file, &root)?;
    let blocks: Vec<&str> = axes.iter().map(|axis| axis.block.as_str()).collect();
    let remarks =
        vec!["Times to issue a message (post, gap) are not in the file, and take no time here.".to_owned()];
    let npus = |axis: &Axis| axis.npus.to_string();
    let shape = axes.iter().map(npus).collect::<Vec<_>>().join("x");
    let start = |remarks: &[String]| Text::new("a network of ASTRA-sim", file.name, remarks);
    let text = match blocks[..] {
        ["Ring"] | ["Ring", "Ring"] | ["Ring", "Ring", "Ring"] => {
            let mut text = start(&remarks);
            class(&mut text, "link", &axes[0], "a link of a ring in one direction");
            text.section(if axes.len() == 1 { "ring" } else { "torus" }, "");
            text.word("shape", &shape, From::File(""));
            text.word("link", "link", From::File(""));
            let differs = |axis: &Axis| (axis.rate, axis.latency_ps) != (axes[0].rate, axes[0].latency_ps);
            for (axis, name) in
                axes.iter().zip(["x", "y", "z"]).filter(|(axis, _)| differs(axis) && axis.npus > 1)
            {
                text.section("[override]", "links of this axis");
                text.word("link", &format!("*.{name}*"), From::File(""));
                text.word("bw", &units::print_bandwidth(axis.rate), From::File(""));
                text.word("lat", &units::print_time(axis.latency_ps), From::File(""));
            }
            text
        }
        ["Switch"] => {
            let mut text = start(&remarks);
            class(&mut text, "port", &axes[0], "between an NPU and the switch, in one direction");
            text.section("switch", "");
            text.bare("places", axes[0].npus, From::File(""));
            text.word("port", "port", From::File(""));
            text
        }
        ["FullyConnected"] if axes[0].npus <= MOST_LISTED => {
            let mut text = start(&remarks);
            class(&mut text, "link", &axes[0], "between two NPUs in one direction");
            text.section("edges", "");
            text.bare("places", axes[0].npus, From::File(""));
            let npus = axes[0].npus as usize;
            let edges: Vec<_> = (0..npus).flat_map(|a| (a + 1..npus).map(move |b| (a, b, 1))).collect();
            text.edges("link", &edges, "each with each");
            text
        }
        _ if (1..=3).contains(&axes.len()) => unlike_axes(file, &axes, start(&remarks), &shape)?,
        _ => {
            return Err(file.error(format_args!(
                "has the topology [{}] of {} axes; a machine's file has up to three, so join or leave out some",
                blocks.join(", "),
                blocks.len()
            )));
        }
    };
    Ok(text.finish())
}

/// Two or three axes of several kinds, or one that is too long for a list of edges.
fn unlike_axes(file: &File<'_>, axes: &[Axis], mut text: Text, shape: &str) -> Result<Text, String> {
    let kinds: Result<Vec<&str>, String> = axes
        .iter()
        .map(|axis| match axis.block.as_str() {
            "Ring" => Ok("ring"),
            "Switch" => Ok("switch"),
            "FullyConnected" => Ok("full"),
            other => Err(file.error(format_args!(
                "has an axis `{other}`, which is not known here; write Ring, Switch or FullyConnected"
            ))),
        })
        .collect();
    let kinds = kinds?;
    let names: Vec<String> = (1..=axes.len()).map(|number| format!("axis{number}")).collect();
    for ((axis, name), kind) in axes.iter().zip(&names).zip(&kinds) {
        let about = match *kind {
            "ring" => "a link of a ring in one direction",
            "switch" => "between an NPU and the switch of its row, in one direction",
            _ => "between two NPUs in one direction",
        };
        class(&mut text, name, axis, about);
    }
    text.section("axes", "the way goes along the first axis, then the second, then the third");
    text.word("shape", shape, From::File(""));
    text.word("kinds", &kinds.join(", "), From::File(""));
    text.word("links", &names.join(", "), From::File(""));
    Ok(text)
}

fn class(text: &mut Text, name: &str, axis: &Axis, about: &str) {
    text.section(&format!("class.{name}"), about);
    text.word("bw", &units::print_bandwidth(axis.rate), From::File(""));
    text.word("lat", &units::print_time(axis.latency_ps), From::File(""));
    text.word("mtu", "4096B", From::Guess("what a way passes on at a time"));
}

fn axes(file: &File<'_>, root: &Node) -> Result<Vec<Axis>, String> {
    let pairs = root
        .map()
        .ok_or_else(|| file.at(root.line, "is not a map of keys; write topology, npus_count, ..."))?;
    let unknown = |(key, _): &&(Node, Node)| !key.text().is_some_and(|key| KEYS.contains(&key));
    if let Some((key, _)) = pairs.iter().find(unknown) {
        let name = plain(key.text().unwrap_or("a list"));
        return Err(
            file.at(key.line, format_args!("`{name}` is not known here; it knows {}", KEYS.join(", ")))
        );
    }
    let list = |key: &str| {
        let value =
            root.get(key).ok_or_else(|| file.error(format_args!("has no `{key}`; add one value an axis")))?;
        let list = value
            .list()
            .ok_or_else(|| file.at(value.line, format_args!("{key} is no list; write [ ... ]")))?;
        Ok::<_, String>((value.line, list))
    };
    let (line, blocks) = list("topology")?;
    if blocks.is_empty() || blocks.len() > 8 {
        return Err(file.at(line, "has no axis, or more than 8; write like [ Ring, Switch ]"));
    }
    let mut columns = Vec::new();
    for key in ["npus_count", "bandwidth", "latency"] {
        let (line, list) = list(key)?;
        if list.len() != blocks.len() {
            let what =
                format!("{key} has {} values for {} axes; write one an axis", list.len(), blocks.len());
            return Err(file.at(line, what));
        }
        columns.push(list);
    }
    let axis = |index: usize| {
        let [npus, rate, latency] = [0, 1, 2].map(|column| &columns[column][index]);
        let block = plain(blocks[index].text().unwrap_or("a list"));
        let npus_count = npus.number().filter(|n| (1..=1 << 20).contains(n));
        let npus = npus_count
            .ok_or_else(|| file.at(npus.line, "is no number of NPUs from 1 to 1048576; write one"))?;
        let rate = scaled(rate, 1e9, 1e15).filter(|&rate| rate > 0);
        let latency_ps = scaled(latency, 1e3, 1e15);
        Ok(Axis {
            block,
            npus,
            rate: rate
                .ok_or_else(|| file.at(columns[1][index].line, "is no bandwidth in GB/s; write like 50.0"))?,
            latency_ps: latency_ps
                .ok_or_else(|| file.at(columns[2][index].line, "is no latency in ns; write like 500.0"))?,
        })
    };
    (0..blocks.len()).map(axis).collect()
}

/// A number in units of a scale, rounded; up to a largest.
fn scaled(node: &Node, scale: f64, most: f64) -> Option<u64> {
    let number: f64 = node.text()?.trim().parse().ok()?;
    let scaled = (number * scale).round();
    (0.0..=most).contains(&scaled).then_some(scaled as u64)
}
