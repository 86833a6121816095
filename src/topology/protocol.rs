//! What a library's protocols add to a machine: `[[protocol]]` and `launch` in a machine's file.
//!
//! ```toml
//! launch = "2us"              # beside `name`: what every call costs before its first message
//!
//! [[protocol]]
//! name = "ll"                 # must be there
//! as = "nccl, nccl-2.26"      # only on dgx-h100:as=nccl and dgx-h100:as=nccl-2.26; left out: always
//! algorithms = "ring, tree"   # what it carries; left out: all
//! collectives = "all_reduce"  # of which collectives; left out: all
//! nodes = "2.."               # of ranks on this number of nodes: 1, 2, 2.., 2..4; left out: any number
//! sizes = "..30MiB"           # of which vectors, without the end; left out: all
//! base = "6.6us"              # a call's fixed cost, beside launch; left out: none
//! eff = 0.5                   # the part of every class's bandwidth that is left to payload; left out: all of it
//! cap.nv18 = "140GB/s"        # ports of this class carry at most this
//! step.nv18 = "0.6us"         # a message whose way begins at such a port takes this beside its bytes,
//!                             # in place of the class's lat and post
//! gap.nic = "1us"             # port time of each message beside its bytes, in place of the class's gap
//! hold.nic = "11us"           # port time of each message at least, its bytes included
//! lane.nv18 = "20GB/s"        # what a rank feeds into a lane to another rank, if its way begins at such a port
//! piece.nv18 = "1920B"        # of a lane's message, what is fed before its receiver hands it on; left out: all of it
//! channels = 24               # the most channels of a call: it has one for each channel_bytes of its vector, at least one, and
//! channel_bytes = "4KiB"      # each has its share of the bandwidth; channel_bytes_per_rank: times the number of ranks
//! part = { 4KiB = 0.9 }       # what is left of the bandwidth from this size on, beside eff
//! expects = "tree"            # the library chooses by a formula: see expectation.rs; left out: by the price
//! slice = { 1MiB = "256KiB" } # the largest slice of a chunk from this size on, or for all: "256KiB"; left out: the quickest
//! slices = 4                  # slices of a chunk, if slice does not make it more; slice_least: none of them is smaller
//! ```
//!
//! A machine with protocols carries each call by the one that makes it quickest. Algorithms that no protocol carries are not
//! chosen there. One that is asked for by name, and a collective of which no algorithm is carried, go over the bare machine.

mod by_size;
mod expectation;

use super::source::Section;
use super::units::{self, Ratio};
use super::{Class, Network};
use crate::error::Result;
use crate::plan::RankView;
use crate::types::Collective;
pub use by_size::SliceBounds;
use by_size::{BySize, SizeRange};
pub use expectation::Expectation;
use std::ops::Range;
use std::sync::Arc;

/// A way of a library to carry calls of some sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// The name, for tables. Protocols of different algorithms may have the same.
    pub name: String,
    /// The names of the algorithms that it carries; empty: all.
    pub algorithms: Vec<String>,
    /// The collectives of which it carries calls; empty: all.
    pub collectives: Vec<Collective>,
    /// The numbers of nodes on which ranks stand.
    pub nodes: Range<u32>,
    /// The bytes of whole vectors, divided by the number of ranks if `per_rank`.
    pub bytes: Range<u64>,
    /// See [`bytes`](Self::bytes).
    pub per_rank: bool,
    /// How it cuts chunks.
    pub slices: SliceBounds,
    /// By what the library chooses, if not by the price.
    pub expects: Option<Expectation>,
    /// A call's fixed cost.
    pub base_ps: u64,
    /// The network's classes as a call finds them that is carried by this protocol.
    pub classes: Vec<Class>,
}

/// A call, as far as the choice of protocols depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarriedCall {
    /// The collective.
    pub collective: Collective,
    /// Its ranks.
    pub nranks: u32,
    /// The nodes on which they stand.
    pub nodes: u32,
    /// Bytes of the whole vector; `None`: any.
    pub bytes: Option<u64>,
}

impl CarriedCall {
    /// Returns the call of a view, with blocks of `count` elements of `size` bytes.
    pub fn of(view: &RankView, count: u64, size: u64) -> CarriedCall {
        let bytes = count.saturating_mul(size).saturating_mul(view.blocks().into());
        CarriedCall { bytes: Some(bytes), ..CarriedCall::of_any_size(view) }
    }

    /// Returns the calls of a view.
    pub fn of_any_size(view: &RankView) -> CarriedCall {
        let (nranks, nodes) = (view.nranks, view.shape.nodes());
        CarriedCall { collective: view.collective, nranks, nodes, bytes: None }
    }
}

/// The most protocols of a machine's file.
const MOST_PROTOCOLS: usize = 64;
/// The most protocols, counted by the sizes at which one changes: ranks post their index in 16 bits.
const MOST_ROWS: usize = 4096;

