//! The data mover at both ends of Ethernet links: `[mover]` in a machine's file.
//!
//! ```toml
//! [mover]
//! kind = "ethernet"              # must be there
//! link = "eth"                   # the class of the links that it serves; must be there
//! optional = true                # only with the argument mover=ethernet; left out: always, but with mover=none
//! payload = "8KiB"               # the most bytes of a message that a channel's buffer takes; whole words of `align`
//! channels = 8                   # of a link and a direction, each with a worker of its own
//! sharing = "none"               # buffers: "none" one a channel; "round_robin" several, in turn; "shared" all workers
//!                                # fill those of one channel; "round_robin_and_shared" both
//! buffers = 1                    # of a channel, with one of the two that take turns
//! signal = "merged"              # with the payload, in one command; "separate": in a command of its own
//! termination = "message_count"  # what ends a channel; "worker_initiated": the workers, with their last message
//! receiver = "push"              # the core writes a payload where it is needed; "pull": a worker is told, asks, reads, and writes
//! reverse = "busy"               # the other direction carries as much, so credits for it take their part of the wire; "idle"
//! programs = "standing"          # run already when a call begins; "call": each call shakes hands and drains credits
//! issue = "40ns"                 # the cores and their queues, as in `wormhole.toml`, whose values hold where one is left out
//! ```
//!
//! Values are the defaults, but for `optional`. Each is also an argument: `t3000:mover=ethernet,mover.channels=2`. The class's `post` and `gap`
//! do not count then: what they stand for is computed.

use super::source::{Field, Section, SourceText};
use super::{Class, units};
use crate::error::{Error, Result};
use std::sync::Arc;
use toml::de::DeTable;

/// The cores of a Wormhole chip, each value with its source.
const WORMHOLE: &str = include_str!("wormhole.toml");

const CORE_KEYS: [&str; 9] = [
    "issue",
    "look",
    "on_chip",
    "on_chip_bw",
    "queues",
    "queue_commands",
    "channels_max",
    "buffer_memory",
    "align",
];
const OWN_KEYS: [&str; 12] = [
    "kind",
    "link",
    "optional",
    "payload",
    "channels",
    "sharing",
    "buffers",
    "signal",
    "termination",
    "receiver",
    "reverse",
    "programs",
];
/// The argument that takes a mover or leaves it, and what precedes the name of a key in an argument.
const ARGUMENT: &str = "mover";
const PREFIX: &str = "mover.";

/// The way in which a payload and the word that announces it travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignalMode {
    /// In one command, the word last.
    Merged,
    /// In two commands, one after the other.
    Separate,
}

/// The condition that ends a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Termination {
    /// Both ends know the number of messages.
    MessageCount,
    /// The workers of both ends say with a message that it is the last.
    WorkerInitiated,
}

/// The way of a payload from the receiving core to where it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Handover {
    /// The core writes it where it is needed.
    Push,
    /// The worker is told, asks for it, and reads it. Then the buffer is free, and the worker writes it where it is needed.
    Pull,
}

/// The cores at both ends of a link, and their queues. Times are picoseconds, sizes bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetCore {
    /// A core writes a command into a transaction queue.
    pub issue_ps: u64,
    /// A core sees that a word has changed, and acts on it.
    pub look_ps: u64,
    /// From the core of one link to the core of the next, for the first byte.
    pub on_chip_ps: u64,
    /// Bytes a second on that way.
    pub on_chip_rate: u64,
    /// Transaction queues a core: 1 or 2.
    pub queues: u32,
    /// Commands that a queue holds.
    pub queue_commands: u32,
    /// The most channels in one direction.
    pub channels: u32,
    /// Room for the buffers of all channels of one direction.
    pub buffer_bytes: u64,
    /// Sizes are multiples of it, and a signal is one of it.
    pub align: u64,
}

/// A data mover, and how it is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoverSpec {
    /// The cores.
    pub core: EthernetCore,
    /// The most bytes of a payload.
    pub payload: u64,
    /// Channels of a link and a direction.
    pub channels: u32,
    /// Buffers of each.
    pub buffers: u32,
    /// The way in which payloads are announced.
    pub signal: SignalMode,
    /// What ends the channels. Both conditions take the same time.
    pub termination: Termination,
    /// The way from the receiving core to its worker.
    pub receiver: Handover,
    /// Each direction carries the credits of the other's payloads, of which there are as many.
    pub reverse_busy: bool,
    /// The cores' programs begin and end with each call.
    pub per_call: bool,
}

