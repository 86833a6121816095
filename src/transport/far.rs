//! Far peers: ranks that share no memory with this one, whose lines are a private mirror that a link fills in.
//!
//! ```text
//!     near peer     stores its lines ------> control segment --------------------------> this rank reads
//!     far peer      stores its lines, posts frames ~~~ link ~~~> poll -> mirror of it -> this rank reads
//! ```
//!
//! The mirror has the segment's own layout, so what reads a peer's lines asks [`Transport::lines`] for them and knows no
//! difference. A waiting rank polls its link. Frames take effect in the order of their numbers, whatever the link's order:
//! a counter never shows what has not come, and an arrival is stored by the same function that a near rank uses. Only the
//! bytes of staging slots are stored at once. No rank reads them before the counter says so, and none sends a slot's next
//! bytes before this rank's counter has passed the reading step. A call's bytes that this rank does not need may come when it
//! is in a later call, whose own bytes may have been written to the same place: they are dropped.

use super::Transport;
use super::attendant::Attendant;
use super::endings::PassedOn;
use super::far_inbox::FarInbox;
use super::far_memory::FarMemory;
use super::link::{Body, Frame, Incoming, Link};
use super::survivors::Told;
use crate::error::{Error, Result};
use crate::memory::control::Control;
use crate::memory::control::lines::Lines;
use crate::sync::lock::{Mutex, MutexGuard};
use crate::sync::prim::{AtomicU64, Ordering};
use crate::types::Rank;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// This rank's far peers, and the thread that attends to them.
pub struct Far {
    /// Ends before the link does.
    attendant: Option<Attendant>,
    ranks: Arc<FarRanks>,
    /// The far ranks whose processes run on this machine, in other containers.
    pub beside: usize,
}

impl Deref for Far {
    type Target = FarRanks;
    #[inline]
    fn deref(&self) -> &FarRanks {
        &self.ranks
    }
}

/// This rank's far peers.
pub struct FarRanks {
    pub(super) rank: Rank,
    /// The lines of this rank's own host.
    pub(super) near: Arc<Control>,
    /// For each rank, whether it is far.
    far: Box<[bool]>,
    /// The far ranks' lines.
    pub(super) mirror: Arc<Lines>,
    pub(super) link: Box<dyn Link>,
    /// The link takes bytes of callers' buffers.
    pub(super) takes_lent: Option<usize>,
    /// All ranks but this one are far.
    pub(super) are_all: bool,
    /// Frames posted to each rank.
    posted: Box<[AtomicU64]>,
    /// Ends of messages that went to each rank [past the frames](super::link::StraightLink).
    rests: Box<[AtomicU64]>,
    /// The frames that have come, by sender.
    inboxes: Mutex<Box<[FarInbox]>>,
    /// The number of times that threads of the rank have polled or posted.
    polls: AtomicU64,
    /// Why the link or a far rank's frames cannot be relied on any more.
    broken: OnceLock<Error>,
    /// One-sided access to this rank's memory, and its own to far ranks'.
    pub(super) memory: FarMemory,
    /// What far ranks tell of smaller communicators.
    pub(super) told: Told,
    /// What this rank has told them of the end of calls.
    pub(super) passed_on: PassedOn,
    /// By rank, the number of its host.
    pub(super) hosts: OnceLock<Box<[u32]>>,
}

impl Far {
    /// The peers of `rank` for which `far` is true, over a link. `near`: the control segment of this rank's own host. `mirror`: private
    /// lines for the far ranks, with the layout that the control segments have on all hosts; the link may fill in bytes of its staging
    /// memory and payloads.
    pub fn new(
        near: &Arc<Control>,
        rank: Rank,
        far: Box<[bool]>,
        mirror: Arc<Lines>,
        link: Box<dyn Link>,
    ) -> Result<Far> {
        let ranks = Arc::new(FarRanks {
            rank,
            near: near.clone(),
            mirror,
            takes_lent: link.takes_lent(),
            are_all: far.iter().filter(|&&far| !far).count() == 1,
            link,
            posted: far.iter().map(|_| AtomicU64::new(0)).collect(),
            rests: far.iter().map(|_| AtomicU64::new(0)).collect(),
            inboxes: Mutex::new(far.iter().map(|_| FarInbox::default()).collect()),
            polls: AtomicU64::new(0),
            broken: OnceLock::new(),
            memory: FarMemory::new(far.len()),
            told: Told::new(far.len()),
            passed_on: PassedOn::default(),
            hosts: OnceLock::new(),
            far,
        });
        let attendant = ranks.link.has_descriptor().then(|| Attendant::new(&ranks)).transpose()?;
        Ok(Far { attendant, ranks, beside: 0 })
    }

    pub(super) fn post(&self, to: Rank, body: Body<'_>) {
        self.ranks.post(to, body);
        self.note_post();
    }

    pub(super) fn post_to_all(&self, body: Body<'_>) {
        self.post_to_each(|_| body);
    }

    /// Posts each rank a frame of its own.
    pub(super) fn post_to_each<'a>(&self, body: impl Fn(Rank) -> Body<'a>) {
        (0..self.far.len() as Rank).filter(|&r| self.has(r)).for_each(|r| self.ranks.post(r, body(r)));
        self.note_post();
    }

    /// The attendant sends what the link has kept, if the rank does not poll soon.
    pub(super) fn note_post(&self) {
        self.note_poll();
        if let Some(attendant) = &self.attendant {
            attendant.note_post();
        }
    }
}

impl Far {
    /// Returns the peers, for what may outlive the transport.
    pub(super) fn shared(&self) -> Arc<FarRanks> {
        self.ranks.clone()
    }
}

impl FarRanks {
    /// Returns the number of ranks, near ones among them.
    pub(super) fn nranks(&self) -> usize {
        self.far.len()
    }

