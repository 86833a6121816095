//! How long calls take: as long as they take here, or as long as on the machine that is declared.
//!
//! ```text
//!     free        put --------------------> store       wait_until -------> the transport's wait       enter: nothing
//!     declared    put --- the machine's --> store       wait_until -------> woken by timed stores      enter: posts
//!                         time                                               leave: when it would end
//! ```
//!
//! A [`Timing`] belongs to one rank of one communicator. Its callers do not know which form it has: the free form does
//! nothing and costs a branch. The declared form holds the rank's [`Participant`], its communicator's places on the machine
//! and its ranks' numbers in the job. A wait on the machine ends by the communicator's deadline, abort and alarm as any
//! other wait does.

use crate::error::{Code, Error, Result};
use crate::fabric::live::program_time::Moment;
use crate::fabric::live::{Activity, CallSpec, Delivery, Participant, PendingCall, Placement, Post, What};
use crate::sync::lock::{Mutex, MutexGuard};
use crate::sync::wait::eagerly;
use crate::topology::Network;
use crate::transport::Transport;
use crate::types::Rank;
use std::sync::Arc;

/// Bytes of a request and of a signal on a declared machine.
pub const WORD: usize = 8;

/// One rank's timing in one communicator.
#[derive(Clone)]
pub struct Timing {
    transport: Arc<Transport>,
    declared: Option<Arc<Declared>>,
}

/// The place of a communicator on a declared machine.
struct Declared {
    participant: Arc<Participant>,
    /// Each rank's place on the machine.
    places: Arc<[Rank]>,
    /// Each rank's number in the job.
    job: Box<[Rank]>,
    /// Numbers the posts of the calls.
    placement: Mutex<Placement>,
}

/// Bytes that have arrived. What they bring is stored while this lives.
#[must_use = "what was carried is stored before this is dropped"]
pub struct Carried<'a>(Option<Delivery<'a>>);

impl Carried<'_> {
    /// Returns when they arrived, by the machine's clock; `None` in the free form.
    pub fn at_ps(&self) -> Option<u64> {
        self.0.as_ref().map(|delivery| delivery.at_ps)
    }
}

/// One of several parts of a thread's work that run side by side, each with a presence of its own on the machine.
#[derive(Default)]
pub struct Part {
    activity: Option<Activity>,
    alone: bool,
}

impl Declared {
    fn placement(&self) -> MutexGuard<'_, Placement> {
        self.placement.lock()
    }
}

impl Timing {
    /// Declared if the communicator has a placement. `job`: each rank's number in the job.
    pub fn new(transport: Arc<Transport>, placement: Option<Placement>, job: &[Rank]) -> Timing {
        let declared = placement.map(|placement| {
            Arc::new(Declared {
                participant: placement.participant().clone(),
                places: placement.places().clone(),
                job: job.into(),
                placement: Mutex::new(placement),
            })
        });
        Timing { transport, declared }
    }

    /// Tells whether a machine is declared.
    #[inline]
    pub fn is_declared(&self) -> bool {
        self.declared.is_some()
    }

    /// Tells whether the calling thread may call for other ranks of the machine, too.
    pub fn is_one_of_several(&self) -> bool {
        self.participant().is_some_and(|participant| participant.is_one_of_several())
    }

    /// Returns the rank's connection to the others.
    pub fn transport(&self) -> &Arc<Transport> {
        &self.transport
    }

    /// Returns the places of the communicator's ranks on the machine.
    pub fn places(&self) -> Option<&[Rank]> {
        self.declared.as_ref().map(|declared| &declared.places[..])
    }

    /// Returns the rank's participant on the machine.
    pub fn participant(&self) -> Option<&Arc<Participant>> {
        self.declared.as_ref().map(|declared| &declared.participant)
    }

    /// Returns the rank's clock on the declared machine; the free form: no moment.
    pub fn moment(&self) -> Moment {
        self.participant().map_or(Moment::default(), |participant| participant.moment())
    }