impl EthernetCore {
    /// Returns the cores of a Wormhole chip.
    pub fn wormhole() -> EthernetCore {
        let source = SourceText { file: "wormhole.toml", text: WORMHOLE };
        let document = DeTable::parse(WORMHOLE).expect("the file is part of the library");
        let table = document.get_ref();
        let section = Section { source, name: "the file".into(), at: 0, table, arguments: &[] };
        EthernetCore::read(&section, None).expect("the file is part of the library")
    }

    /// Reads the keys of a section; those that are left out are as in `default`.
    fn read(section: &Section, default: Option<&EthernetCore>) -> Result<EthernetCore> {
        let quantity = |key: &str, default: Option<u64>, reader: fn(&str) -> Result<u64, String>| match (
            section.get(key),
            default,
        ) {
            (Some(field), _) => field.read(reader),
            (None, Some(value)) => Ok(value),
            (None, None) => section.need(key, "wormhole.toml's")?.read(reader),
        };
        let count = |key: &str, default: Option<u32>, most: u32| match (section.get(key), default) {
            (Some(field), _) => field.count(most),
            (None, Some(value)) => Ok(value),
            (None, None) => section.need(key, "wormhole.toml's")?.count(most),
        };
        let core = EthernetCore {
            issue_ps: quantity("issue", default.map(|d| d.issue_ps), units::time)?,
            look_ps: quantity("look", default.map(|d| d.look_ps), units::time)?,
            on_chip_ps: quantity("on_chip", default.map(|d| d.on_chip_ps), units::time)?,
            on_chip_rate: quantity("on_chip_bw", default.map(|d| d.on_chip_rate), units::bandwidth)?,
            queues: count("queues", default.map(|d| d.queues), 2)?,
            queue_commands: count("queue_commands", default.map(|d| d.queue_commands), 1 << 16)?,
            channels: count("channels_max", default.map(|d| d.channels), 1 << 16)?,
            buffer_bytes: quantity("buffer_memory", default.map(|d| d.buffer_bytes), units::size)?,
            align: quantity("align", default.map(|d| d.align), units::size)?,
        };
        match core.align > 0 && core.on_chip_rate > 0 {
            true => Ok(core),
            false => Err(section.error("has align or on_chip_bw of 0; write more")),
        }
    }

    /// Returns the time of `bytes` bytes on the chip.
    pub fn on_chip(&self, bytes: u64) -> u64 {
        let ps = (bytes as u128 * 1_000_000_000_000).div_ceil(self.on_chip_rate as u128);
        self.on_chip_ps.saturating_add(u64::try_from(ps).unwrap_or(u64::MAX))
    }
}

impl MoverSpec {
    /// Returns the time from a core's seeing a payload until the core of another link has it. A worker that pulls it is told,
    /// asks for it, gets it, and writes it there.
    pub fn over_chip_ps(&self, bytes: u64) -> u64 {
        let once_ps = self.core.on_chip(bytes);
        match self.receiver {
            Handover::Push => once_ps,
            Handover::Pull => {
                let asked_ps = self.core.on_chip_ps.saturating_mul(2);
                asked_ps.saturating_add(once_ps.saturating_mul(2))
            }
        }
    }

    /// Returns the payloads that may be under way in one direction of a link.
    pub fn slots(&self) -> u64 {
        u64::from(self.channels) * u64::from(self.buffers)
    }
}

/// Divides arguments into those of the mover, without their prefix, and the others.
pub(super) fn arguments(all: &[(String, String)]) -> [Vec<(String, String)>; 2] {
    let (own, others): (Vec<_>, Vec<_>) =
        all.iter().cloned().partition(|(key, _)| key == ARGUMENT || key.starts_with(PREFIX));
    let bare =
        |(key, value): (String, String)| (key.strip_prefix(PREFIX).map_or(key.clone(), str::to_owned), value);
    [own.into_iter().map(bare).collect(), others]
}

