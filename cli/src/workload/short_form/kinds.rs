//! What a node of the short form is: computing, a collective, or one end of a message.

use penny::sim::topology::units;
use penny::{Collective, Rank};

use super::super::amounts;
use super::super::program::Interval;
use super::MOST_RANKS;
use super::fields::Section;

/// A peer as a node names it.
#[derive(Clone, Copy)]
pub enum Peer {
    Rank(Rank),
    Offset(i64),
}

impl Peer {
    /// Returns the peer of a rank; `None`: there is none, or it is the rank itself.
    pub fn of(self, rank: Rank, ranks: u32) -> Option<Rank> {
        match self {
            Peer::Rank(peer) => (peer != rank).then_some(peer),
            Peer::Offset(offset) => {
                let peer = i64::from(rank).checked_add(offset)?;
                u32::try_from(peer).ok().filter(|&peer| peer < ranks)
            }
        }
    }
}

/// What a node is.
pub enum Kind {
    Compute(Interval),
    /// Picoseconds of the host.
    Host(u64),
    Call {
        collective: Collective,
        bytes: u64,
        root: Rank,
    },
    Send {
        bytes: u64,
        peer: Peer,
        tag: u64,
    },
    Recv {
        bytes: u64,
        peer: Peer,
        tag: u64,
    },
}

const COMMON: [&str; 4] = ["name", "stream", "after", "ranks"];

/// Reads what a node is.
pub fn kind(section: &Section<'_>) -> Result<Kind, String> {
    let collectives = || Collective::ALL.iter().filter(|collective| section.get(collective.name()).is_some());
    let is_compute = ["compute", "flops", "bytes", "host"].iter().any(|key| section.get(key).is_some());
    let messages = ["send", "recv"].iter().filter(|key| section.get(key).is_some()).count();
    let knows = |own: &[&str]| section.knows(&[&COMMON[..], own].concat());
    match (is_compute, messages, collectives().count()) {
        (true, 0, 0) if section.get("host").is_some() => {
            knows(&["host"])?;
            Ok(Kind::Host(section.need("host", "\"1ms\"")?.read(units::time)?))
        }
        (true, 0, 0) => {
            knows(&["compute", "flops", "bytes"])?;
            Ok(Kind::Compute(Interval {
                time_ps: section.get("compute").map(|field| field.read(units::time)).transpose()?,
                flops: section.get("flops").map(|field| field.read(amounts::operations)).transpose()?,
                bytes: section.get("bytes").map(|field| field.read(amounts::bytes)).transpose()?,
            }))
        }
        (false, 1, 0) => {
            let is_send = section.get("send").is_some();
            let (key, other) = if is_send { ("send", "to") } else { ("recv", "from") };
            knows(&[key, other, "tag"])?;
            let bytes = section.need(key, "\"4MB\"")?.read(amounts::bytes)?;
            let peer = section.need(other, "\"+1\"")?;
            let tag = section.get("tag").map_or(Ok(0), |field| field.number(0..=u64::MAX))?;
            let peer = match peer.item.as_str() {
                Some(text) => match text.strip_prefix('+').unwrap_or(text).parse() {
                    Ok(offset) if offset != 0 && text.starts_with(['+', '-']) => Peer::Offset(offset),
                    _ => return Err(peer.error("is no peer; write a rank, or \"+1\" for the one after it")),
                },
                None => Peer::Rank(peer.number(0..=MOST_RANKS)? as Rank),
            };
            Ok(if is_send { Kind::Send { bytes, peer, tag } } else { Kind::Recv { bytes, peer, tag } })
        }
        (false, 0, 1) => {
            let collective = *collectives().next().expect("there is one");
            let key = collective.name();
            knows(&[&[key, "group"][..], if collective.rooted() { &["root"] } else { &[] }].concat())?;
            let field = section.need(key, "\"64MiB\"")?;
            let bytes = match collective {
                Collective::Barrier if field.item.as_bool() == Some(true) => 0,
                Collective::Barrier => return Err(field.error("moves no data; write barrier = true")),
                _ => field.read(amounts::bytes)?,
            };
            let root = section.get("root").map_or(Ok(0), |field| field.number(0..=MOST_RANKS))? as Rank;
            Ok(Kind::Call { collective, bytes, root })
        }
        (false, 0, 0) => {
            let names: Vec<_> = Collective::ALL.iter().map(|collective| collective.name()).collect();
            let known = names.join(", ");
            Err(section.error(&format!(
                "says nothing to do; give it compute, flops, bytes, host, send, recv, nodes, or one of {known}"
            )))
        }
        _ => Err(section.error("does several things; write a node for each")),
    }
}
