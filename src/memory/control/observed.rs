//! The communicators in a file as a process outside of their job sees them. It maps them for reading only.
//!
//! ```text
//!     file    | first communicator | child | (given back) | child | ...     a header tells how long its segment is
//! ```

use super::call_counters::{Amount, CallCounters, KINDS};
use super::lines::Lines;
use super::{Header, Layout, MAGIC, RECORDS, Record};
use crate::memory::segment::Segment;
use crate::sync::prim::{Ordering, fence};
use crate::sys::shm;
use crate::types::MAX_RANKS;
use std::fs::File;
use std::mem::offset_of;

const PAGE: u64 = 4096;
/// Communicators of a file that are looked for.
const MOST: usize = 64;

/// A communicator, and where in the file it lies.
pub struct ObservedCommunicator {
    pub(crate) lines: Lines,
    pub(crate) at: u64,
}

/// Finds the communicators in a file.
pub fn observed(file: &File) -> Vec<ObservedCommunicator> {
    let mut found = Vec::new();
    let bytes = file.metadata().map_or(0, |file| file.len());
    let mut at = 0;
    // BOUND: each turn goes on by a page or more, and a file without a communicator at its beginning has none.
    while at + PAGE <= bytes && found.len() < MOST {
        match communicator(file, at, bytes - at) {
            Some(lines) => {
                let next = at + lines.layout().total() as u64;
                found.push(ObservedCommunicator { lines, at });
                at = next;
            }
            None if found.is_empty() => break,
            None => match shm::next_filled(file, at + PAGE) {
                Some(next) => at = next / PAGE * PAGE,
                None => break,
            },
        }
    }
    found
}

fn communicator(file: &File, at: u64, room: u64) -> Option<Lines> {
    let word = |field: usize| shm::word_at(file, at + field as u64);
    if word(offset_of!(Header, magic))? != MAGIC {
        return None;
    }
    let ranks = u32::try_from(word(offset_of!(Header, ranks))?).ok()?;
    let staging = usize::try_from(word(offset_of!(Header, staging))?).ok()?;
    if !(1..=MAX_RANKS).contains(&ranks) || staging as u64 > room {
        return None;
    }
    let layout = Layout::new(ranks, staging);
    // Nothing behind the counters is read.
    let segment =
        (layout.total() as u64 <= room).then(|| Segment::looked_at(file, at, layout.head()))?.ok()?;
    let lines = Lines::of(segment, layout, None);
    // ORDER: partner: `announce`.
    (lines.header().magic.load(Ordering::Acquire) == MAGIC).then_some(lines)
}

/// What was read of a rank's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Calls of each collective, by its C number.
    pub collectives: [Amount; KINDS],
    /// Messages sent.
    pub sent: Amount,
    /// Messages received.
    pub received: Amount,
    /// The number of the latest call and its packed arguments.
    pub latest: Option<(u64, [u64; 2])>,
}

impl CallCounters {
    /// Reads them, and the latest of `records`. `None`: the rank has written meanwhile, each of several times.
    pub fn read<'a>(&self, record: impl Fn(u64) -> &'a Record) -> Option<Counted> {
        // BOUND: sixteen attempts; a rank whose calls all differ may write each time.
        (0..16).find_map(|_| self.read_once(&record))
    }

    fn read_once<'a>(&self, record: &impl Fn(u64) -> &'a Record) -> Option<Counted> {
        let version = self.version.load(Ordering::Acquire);
        let upto = self.upto.load(Ordering::Relaxed);
        let run = self.run.each_ref().map(|word| word.load(Ordering::Relaxed));
        let mut collectives = self.sums.each_ref().map(Amount::read);
        let latest = (0..RECORDS as u64).map(|place| record(place).seq.load(Ordering::Acquire)).max()?;
        let said = record(latest).said.each_ref().map(|word| word.load(Ordering::Relaxed));
        // ORDER: the words before the second look at the version; partner: the fence in `begin_run`.
        fence(Ordering::Acquire);
        if version % 2 == 1 || self.version.load(Ordering::Relaxed) != version {
            return None;
        }
        if let Some(amount) = collectives.get_mut(run[0] as usize) {
            *amount = amount.plus(latest.saturating_sub(upto), run[1]);
        }
        let is_whole = record(latest).seq.load(Ordering::Relaxed) == latest;
        Some(Counted {
            collectives,
            sent: Amount::read(&self.messages[0]),
            received: Amount::read(&self.messages[1]),
            latest: (latest > 0 && is_whole).then_some((latest, said)),
        })
    }
}

impl Lines {
    /// Reads a rank's counters.
    pub fn counted(&self, rank: u32) -> Option<Counted> {
        self.counters(rank).read(|place| self.record(rank, place))
    }
}
