//! What is measured: one of the collectives, a permutation, or a ring of sends and receives.

use std::fmt;
use std::str::FromStr;

use clap::builder::ValueParserFactory;
use penny::internals::spelling::hint;
use penny::internals::types::Collective;
use serde::{Deserialize, Serialize};

use crate::words::Words;

/// What a program measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Subject {
    /// A collective call.
    Collective(Collective),
    /// One group: send to the next rank, receive from the previous one.
    SendRecv,
    /// A permutation: every rank to the next one.
    Permute,
}

impl Subject {
    /// Every subject, in the order of the programs' table.
    pub fn all() -> impl Iterator<Item = Subject> {
        Collective::ALL.iter().copied().map(Subject::Collective).chain([Subject::SendRecv, Subject::Permute])
    }
    /// Says that no subject is called so, and which are known where it was asked for.
    pub fn unknown(text: &str, known: impl Iterator<Item = Subject>) -> String {
        let known: Vec<_> = known.map(Subject::name).collect();
        let meant = hint(text, known.iter().copied());
        format!("no such collective{meant}; there are {}", known.join(", "))
    }
    /// The program's name without `_perf`.
    pub fn name(self) -> &'static str {
        match self {
            Subject::Collective(collective) => collective.name(),
            Subject::SendRecv => "sendrecv",
            Subject::Permute => "permute",
        }
    }
    /// Takes a reduction.
    pub fn reduces(self) -> bool {
        matches!(self, Subject::Collective(c) if c.reduces())
    }
    /// Has a root.
    pub fn rooted(self) -> bool {
        matches!(self, Subject::Collective(c) if c.rooted())
    }
    /// Moves no data: there is nothing but time to measure.
    pub fn is_barrier(self) -> bool {
        self == Subject::Collective(Collective::Barrier)
    }
    /// Can run with its input inside its output.
    pub fn has_in_place(self) -> bool {
        !self.is_barrier() && !matches!(self, Subject::SendRecv | Subject::Permute)
    }
    /// Divides the reported size by the number of ranks: each rank contributes or receives one of n blocks.
    pub fn is_sharded(self) -> bool {
        use Collective::*;
        matches!(self, Subject::Collective(AllGather | ReduceScatter | AlltoAll | Gather | Scatter))
    }
    /// Bus bandwidth over algorithm bandwidth: the share of the size that must cross a link whatever the algorithm,
    /// as nccl-tests defines it.
    pub fn bus_factor(self, nranks: u32) -> f64 {
        let n = f64::from(nranks);
        match self {
            Subject::Collective(Collective::AllReduce) => 2.0 * (n - 1.0) / n,
            _ if self.is_sharded() => (n - 1.0) / n,
            _ => 1.0,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Subject {
    type Err = String;

    /// Hyphens, underscores and capitals do not matter: `AllReduce`, `all-reduce` and `all_reduce` are one. Short names
    /// are understood, such as `bcast` and `a2a`.
    fn from_str(text: &str) -> Result<Subject, String> {
        let plain = |s: &str| s.replace(['-', '_'], "").to_ascii_lowercase();
        let short = plain(text);
        let long = match short.as_str() {
            "bcast" => "broadcast",
            "reducescatterblock" => "reducescatter",
            "a2a" => "alltoall",
            "sendreceive" | "p2p" => "sendrecv",
            other => other,
        };
        Subject::all().find(|s| plain(s.name()) == long).ok_or_else(|| Subject::unknown(text, Subject::all()))
    }
}

impl ValueParserFactory for Subject {
    type Parser = Words<Subject>;
    fn value_parser() -> Words<Subject> {
        Words { all: || Subject::all().map(Subject::name).collect(), parse: Subject::from_str }
    }
}

impl From<Subject> for String {
    fn from(subject: Subject) -> String {
        subject.name().to_owned()
    }
}

impl TryFrom<String> for Subject {
    type Error = String;
    fn try_from(text: String) -> Result<Subject, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_back_to_its_subject() {
        for subject in Subject::all() {
            assert_eq!(subject.name().parse(), Ok(subject));
            assert_eq!(subject.name().replace('_', "-").to_uppercase().parse(), Ok(subject));
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let sentence = "all_reduse".parse::<Subject>().unwrap_err();
        assert!(Subject::all().all(|s| sentence.contains(s.name())), "{sentence}");
    }

    #[test]
    fn bus_factors_are_those_of_nccl_tests() {
        let factor = |name: &str| name.parse::<Subject>().unwrap().bus_factor(4);
        assert_eq!(factor("all_reduce"), 1.5);
        for sharded in ["all_gather", "reduce_scatter", "alltoall", "gather", "scatter"] {
            assert_eq!(factor(sharded), 0.75, "{sharded}");
        }
        for whole in ["broadcast", "reduce", "sendrecv", "permute"] {
            assert_eq!(factor(whole), 1.0, "{whole}");
        }
    }
}
