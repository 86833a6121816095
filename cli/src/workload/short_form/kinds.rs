//! What a node of the short form is: computing, a collective, one end of a message, or access to the memory of another rank.

use penny::sim::topology::units;
use penny::{Collective, Rank};

use super::super::amounts;
use super::super::program::{Interval, WORD};
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
    /// Bytes for the memory of another rank.
    Put {
        bytes: u64,
        to: Peer,
        /// Threads of its mailbox, thread t being bit t; 0: memory.
        threads: u64,
        /// The name of the counter of signals that come after the bytes, and how many.
        signals: Option<(String, u64)>,
    },
    /// Bytes of the memory of another rank.
    Get {
        bytes: u64,
        from: Peer,
    },
    /// A thread of the rank's mailbox takes its next message, and frees it at once unless it keeps it.
    Receive {
        thread: u64,
        keeps: bool,
    },
    /// A thread of the rank's mailbox frees the oldest message that it has kept.
    Free {
        thread: u64,
    },
    /// A wait for `count` signals of a counter.
    Wait {
        counter: String,
        count: u64,
    },
}

/// Threads that a mailbox has at most.
const MOST_THREADS: u64 = 64;

/// Returns the name of the counter of the messages to a thread of a mailbox.
pub fn mailbox_counter(thread: u64) -> String {
    format!("thread {thread} of the mailbox")
}

const COMMON: [&str; 4] = ["name", "stream", "after", "ranks"];

/// Reads what a node is.
pub fn kind(section: &Section<'_>) -> Result<Kind, String> {
    let collectives = || Collective::ALL.iter().filter(|collective| section.get(collective.name()).is_some());
    let is_compute = ["compute", "flops", "bytes", "host"].iter().any(|key| section.get(key).is_some());
    let messages = ["send", "recv"].iter().filter(|key| section.get(key).is_some()).count();
    let knows = |own: &[&str]| section.knows(&[&COMMON[..], own].concat());
    let one_sided =
        ["put", "get", "wait", "mail", "receive", "free"].iter().filter(|key| section.get(key).is_some());
    let one_sided = match one_sided.count() {
        0 => usize::from(section.get("signal").is_some()),
        several => several,
    };
    match (is_compute, messages + one_sided, collectives().count()) {
        (false, 1, 0) if one_sided == 1 => self::one_sided(section, &knows),
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
            let peer = peer(section, other)?;
            let tag = section.get("tag").map_or(Ok(0), |field| field.number(0..=u64::MAX))?;
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
                "says nothing to do; give it compute, flops, bytes, host, send, recv, put, get, signal, wait, mail, receive, free, nodes, or \
                 one of {known}"
            )))
        }
        _ => Err(section.error("does several things; write a node for each")),
    }
}

/// Reads the peer that a key names.
fn peer(section: &Section<'_>, key: &str) -> Result<Peer, String> {
    let field = section.need(key, "\"+1\"")?;
    match field.item.as_str() {
        Some(text) => match text.strip_prefix('+').unwrap_or(text).parse() {
            Ok(offset) if offset != 0 && text.starts_with(['+', '-']) => Ok(Peer::Offset(offset)),
            _ => Err(field.error("is no peer; write a rank, or \"+1\" for the one after it")),
        },
        None => Ok(Peer::Rank(field.number(0..=MOST_RANKS)? as Rank)),
    }
}

fn one_sided(section: &Section<'_>, knows: &dyn Fn(&[&str]) -> Result<(), String>) -> Result<Kind, String> {
    let bytes = |key: &str| section.need(key, "\"4MB\"")?.read(amounts::bytes);
    let count = || section.get("count").map_or(Ok(1), |field| field.number(1..=u64::MAX));
    let has = |key: &str| section.get(key).is_some();
    if has("wait") {
        knows(&["wait", "count"])?;
        let counter = section.need("wait", "\"halo\"")?.text()?.to_owned();
        return Ok(Kind::Wait { counter, count: count()? });
    }
    let thread = |key: &str| section.need(key, "0")?.number(0..=MOST_THREADS - 1);
    if has("receive") {
        knows(&["receive", "keep"])?;
        let keeps = match section.get("keep") {
            Some(field) => field.item.as_bool().ok_or_else(|| field.error("is neither true nor false"))?,
            None => false,
        };
        return Ok(Kind::Receive { thread: thread("receive")?, keeps });
    }
    if has("free") {
        knows(&["free"])?;
        return Ok(Kind::Free { thread: thread("free")? });
    }
    if has("get") {
        knows(&["get", "from"])?;
        return Ok(Kind::Get { bytes: bytes("get")?, from: peer(section, "from")? });
    }
    if has("mail") {
        knows(&["mail", "to", "threads"])?;
        let threads = section.need("threads", "[0, 3]")?;
        let mut mask = 0;
        for thread in threads.array("[0, 3]")? {
            let thread = thread.as_integer().filter(|thread| (0..MOST_THREADS as i64).contains(thread));
            mask |= 1
                << thread.ok_or_else(|| {
                    threads.error("has no threads of a mailbox; write numbers from 0 to 63")
                })?;
        }
        return Ok(Kind::Put {
            bytes: bytes("mail")?,
            to: peer(section, "to")?,
            threads: mask,
            signals: None,
        });
    }
    let known: &[&str] = if has("signal") { &["put", "to", "signal", "count"] } else { &["put", "to"] };
    knows(known)?;
    let mut sum = if has("put") { bytes("put")? } else { 0 };
    let mut signals = None;
    if has("signal") {
        signals = Some((section.need("signal", "\"halo\"")?.text()?.to_owned(), count()?));
        sum = sum.saturating_add(WORD);
    }
    Ok(Kind::Put { bytes: sum, to: peer(section, "to")?, threads: 0, signals })
}
