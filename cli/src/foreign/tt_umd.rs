//! A cluster descriptor of tt-umd, in block or flow style.
//!
//! ```text
//!     arch: {0: wormhole_b0, 1: wormhole_b0}
//!     chips: {0: [0, 0, 0, 0], 1: [1, 0, 0, 0]}        x, y, rack, shelf; may be empty
//!     ethernet_connections:
//!       [[{chip: 0, chan: 8}, {chip: 1, chan: 0}],     what holds: a link an entry
//!        [{chip: 0, chan: 9}, {chip: 1, chan: 1}]]
//!     boards: [[{board_id: 1}, {board_type: n300}, {chips: [0, 1]}]]
//! ```
//!
//! Places are chips in the order of their coordinates, or of their numbers where there are none. Chips whose links are just
//! those of a grid of their coordinates are a `[mesh]` or a `[torus]`, others `[edges]`.

use std::collections::{BTreeMap, BTreeSet};

use super::toml_text::{From, Text, plain};
use super::yaml::{self, Node};
use super::{File, MOST_DEVICES};

/// One end of a link: chip and channel.
type End = (u64, u64);

/// What an Ethernet link of an architecture carries, in one direction.
const LINKS: [(&str, &str, &str); 2] = [
    ("wormhole", "12.5GB/s", "100 Gb/s, framing included"),
    ("blackhole", "50GB/s", "400 Gb/s, framing included"),
];

/// Sections of a descriptor that say nothing about how chips reach each other.
const OF_CHIPS: [&str; 9] = [
    "arch",
    "chips",
    "chip_unique_ids",
    "chips_with_mmio",
    "io_device_type",
    "harvesting",
    "chip_to_bus_id",
    "asic_locations",
    "chip_pci_bdfs",
];

/// x, y, rack, shelf.
type Coordinates = [u64; 4];

/// Chips and the links between them, places in order.
struct Cluster {
    chips: Vec<u64>,
    /// Of each place; empty if not all chips have some of their own.
    coordinates: Vec<Coordinates>,
    /// Lower place, higher place, links.
    edges: Vec<(usize, usize, u32)>,
}

/// The machine of a descriptor; `chip`: of what hangs together with this chip alone.
pub fn read(file: &File<'_>, chip: Option<u64>) -> Result<String, String> {
    let root = yaml::parse(file)?;
    if root.map().is_none() {
        return Err(file.at(root.line, "is not a map of keys; give the descriptor that tt-umd writes"));
    }
    let Some(connections) = root.get("ethernet_connections") else {
        return Err(file.error("has no ethernet_connections; give the descriptor that tt-umd writes"));
    };
    let mut chips = listed_chips(file, &root)?;
    let mut links: BTreeSet<(End, End)> = BTreeSet::new();
    for connection in connections
        .list()
        .ok_or_else(|| file.at(connections.line, "is no list of links; write [] at least"))?
    {
        let (a, b) = ends(file, connection)?;
        chips.extend([a.0, b.0]);
        links.insert((a.min(b), a.max(b)));
        if chips.len() > MOST_DEVICES {
            return Err(
                file.at(connection.line, format_args!("is beyond {MOST_DEVICES} chips; give one machine's"))
            );
        }
    }
    if chips.is_empty() {
        return Err(file.error("names no chip; give the descriptor that tt-umd writes"));
    }
    let parts = parts(&chips, &links);
    if let Some(chip) = chip {
        let Some(part) = parts.iter().find(|part| part.contains(&chip)) else {
            return Err(file.error(format_args!("has no chip {chip}; it has {}", named(&chips))));
        };
        chips.clone_from(part);
        links.retain(|(a, _)| part.contains(&a.0));
    } else if let [first, second, ..] = &parts[..] {
        let (one, other) = (first.first().unwrap_or(&0), second.first().unwrap_or(&0));
        return Err(file.at(
            connections.line,
            format_args!(
                "gives no way from chip {one} to chip {other}, for these are {} machines; import one of them, \
                 as with --chip {one}",
                parts.len()
            ),
        ));
    }
    let cluster = Cluster::new(&root, &chips, &links);
    let arch = arch(file, &root)?;
    let mut text = Text::new("a tt-umd cluster descriptor", file.name, &cluster.remarks(&root));
    text.section("class.eth", "one Ethernet link in one direction");
    match LINKS.iter().find(|(name, ..)| arch.contains(name)) {
        Some((name, bw, why)) => text.word("bw", bw, From::Guess(&format!("{why}, of {name}"))),
        None => {
            let why = format!("as wormhole, for `{}` is not known here", plain(&arch));
            text.word("bw", LINKS[0].1, From::Guess(&why));
        }
    }
    text.word("lat", "570ns", From::Guess("530 to 620 ns one way, of wormhole"));
    text.word("post", "80ns", From::Guess("to issue, of wormhole"));
    text.word("mtu", "1500B", From::Guess("payload of the largest packet"));
    text.word("hdr", "50B", From::Guess("14 raw header, 16 packet header, 16 MAC, 4 CRC"));
    match cluster.grid() {
        Some((shape, width, wraps)) => {
            text.section(if wraps { "torus" } else { "mesh" }, "");
            text.word("shape", &shape, From::File("x, y of the coordinates"));
            text.word("link", "eth", From::File(""));
            text.bare("links", width, From::File(""));
        }
        None => {
            text.section("edges", "");
            text.bare("places", cluster.chips.len(), From::File(""));
            if !cluster.edges.is_empty() {
                text.edges("eth", &cluster.edges, "chip, chip, links where there are several");
            }
        }
    }
    Ok(text.finish())
}

