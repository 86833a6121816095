//! The host profile: the algorithms that `auto` takes on this host where they beat the built-in table.
//!
//! `penny calibrate host` measures the host, prices the algorithms, and writes the file; the library only reads its choices.
//!
//! ```toml
//!     format = 1
//!     version = "0.1.0"             # of the Penny that wrote it
//!     cpu = "AMD EPYC"              # the host
//!     cores = 2                     # that processes of the host may use, if nobody binds them
//!     [auto]                        # ranks, and choices in PENNY_ALGO's grammar; sizes are powers of two
//!     2 = "all_reduce:4k-16k:two_shot;broadcast:1m-inf:two_shot"
//!     3-8 = "alltoall:256k-1m:pairwise"
//! ```
//!
//! Other sections are for people. Rank 0 reads the file and sends its choices, a word each, to the other ranks:
//!
//! ```text
//!     bits 0..16 first rank count | 16..32 last | 32..40 collective | 40..48 algorithm | 48..56 first size | 56..64 end of sizes
//! ```

#[cfg(test)]
mod tests;

use super::select::{self, Rule};
use crate::algorithms;
use crate::types::{Collective, MAX_RANKS};
use std::borrow::Cow;
use std::ops::RangeInclusive;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Choices of a profile: as many as fit what a rank sends when it joins.
pub const MOST_CHOICES: usize = 240;
/// The form of the file.
pub const FORMAT: u64 = 1;
/// This library's version, as a profile names it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The name of the section with the choices.
const AUTO: &str = "auto";

/// A host, as a profile names the one that it was measured on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The name of its processor.
    pub cpu: String,
    /// Cores that a process may use.
    pub cores: usize,
}

/// The algorithm for some numbers of ranks and some sizes of a collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileChoice {
    /// Numbers of ranks.
    pub ranks: RangeInclusive<u32>,
    /// The collective.
    pub collective: Collective,
    /// Sizes of vectors in bytes: 0, powers of two, `u64::MAX`.
    pub sizes: std::ops::Range<u64>,
    /// The algorithm's index in the table.
    pub algorithm: usize,
}

/// The choices of a host profile, the same on all ranks of a communicator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostProfile {
    choices: Vec<ProfileChoice>,
}

impl Host {
    /// Returns the name of the file with its profile: `host-amd-epyc-2-cores-0.1.0.toml`.
    pub fn file_name(&self) -> String {
        let mut name = String::from("host");
        for word in self.cpu.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
            name = name + "-" + &word.to_ascii_lowercase();
        }
        format!("{name}-{}-cores-{VERSION}.toml", self.cores)
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plural = if self.cores == 1 { "core" } else { "cores" };
        write!(f, "{}, {} {plural}", self.cpu, self.cores)
    }
}

impl HostProfile {
    /// Reads a profile's file. `Err` says why it is none for this host.
    pub fn parse(text: &str, host: &Host) -> Result<HostProfile, String> {
        let document = DeTable::parse(text).map_err(|why| why.message().replace('\n', ", "))?;
        let document = document.get_ref();
        let format = field(document, "format")?;
        if format != FORMAT.to_string() {
            return Err(format!("its format is {format}, and this version reads format {FORMAT}"));
        }
        let version = field(document, "version")?;
        if version != VERSION {
            return Err(format!("Penny {version} wrote it, and this is {VERSION}"));
        }
        let cores = field(document, "cores")?;
        let cores = cores.parse().map_err(|_| format!("cores is `{cores}`, which is no number"))?;
        let measured = Host { cpu: field(document, "cpu")?.into_owned(), cores };
        if measured != *host {
            return Err(format!("it was measured on another host ({measured}), and this one is {host}"));
        }
        let auto = document.get(AUTO).map(Spanned::get_ref).and_then(DeValue::as_table);
        let mut choices = Vec::new();
        for (ranks, entries) in auto.ok_or_else(|| format!("it has no section [{AUTO}]"))? {
            let ranks = ranks.get_ref();
            let entries = string(entries.get_ref()).unwrap_or_default();
            read_choices(ranks, &entries, &mut choices).map_err(|what| format!("{AUTO}, {ranks}: {what}"))?;
        }
        HostProfile::of(choices)
    }