    /// What the rank does from now on begins at this time of the machine or later.
    pub fn begin_after(&self, moment: Moment) {
        if let Some(participant) = self.participant() {
            participant.begin_after(moment);
        }
    }

    /// Tells the rank's participant from those of other ranks of this process.
    pub fn key(&self) -> Option<usize> {
        self.participant().map(|participant| Arc::as_ptr(participant).addr())
    }

    /// Returns the machine.
    pub fn network(&self) -> Option<&Network> {
        self.declared.as_ref().map(|declared| declared.participant.network())
    }

    /// Returns the error that ended the machine's time, if one did.
    pub fn check(&self) -> Result<()> {
        self.declared.as_ref().map_or(Ok(()), |declared| declared.participant.check())
    }

    /// Tells the other ranks on the machine that this one fails because a rank died, if one has. It may end because of it.
    pub fn fail(&self) {
        if let Some(declared) = &self.declared
            && let Some(dead) = self.transport.first_dead()
        {
            declared.participant.fail_for(Some(declared.places[dead as usize]));
        }
    }

    /// Completes the error of a failed wait by who is to blame for it on the machine.
    pub fn blame(&self, error: Error) -> Error {
        match &self.declared {
            Some(declared) => declared.participant.blame(error),
            None => error,
        }
    }

    /// Tells why a wait on the machine has to end.
    fn watch(&self) -> Result<()> {
        self.transport.check_abort().and_then(|()| self.transport.check_alarm())
    }

    /// Words the deadline's error.
    fn expired(&self, declared: &Declared) -> Error {
        declared.participant.clock_stood(self.transport.timeout_ns())
    }
}

/// Calls that are posted.
impl Timing {
    /// Returns this rank's post of a collective call, by the call's number.
    pub fn collective(&self, number: u64, spec: impl FnOnce() -> CallSpec) -> Option<Post> {
        self.declared.as_ref().map(|declared| declared.placement().collective(number, spec()))
    }

    /// Returns the post of this rank's half of the next transfer with a peer. `amount`: count, size and kind.
    pub fn transfer(&self, send: bool, peer: Rank, amount: impl FnOnce() -> (u64, u64, u64)) -> Option<Post> {
        let declared = self.declared.as_ref()?;
        let (count, size, kind) = amount();
        Some(declared.placement().transfer(send, peer, count, size, kind))
    }

    /// Does something with the communicator's placement, such as placing a communicator that is made of it.
    pub fn with_placement<T>(&self, act: impl FnOnce(&mut Placement) -> T) -> Option<T> {
        Some(act(&mut self.declared.as_ref()?.placement()))
    }

