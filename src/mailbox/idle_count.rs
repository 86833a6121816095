//! The count of idle threads of all mailboxes, which rank 0's mailbox holds, on this host or on another.
//!
//! Ranks of several hosts are told the verdict each in its own mailbox. It may come to one rank before the other: a thread that has not seen
//! it finds at its leave that the round is over, and waits for it.

use super::idle;
use super::set::Mailboxes;
use crate::error::Result;
use crate::memory::mailbox::{CENSUS_AT, MailboxHeader};
use crate::memory::word::{AtomicOp, Change};
use crate::sync::prim::model::Ordering;
use crate::types::Rank;

/// The count, for a rank's threads.
pub(super) struct IdleCount<'a> {
    boxes: &'a Mailboxes,
    /// Where the verdict is read.
    verdict: &'a MailboxHeader,
}

/// The rank whose mailbox holds the census.
const KEEPER: Rank = 0;

impl Mailboxes {
    /// Returns the count of idle threads.
    pub(super) fn idle_count(&self) -> IdleCount<'_> {
        let verdict = if self.transport.has_far() { self.rank() } else { KEEPER };
        IdleCount { boxes: self, verdict: self.words(verdict).head }
    }
}

impl IdleCount<'_> {
    /// Marks a thread as idle, and ends the round if it was the last.
    pub fn enter_and_conclude(&self, vote: bool, round: u64) -> Result<()> {
        let boxes = self.boxes;
        if boxes.is_far(KEEPER) {
            let more = idle::entry(vote);
            let census = self.change(AtomicOp::Add, more, 0)?.wrapping_add(more);
            return self.conclude_far(census, round).or_else(|e| self.leave(vote, round).and(Err(e)));
        }
        let head = boxes.words(KEEPER).head;
        let census = head.enter(vote);
        let mut failed = Ok(());
        let all_free = || match boxes.all_free() {
            Ok(free) => free,
            Err(e) => {
                failed = Err(e);
                false
            }
        };
        if head.conclude(census, boxes.threads, round, all_free, || boxes.latest_ps()) {
            return self.spread(idle::verdict(census, boxes.threads, round));
        }
        // A thread whose call fails is not idle.
        failed.or_else(|e| self.leave(vote, round).and(Err(e)))
    }

    /// Ends the round at a rank 0 on another host, if all threads are idle and no slot is in use.
    fn conclude_far(&self, census: u64, round: u64) -> Result<()> {
        let boxes = self.boxes;
        if idle::count(census) != u64::from(boxes.threads) || !boxes.all_free()? {
            return Ok(());
        }
        if self.change(AtomicOp::CompareSwap, idle::next_round(census), census)? != census {
            return Ok(());
        }
        self.spread(idle::verdict(census, boxes.threads, round))
    }

    /// Tells all ranks that a round has ended.
    fn spread(&self, verdict: u64) -> Result<()> {
        let boxes = self.boxes;
        if boxes.transport.has_far() {
            boxes.blocks().for_each(|(_, block)| block.words().head.set_verdict(verdict));
            for rank in (0..boxes.told.len() as Rank).filter(|&rank| boxes.is_far(rank)) {
                boxes.end_round_far(rank, verdict)?;
            }
        }
        boxes.ring_everybody();
        Ok(())
    }

    /// Marks a thread as no longer idle. False: the round has ended meanwhile.
    pub fn leave(&self, vote: bool, round: u64) -> Result<bool> {
        if !self.boxes.is_far(KEEPER) {
            return Ok(self.boxes.words(KEEPER).head.leave(vote, round));
        }
        let mut census = self.change(AtomicOp::Fetch, 0, 0)?;
        // BOUND: a retry means that another thread has entered or left.
        while let Some(after) = idle::without(census, vote, round) {
            let before = self.change(AtomicOp::CompareSwap, after, census)?;
            if before == census {
                return Ok(true);
            }
            census = before;
        }
        Ok(false)
    }

    /// Returns whether all threads voted true, if the round has ended and this rank was told.
    pub fn verdict(&self, round: u64) -> Option<bool> {
        self.verdict.verdict(round)
    }

    /// Returns when the last round ended on a declared machine.
    pub fn ended_ps(&self) -> u64 {
        self.verdict.ended_ps.load(Ordering::Relaxed)
    }

    /// Returns the number of idle threads, for error sentences.
    pub fn idlers(&self) -> u64 {
        match self.boxes.is_far(KEEPER) {
            true => self.change(AtomicOp::Fetch, 0, 0).map_or(0, idle::count),
            false => self.boxes.words(KEEPER).head.idlers(),
        }
    }

    /// Changes the census of a rank 0 on another host; returns what it was.
    fn change(&self, op: AtomicOp, value: u64, expected: u64) -> Result<u64> {
        let at = self.boxes.told[KEEPER as usize].0.saturating_add(CENSUS_AT as u64);
        self.boxes.transport.exchange_far(KEEPER, at, true, Change { op, value, expected })
    }
}