    /// Makes the profile of these choices; of two that concern a call the first counts.
    pub fn of(choices: Vec<ProfileChoice>) -> Result<HostProfile, String> {
        if choices.len() > MOST_CHOICES {
            return Err(format!("it has {} choices, more than {MOST_CHOICES}", choices.len()));
        }
        match choices.iter().find_map(ProfileChoice::fault) {
            None => Ok(HostProfile { choices }),
            Some(what) => Err(what),
        }
    }

    /// Returns the choices.
    #[cfg(any(test, feature = "internals"))]
    pub fn choices(&self) -> &[ProfileChoice] {
        &self.choices
    }

    /// Returns the algorithm for a call of `nranks` ranks and `bytes` bytes, if there is a choice for it.
    pub fn algorithm(&self, nranks: u32, collective: Collective, bytes: u64) -> Option<usize> {
        let concerns = |c: &&ProfileChoice| {
            c.collective == collective && c.ranks.contains(&nranks) && c.sizes.contains(&bytes)
        };
        self.choices.iter().find(concerns).map(|choice| choice.algorithm)
    }

    /// Encodes the choices for the other ranks.
    pub fn encode(&self) -> Vec<u8> {
        self.choices.iter().flat_map(|choice| choice.word().to_le_bytes()).collect()
    }

    /// Decodes what another rank has encoded; `None`: it is none.
    pub fn decode(bytes: &[u8]) -> Option<HostProfile> {
        let (words, rest) = bytes.as_chunks::<8>();
        let choice = |word: &[u8; 8]| ProfileChoice::of_word(u64::from_le_bytes(*word));
        let choices: Option<Vec<ProfileChoice>> = words.iter().map(choice).collect();
        rest.is_empty().then_some(HostProfile::of(choices?).ok()?)
    }

    /// Returns the section `[auto]` of a file with these choices.
    #[cfg(any(test, feature = "internals"))]
    pub fn section(&self) -> String {
        let mut text = format!("[{AUTO}]\n");
        let mut before: Option<&RangeInclusive<u32>> = None;
        let mut ranges: Vec<&RangeInclusive<u32>> = self.choices.iter().map(|c| &c.ranks).collect();
        ranges.sort_by_key(|ranks| (*ranks.start(), *ranks.end()));
        for ranks in ranges {
            if before.replace(ranks) == Some(ranks) {
                continue;
            }
            let of_ranks = self.choices.iter().filter(|c| c.ranks == *ranks);
            let entries: Vec<String> = of_ranks.map(ProfileChoice::entry).collect();
            text += &format!("{} = \"{}\"\n", spelled(ranks), entries.join(";"));
        }
        text
    }
}

impl ProfileChoice {
    /// Returns what is wrong with it, if anything is.
    fn fault(&self) -> Option<String> {
        let ProfileChoice { ranks, collective, sizes, algorithm } = self;
        let Some(algorithm) = algorithms::ALL.get(*algorithm) else {
            return Some("it names an algorithm that does not exist".into());
        };
        if !algorithm.serves.contains(collective) {
            return Some(format!("{} does not serve {collective}", algorithm.name));
        }
        if *ranks.start() < 2 || *ranks.end() > MAX_RANKS || ranks.is_empty() {
            return Some(format!("`{}` are no numbers of ranks in 2..={MAX_RANKS}", spelled(ranks)));
        }
        let powers = [sizes.start, sizes.end].iter().all(|&size| exponent(size).is_some());
        if !powers || sizes.is_empty() {
            return Some(format!("{}-{} is no range of powers of two", sizes.start, sizes.end));
        }
        None
    }

