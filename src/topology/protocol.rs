//! What a library's protocols add to a machine: `[[protocol]]` and `launch` in a machine's file.
//!
//! ```toml
//! launch = "2us"              # beside `name`: what every call costs before its first message
//!
//! [[protocol]]
//! name = "ll"                 # must be there
//! as = "nccl"                 # only on dgx-h100:as=nccl; left out: always
//! algorithms = "ring, tree"   # what it carries; left out: all
//! base = "6.6us"              # a call's fixed cost, beside launch; left out: none
//! eff = 0.5                   # the part of every class's bandwidth that is left to payload; left out: all of it
//! cap.nv18 = "140GB/s"        # ports of this class carry at most this
//! step.nv18 = "0.6us"         # a message whose way begins at such a port takes this beside its bytes,
//!                             # in place of the class's lat and post
//! ```
//!
//! A machine with protocols carries each call by the one that makes it quickest. Algorithms that no protocol carries are not
//! chosen there. One that is asked for by name, and a collective of which no algorithm is carried, go over the bare machine.

use super::source::Section;
use super::{Class, Network, units};
use crate::error::Result;
use std::sync::Arc;

/// A way of a library to carry calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// The name, for tables. Protocols of different algorithms may have the same.
    pub name: String,
    /// The names of the algorithms that it carries; empty: all.
    pub algorithms: Vec<String>,
    /// A call's fixed cost.
    pub base_ps: u64,
    /// The network's classes as a call finds them that is carried by this protocol.
    pub classes: Vec<Class>,
}

/// The most protocols of a machine.
const MOST_PROTOCOLS: usize = 32;

/// Reads the protocols of the sections, of which `selected` are those of the argument `as`.
pub(super) fn read(sections: &[Section], selected: Option<&str>, classes: &[Class]) -> Result<Vec<Protocol>> {
    let mut protocols: Vec<Protocol> = Vec::new();
    for section in sections {
        section.knows(&["name", "as", "algorithms", "base", "eff", "cap", "step"])?;
        let protocol = protocol(section, classes)?;
        let library = section.get("as").map(|field| field.text()).transpose()?;
        if library.is_some() && library != selected {
            continue;
        }
        if protocols.len() == MOST_PROTOCOLS {
            return Err(section.error(format_args!("is one too many; there may be {MOST_PROTOCOLS}")));
        }
        protocols.push(protocol);
    }
    Ok(protocols)
}

/// Returns the libraries that the protocols name, in their order.
pub(super) fn libraries<'a>(sections: &[Section<'a>]) -> Result<Vec<&'a str>> {
    let named = sections.iter().filter_map(|section| section.get("as"));
    let mut libraries = named.map(|field| field.text()).collect::<Result<Vec<_>>>()?;
    libraries.dedup();
    Ok(libraries)
}

fn protocol(section: &Section, classes: &[Class]) -> Result<Protocol> {
    let name = section.need("name", "\"ll\"")?.text()?.to_owned();
    let algorithms = section.get("algorithms").map(|field| field.text()).transpose()?;
    let algorithms = algorithms.iter().flat_map(|names| names.split(',')).map(|name| name.trim().to_owned());
    let algorithms = algorithms.collect();
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
    let base_ps = section.get("base").map_or(Ok(0), |field| field.read(units::time))?;
    Ok(Protocol { name, algorithms, base_ps, classes })
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
    /// Tells whether it carries an algorithm.
    pub fn carries(&self, algorithm: &str) -> bool {
        self.algorithms.is_empty() || self.algorithms.iter().any(|name| name == algorithm)
    }
}

impl Network {
    /// Returns the network as calls find it: bare at 0, and behind it by each of its protocols. They share their ports.
    pub fn views(&self) -> Vec<Arc<Network>> {
        let by = |protocol: &Protocol| Network {
            classes: protocol.classes.clone(),
            launch_ps: self.launch_ps.saturating_add(protocol.base_ps),
            protocols: Vec::new(),
            ..self.clone()
        };
        std::iter::once(self.clone()).chain(self.protocols.iter().map(by)).map(Arc::new).collect()
    }

    /// Returns the indices among the [`views`](Self::views) by which an algorithm may be carried.
    pub fn carriers<'a>(&'a self, algorithm: &'a str) -> impl Iterator<Item = usize> + 'a {
        let bare = self.protocols.is_empty().then_some(0);
        let carries = |(_, protocol): &(usize, &Protocol)| protocol.carries(algorithm);
        bare.into_iter().chain((1..).zip(&self.protocols).filter(carries).map(|(view, _)| view))
    }

    /// Returns the name of the protocol of a view; `None` for the bare machine.
    pub fn protocol_name(&self, view: usize) -> Option<&str> {
        self.protocols.get(view.checked_sub(1)?).map(|protocol| protocol.name.as_str())
    }
}