    #[inline]
    pub(super) fn has(&self, rank: Rank) -> bool {
        self.far.get(rank as usize).is_some_and(|&far| far)
    }

    #[cold]
    fn flush(&self) {
        if let Err(e) = self.link.flush() {
            let _ = self.broken.set(e);
        }
    }

    pub(super) fn post(&self, to: Rank, body: Body<'_>) {
        let number = self.posted[to as usize].fetch_add(1, Ordering::Relaxed);
        if let Err(e) = self.link.post(to, Frame { from: self.rank, number, body }) {
            let _ = self.broken.set(e);
        }
    }

    /// Takes in what has come, unless another thread is at it, and wakes the ranks of this host that may wait for it. Tells whether it
    /// has posted answers.
    pub(super) fn poll(&self) -> bool {
        self.inboxes.try_lock().is_some_and(|inboxes| self.take_in(inboxes) && self.send_replies())
    }

    /// Takes in what has come, behind another thread that is at it. Tells whether something had come.
    pub(super) fn take_in_next(&self) -> bool {
        self.take_in(self.inboxes.lock())
    }

    /// Tells whether something had come.
    fn take_in(&self, mut inboxes: MutexGuard<'_, Box<[FarInbox]>>) -> bool {
        let mut has_come = false;
        let polled = self.link.poll(&mut |event| {
            has_come = true;
            let taken = match event {
                Incoming::Frame(frame) => self.take(&mut inboxes, frame),
                Incoming::Rest(from, rest) => self.take_rest(&mut inboxes, from, rest),
                Incoming::Death(rank) if self.has(rank) => {
                    self.mirror.life(rank).node.mark_dead();
                    Ok(())
                }
                Incoming::Death(_) => Ok(()),
            };
            if let Err(e) = taken {
                let _ = self.broken.set(e);
            }
        });
        if let Err(e) = polled {
            let _ = self.broken.set(e);
        }
        drop(inboxes);
        if has_come {
            self.ring();
        }
        has_come
    }

    /// The end of a message goes to a rank past the frames.
    pub(super) fn count_rest(&self, to: Rank) {
        self.rests[to as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The number of those.
    pub(super) fn rests_to(&self, to: Rank) -> u64 {
        self.rests[to as usize].load(Ordering::Relaxed)
    }

    /// Closes the way of messages past the frames, from which nothing comes then.
    pub(super) fn end_straight(&self) {
        if let Some(link) = self.link.straight() {
            link.end();
        }
        self.stop_waiting_for_rests(&mut self.inboxes.lock());
    }

    /// Wakes the threads of this rank that sleep, and the other ranks of this host if they have news.
    fn ring(&self) {
        if !self.near.header().sleepers.after_post() {
            return;
        }
        let (header, nranks) = (self.near.header(), self.far.len() as Rank);
        let has_news = header.gave_up.load(Ordering::Relaxed) != 0
            || header.ended_by.load(Ordering::Relaxed) != 0
            || header.disagreement.load(Ordering::Relaxed) != 0;
        for rank in (0..nranks).filter(|&rank| rank == self.rank || has_news && !self.has(rank)) {
            #[cfg(not(loom))]
            self.near.doorbell(rank).ring();
            #[cfg(loom)]
            let _ = rank;
        }
    }

    /// Counts a poll or a post. Of several threads' some may not be counted: the attendant asks whether there were any.
    #[inline]
    fn note_poll(&self) {
        self.polls.store(self.polls.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// The number of times that threads of the rank have polled or posted.
    pub(super) fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    /// Tells whether a thread of the rank sleeps.
    pub(super) fn is_asleep(&self) -> bool {
        self.near.doorbell(self.rank).is_asleep()
    }

    /// How long the attendant may sleep; `None`: it has to poll first.
    pub(super) fn may_sleep(&self) -> Option<Duration> {
        self.link.may_sleep()
    }
}

impl Transport {
    /// The lines of a rank: the shared ones, or the mirror of a far rank.
    #[inline]
    pub fn lines(&self, rank: Rank) -> &Lines {
        match &self.far {
            Some(far) if far.has(rank) => &far.mirror,
            _ => &self.control,
        }
    }

    /// Returns the number of far ranks that run on this rank's machine.
    pub fn far_on_this_machine(&self) -> usize {
        self.far.as_ref().map_or(0, |far| far.beside)
    }

    /// Tells whether a rank shares no memory with this one. Neither of the two can access the other's buffers.
    #[inline]
    pub fn is_far(&self, rank: Rank) -> bool {
        self.far.as_ref().is_some_and(|far| far.has(rank))
    }

    /// Tells whether there are far ranks.
    #[inline]
    pub fn has_far(&self) -> bool {
        self.far.is_some()
    }

    /// Takes in what far ranks have sent.
    #[inline]
    pub fn poll_far(&self) {
        if let Some(far) = &self.far {
            far.note_poll();
            if far.poll() {
                far.note_post();
            }
            if let Some(attendant) = &far.attendant {
                attendant.note_poll(&*far.link);
            }
        }
    }

    /// This rank's call is over: what far ranks may wait for goes to them now.
    #[inline]
    pub fn flush_far(&self) {
        if let Some(far) = &self.far {
            far.flush();
        }
    }

    /// A thread of this rank is about to sleep.
    #[cold]
    pub(super) fn leave_link_to_attendant(&self) {
        if let Some(attendant) = self.far.as_ref().and_then(|far| far.attendant.as_ref()) {
            attendant.take_over();
        }
    }

    /// Why far ranks cannot be heard any more, if that is so.
    pub fn check_far(&self) -> Result<()> {
        self.far.as_ref().and_then(|far| far.broken.get()).map_or(Ok(()), |e| Err(e.clone()))
    }
}