    /// Returns the choice as an entry of `PENNY_ALGO`.
    #[cfg(any(test, feature = "internals"))]
    fn entry(&self) -> String {
        let [low, high] = [self.sizes.start, self.sizes.end].map(size_text);
        format!("{}:{low}-{high}:{}", self.collective, algorithms::ALL[self.algorithm].name)
    }

    fn word(&self) -> u64 {
        let byte = |size| u64::from(exponent(size).unwrap_or(0));
        u64::from(*self.ranks.start())
            | u64::from(*self.ranks.end()) << 16
            | (self.collective as u64) << 32
            | (self.algorithm as u64) << 40
            | byte(self.sizes.start) << 48
            | byte(self.sizes.end) << 56
    }

    fn of_word(word: u64) -> Option<ProfileChoice> {
        let byte = |at: u32| (word >> at) as u8;
        Some(ProfileChoice {
            ranks: u32::from(word as u16)..=u32::from((word >> 16) as u16),
            collective: Collective::from_c(i32::from(byte(32)))?,
            algorithm: usize::from(byte(40)),
            sizes: size(byte(48))?..size(byte(56))?,
        })
    }
}

/// Reads one line of the section: numbers of ranks, and what is chosen for them.
fn read_choices(ranks: &str, entries: &str, choices: &mut Vec<ProfileChoice>) -> Result<(), String> {
    let (first, last) = ranks.split_once('-').unwrap_or((ranks, ranks));
    let (Ok(first), Ok(last)) = (first.parse(), last.parse()) else {
        return Err("this is no number of ranks; write for instance 2 or 3-8".into());
    };
    let mut rules = Vec::new();
    for entry in entries.split(';').map(str::trim).filter(|entry| !entry.is_empty()) {
        select::parse_entry(entry, &mut rules).map_err(|what| format!("`{entry}`: {what}"))?;
    }
    for Rule { collective, sizes, algorithm, forbidden, .. } in rules {
        match collective {
            Some(collective) if !forbidden => {
                choices.push(ProfileChoice { ranks: first..=last, collective, sizes, algorithm });
            }
            _ => return Err("a choice names a collective and an algorithm, and forbids nothing".into()),
        }
    }
    Ok(())
}

/// A text or a number of the file's head.
fn field<'a>(table: &'a DeTable<'a>, key: &str) -> Result<Cow<'a, str>, String> {
    let value = table.get(key).and_then(|value| string(value.get_ref()));
    value.ok_or_else(|| format!("it has no `{key}`"))
}

fn string<'a>(value: &'a DeValue<'a>) -> Option<Cow<'a, str>> {
    match value {
        DeValue::String(text) => Some(Cow::Borrowed(text)),
        DeValue::Integer(number) => Some(Cow::Borrowed(number.as_str())),
        _ => None,
    }
}

fn spelled(ranks: &RangeInclusive<u32>) -> String {
    match (ranks.start(), ranks.end()) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    }
}

/// The byte that stands for a size: 0 for 0, k + 1 for 2^k, 65 for no limit. `None`: no byte does.
fn exponent(size: u64) -> Option<u8> {
    match size {
        0 => Some(0),
        u64::MAX => Some(65),
        _ => size.is_power_of_two().then_some(size.trailing_zeros() as u8 + 1),
    }
}

/// The size for which a byte stands.
fn size(byte: u8) -> Option<u64> {
    match byte {
        0 => Some(0),
        1..=64 => Some(1 << (byte - 1)),
        65 => Some(u64::MAX),
        _ => None,
    }
}

/// A size as `PENNY_ALGO` takes it.
#[cfg(any(test, feature = "internals"))]
fn size_text(size: u64) -> String {
    match size {
        u64::MAX => "inf".into(),
        0 => "0".into(),
        _ if size.is_multiple_of(1 << 20) => format!("{}m", size >> 20),
        _ if size.is_multiple_of(1 << 10) => format!("{}k", size >> 10),
        _ => size.to_string(),
    }
}
