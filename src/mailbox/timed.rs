//! Mailboxes of ranks that stand on a declared machine: messages take the time that they take there. Without a machine all of
//! this does nothing ([`Timing`](crate::timing::Timing)).
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
use crate::memory::mailbox::FLIT;
use crate::sync::prim::model::{Ordering, fence};
use crate::topology::MailboxSpec;
use crate::types::Rank;

/// The cost of 64 looks that found nothing, so that time passes in a polling program.
const VAIN_LOOKS_PS: u64 = 1_000_000;

impl Mailboxes {
    /// A message goes to threads of one mailbox or more: on a declared machine it returns when they would have it. To be
    /// called before it is delivered; `copies` to one mailbox stand together.
    #[inline]
    pub(super) fn carry(
        &self,
        letter: Letter,
        copies: impl Iterator<Item = (Rank, u64)> + Clone,
    ) -> Result<()> {
        match self.timing.network() {
            None => Ok(()),
            Some(network) => self.take_time(network.mailbox.as_ref(), letter, copies),
        }
    }

    #[cold]
    fn take_time(
        &self,
        mailbox: Option<&MailboxSpec>,
        letter: Letter,
        copies: impl Iterator<Item = (Rank, u64)> + Clone,
    ) -> Result<()> {
        let (to, bytes) = (copies.clone().map(|(dest, _)| dest), letter.flits as usize * FLIT);
        let arrived_ps = self.timing.put_all(self.rank(), to, bytes, || self.open())?.at_ps();
        match delivery_ps(mailbox, copies) {
            0 => Ok(()),
            delivery_ps => {
                let there_ps = arrived_ps.unwrap_or(0).saturating_add(delivery_ps);
                self.timing.pause_until(there_ps, || self.open())
            }
        }
    }

    /// Waits for this rank's turn to do something that other ranks see: on a declared machine it returns when all
    /// earlier events there are done.
    #[inline]
    pub(super) fn in_turn(&self) -> Result<()> {
        self.timing.pause(0, || self.open())
    }

    /// Something has been stored at a rank's mailbox: its waits there look again.
    #[inline]
    pub(super) fn stored(&self, rank: Rank) {
        self.timing.stored(rank);
    }

    /// Waits for what some rank will store.
    #[cold]
    pub(super) fn wait_there(
        &self,
        thread: u32,
        ready: impl FnMut() -> bool,
        watch: impl Fn() -> Result<()>,
        what: impl Fn() -> AwaitedRanks,
    ) -> Result<()> {
        // ORDER: what tells others of this wait comes before the first look; partner: the fence in `slot_freed`.
        fence(Ordering::SeqCst);
        let watch = || self.open().and_then(|()| watch());
        self.timing.expect_threads(0, 1);
        let ended = self.timing.wait_until(ready, watch, || self.waited(thread, &what), || what().what);
        self.timing.expect_threads(1, 0);
        ended
    }

    /// Checks, after many looks that found nothing, that a message can still arrive. On a declared machine the looks
    /// also take time.
    #[cold]
    pub(super) fn looked_in_vain(&self) -> Result<()> {
        self.hope()?;
        self.timing.pause(VAIN_LOOKS_PS, || self.open())
    }

    /// Returns the latest clock of all ranks, who are idle.
    pub(super) fn latest_ps(&self) -> u64 {
        self.timing.latest_ps()
    }

    /// Advances this rank's clock to the time at which all were idle.
    #[inline]
    pub(super) fn come_to(&self, at_ps: u64) -> Result<()> {
        self.timing.advance_to(at_ps, || self.open())
    }
}

impl Drop for Mailboxes {
    fn drop(&mut self) {
        self.timing.expect_threads(0, self.mine().shape().threads);
    }
}

/// From the arrival of all copies until all threads have theirs.
fn delivery_ps(mailbox: Option<&MailboxSpec>, copies: impl Iterator<Item = (Rank, u64)>) -> u64 {
    let Some(mailbox) = mailbox else { return 0 };
    let (mut longest_ps, mut last) = (0, None);
    for (dest, mask) in copies {
        let before_ps = last.filter(|(rank, _)| *rank == dest).map_or(0, |(_, ps)| ps);
        let ps = mailbox.delivery_ps(mask) + before_ps;
        longest_ps = longest_ps.max(ps);
        last = Some((dest, ps));
    }
    longest_ps
}