/// Gives the mover of the section `[mover]`, if it is taken, to the class that it serves.
pub(super) fn attach(root: &Section, arguments: &[(String, String)], classes: &mut [Class]) -> Result<()> {
    let asked = arguments.iter().rev().find(|(key, _)| key == ARGUMENT).map(|(_, value)| value.as_str());
    if let Some(word) = asked.filter(|word| !["ethernet", "none"].contains(word)) {
        let file = root.source.file;
        return Err(Error::argument(format!(
            "{file}: the argument mover: there is no mover `{word}`; write ethernet or none"
        )));
    }
    let Some(value) = root.table.get(ARGUMENT) else {
        return match arguments.first() {
            Some(_) if asked != Some("none") => Err(Error::argument(format!(
                "{}: the argument mover: the machine has no [mover]; take n300, t3000 or galaxy, or add the table",
                root.source.file
            ))),
            _ => Ok(()),
        };
    };
    let keys: Vec<_> = arguments.iter().filter(|(key, _)| key != ARGUMENT).cloned().collect();
    let section = Section { arguments: &keys, ..root.inner("[mover]".into(), value)? };
    section.knows(&[&OWN_KEYS[..], &CORE_KEYS].concat())?;
    section.need("kind", "\"ethernet\"")?.word(&["ethernet"])?;
    let class = section.need("link", "\"eth\"")?.class(classes)? as usize;
    let optional = section.get("optional").map_or(Ok(false), |field| field.flag())?;
    let spec = read(&section)?;
    let taken = asked.map_or(!optional, |word| word == "ethernet");
    if !taken && !keys.is_empty() {
        return Err(section.error("is not taken, but has arguments; add mover=ethernet"));
    }
    if taken {
        let class = &mut classes[class];
        (class.post_ps, class.gap_ps) = (spec.core.look_ps.saturating_add(spec.core.issue_ps), 0);
        class.mover = Some(Arc::new(spec));
    }
    Ok(())
}

fn read(section: &Section) -> Result<MoverSpec> {
    let core = EthernetCore::read(section, Some(&EthernetCore::wormhole()))?;
    let word =
        |key: &str, words: &[&'static str]| section.get(key).map_or(Ok(words[0]), |field| field.word(words));
    let sharing = word("sharing", &["none", "round_robin", "shared", "round_robin_and_shared"])?;
    let in_turn = sharing.starts_with("round_robin");
    let field = section.get("buffers");
    let buffers = field.as_ref().map_or(Ok(if in_turn { 2 } else { 1 }), |field| field.count(1 << 16))?;
    if let Some(field) = field.filter(|_| !in_turn && buffers > 1) {
        return Err(field.error("several buffers of a channel take turns; add sharing = \"round_robin\""));
    }
    let workers = section.get("channels").map_or(Ok(8), |field| field.count(core.channels))?;
    let (channels, buffers) = match sharing.ends_with("shared") {
        true => (1, workers.saturating_mul(buffers)),
        false => (workers, buffers),
    };
    let spec = MoverSpec {
        payload: section.get("payload").map_or(Ok(8 << 10), |field| field.read(units::size))?,
        channels,
        buffers,
        signal: match word("signal", &["merged", "separate"])? {
            "merged" => SignalMode::Merged,
            _ => SignalMode::Separate,
        },
        termination: match word("termination", &["message_count", "worker_initiated"])? {
            "message_count" => Termination::MessageCount,
            _ => Termination::WorkerInitiated,
        },
        receiver: match word("receiver", &["push", "pull"])? {
            "push" => Handover::Push,
            _ => Handover::Pull,
        },
        reverse_busy: word("reverse", &["busy", "idle"])? == "busy",
        per_call: word("programs", &["standing", "call"])? == "call",
        core,
    };
    let at = |key: &str| section.get(key);
    let wrong = |field: Option<Field>, what: String| match field {
        Some(field) => field.error(what),
        None => section.error(what),
    };
    let EthernetCore { align, buffer_bytes, .. } = spec.core;
    if spec.payload == 0 || !spec.payload.is_multiple_of(align) {
        let what =
            format!("a payload of {} B is not whole words of {align} B; write a multiple", spec.payload);
        return Err(wrong(at("payload"), what));
    }
    let taken = spec.payload.saturating_add(align).saturating_mul(spec.slots());
    if taken > buffer_bytes {
        let what = format!(
            "{} buffers of {} B take {taken} B with their signals, and a core has {buffer_bytes} B for one direction; \
             write a smaller payload, or fewer channels",
            spec.slots(),
            spec.payload
        );
        return Err(wrong(at("channels").or(at("buffers")), what));
    }
    Ok(spec)
}

impl Class {
    /// Returns what the mover's programs take at the begin and the end of each call: the handshake, a word each way, and the
    /// acknowledgement and the credit of the last payload. `None`: nothing.
    pub(super) fn programs_ps(&self) -> Option<u64> {
        let core = &self.mover.as_ref().filter(|mover| mover.per_call)?.core;
        let act_ps = core.look_ps.saturating_add(core.issue_ps);
        let word_ps = act_ps.saturating_add(self.packet_ps(core.align)).saturating_add(self.latency_ps);
        Some(word_ps.saturating_mul(3).saturating_add(core.issue_ps))
    }
}