    /// Posts what this rank is about to do, at its clock or at `at_ps`. `None`: there is nothing to post.
    pub fn enter(&self, posts: &[Post], at_ps: Option<u64>) -> Result<Option<PendingCall>> {
        match &self.declared {
            Some(declared) if !posts.is_empty() => {
                let at_ps = declared.participant.begin_after_known(at_ps);
                declared.participant.enter(posts, at_ps).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Waits until the machine would be done with what was posted; returns when that is.
    pub fn leave(&self, pending: Option<PendingCall>) -> Result<Option<u64>> {
        let (Some(declared), Some(pending)) = (&self.declared, pending) else { return Ok(None) };
        let deadline_ns = self.transport.deadline();
        let exit_ps =
            declared.participant.leave(pending, deadline_ns, || self.watch(), || self.expired(declared))?;
        declared.participant.know(exit_ps);
        Ok(Some(exit_ps))
    }

    /// Takes back what was posted, since its work failed; returns the error, which may name who is to blame. After a
    /// disagreement that leaves the communicator usable the posts stand, so that other ranks are not left waiting.
    pub fn give_up(&self, pending: Option<PendingCall>, error: Error, usable: bool) -> Error {
        let (Some(declared), Some(pending)) = (&self.declared, pending) else { return error };
        let error = declared.participant.blame(error);
        match error.code {
            Code::InvalidUsage if usable => declared.participant.abandon(pending),
            _ => declared.participant.withdraw(pending),
        }
        error
    }

    /// Returns what calls that begin together would take on the idle machine; each with its ranks. The free form: 0.
    pub fn estimate(&self, calls: &[(CallSpec, Vec<Rank>)]) -> Result<u64> {
        let Some(declared) = self.declared.as_ref().filter(|_| !calls.is_empty()) else { return Ok(0) };
        let place = |&rank: &Rank| declared.places[rank as usize];
        let placed = |(spec, ranks): &(CallSpec, Vec<Rank>)| (*spec, ranks.iter().map(place).collect());
        declared.participant.estimate(&calls.iter().map(placed).collect::<Vec<_>>())
    }

    /// Divides the calling thread, which waits meanwhile, into parts that run side by side. Each part has the timing that it
    /// runs in, if it has one.
    pub fn divide(parts: &[Option<&Timing>]) -> Result<Vec<Part>> {
        let participants: Vec<_> = parts.iter().map(|timing| timing.and_then(Timing::participant)).collect();
        let declared: Vec<&Arc<Participant>> = participants.iter().copied().flatten().collect();
        let mut activities = Activity::several(&declared)?.into_iter();
        let part = |participant: Option<&Arc<Participant>>| {
            let is_same = |other: &&&Arc<Participant>| participant.is_some_and(|own| Arc::ptr_eq(own, other));
            let alone = declared.iter().filter(is_same).count() <= 1;
            Part { activity: participant.and_then(|_| activities.next()), alone }
        };
        Ok(participants.iter().copied().map(part).collect())
    }
}

impl Part {
    /// Does its work on the calling thread.
    pub fn act<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.activity {
            Some(activity) => activity.act(work),
            None => work(),
        }
    }

    /// Returns the rank's clock, if the rank has other parts.
    pub fn clock_ps(&self) -> Option<u64> {
        self.activity.as_ref().filter(|_| !self.alone).map(Activity::clock_ps)
    }
}

/// Stores to other ranks' memory, and waits for them.
impl Timing {
    /// Announces that ranks store to each other's memory from now on.
    pub fn serve_exactly(&self) {
        self.participant().into_iter().for_each(|participant| participant.serve_exactly());
    }

    /// Carries bytes from one rank to another, beginning at this rank's clock or at `at_ps`; returns when they would be there.
    #[inline]
    pub fn put(&self, from: Rank, to: Rank, bytes: usize, at_ps: Option<u64>) -> Result<Carried<'_>> {
        match &self.declared {
            None => Ok(Carried(None)),
            Some(declared) => self.put_all_on(declared, from, [to].into_iter(), bytes, at_ps, || Ok(())),
        }
    }

    /// Carries bytes from one rank to several at once; returns when the last have arrived. `watch`: what else ends the wait.
    #[inline]
    pub fn put_all(
        &self,
        from: Rank,
        to: impl Iterator<Item = Rank>,
        bytes: usize,
        watch: impl Fn() -> Result<()>,
    ) -> Result<Carried<'_>> {
        match &self.declared {
            None => Ok(Carried(None)),
            Some(declared) => self.put_all_on(declared, from, to, bytes, None, watch),
        }
    }

