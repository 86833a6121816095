//! A communicator of the ranks of another and new ones, which come after them.
//!
//! ```text
//!     parent    rank 0 makes an id --- all tell all: how many ranks, the id --->     new ranks get the id by the program's own means
//!     child     ranks 0 .. n-1: those of the parent                                  ranks n .. m-1: the new ones
//! ```
//!
//! All of them join as strangers do, by the id: a new rank shares no memory with the others yet.

use crate::bootstrap::{self, MeetingPlace, UniqueId};
use crate::comm::agree::{Answers, Proposal, Subject};
use crate::comm::communicator::CommCore;
use crate::comm::registry::{self, CommHandle};
use crate::error::{Error, Result};
use crate::types::{MAX_RANKS, Rank};

/// Words of an id.
const ID_WORDS: usize = 16;
/// Words of a rank: how many ranks there will be; whether it has the id, and the id.
const WORDS: usize = 2 + ID_WORDS;

/// The arguments of one rank of the parent.
struct Growth {
    nranks: u32,
    /// One rank passes it.
    id: Option<UniqueId>,
}

/// Makes an id by which new ranks join those of a communicator. It must be usable: its ranks agree on the growth by a call.
pub fn growth_id(parent: CommHandle) -> Result<UniqueId> {
    let shared = registry::shared(parent)?;
    shared.refuse_forked()?;
    shared.transport.check_abort()?;
    shared.broken.get().map_or_else(bootstrap::create_id, |why| Err(why.clone()))
}

/// Agrees with all ranks of the parent on a growth. Returns how many ranks there will be, the id, and this rank's number. If that
/// fails, the rank that has the id tells the new ranks, which wait where it leads.
pub(in crate::comm) fn agree(
    parent: CommHandle,
    nranks: i32,
    id: Option<UniqueId>,
) -> Result<(u32, UniqueId, Rank)> {
    let shared = registry::shared(parent)?;
    let (rank, before) = (shared.transport.rank(), shared.transport.nranks());
    let asked = u32::try_from(nranks).ok().filter(|&n| n >= before && n <= MAX_RANKS).ok_or_else(|| {
        Error::argument(format!(
            "nRanks is {nranks}; it must be from {before} to {MAX_RANKS}: comm has {before} ranks"
        ))
    });
    let agreed = asked.and_then(|nranks| {
        let id = registry::enter(parent, |c| c.agree_on_growth(&Growth { nranks, id }))?;
        Ok((nranks, id, rank))
    });
    agreed.inspect_err(|why| {
        if let Some(id) = id {
            let nranks = u32::try_from(nranks).unwrap_or(before).clamp(before, MAX_RANKS);
            bootstrap::refuse(&MeetingPlace::Id(id), rank, nranks, why);
        }
    })
}

/// The refusal of an existing rank in a group.
pub(in crate::comm) fn in_a_group() -> Error {
    Error::usage(
        "pennyCommGrow of an existing rank cannot be in a group: it waits for the other ranks of comm; call it after pennyGroupEnd",
    )
}

impl Proposal for Growth {
    const SUBJECT: Subject = Subject::Growth;
    const EQUAL: usize = 1;
    type Words = [u64; WORDS];

    fn words(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        (words[0], words[1]) = (self.nranks.into(), self.id.is_some().into());
        if let Some(id) = &self.id {
            for (word, bytes) in words[2..].iter_mut().zip(id.0.as_chunks().0) {
                *word = u64::from_le_bytes(*bytes);
            }
        }
        words
    }

    fn reads(words: &[u64]) -> String {
        format!("a growth to {} ranks", words[0])
    }

    fn disagreement(&self, all: &Answers, [first, other]: [Rank; 2]) -> String {
        format!(
            "ranks disagree on nRanks: rank {first} asks for {}, rank {other} for {}; all ranks of comm must pass the same",
            all.reads::<Self>(first),
            all.reads::<Self>(other)
        )
    }
}

impl CommCore {
    /// Agrees with all ranks on the id by which they and the new ranks join.
    fn agree_on_growth(&mut self, growth: &Growth) -> Result<UniqueId> {
        let ((), all) = self.agree(growth, Ok(()))?;
        let mut with_id = all.ranks().filter(|(_, words)| words[1] != 0);
        let Some((first, words)) = with_id.next() else {
            return Err(Error::usage(
                "uniqueId is NULL on all ranks of comm; the rank that called pennyCommGetUniqueId must pass the id",
            ));
        };
        if let Some((other, _)) = with_id.next() {
            return Err(Error::usage(format!(
                "ranks {first} and {other} both pass a uniqueId; only the rank that called pennyCommGetUniqueId may, the others pass NULL"
            )));
        }
        let mut id = UniqueId([0; 128]);
        for (bytes, word) in id.0.as_chunks_mut().0.iter_mut().zip(&words[2..]) {
            *bytes = word.to_le_bytes();
        }
        Ok(id)
    }
}
