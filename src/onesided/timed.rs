//! One-sided access of ranks that stand on a declared machine: bytes take the time that they take there.

use super::symmetric_memory::SymmetricMemory;
use crate::error::Result;
use crate::fabric::live::{Delivery, PlacementView};
use crate::types::Rank;

/// Bytes of a request, and of a signal.
pub(super) const WORD: usize = 8;

/// Bytes are there.
#[must_use = "what was carried is stored before this is dropped"]
pub(super) struct Carried<'a> {
    _arrival: Option<Delivery<'a>>,
}

impl SymmetricMemory {
    /// Bytes go from one rank to another: on a declared machine it returns when they would be there. What they bring is
    /// stored while the result lives.
    #[inline]
    pub(super) fn carry(&self, from: Rank, to: Rank, bytes: usize) -> Result<Carried<'_>> {
        match &self.timed {
            None => Ok(Carried { _arrival: None }),
            Some(timed) => self.take_time(timed, from, to, bytes),
        }
    }

    /// Bytes come from a rank, which is asked for them first.
    #[inline]
    pub(super) fn fetch(&self, from: Rank, bytes: usize) -> Result<()> {
        if self.timed.is_none() {
            return Ok(());
        }
        drop(self.carry(self.my_pe(), from, WORD)?);
        self.carry(from, self.my_pe(), bytes).map(drop)
    }

    #[cold]
    fn take_time<'a>(
        &self,
        timed: &'a PlacementView,
        from: Rank,
        to: Rank,
        bytes: usize,
    ) -> Result<Carried<'a>> {
        let t = &*self.transport;
        let ends = [from, to].map(|rank| timed.places[rank as usize]);
        let watch = || t.check_abort().and_then(|()| t.check_alarm());
        let expired = || timed.participant.clock_stood(t.timeout_ns());
        let arrival = timed.participant.put(ends, bytes as u64, None, t.deadline(), watch, expired)?;
        Ok(Carried { _arrival: Some(arrival) })
    }

    /// Makes threads that wait at a rank look again, after a store there.
    #[inline]
    pub(super) fn stored(&self, rank: Rank) {
        self.transport.after_post_to(rank);
        if let Some(timed) = &self.timed {
            timed.participant.stored(timed.job[rank as usize]);
        }
    }
}