/// Reads the protocols of the sections, of which `selected` are those of the argument `as`.
pub(super) fn read(sections: &[Section], selected: Option<&str>, classes: &[Class]) -> Result<Vec<Protocol>> {
    let mut protocols: Vec<Protocol> = Vec::new();
    let mut selected_sections = 0;
    for section in sections {
        section.knows(&[
            "name",
            "as",
            "algorithms",
            "collectives",
            "nodes",
            "sizes",
            "base",
            "eff",
            "cap",
            "step",
            "gap",
            "hold",
            "lane",
            "piece",
            "channels",
            "channel_bytes",
            "channel_bytes_per_rank",
            "part",
            "slice",
            "slices",
            "slice_least",
            "expects",
            "expects_inside",
            "expects_across",
            "expects_bw",
            "expects_part",
        ])?;
        let rows = protocol(section, classes)?;
        let libraries = section.get("as").map(|field| field.text()).transpose()?;
        if libraries.is_some_and(|names| !selected.is_some_and(|selected| of_library(names, selected))) {
            continue;
        }
        selected_sections += 1;
        if selected_sections > MOST_PROTOCOLS {
            return Err(section.error(format_args!("is one too many; there may be {MOST_PROTOCOLS}")));
        }
        protocols.extend(rows);
        if protocols.len() > MOST_ROWS {
            let what = "makes more than 4096 protocols and sizes at which they change; give fewer channels";
            return Err(section.error(what));
        }
    }
    Ok(protocols)
}

/// Returns the libraries that the protocols name, in their order.
pub(super) fn libraries<'a>(sections: &[Section<'a>]) -> Result<Vec<&'a str>> {
    let named = sections.iter().filter_map(|section| section.get("as"));
    let mut libraries = Vec::new();
    for field in named {
        for library in field.text()?.split(',').map(str::trim) {
            if !libraries.contains(&library) {
                libraries.push(library);
            }
        }
    }
    Ok(libraries)
}

/// Tells whether a library is one of those that `as` names.
pub fn of_library(names: &str, library: &str) -> bool {
    names.split(',').any(|name| name.trim() == library)
}

/// A section's protocol, once for each range of sizes in which it is the same.
fn protocol(section: &Section, classes: &[Class]) -> Result<Vec<Protocol>> {
    let name = section.need("name", "\"ll\"")?.plain()?.to_owned();
    let algorithms = section.get("algorithms").map(|field| field.text()).transpose()?;
    let algorithms = algorithms.iter().flat_map(|names| names.split(',')).map(|name| name.trim().to_owned());
    let algorithms: Vec<String> = algorithms.collect();
    let mut classes = classes.to_vec();
    if let Some(field) = section.get("eff") {
        let part = field.part()?;
        for class in &mut classes {
            class.rate = part.of(class.rate);
            if class.rate == 0 {
                return Err(field.error(format_args!("leaves class {} nothing; write more", class.name)));
            }
        }
    }
    per_class(section, "cap", &mut classes, |field, class| {
        class.rate = class.rate.min(field.read(units::bandwidth)?);
        if class.rate == 0 {
            Err(field.error("nothing passes at 0 bytes a second; write more"))
        } else {
            Ok(())
        }
    })?;
    per_class(section, "step", &mut classes, |field, class| {
        (class.post_ps, class.latency_ps) = (field.read(units::time)?, 0);
        Ok(())
    })?;
    per_class(section, "gap", &mut classes, |field, class| {
        class.gap_ps = field.read(units::time)?;
        Ok(())
    })?;
    per_class(section, "hold", &mut classes, |field, class| {
        class.least_hold_ps = field.read(units::time)?;
        Ok(())
    })?;
    per_class(section, "lane", &mut classes, |field, class| {
        class.lane_rate = field.read(units::bandwidth)?;
        match class.lane_rate {
            0 => Err(field.error("nothing passes at 0 bytes a second; write more")),
            _ => Ok(()),
        }
    })?;
    per_class(section, "piece", &mut classes, |field, class| {
        class.lane_piece = field.read(units::size)?;
        match (class.lane_piece, class.lane_rate) {
            (0, _) => Err(field.error("nothing is handed on after 0 bytes; write more")),
            (_, 0) => Err(field.error(format_args!("is of lanes; give {} a lane, too", class.name))),
            _ => Ok(()),
        }
    })?;
    let base_ps = section.get("base").map_or(Ok(0), |field| field.read(units::time))?;
    let collectives = section.get("collectives").map(|field| field.read(collectives)).transpose()?;
    let (collectives, nodes) = (collectives.unwrap_or_default(), by_size::nodes(section)?);
    let BySize { per_rank, ranges } = BySize::read(section)?;
    let expects = Expectation::read(section, base_ps)?;
    let row = |SizeRange { bytes, channels, part, slices }| Protocol {
        name: name.clone(),
        algorithms: Vec::clone(&algorithms),
        collectives: collectives.clone(),
        nodes: nodes.clone(),
        bytes,
        per_rank,
        slices,
        expects: expects.clone(),
        base_ps,
        classes: classes.iter().map(|class| slower(class, channels, part)).collect(),
    };
    Ok(ranges.into_iter().map(row).collect())
}

