//! A cluster descriptor of tt-umd, in block or flow style.
//!
//! ```text
//!     arch: {0: wormhole_b0, 1: wormhole_b0}
//!     chips: {}                                        coordinates; may be empty, and is not needed
//!     ethernet_connections:
//!       [[{chip: 0, chan: 8}, {chip: 1, chan: 0}],     what holds: a link an entry
//!        [{chip: 0, chan: 9}, {chip: 1, chan: 1}]]
//!     boards: [[{board_id: 1}, {board_type: n300}, {chips: [0, 1]}]]
//! ```

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

/// The machine of a descriptor.
pub fn read(file: &File<'_>) -> Result<String, String> {
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
    if chips.len() < 2 {
        return Err(file.at(
            connections.line,
            "joins no two chips, so there is no machine to declare; give a cluster's",
        ));
    }
    let places: BTreeMap<u64, usize> = chips.iter().enumerate().map(|(place, &chip)| (chip, place)).collect();
    let mut edges: BTreeMap<(usize, usize), u32> = BTreeMap::new();
    for (a, b) in &links {
        *edges.entry((places[&a.0], places[&b.0])).or_default() += 1;
    }
    let edges: Vec<(usize, usize, u32)> = edges.into_iter().map(|((a, b), links)| (a, b, links)).collect();
    if let Some(alone) = unreached(chips.len(), &edges) {
        let (first, alone) = (chips.iter().next().unwrap_or(&0), chips.iter().nth(alone).unwrap_or(&0));
        return Err(file.at(
            connections.line,
            format_args!(
                "gives no way from chip {first} to chip {alone}; import each part that hangs together alone"
            ),
        ));
    }
    let arch = arch(file, &root)?;
    let mut text = Text::new("a tt-umd cluster descriptor", file.name, &remarks(&root, &chips, &places));
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
    text.section("edges", "");
    text.bare("places", chips.len(), From::File(""));
    text.edges("eth", &edges, "chip, chip, links where there are several");
    Ok(text.finish())
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

/// What the machine's file cannot hold, in lines for its head.
fn remarks(root: &Node, chips: &BTreeSet<u64>, places: &BTreeMap<u64, usize>) -> Vec<String> {
    let mut remarks = Vec::new();
    let boards = root.get("boards").and_then(Node::list).unwrap_or_default();
    let kind =
        |board: &Node| Some(plain(board.list()?.iter().find_map(|part| part.get("board_type"))?.text()?));
    let kinds: BTreeSet<String> = boards.iter().filter_map(kind).collect();
    if !kinds.is_empty() {
        remarks.push(format!("Boards: {}.", kinds.into_iter().take(8).collect::<Vec<_>>().join(", ")));
    }
    if places.iter().any(|(&chip, &place)| chip != place as u64) {
        let named: Vec<String> = chips.iter().map(u64::to_string).collect();
        remarks.push(format!("Places in order are chips {}.", named.join(", ")));
    }
    let remote = root.get("ethernet_connections_to_remote_devices").and_then(Node::list).unwrap_or_default();
    if !remote.is_empty() {
        remarks.push(format!("Not carried over: links to chips of other hosts ({}).", remote.len()));
    }
    remarks
}

/// The first place that the edges do not join to place 0.
fn unreached(places: usize, edges: &[(usize, usize, u32)]) -> Option<usize> {
    let mut neighbours = vec![Vec::new(); places];
    for &(a, b, _) in edges {
        neighbours[a].push(b);
        neighbours[b].push(a);
    }
    let mut reached = vec![false; places];
    let mut next = vec![0];
    while let Some(place) = next.pop() {
        if !std::mem::replace(&mut reached[place], true) {
            next.extend(&neighbours[place]);
        }
    }
    reached.iter().position(|reached| !reached)
}
