//! Waiting for whatever comes first, and for the end of all work.

use super::set::{AwaitedRanks, Mailboxes};
use crate::error::{Error, Result};
use crate::recorder;
use crate::sync::prim::model::Ordering;
use crate::types::Rank;

/// The conditions for which a thread waits: either is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Wait until a message to this rank could be sent.
    pub send: Option<i32>,
    /// Wait until there is a message.
    pub recv: bool,
}

/// The outcome of an idle wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// A message is here.
    Message = 0,
    /// Every thread of every mailbox is idle, and no message is left.
    AllIdle = 1,
    /// As `AllIdle`, and all threads voted true.
    AllVoted = 2,
}

impl Mailboxes {
    /// Waits until something that is wanted is so; what is: (can send, can receive).
    pub fn wait_until(&self, thread: i32, want: Want) -> Result<(bool, bool)> {
        let _recorded = recorder::record(|d| self.describe_receipt(d, thread, 0));
        let dest = want.send.map(|dest| self.dest(dest)).transpose()?.map(|(dest, _)| dest);
        if dest.is_none() && !want.recv {
            return Err(Error::argument(
                "flags is 0; wait for PENNY_MAILBOX_CAN_SEND, PENNY_MAILBOX_CAN_RECV or both",
            ));
        }
        let (thread, guard) = self.sit(thread)?;
        let (words, position) = (self.mine().words(), guard.position());
        let mut is = (false, false);
        let mut failed = Ok(());
        let mut looks = dest.map(|dest| self.looks_at(dest));
        let mut ready = || {
            if let (Some(dest), Some(looks)) = (dest, &mut looks)
                && looks.now()
            {
                let free = self.has_free(dest);
                is.0 = matches!(free, Ok(true));
                failed = free.map(drop);
            }
            is.1 = want.recv && words.head(thread, position).is_some();
            is.0 || is.1 || failed.is_err()
        };
        if ready() {
            return failed.map(|()| is);
        }
        let watch = || match dest {
            Some(dest) if !want.recv => self.able(dest),
            _ => self.hope(),
        };
        let what = || match (dest, want.recv) {
            (Some(dest), true) => {
                AwaitedRanks::of_all(format!("a message, or a free slot of rank {dest}'s mailbox"))
            }
            (Some(dest), false) => AwaitedRanks::of(dest, format!("a free slot of rank {dest}'s mailbox")),
            (None, _) => AwaitedRanks::of_all("a message"),
        };
        match dest {
            Some(dest) => self.announced(thread, dest, || self.wait(thread, ready, watch, what))?,
            None => self.wait(thread, ready, watch, what)?,
        }
        failed.map(|()| is)
    }

    /// Waits until there is a message for this thread, or until all threads of all mailboxes are idle and no message is
    /// in flight or unfreed. An idle thread must have freed its messages.
    pub fn idle(&self, thread: i32, vote: bool) -> Result<Rest> {
        let _recorded = recorder::record(|d| self.describe_receipt(d, thread, 0));
        let (thread, guard) = self.sit(thread)?;
        let holding = guard.holding();
        if holding > 0 {
            return Err(Error::usage(format!(
                "thread {thread} of rank {} still holds {holding} messages; free them before being idle",
                self.rank()
            )));
        }
        let (words, position) = (self.mine().words(), guard.position());
        let has_message = || words.head(thread, position).is_some();
        if has_message() {
            return Ok(Rest::Message);
        }
        let (counts, round) = (self.idle_count(), guard.round());
        counts.enter_and_conclude(vote, round)?;
        let bit = 1 << thread;
        let ended = if counts.verdict(round).is_some() {
            Ok(())
        } else {
            words.head.idle.0.fetch_or(bit, Ordering::Relaxed);
            let ready = || counts.verdict(round).is_some() || has_message();
            let watch =
                || self.transport.check_ranks((0..self.transport.nranks()).filter(|&r| r != self.rank()));
            let watch = || self.hope().and_then(|()| watch());
            let ended = self.wait(thread, ready, watch, || AwaitedRanks::of_all(self.who_works()));
            words.head.idle.0.fetch_and(!bit, Ordering::Relaxed);
            ended
        };
        // A thread that sends after a round has ended knows its verdict. So a message belongs to the next round if it is here
        // together with a verdict, and to this round if not.
        if counts.verdict(round).is_none() {
            if counts.leave(vote, round)? {
                return ended.map(|()| Rest::Message);
            }
            let ready = || counts.verdict(round).is_some();
            self.wait(
                thread,
                ready,
                || self.hope(),
                || AwaitedRanks::of_all("the verdict of the rank that ended a round"),
            )?;
        }
        guard.end_round();
        self.come_to(counts.ended_ps())?;
        Ok(if counts.verdict(round) == Some(true) { Rest::AllVoted } else { Rest::AllIdle })
    }

    /// Tells whether no slot of any mailbox is in use. The caller must be idle and know that all threads are.
    pub(super) fn all_free(&self) -> Result<bool> {
        if !self.blocks().all(|(_, block)| block.words().free_slots() == block.shape().slots) {
            return Ok(false);
        }
        for (rank, (_, shape)) in (0..).zip(&self.told).filter(|&(rank, _)| self.is_far(rank)) {
            if self.free_far(rank)? != shape.slots {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn ring_everybody(&self) {
        for (rank, block) in self.blocks() {
            if block.words().head.sleepers.after_post() {
                self.ring(rank, u64::MAX);
            }
            self.stored(rank);
        }
    }

    /// Names the threads that are not idle.
    fn who_works(&self) -> String {
        const SHOWN: usize = 8;
        let works = |rank: Rank| {
            let idle = match self.is_far(rank) {
                // A rank that does not answer is not blamed for its threads.
                true => self.idle_far(rank).unwrap_or(u64::MAX),
                false => self.words(rank).head.idle.0.load(Ordering::Relaxed),
            };
            (0..self.told[rank as usize].1.threads)
                .filter(move |t| idle >> t & 1 == 0)
                .map(move |t| (rank, t))
                .collect::<Vec<_>>()
        };
        let all: Vec<(Rank, u32)> = (0..self.told.len() as Rank).flat_map(works).collect();
        let mut text = format!(
            "all {} threads of all mailboxes to be idle; {} are, and not",
            self.threads,
            self.idle_count().idlers()
        );
        let shown = all.iter().take(SHOWN).map(|(rank, t)| format!(" thread {t} of rank {rank}"));
        text += &shown.collect::<Vec<_>>().join(",");
        if all.len() > SHOWN {
            text += &format!(" and {} more", all.len() - SHOWN);
        }
        text
    }
}