    #[cold]
    fn put_all_on<'a>(
        &self,
        declared: &'a Declared,
        from: Rank,
        to: impl Iterator<Item = Rank>,
        bytes: usize,
        at_ps: Option<u64>,
        watch: impl Fn() -> Result<()>,
    ) -> Result<Carried<'a>> {
        let place = |rank: Rank| declared.places[rank as usize];
        let ways: Vec<[Rank; 2]> = to.map(|to| [place(from), place(to)]).collect();
        let (deadline_ns, watch) = (self.transport.deadline(), || watch().and_then(|()| self.watch()));
        let expired = || self.expired(declared);
        let at_ps = declared.participant.begin_after_known(at_ps);
        let delivery =
            declared.participant.put_all(&ways, bytes as u64, at_ps, deadline_ns, watch, expired)?;
        declared.participant.know(delivery.at_ps);
        Ok(Carried(Some(delivery)))
    }

    /// Waits, on a declared machine, until ranks of other hosts have carried out what is asked of them, before `stored` tells it.
    pub fn complete_far(&self) -> Result<()> {
        if self.is_declared() { self.transport.complete_far() } else { Ok(()) }
    }

    /// Something has been stored at a rank: its waits there look again.
    #[inline]
    pub fn stored(&self, rank: Rank) {
        if let Some(declared) = &self.declared {
            declared.participant.stored(declared.job[rank as usize]);
        }
    }

    /// Looks eagerly whether a wait is over already; on a machine it is not known before the wait.
    #[inline]
    pub fn eagerly(&self, ready: impl FnMut() -> bool) -> bool {
        self.declared.is_none() && eagerly(ready)
    }

    /// Waits until `ready`, which some rank's store brings about. `watch` tells what else ends the wait, `what` what is awaited.
    pub fn wait_until(
        &self,
        ready: impl FnMut() -> bool,
        watch: impl FnMut() -> Result<()>,
        expired: impl Fn() -> Error,
        what: impl Fn() -> String,
    ) -> Result<()> {
        let deadline_ns = self.transport.deadline();
        match &self.declared {
            None => self.transport.wait_watching(deadline_ns, ready, watch, expired),
            Some(declared) => {
                declared.participant.begin_after_known(None);
                declared.participant.await_store(ready, deadline_ns, watch, expired, what)?;
                declared.participant.know(declared.participant.clock_ps());
                Ok(())
            }
        }
    }

    /// Pauses for `more_ps` on this rank's clock. Returns when everything that other ranks do before that time is done.
    #[inline]
    pub fn pause(&self, more_ps: u64, watch: impl Fn() -> Result<()>) -> Result<()> {
        match &self.declared {
            None => Ok(()),
            Some(declared) => {
                declared.participant.begin_after_known(None);
                self.pause_on(declared, declared.participant.clock_ps().saturating_add(more_ps), watch)
            }
        }
    }

    /// Does nothing until a time of this rank's clock, and returns when whatever others do before that is done.
    pub fn pause_until(&self, at_ps: u64, watch: impl Fn() -> Result<()>) -> Result<()> {
        self.declared.as_ref().map_or(Ok(()), |declared| self.pause_on(declared, at_ps, watch))
    }

    #[cold]
    fn pause_on(&self, declared: &Declared, at_ps: u64, watch: impl Fn() -> Result<()>) -> Result<()> {
        let (deadline_ns, watch) = (self.transport.deadline(), || watch().and_then(|()| self.watch()));
        declared.participant.begin_after_known(None);
        let at_ps = declared.participant.pause_until(at_ps, deadline_ns, watch, || self.expired(declared))?;
        declared.participant.know(at_ps);
        Ok(())
    }

    /// Moves this rank's clock on to a time, if it is not past it.
    #[inline]
    pub fn advance_to(&self, at_ps: u64, watch: impl Fn() -> Result<()>) -> Result<()> {
        match &self.declared {
            None => Ok(()),
            Some(declared) => {
                let watch = || watch().and_then(|()| self.watch());
                declared.participant.know(declared.participant.advance_to(at_ps, watch)?);
                Ok(())
            }
        }
    }

    /// Returns the latest clock of the communicator's ranks; the free form: 0.
    pub fn latest_ps(&self) -> u64 {
        self.declared.as_ref().map_or(0, |declared| declared.participant.latest_ps(&declared.job))
    }

    /// Counts threads of this rank that are expected to wait, and those that are so no more.
    pub fn expect_threads(&self, come: u32, gone: u32) {
        if let Some(declared) = &self.declared {
            declared.participant.expect_threads(come, gone);
        }
    }
}

/// Returns the specification of a transfer between two ranks, for an estimate.
pub fn transfer_spec(count: u64, size: u64) -> CallSpec {
    CallSpec::plain(What::Transfer { from: 0, to: 1 }, count, size, 0)
}
