//! The names by which a Rust program knows what an error's sentence speaks of.
//!
//! The sentences of `comm` and below name functions, fields and arguments as the C interface does. Each such name is one identifier
//! that nothing else in a sentence is called, so [`in_rust`] finds it and writes the Rust front's name in its place: every result of
//! `comm` passes through it (the architecture test holds this, and that the table has each name that sentences use). Arguments
//! whose names are plain words, such as ranks, are checked here instead, under the Rust name and with the program's own
//! number, before they become the numbers that `comm` takes.

use crate::error::{Error, Result};
use crate::types::{MAX_RANKS, Rank};

/// A name of the C interface, and what a Rust program calls that. Itself: only the C interface has it.
pub const NAMES: &[(&str, &str)] = &[
    ("commId", "id"),
    ("excludeRanksList", "excluded"),
    ("ndev", "ranks"),
    ("nranks", "size"),
    ("pennyCommAbort", "Communicator::abort"),
    ("pennyCommDestroy", "Communicator::destroy"),
    ("pennyCommGetAsyncError", "Communicator::state"),
    ("pennyCommInitRank", "CommunicatorBuilder::join"),
    ("pennyCommInitRankConfig", "CommunicatorBuilder::join"),
    ("pennyCommShrink", "Communicator::shrink"),
    ("pennyCommSplit", "Communicator::split"),
    ("pennyEventCreate", "Stream::record"),
    ("pennyGetUniqueId", "UniqueId::new"),
    ("pennyGroupEnd", "Group::end"),
    ("pennyGroupStart", "Group::new"),
    ("pennyMailboxCreate", "Communicator::mailbox"),
    ("pennyMailboxDestroy", "Mailbox::destroy"),
    ("pennyMemAlloc", "SharedVec"),
    ("pennyShmemFinalize", "SymmetricHeap::finalize"),
    ("pennyShmemFree", "SymmetricVec::free"),
    ("pennyShmemInit", "Communicator::symmetric_heap"),
    ("pennyShmemMalloc", "SymmetricHeap::vec"),
    ("pennyStreamCreate", "Streams::stream"),
    ("recvbuff", "recv"),
    ("sendbuff", "send"),
    ("slotBytes", "slot_bytes"),
    ("timeoutMs", "CommunicatorBuilder::timeout"),
];

/// Writes a failure's sentence with the names of the Rust front.
#[inline]
pub(super) fn in_rust<T>(result: Result<T>) -> Result<T> {
    result.map_err(|error| if error.is_pending() { error } else { renamed(error) })
}

#[cold]
fn renamed(error: Error) -> Error {
    let is_of_a_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut sentence = String::with_capacity(error.message.len());
    let mut left = error.message.as_str();
    // BOUND: each turn takes a word or a mark off what is left.
    while let Some(first) = left.chars().next() {
        let end = match is_of_a_name(first) {
            true => left.find(|c| !is_of_a_name(c)).unwrap_or(left.len()),
            false => first.len_utf8(),
        };
        let (word, after) = left.split_at(end);
        sentence += NAMES.iter().find(|(c, _)| *c == word).map_or(word, |(_, rust)| rust);
        left = after;
    }
    error.with_message(sentence)
}

/// Returns a rank as the number that `comm` takes; refuses one that none of `ranks` ranks has.
pub(super) fn rank(name: &str, rank: Rank, ranks: u32) -> Result<i32> {
    match i32::try_from(rank) {
        Ok(number) if rank < ranks => Ok(number),
        _ => Err(Error::no_rank(name, rank, ranks)),
    }
}

/// Returns a number of ranks as the number that `comm` takes.
pub(super) fn ranks(name: &str, ranks: u32) -> Result<i32> {
    match i32::try_from(ranks) {
        Ok(number) if (1..=MAX_RANKS).contains(&ranks) => Ok(number),
        _ => Err(Error::argument(format!("{name} is {ranks}; it must be from 1 to {MAX_RANKS}"))),
    }
}