impl Cluster {
    fn new(root: &Node, chips: &BTreeSet<u64>, links: &BTreeSet<(End, End)>) -> Cluster {
        let found: BTreeMap<u64, Coordinates> = root
            .get("chips")
            .and_then(Node::map)
            .unwrap_or_default()
            .iter()
            .filter_map(|(chip, at)| Some((chip.number()?, coordinates(at)?)))
            .filter(|(chip, _)| chips.contains(chip))
            .collect();
        let distinct: BTreeSet<&Coordinates> = found.values().collect();
        let complete = found.len() == chips.len() && distinct.len() == chips.len();
        let mut order: Vec<u64> = chips.iter().copied().collect();
        if complete {
            order.sort_by_key(|chip| {
                let [x, y, rack, shelf] = found[chip];
                [rack, shelf, y, x]
            });
        }
        let places: BTreeMap<u64, usize> =
            order.iter().enumerate().map(|(place, &chip)| (chip, place)).collect();
        let mut edges: BTreeMap<(usize, usize), u32> = BTreeMap::new();
        for (a, b) in links {
            let (a, b) = (places[&a.0], places[&b.0]);
            *edges.entry((a.min(b), a.max(b))).or_default() += 1;
        }
        Cluster {
            coordinates: if complete { order.iter().map(|chip| found[chip]).collect() } else { Vec::new() },
            chips: order,
            edges: edges.into_iter().map(|((a, b), links)| (a, b, links)).collect(),
        }
    }

