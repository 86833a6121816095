//! What a link and the software at its ends cost.

use crate::error::{Error, Result};
use crate::topology::{Class, units};
use std::fmt::Display;
use toml::de::DeTable;

/// The parameters of a Wormhole chip, each with its source.
const WORMHOLE: &str = include_str!("wormhole.toml");

/// Keys of a file of parameters.
const KEYS: [&str; 9] =
    ["issue", "look", "on_chip", "on_chip_bw", "queues", "queue_commands", "channels", "buffers", "align"];

/// Times are picoseconds, sizes bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The wire: its rate, its framing, and the latency of the Ethernet subsystem.
    pub wire: Class,
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

impl Parameters {
    /// Returns the parameters of a Wormhole chip with this wire.
    pub fn wormhole(wire: Class) -> Parameters {
        Parameters::read("wormhole.toml", WORMHOLE, wire).expect("the file is part of the library")
    }

    /// From a file such as `wormhole.toml`; `name` is for errors.
    pub fn read(name: &str, text: &str, wire: Class) -> Result<Parameters> {
        let file = File::new(name, text)?;
        let parameters = Parameters {
            wire,
            issue_ps: file.read("issue", units::time)?,
            look_ps: file.read("look", units::time)?,
            on_chip_ps: file.read("on_chip", units::time)?,
            on_chip_rate: file.read("on_chip_bw", units::bandwidth)?,
            queues: file.read("queues", |text| count(text, 2))?,
            queue_commands: file.read("queue_commands", |text| count(text, 1 << 16))?,
            channels: file.read("channels", |text| count(text, 1 << 16))?,
            buffer_bytes: file.read("buffers", units::size)?,
            align: file.read("align", units::size)?,
        };
        match parameters.align > 0 && parameters.on_chip_rate > 0 {
            true => Ok(parameters),
            false => Err(file.wrong(0, "align and on_chip_bw are above 0; write more")),
        }
    }

    /// Returns how many channels fit in one direction, if each buffers one payload of `bytes` bytes and its signal.
    pub fn room_for(&self, bytes: u64) -> u32 {
        let fit = self.buffer_bytes / bytes.saturating_add(self.align);
        u32::try_from(fit).map_or(self.channels, |fit| fit.min(self.channels))
    }

    /// Refuses what no buffer can hold.
    pub fn check_payload(&self, bytes: u64) -> Result<()> {
        let Parameters { align, .. } = *self;
        if bytes == 0 || !bytes.is_multiple_of(align) {
            let next = bytes.max(1).checked_next_multiple_of(align).unwrap_or(align);
            return Err(Error::argument(format!(
                "a payload of {bytes} B is not whole words of {align} B; make it {next} B"
            )));
        }
        match self.room_for(bytes) {
            0 => Err(Error::argument(format!(
                "a payload of {bytes} B has no room in {} B of buffers; make it at most {} B",
                self.buffer_bytes,
                (self.buffer_bytes / align * align).saturating_sub(align)
            ))),
            _ => Ok(()),
        }
    }

    /// A payload's way over the chip.
    pub fn on_chip(&self, bytes: u64) -> u64 {
        let ps = (bytes as u128 * 1_000_000_000_000).div_ceil(self.on_chip_rate as u128);
        self.on_chip_ps.saturating_add(u64::try_from(ps).unwrap_or(u64::MAX))
    }
}

fn count(text: &str, most: u32) -> std::result::Result<u32, String> {
    let number = text.parse().ok().filter(|n| (1..=most).contains(n));
    number.ok_or_else(|| format!("`{text}` is not a whole number from 1 to {most}; write one"))
}

/// A flat TOML file whose errors name lines.
struct File<'a> {
    name: &'a str,
    text: &'a str,
    table: DeTable<'a>,
}

impl<'a> File<'a> {
    fn new(name: &'a str, text: &'a str) -> Result<File<'a>> {
        let table = DeTable::parse(text).map_err(|why| {
            let line = line(text, why.span().map_or(0, |span| span.start));
            Error::argument(format!("{name}:{line}: {}; see https://toml.io for the form", why.message()))
        })?;
        let file = File { name, text, table: table.into_inner() };
        match file.table.keys().find(|key| !KEYS.contains(&key.get_ref().as_ref())) {
            Some(key) => {
                let what = format!("there is no key `{}`; there are {}", key.get_ref(), KEYS.join(", "));
                Err(file.wrong(key.span().start, what))
            }
            None => Ok(file),
        }
    }

    fn wrong(&self, at: usize, what: impl Display) -> Error {
        Error::argument(format!("{}:{}: {what}", self.name, line(self.text, at)))
    }

    fn read<T>(&self, key: &str, reader: impl Fn(&str) -> std::result::Result<T, String>) -> Result<T> {
        let Some(value) = self.table.get(key) else {
            return Err(self.wrong(0, format_args!("there is no `{key}`; add it, as in wormhole.toml")));
        };
        let at = value.span().start;
        let given = value.get_ref();
        let text = given.as_str().or_else(|| given.as_integer().map(|number| number.as_str()));
        let text = text.ok_or_else(|| {
            self.wrong(at, format_args!("{key} is neither a text nor a whole number; write one"))
        })?;
        reader(text).map_err(|why| self.wrong(at, format_args!("{key}: {why}")))
    }
}

fn line(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&b| b == b'\n').count()
}
