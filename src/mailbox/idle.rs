//! Detects that no thread has work any more. The result is exact: it never comes while a message is in flight or not freed, and
//! it always comes once there is none.
//!
//! ```text
//!     census    version 29 | round 1 | voted true 17 | idle 17        one word for all mailboxes, in rank 0's
//!     verdict   rounds ended << 1 | all voted true                    told by the thread that ended the round
//!
//!     idle thread                                       the thread whose entry made the count complete
//!     census += (version, vote, idle)     (enter)       all slots of all mailboxes free?   no: a thread has a message to
//!     a message is here: census -= ...    (leave)           receive; it will leave, and a later entry completes the count
//!     a verdict is here: the round is over              census still what it was at the entry?  (exchange for the next round)
//!                                                       verdict = ...
//! ```
//!
//! An idle thread neither sends nor holds a message: a thread enters only with nothing to receive and nothing to free. If the
//! census is the same before and after the look at the slots, then all threads were idle during the look (otherwise the version
//! had changed), and nothing was sent. Conversely, if the last thread to enter finds a slot in use, some thread has not received
//! its message yet. That thread will leave for it; so no other one has to look again, and idle threads may sleep.
//!
//! A thread counts the rounds that it has ended. A slow one still sees the verdict of its round: the next cannot end without it.

use super::planted::{PlantedSite, is, order};
use crate::memory::mailbox::MailboxHeader;
use crate::sync::prim::model::Ordering;

/// The most threads that can be counted: 1024 ranks of 64.
const COUNT: u64 = (1 << 17) - 1;
const IDLE: u64 = 1;
const VOTE: u64 = 1 << 17;
const ROUND: u64 = 1 << 34;
const VERSION: u64 = 1 << 35;

fn share(vote: bool) -> u64 {
    IDLE + if vote { VOTE } else { 0 }
}

fn of_round(census: u64, round: u64) -> bool {
    (census & ROUND != 0) == (round & 1 == 1)
}

/// What is added to the census when a thread enters.
pub(super) fn entry(vote: bool) -> u64 {
    share(vote) + VERSION
}

/// The census after a thread has left; `None`: the round has ended.
pub(super) fn without(census: u64, vote: bool, round: u64) -> Option<u64> {
    of_round(census, round).then(|| census.wrapping_add(VERSION).wrapping_sub(share(vote)))
}

/// The number of idle threads.
pub(super) fn count(census: u64) -> u64 {
    census & COUNT
}

/// The census of the next round.
pub(super) fn next_round(census: u64) -> u64 {
    ((census & !(VERSION - 1)).wrapping_add(VERSION)) | (!census & ROUND)
}

/// The verdict of a round that ends with this census.
pub(super) fn verdict(census: u64, threads: u32, round: u64) -> u64 {
    let all_true = (census / VOTE) & COUNT == threads as u64;
    (round + 1) << 1 | all_true as u64
}

impl MailboxHeader {
    /// Marks a thread as idle. Returns the current census, for [`conclude`](Self::conclude).
    pub(super) fn enter(&self, vote: bool) -> u64 {
        let more = if is(PlantedSite::Version) { share(vote) } else { share(vote) + VERSION };
        // ORDER: whatever this thread has sent and freed comes before; partner: the last one's entry.
        self.census.0.fetch_add(more, order(PlantedSite::EnterIdle, Ordering::AcqRel)).wrapping_add(more)
    }

    /// Marks a thread as no longer idle. Returns false if the round has ended meanwhile: then there is, or will be at
    /// once, a verdict.
    pub(super) fn leave(&self, vote: bool, round: u64) -> bool {
        let mut census = self.census.0.load(Ordering::Acquire);
        // BOUND: a retry means that another thread has entered or left.
        while of_round(census, round) {
            let more = if is(PlantedSite::Version) { 0 } else { VERSION };
            let after = census.wrapping_add(more).wrapping_sub(share(vote));
            // ORDER: what this thread does from now on comes after; partner: `conclude`'s exchange.
            match self.census.0.compare_exchange(census, after, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => census = now,
            }
        }
        false
    }

    /// Ends the round, if the census counts all `threads` and `all_free` holds while it does. True if it ended, at the
    /// time of a declared machine that `now_ps` tells.
    pub(super) fn conclude(
        &self,
        census: u64,
        threads: u32,
        round: u64,
        all_free: impl FnOnce() -> bool,
        now_ps: impl FnOnce() -> u64,
    ) -> bool {
        if census & COUNT != threads as u64 || !all_free() {
            return false;
        }
        let next = next_round(census);
        // ORDER: the look at the slots comes before; partner: `leave` and `enter`.
        if self.census.0.compare_exchange(census, next, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        self.ended_ps.store(now_ps(), Ordering::Relaxed);
        self.set_verdict(verdict(census, threads, round));
        true
    }

    /// Tells the verdict of a round.
    pub(super) fn set_verdict(&self, verdict: u64) {
        // ORDER: who sees the verdict may send to who has not seen it yet; partner: `verdict`.
        self.verdict.0.store(verdict, order(PlantedSite::Verdict, Ordering::Release));
    }

    /// Returns whether all threads voted true, if the round has ended.
    pub(super) fn verdict(&self, round: u64) -> Option<bool> {
        // ORDER: partner of the store in `conclude`.
        let told = self.verdict.0.load(Ordering::Acquire);
        (told >> 1 > round).then_some(told & 1 == 1)
    }

    /// Returns the number of idle threads, for error sentences.
    pub(super) fn idlers(&self) -> u64 {
        self.census.0.load(Ordering::Relaxed) & COUNT
    }
}