    /// Returns shape, links an edge, and whether it wraps, if chips and links are those of a grid.
    fn grid(&self) -> Option<(String, u32, bool)> {
        let first = *self.coordinates.first()?;
        let &(.., width) = self.edges.first()?;
        let along = |axis: usize| self.coordinates.iter().map(move |at| at[axis]);
        let reach = |axis: usize| {
            along(axis).max().zip(along(axis).min()).map_or(0, |(most, least)| most - least + 1)
        };
        let extents = [reach(0), reach(1)];
        let whole = extents[0].checked_mul(extents[1]) == Some(self.chips.len() as u64);
        let alike = self.edges.iter().all(|(.., links)| *links == width)
            && self.coordinates.iter().all(|at| at[2..] == first[2..]);
        if !whole || !alike || width > 64 {
            return None;
        }
        let (mut straight, mut around) = (0, 0);
        for &(a, b, _) in &self.edges {
            let [a, b] = [a, b].map(|place| self.coordinates[place]);
            match [0, 1].map(|axis| a[axis].abs_diff(b[axis])) {
                [1, 0] | [0, 1] => straight += 1,
                [far, 0] if far == extents[0] - 1 => around += 1,
                [0, far] if far == extents[1] - 1 => around += 1,
                _ => return None,
            }
        }
        let [x, y] = extents;
        let wires = (x - 1) * y + (y - 1) * x;
        // An axis of two places has no way round; a torus would have two there.
        let torus = x > 2 && (y == 1 || y > 2);
        let shape = if y == 1 { x.to_string() } else { format!("{x}x{y}") };
        match (straight == wires, around) {
            (true, 0) => Some((shape, width, false)),
            (true, around) if torus && around == if y == 1 { 1 } else { x + y } => Some((shape, width, true)),
            _ => None,
        }
    }

    /// What the machine's file cannot hold, in lines for its head.
    fn remarks(&self, root: &Node) -> Vec<String> {
        let mut remarks = Vec::new();
        let boards = root.get("boards").and_then(Node::list).unwrap_or_default();
        let kind =
            |board: &Node| Some(plain(board.list()?.iter().find_map(|part| part.get("board_type"))?.text()?));
        let kinds: BTreeSet<String> = boards.iter().filter_map(kind).collect();
        if !kinds.is_empty() {
            remarks.push(format!("Boards: {}.", kinds.into_iter().take(8).collect::<Vec<_>>().join(", ")));
        }
        if self.coordinates.is_empty() {
            if self.chips.iter().enumerate().any(|(place, &chip)| chip != place as u64) {
                remarks.push(format!("Places in order are chips {}.", named(&self.chips)));
            }
        } else {
            remarks.push("Places in order of coordinates: place = chip at x, y, rack, shelf.".to_owned());
            let all = self.chips.iter().zip(&self.coordinates).enumerate();
            let told: Vec<String> = all
                .map(|(place, (chip, [x, y, rack, shelf]))| {
                    format!("{place} = {chip} at {x}, {y}, {rack}, {shelf}")
                })
                .collect();
            remarks.extend(told.chunks(4).map(|four| format!("    {}", four.join("; "))));
        }
        if self.edges.is_empty() {
            remarks.push("One chip alone: the class of links is there because a machine has one.".to_owned());
        }
        let remote =
            root.get("ethernet_connections_to_remote_devices").and_then(Node::list).unwrap_or_default();
        if !remote.is_empty() {
            remarks.push(format!("Not carried over: links to chips of other hosts ({}).", remote.len()));
        }
        let keys = root.map().unwrap_or_default().iter().filter_map(|(key, _)| key.text());
        let known = ["ethernet_connections", "ethernet_connections_to_remote_devices", "boards"];
        let (of_chips, others): (Vec<&str>, Vec<&str>) =
            keys.filter(|key| !known.contains(key)).partition(|key| OF_CHIPS.contains(key));
        let carried = if self.coordinates.is_empty() { &["arch"][..] } else { &["arch", "chips"] };
        let left: Vec<&str> = of_chips.into_iter().filter(|key| !carried.contains(key)).collect();
        if !left.is_empty() {
            remarks.push(format!(
                "Not carried over, for it is about chips and their PCIe: {}.",
                left.join(", ")
            ));
        }
        if !others.is_empty() {
            let shown: Vec<String> = others.iter().take(8).map(|key| plain(key)).collect();
            remarks.push(format!("Not carried over, for it is not known here: {}.", shown.join(", ")));
        }
        remarks
    }
}

