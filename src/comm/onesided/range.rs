//! Memory that all ranks of a communicator take from their shareable heaps together.

use super::deferred_free::DeferredFree;
use crate::comm::agree::Proposal;
use crate::comm::communicator::CommCore;
use crate::error::{Error, Result};
use crate::memory::heap;
use crate::onesided::Region;
use crate::types::Rank;

impl CommCore {
    /// Memory of `bytes` bytes on every rank, of which this rank's is at `base`, or could not be had. `proposal`: what it is
    /// for, told with where it begins in this rank's heap, as the proposal's word number `word`.
    ///
    /// The outer error is the exchange's. Others may have heard of this rank's range then, and write there. The inner one,
    /// that the ranks disagree or some rank has no memory, all ranks get, and none has the range.
    pub(in crate::comm) fn range_of_all<P: Proposal>(
        &mut self,
        base: Result<usize>,
        bytes: usize,
        word: usize,
        proposal: impl FnOnce(u64) -> P,
    ) -> Result<Result<(Region, DeferredFree)>> {
        let own = heap::mine()?;
        let deferred = base.as_ref().ok().map(|&base| DeferredFree::new(base, self.transport.clone()));
        let outside = || Error::internal("memory of the heap lies outside of it");
        let part = base.and_then(|base| Ok((base, own.offset_of(base, bytes).ok_or_else(outside)?)));
        let begin = part.as_ref().map_or(0, |&(_, begin)| begin as u64);
        let deferred = deferred.map(|deferred| deferred.open(begin, bytes));
        match self.propose(&proposal(begin), part) {
            Err(e) => {
                deferred.into_iter().for_each(DeferredFree::keep);
                Err(e)
            }
            Ok(Err(refused)) => {
                deferred.map_or(Ok(()), DeferredFree::free)?;
                Ok(Err(refused))
            }
            Ok(Ok((part, all))) => {
                let deferred = deferred.ok_or_else(outside)?;
                Ok(Ok((Region::new(part.0, bytes, all.each(word)), deferred)))
            }
        }
    }
}

/// Words that a rank has no memory for its part of a range.
pub(in crate::comm) fn no_memory(rank: Rank, bytes: usize) -> String {
    format!(
        "rank {rank} has no {bytes} bytes left in its shareable heap, so no rank has them; free memory there, or raise \
         PENNY_HEAP_SIZE"
    )
}
