//! Exact prices of calls that are too large for a list of steps.
//!
//! ```text
//!     cycles -> links ----> fold: the first k ranks stand for all         if a move by k ranks changes nothing
//!                 |           |
//!                 v           v
//!               sweep: round by round                                     if ports are served in a known order
//!                 |
//!                 v
//!               events: the general engine's model, of links              always; whole periods are added up
//! ```
//!
//! Each of these holds what it relies on against the call, and steps back where that is not so. None guesses: where
//! both run, a price is the general engine's, to the picosecond and to each counter, and tests hold it to that.
//!
//! What remains out of reach is a call of many ranks in which nothing repeats, such as one whose last chunks are
//! shorter than the others: it is refused, with the counts that would do.

mod chain;
mod events;
mod fold;
mod links;
mod message;
mod period;
mod port;
mod summary;
mod sweep;
#[cfg(all(test, not(loom)))]
mod tests;

pub use summary::{Means, Summary, Used};

use super::PortCounters;
use crate::error::{Error, Result};
use crate::plan::cycles::Cycles;
use crate::topology::Network;
use crate::types::Rank;
use links::{Links, Ways};
use period::PeriodFinder;

/// A call of cycles.
pub struct Ask<'a> {
    /// All ranks' programs.
    pub cycles: &'a Cycles,
    /// The place of each rank in the network.
    pub places: &'a [Rank],
    /// Elements a block.
    pub count: u64,
    /// Bytes of an element.
    pub size: u64,
    /// As in [`Call`](crate::fabric::PricedCall).
    pub slice_bytes: u64,
    /// The time at which each rank enters.
    pub entry_ps: &'a [u64],
}

/// Messages of one ring that are followed one by one, at most: more take longer than ten seconds.
const MOST_SWEPT: u64 = 2_000_000_000;
/// Messages that are followed one by one as events, at most.
const MOST_AS_EVENTS: u64 = 1 << 26;
/// Links among which a period is looked for: with more, looking takes as long as following them.
const MOST_WATCHED: usize = 1024;

/// The result for links: the [`Summary`] of those that are simulated.
struct Priced {
    exit_ps: Vec<u64>,
    counters: Vec<PortCounters>,
    events: u64,
    periods: u64,
}

/// What a call takes, by the quickest way that is exact, and which that was. Algorithms that are no cycles go to
/// [`super::engine::price`].
pub fn price(network: &Network, ask: &Ask<'_>) -> Result<(Summary, Used)> {
    let (n, places) = (ask.cycles.nranks(), network.shape.nranks());
    let fits = ask.places.iter().all(|&place| place < places);
    if !fits || (ask.places.len(), ask.entry_ps.len()) != (n as usize, n as usize) {
        return Err(Error::argument(format!(
            "{n} programs at {} places with {} entries do not fit the {places} places of {}",
            ask.places.len(),
            ask.entry_ps.len(),
            network.name
        )));
    }
    let ways = Ways::of(network, ask)?;
    if let Some(fold) = fold::fold(network, ask, &ways)? {
        let links = Links::new(network, ask, &ways, &fold)?;
        if let Some(done) = run(&links, ask, fold.port_class)? {
            return Ok(done);
        }
    }
    let all = fold::unfolded(network, &ways);
    let messages = messages(ask.cycles);
    if messages > most_messages(ask.cycles) {
        return Err(too_many(messages, ask));
    }
    let links = Links::new(network, ask, &ways, &all)?;
    let done = run(&links, ask, all.port_class)?;
    done.ok_or_else(|| Error::internal("events of all ranks were refused"))
}

/// Tells whether some ranks stand for all, so that the number of messages does not matter.
pub fn folds(network: &Network, ask: &Ask<'_>) -> Result<bool> {
    let ways = Ways::of(network, ask)?;
    Ok(fold::fold(network, ask, &ways)?.is_some())
}

/// Prices the links by the sweep, or else by events. `None`: neither can do it.
fn run(links: &Links, ask: &Ask<'_>, port_class: Vec<u32>) -> Result<Option<(Summary, Used)>> {
    let (mut means, mut priced) = (Means::Sweep, sweep::run(links, ask.entry_ps));
    if priced.is_none() {
        let watch = (links.links.len() <= MOST_WATCHED).then(PeriodFinder::new);
        let messages = links.links.len() as u64 * u64::from(links.rounds);
        if watch.is_none() && messages > MOST_AS_EVENTS {
            return Err(too_many(messages, ask));
        }
        (means, priced) = (Means::Events, events::run(links, ask.entry_ps, watch)?);
    }
    Ok(priced.map(|priced| {
        let nranks = ask.cycles.nranks();
        let used = Used { means, nranks, simulated: links.ranks, periods: priced.periods };
        (priced.summary(links, port_class), used)
    }))
}

/// Returns the messages that are followed one by one, at most, where no ranks stand for others: those of several rings meet at ports, and the sweep
/// mostly refuses them.
pub fn most_messages(cycles: &Cycles) -> u64 {
    if cycles.lanes() == 1 { MOST_SWEPT } else { MOST_AS_EVENTS }
}

/// Returns the number of messages of all ranks, slices aside.
pub fn messages(cycles: &Cycles) -> u64 {
    u64::from(cycles.rounds()) * u64::from(cycles.nranks()) * u64::from(cycles.lanes())
}

/// The largest count, not above this one if there is such, that can be priced on a machine whose ranks are alike: this
/// one, or where there are too many messages to follow one by one, a multiple of the number of chunks.
pub fn count_within_reach(cycles: &Cycles, count: u64) -> u64 {
    let parts = u64::from(cycles.parts());
    if messages(cycles) <= most_messages(cycles) { count } else { (count / parts).max(1) * parts }
}

fn too_many(messages: u64, ask: &Ask<'_>) -> Error {
    let parts = u64::from(ask.cycles.parts());
    if ask.count.is_multiple_of(parts) {
        return Error::argument(format!(
            "{messages} messages of ranks that are not alike are too many to follow; take fewer ranks"
        ));
    }
    Error::argument(format!(
        "{} elements do not divide evenly into {parts} chunks, and {messages} unlike messages are too many to follow; \
         take a multiple, such as {}",
        ask.count,
        ask.count.next_multiple_of(parts)
    ))
}

impl Ask<'_> {
    /// Bytes of the chunk that a rank hands on first.
    fn first_bytes(&self, rank: Rank, lane: u32) -> Result<u64> {
        let bytes = self.cycles.bytes(self.cycles.named(lane as u16, rank), self.count, self.size);
        bytes.ok_or_else(|| Error::argument("there are too many bytes of a chunk to be priced"))
    }
}

impl Priced {
    fn summary(self, links: &Links, port_class: Vec<u32>) -> Summary {
        let copies = u64::from(links.copies);
        Summary::new(
            links.ranks * links.copies,
            self.events * copies,
            self.exit_ps,
            port_class,
            self.counters,
        )
    }
}