/// A chip's coordinates; `None` if they are not four numbers.
fn coordinates(at: &Node) -> Option<Coordinates> {
    let numbers: Vec<u64> = at.list()?.iter().map(Node::number).collect::<Option<_>>()?;
    numbers.try_into().ok().filter(|at: &Coordinates| at.iter().all(|&number| number < 1 << 16))
}

/// Chips as a sentence names them.
fn named<'a>(chips: impl IntoIterator<Item = &'a u64>) -> String {
    let names: Vec<String> = chips.into_iter().map(u64::to_string).collect();
    names.join(", ")
}

/// Groups of chips that links join, in the order of their lowest chips.
fn parts(chips: &BTreeSet<u64>, links: &BTreeSet<(End, End)>) -> Vec<BTreeSet<u64>> {
    let mut neighbours: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (a, b) in links {
        neighbours.entry(a.0).or_default().push(b.0);
        neighbours.entry(b.0).or_default().push(a.0);
    }
    let mut left = chips.clone();
    let mut parts = Vec::new();
    while let Some(first) = left.pop_first() {
        let (mut part, mut next) = (BTreeSet::from([first]), vec![first]);
        while let Some(chip) = next.pop() {
            let near = neighbours.get(&chip).into_iter().flatten();
            next.extend(near.filter(|near| part.insert(**near)));
        }
        left.retain(|chip| !part.contains(chip));
        parts.push(part);
    }
    parts
}

/// Chips that are named beside the links.
fn listed_chips(file: &File<'_>, root: &Node) -> Result<BTreeSet<u64>, String> {
    let mut chips = BTreeSet::new();
    for key in ["arch", "chips"] {
        let Some(section) = root.get(key) else { continue };
        let pairs = section
            .map()
            .ok_or_else(|| file.at(section.line, format_args!("{key} is no map; write {{}} at least")))?;
        for (chip, _) in pairs {
            let number = chip.number();
            chips.insert(number.ok_or_else(|| file.at(chip.line, "is no chip's number; write digits"))?);
        }
    }
    match chips.len() > MOST_DEVICES {
        true => Err(file.error(format_args!("names more than {MOST_DEVICES} chips; give one machine's"))),
        false => Ok(chips),
    }
}

/// The ends of a link; what follows them, such as `routing_enabled`, does not matter here.
fn ends(file: &File<'_>, connection: &Node) -> Result<(End, End), String> {
    let wrong = |what: &str| file.at(connection.line, what);
    let members = connection.list().unwrap_or_default();
    let end = |node: &Node| Some((node.get("chip")?.number()?, node.get("chan")?.number()?));
    let found: Vec<End> = members.iter().filter_map(end).collect();
    match found[..] {
        [a, b] if a == b => Err(wrong("joins a channel to itself; write the two ends of a link")),
        [a, b] if a.0 == b.0 => {
            Err(wrong("joins a chip to itself, which is no way to anywhere; leave the link out"))
        }
        [a, b] => Ok((a, b)),
        _ => Err(wrong("is no link; write its two ends like [{chip: 0, chan: 8}, {chip: 1, chan: 0}]")),
    }
}

/// Returns the architecture of all chips, in lower case; empty if the descriptor names none.
fn arch(file: &File<'_>, root: &Node) -> Result<String, String> {
    let pairs = root.get("arch").and_then(Node::map).unwrap_or_default();
    let mut first: Option<String> = None;
    for (chip, name) in pairs {
        let name = name.text().unwrap_or_default().to_ascii_lowercase();
        let family =
            LINKS.iter().map(|l| l.0).find(|family| name.contains(family)).map_or(name, str::to_owned);
        match &first {
            Some(first) if *first != family => {
                let what = format!(
                    "is a chip of `{}` beside `{}`; import one kind at a time",
                    plain(&family),
                    plain(first)
                );
                return Err(file.at(chip.line, what));
            }
            Some(_) => {}
            None => first = Some(family),
        }
    }
    Ok(first.unwrap_or_default())
}