/// Returns a class with the part of its rates that a size leaves, at least a byte a second. Channels share lanes where there are such: ports then
/// carry what lanes bring.
fn slower(class: &Class, channels: Option<Ratio>, part: Option<Ratio>) -> Class {
    let of = |parts: [Option<Ratio>; 2], rate| {
        parts.iter().flatten().fold(rate, |rate, part| part.of(rate)).max(1)
    };
    match class.lane_rate {
        0 => Class { rate: of([channels, part], class.rate), ..class.clone() },
        lane_rate => Class {
            rate: of([None, part], class.rate),
            lane_rate: of([channels, part], lane_rate),
            ..class.clone()
        },
    }
}

/// Reads the names of collectives.
fn collectives(text: &str) -> Result<Vec<Collective>, String> {
    let known = |name: &str| Collective::ALL.iter().copied().find(|collective| collective.name() == name);
    let named = text.split(',').map(str::trim);
    named
        .map(|name| {
            known(name).ok_or_else(|| format!("`{name}` is no collective; write names like all_reduce"))
        })
        .collect()
}

/// Changes the classes that the table `key` names, and those that overrides have made of them.
fn per_class(
    section: &Section,
    key: &str,
    classes: &mut [Class],
    change: impl Fn(&super::source::Field, &mut Class) -> Result<()>,
) -> Result<()> {
    let Some(value) = section.table.get(key) else { return Ok(()) };
    let inner = section.inner(format!("{}'s {key}", section.name), value)?;
    for name in inner.table.keys().map(|name| name.get_ref().as_ref()) {
        let Some(field) = inner.get(name) else { continue };
        let is_of =
            |class: &&mut Class| class.name.split_once(", ").map_or(&*class.name, |(of, _)| of) == name;
        let mut named = classes.iter_mut().filter(is_of).peekable();
        if named.peek().is_none() {
            return Err(field.error(format_args!("there is no class `{name}`; name one of the machine's")));
        }
        named.try_for_each(|class| change(&field, class))?;
    }
    Ok(())
}

impl Protocol {
    /// Tells whether it carries calls of an algorithm.
    pub fn carries(&self, algorithm: &str, call: CarriedCall) -> bool {
        let per = if self.per_rank { u64::from(call.nranks.max(1)) } else { 1 };
        (self.algorithms.is_empty() || self.algorithms.iter().any(|name| name == algorithm))
            && (self.collectives.is_empty() || self.collectives.contains(&call.collective))
            && self.nodes.contains(&call.nodes)
            && call.bytes.is_none_or(|bytes| self.bytes.contains(&(bytes / per)))
    }
}

impl Network {
    /// Returns the network as calls find it: bare at 0, and behind it by each of its protocols. They share their ports.
    pub fn views(&self) -> Vec<Arc<Network>> {
        let alone = Network { protocols: Vec::new(), ..self.clone() };
        let by = |protocol: &Protocol| Network {
            classes: protocol.classes.clone(),
            launch_ps: self.launch_ps.saturating_add(protocol.base_ps),
            ..alone.clone()
        };
        let bare = std::iter::once(self.clone());
        bare.chain(self.protocols.iter().map(by)).map(Arc::new).collect()
    }

    /// Returns the indices among the [`views`](Self::views) by which calls of an algorithm may be carried.
    pub fn carriers<'a>(&'a self, algorithm: &'a str, call: CarriedCall) -> impl Iterator<Item = usize> + 'a {
        let bare = self.protocols.is_empty().then_some(0);
        let carries = move |(_, protocol): &(usize, &Protocol)| protocol.carries(algorithm, call);
        bare.into_iter().chain((1..).zip(&self.protocols).filter(carries).map(|(view, _)| view))
    }

    /// Returns what the machine's library expects a call by a view to take, if it does not choose by the price.
    pub fn expected_ps(&self, view: usize, call: CarriedCall) -> Option<u64> {
        let expects = self.protocols.get(view.checked_sub(1)?)?.expects.as_ref()?;
        Some(self.launch_ps.saturating_add(expects.time_ps(call)))
    }

    /// Tells whether calls choose among protocols by the price of each.
    pub fn chooses_by_price(&self) -> bool {
        self.protocols.iter().all(|protocol| protocol.expects.is_none())
    }

    /// Returns the largest slice that the protocol of a view has for calls whose largest chunk has `chunk_bytes` bytes.
    pub fn protocol_slice(&self, view: usize, chunk_bytes: u64) -> Option<u64> {
        self.protocols.get(view.checked_sub(1)?)?.slices.of(chunk_bytes)
    }

    /// Returns the name of the protocol of a view; `None` for the bare machine.
    pub fn protocol_name(&self, view: usize) -> Option<&str> {
        self.protocols.get(view.checked_sub(1)?).map(|protocol| protocol.name.as_str())
    }
}
