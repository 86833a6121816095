//! Mailboxes of ranks that stand on a declared machine: messages take the time that they take there.
//!
//! ```text
//!     sender      claims a slot --- the message's bytes, once ---> there --- 1 + 2k cycles ---> delivers, and goes on
//!     receivers   wait, and do not hold the clock .................................... look --> go on at the same time
//! ```
//!
//! Bytes travel as those of a put do, to one's own place not at all. Where places are mailboxes
//! ([`Network::mailbox`](crate::topology::Network)) the message is then handed to its threads; its sender's call lasts until
//! then, since only the machine's order of time may decide who sees what first. Copies by a key set out together: those to
//! one mailbox are handed out one after the other, different mailboxes work side by side, and all have them when the last one
//! has. A slot is freed when it is its receiver's turn, and who waits for it goes on at that time. All are idle as of the
//! latest of their clocks, which every one of them then shows.
//!
//! A rank has one clock for all of its threads, and waits when all of them do: one that is between two calls holds the clock
//! as a rank of its own would. So times depend on nothing but the program where one thread of a rank at a time has something
//! to do. Which of several senders gets a slot that they all wait for, which of a rank's threads that act at once comes first,
//! and what a call sees that does not wait, depends on the host as well.

use super::send::Letter;
use super::set::{AwaitedRanks, Mailboxes};
use crate::error::Result;
use crate::fabric::live::{Participant, PlacementView};
use crate::memory::mailbox::FLIT;
use crate::sync::prim::model::{Ordering, fence};
use crate::types::Rank;

/// The cost of 64 looks that found nothing, so that time passes in a polling program.
const VAIN_LOOKS_PS: u64 = 1_000_000;

impl Mailboxes {
    /// Returns the mailboxes for ranks on a declared machine.
    pub fn on_machine(mut self, timed: PlacementView) -> Mailboxes {
        timed.participant.serve_exactly();
        timed.participant.expect_threads(self.mine().shape().threads, 0);
        self.timed = Some(timed);
        self
    }

    /// A message goes to threads of one mailbox or more: on a declared machine it returns when they would have it. To be
    /// called before it is delivered; `copies` to one mailbox stand together.
    #[inline]
    pub(super) fn carry(
        &self,
        letter: Letter,
        copies: impl Iterator<Item = (Rank, u64)> + Clone,
    ) -> Result<()> {
        match &self.timed {
            None => Ok(()),
            Some(timed) => self.take_time(timed, letter, copies),
        }
    }

    #[cold]
    fn take_time(
        &self,
        timed: &PlacementView,
        letter: Letter,
        copies: impl Iterator<Item = (Rank, u64)> + Clone,
    ) -> Result<()> {
        let from = timed.places[self.rank() as usize];
        let ways: Vec<[Rank; 2]> =
            copies.clone().map(|(dest, _)| [from, timed.places[dest as usize]]).collect();
        let bytes = letter.flits as u64 * FLIT as u64;
        let t = &*self.transport;
        let expired = || timed.participant.clock_stood(t.timeout_ns());
        let arrived_ps =
            timed.participant.put_all(&ways, bytes, None, t.deadline(), || self.alive(), expired)?.at_ps;
        match delivery_ps(&timed.participant, copies) {
            0 => Ok(()),
            delivery_ps => self.pause_until(timed, arrived_ps.saturating_add(delivery_ps)),
        }
    }

    /// Waits for this rank's turn to do something that other ranks see: on a declared machine it returns when all
    /// earlier events there are done.
    #[inline]
    pub(super) fn in_turn(&self) -> Result<()> {
        match &self.timed {
            None => Ok(()),
            Some(timed) => self.pause_until(timed, timed.participant.clock_ps()),
        }
    }

    #[cold]
    fn pause_until(&self, timed: &PlacementView, until_ps: u64) -> Result<()> {
        let t = &*self.transport;
        let expired = || timed.participant.clock_stood(t.timeout_ns());
        timed.participant.pause_until(until_ps, t.deadline(), || self.alive(), expired).map(drop)
    }

    fn alive(&self) -> Result<()> {
        self.open()?;
        self.transport.check_abort()?;
        self.transport.check_alarm()
    }

    /// Makes threads that wait at a rank's mailbox look again, after a store there.
    #[inline]
    pub(super) fn stored(&self, rank: Rank) {
        if let Some(timed) = &self.timed {
            timed.participant.stored(timed.job[rank as usize]);
        }
    }

    /// Waits for what some rank will store.
    #[cold]
    pub(super) fn wait_there(
        &self,
        timed: &PlacementView,
        thread: u32,
        ready: impl FnMut() -> bool,
        watch: impl Fn() -> Result<()>,
        what: impl Fn() -> AwaitedRanks,
    ) -> Result<()> {
        // ORDER: what tells others of this wait comes before the first look; partner: the fence in `slot_freed`.
        fence(Ordering::SeqCst);
        let watch = || self.open().and_then(|()| watch());
        timed.participant.expect_threads(0, 1);
        let ended = timed
            .participant
            .await_store(ready, self.transport.deadline(), watch, || self.waited(thread, &what));
        timed.participant.expect_threads(1, 0);
        ended
    }

    /// Checks, after many looks that found nothing, that a message can still arrive. On a declared machine the looks
    /// also take time.
    #[cold]
    pub(super) fn looked_in_vain(&self) -> Result<()> {
        self.hope()?;
        match &self.timed {
            None => Ok(()),
            Some(timed) => {
                self.pause_until(timed, timed.participant.clock_ps().saturating_add(VAIN_LOOKS_PS))
            }
        }
    }

    /// Returns the latest clock of all ranks, who are idle.
    pub(super) fn latest_ps(&self) -> u64 {
        self.timed.as_ref().map_or(0, |timed| timed.participant.latest_ps(&timed.job))
    }

    /// Advances this rank's clock to the time at which all were idle.
    #[inline]
    pub(super) fn come_to(&self, at_ps: u64) -> Result<()> {
        match &self.timed {
            None => Ok(()),
            Some(timed) => timed.participant.advance_to(at_ps, || self.alive()).map(drop),
        }
    }
}

impl Drop for Mailboxes {
    fn drop(&mut self) {
        if let Some(timed) = &self.timed {
            timed.participant.expect_threads(0, self.mine().shape().threads);
        }
    }
}

/// Computes the time from the arrival of all copies until all threads have theirs.
fn delivery_ps(participant: &Participant, copies: impl Iterator<Item = (Rank, u64)>) -> u64 {
    let Some(mailbox) = participant.network().mailbox else { return 0 };
    let (mut longest_ps, mut last) = (0, None);
    for (dest, mask) in copies {
        let before_ps = last.filter(|(rank, _)| *rank == dest).map_or(0, |(_, ps)| ps);
        let ps = mailbox.delivery_ps(mask) + before_ps;
        longest_ps = longest_ps.max(ps);
        last = Some((dest, ps));
    }
    longest_ps
}
