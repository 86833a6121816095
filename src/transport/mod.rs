//! Moves values between ranks (arrivals, program counters, staging, heaps), and detects waits that cannot succeed.

pub mod agreement;
pub mod arrival;
mod attendant;
#[cfg(all(test, not(loom)))]
mod conformance;
mod endings;
pub mod far;
mod far_access;
mod far_inbox;
pub mod far_memory;
mod hosts;
pub mod identity;
#[cfg(all(test, not(loom)))]
pub mod in_process;
mod lending;
pub mod link;
#[cfg(any(test, feature = "internals"))]
pub mod look;
pub mod net_link;
pub mod pace;
pub mod pair;
mod post_mortem;
mod posting;
pub mod rotation;
pub mod single_copy;
pub mod survivors;
pub mod swap;
pub mod threads;
pub mod transfers;
pub mod waiting;
pub mod watch;

use crate::error::{Error, Result};
use crate::kernels::hints::Rotation;
use crate::memory::control::{ABSENT, ALIVE, Control, FAILED, INLINE};
use crate::memory::heap::PeerHeap;
use crate::memory::view::Payload;
use crate::sync::prim::{Ordering, fence};
use crate::sync::wait::Backoff;
use crate::sys::clock;
use crate::types::Rank;
use agreement::Difference;
use arrival::{AGREED, Fingerprint, Offer, WITHDRAWN};
use far::Far;
use single_copy::SingleCopy;
use std::sync::{Arc, OnceLock, Weak};
use threads::RankThreads;
use waiting::Polls;

/// One rank's connection to all others of its communicator.
#[repr(align(128))]
pub struct Transport {
    control: Arc<Control>,
    rank: Rank,
    nranks: u32,
    heaps: Vec<Arc<PeerHeap>>,
    backoff: Backoff,
    timeout_ns: u64,
    alarm: OnceLock<Alarm>,
    identities: identity::Identities,
    /// The peers that share no memory with this rank; `None`: all share it.
    far: Option<Far>,
    threads: RankThreads,
    /// The transport of the first communicator of this one's ancestry; empty if this one is the first.
    ancestor: Weak<Transport>,
    /// See [`single_copy`](Transport::single_copy).
    single_copy: OnceLock<SingleCopy>,
    /// See [`rotation`].
    rotation: Rotation,
    /// See [`swap`].
    swaps_above: usize,
    /// Behind `far`: what it keeps goes after the link.
    hosts: hosts::Hosts,
}

/// Tells why waiting is hopeless for a reason that lies outside of the communicator.
pub type Alarm = Box<dyn Fn() -> Result<()> + Send + Sync>;

/// What a call is, as far as waiting in it goes.
#[derive(Clone, Copy)]
pub struct Scope {
    /// Its number; 0 for point-to-point transfers, which have none.
    pub seq: u64,
    /// This rank's arguments.
    pub mine: [u64; 2],
    /// What this rank says of its calls before; see [`agreement`].
    pub trail: u64,
    /// Another rank says something else.
    pub doubt: bool,
    /// When to give up.
    pub deadline_ns: u64,
    /// A rank's part is over as soon as it has arrived.
    pub arrival_is_all: bool,
    /// Ranks of other hosts wait for an arrival without payload only to go further ahead than they may be now.
    pub arrival_may_wait: bool,
    /// The call is polled: where it would have to wait it returns [`Error::pending`] and is made again from there.
    pub polls: Polls,
}

impl Scope {
    /// Makes the scope of a call that begins.
    #[inline]
    pub fn new(seq: u64, mine: [u64; 2], trail: u64, polls: Polls) -> Scope {
        let (doubt, arrival_is_all, arrival_may_wait) = (false, false, false);
        Scope { seq, mine, trail, doubt, deadline_ns: 0, arrival_is_all, arrival_may_wait, polls }
    }
}

/// In place of a call's number: the rank gave up before it had joined.
pub const JOINING: u64 = u64::MAX;

/// Bits of the program counter that count within a call; the other bits are the call's number.
pub const STEP_BITS: u32 = 20;

/// The program counter with which call `seq` begins.
#[inline]
pub fn counter_base(seq: u64) -> u64 {
    seq << STEP_BITS
}

/// The program counter of a rank whose part of call `seq` is over.
#[inline]
pub fn counter_end(seq: u64) -> u64 {
    counter_base(seq + 1) - 1
}

impl Transport {
    /// Over a control segment whose life lines are filled, and the heaps of all ranks.
    pub fn new(
        control: Arc<Control>,
        rank: Rank,
        heaps: Vec<Arc<PeerHeap>>,
        backoff: Backoff,
        timeout_ns: u64,
    ) -> Transport {
        let nranks = heaps.len() as u32;
        Transport {
            control,
            rank,
            nranks,
            rotation: rotation::here(nranks),
            swaps_above: swap::here(nranks),
            heaps,
            backoff,
            timeout_ns,
            alarm: OnceLock::new(),
            identities: identity::Identities::default(),
            far: None,
            threads: RankThreads::alone(),
            ancestor: Weak::new(),
            single_copy: OnceLock::new(),
            hosts: hosts::Hosts::default(),
        }
    }

    /// The same with far peers, if there are some.
    pub fn with_far(self, far: Option<Far>) -> Transport {
        far.iter().for_each(|far| far.memory.set_heap(self.heaps[self.rank as usize].clone()));
        let backoff = if far.is_some() { self.backoff.with_costly_polls() } else { self.backoff };
        let rotation = if far.is_some() { Rotation::Nothing } else { self.rotation };
        let swaps_above = if far.is_none() { self.swaps_above } else { usize::MAX };
        Transport { far, backoff, rotation, swaps_above, ..self }
    }

    /// The same with threads that share this rank's large copies.
    pub fn with_threads(self, threads: RankThreads) -> Transport {
        Transport { threads, ..self }
    }

    /// The same in a communicator that was made from others, the first of which has this transport.
    pub fn with_ancestor(self, ancestor: Weak<Transport>) -> Transport {
        Transport { ancestor, ..self }
    }

    /// Makes the backoff of a communicator that is made from this one.
    pub fn backoff_for_child(&self, spins: Option<u32>) -> Backoff {
        self.backoff.for_child(spins)
    }

    /// Waits end with what this reports, too. Only the first counts.
    pub fn set_alarm(&self, alarm: Alarm) {
        let _ = self.alarm.set(alarm);
    }
    /// Is there an alarm?
    pub fn check_alarm(&self) -> Result<()> {
        self.check_far()?;
        self.alarm.get().map_or(Ok(()), |alarm| alarm())
    }

    /// This rank.
    #[inline]
    pub fn rank(&self) -> Rank {
        self.rank
    }
    /// Ranks in all.
    #[inline]
    pub fn nranks(&self) -> u32 {
        self.nranks
    }
    /// The segment.
    #[inline]
    pub fn control(&self) -> &Control {
        &self.control
    }
    /// A rank's heap, for communicators that are made from this one.
    pub fn shared_heap(&self, rank: Rank) -> Arc<PeerHeap> {
        self.heaps[rank as usize].clone()
    }
    /// A deadline from now.
    ///
    /// Reading the clock costs as much as a small call's other overhead together, so a scope starts with 0 and the
    /// first look at the clock settles it (see `wait`).
    pub fn deadline(&self) -> u64 {
        if self.timeout_ns == 0 { u64::MAX } else { clock::now_ns().saturating_add(self.timeout_ns) }
    }
    /// The deadline's length.
    pub fn timeout_ns(&self) -> u64 {
        self.timeout_ns
    }

    /// Rings the doorbells of ranks that sleep. Call it after every store that a peer may wait for.
    #[inline(always)]
    pub fn after_post(&self) {
        if self.control.header().sleepers.after_post() {
            self.ring_all();
        }
    }

    /// Rings one rank if it sleeps, this one's other threads included. Call after a store that only that rank may wait for.
    #[inline]
    pub fn after_post_to(&self, peer: Rank) {
        if self.control.header().sleepers.after_post() {
            #[cfg(not(loom))]
            self.control.doorbell(peer).ring();
            #[cfg(loom)]
            let _ = peer;
        }
    }

    #[cold]
    fn ring_all(&self) {
        for r in (0..self.nranks).filter(|&r| r != self.rank) {
            #[cfg(not(loom))]
            self.control.doorbell(r).ring();
            #[cfg(loom)]
            let _ = r;
        }
    }

    /// Has a rank entered call `seq` (or a later one)?
    #[inline(always)]
    pub fn has_arrived(&self, rank: Rank, seq: u64) -> bool {
        self.lines(rank).arrival(rank, seq).seq.load(Ordering::Acquire) >= seq
    }

    /// Waits for a rank's arrival and holds its arguments against ours.
    #[inline(always)]
    pub fn meet(&self, peer: Rank, scope: &mut Scope) -> Result<Offer> {
        let line = self.lines(peer).arrival(peer, scope.seq);
        let seq = scope.seq;
        // ORDER: partner of the store in `arrive`.
        if line.seq.load(Ordering::Acquire) < seq {
            self.wait(scope, || line.seq.load(Ordering::Acquire) >= seq)?;
        }
        let (args, count) = (line.args.load(Ordering::Relaxed), line.count.load(Ordering::Relaxed));
        if args & AGREED != scope.mine[0] || count != scope.mine[1] {
            let theirs = [args & AGREED, count];
            return Err(self.disagree(&Difference { seq, mine: scope.mine, peer, theirs }));
        }
        scope.doubt |= line.trail.load(Ordering::Relaxed) != scope.trail;
        let words = [line.words[0].load(Ordering::Relaxed), line.words[1].load(Ordering::Relaxed)];
        let offer = Offer::unpack(args, words);
        if !self.is_far(peer) {
            return Ok(offer);
        }
        if args & WITHDRAWN != 0 {
            // It has found that another rank's arguments differ, or that the call cannot end. This rank finds that, too.
            self.wait(scope, || false)?;
        }
        // A far rank's buffers cannot be reached, so plans take the way through slots.
        Ok(Offer { input: None, output: None, ..offer })
    }

    /// Publishes this rank's program counter to near ranks. Far ones are sent it ([`send_slot`](Self::send_slot)).
    #[inline]
    pub fn publish(&self, counter: u64) {
        // ORDER: publishes every slot, heap range and output written so far; partner: `await_counter`.
        self.control.progress(self.rank).counter.store(counter, Ordering::Release);
        die_point!(22 "progress_posted");
        self.after_post();
        die_point!(23 "progress_rung");
    }

    /// A range of a rank's staging memory.
    #[inline]
    pub fn staging(&self, rank: Rank, offset: usize, bytes: usize) -> Payload<'_> {
        self.lines(rank).staging(rank, offset, bytes)
    }

    /// Publishes something that no rank waits for: the end of a call, which only the watch looks at.
    #[inline]
    pub fn publish_quietly(&self, counter: u64) {
        self.control.progress(self.rank).counter.store(counter, Ordering::Release);
        if self.has_far() {
            self.send_counter_to_all(counter);
        }
    }

    /// Waits until a rank's program counter has reached a value.
    #[inline]
    pub fn await_counter(&self, peer: Rank, counter: u64, scope: &mut Scope) -> Result<()> {
        let word = &self.lines(peer).progress(peer).counter;
        if word.load(Ordering::Acquire) >= counter {
            return Ok(());
        }
        self.wait(scope, || word.load(Ordering::Acquire) >= counter)
    }

    /// A range of a rank's heap, as an offset that the rank itself gave. An error if it does not lie within.
    #[inline]
    pub fn heap(&self, rank: Rank, offset: u64, bytes: usize) -> Result<Payload<'_>> {
        let near = !self.is_far(rank);
        let offset_here = usize::try_from(offset).ok().filter(|_| near);
        let view = offset_here.and_then(|offset| self.heaps[rank as usize].view(offset, bytes));
        view.ok_or_else(|| self.out_of_reach(rank, offset, bytes))
    }

    #[cold]
    fn out_of_reach(&self, rank: Rank, offset: u64, bytes: usize) -> Error {
        if self.is_far(rank) {
            return Error::internal(format!("a plan reaches for the buffer of rank {rank}, which is far"));
        }
        if offset.checked_add(bytes as u64).is_some_and(|end| end <= self.heaps[rank as usize].bytes() as u64)
        {
            return Error::system(format!(
                "rank {} cannot map rank {rank}'s buffer ({bytes} bytes at {offset} of its shared heap); raise `ulimit -v`",
                self.rank
            ));
        }
        Error::remote(format!(
            "rank {rank} passed a buffer outside of its shared heap (offset {offset}, {bytes} bytes); destroy the \
             communicator"
        ))
    }

    /// A near rank's heap, as it is mapped here.
    #[inline]
    pub fn near_heap(&self, rank: Rank) -> Option<&PeerHeap> {
        (!self.is_far(rank)).then(|| &*self.heaps[rank as usize])
    }

    /// Tells all ranks that this rank, of process `pid` started at `start`, is a member.
    pub fn live(&self, pid: u32, start: u64) {
        let life = self.control.life(self.rank);
        life.pid.store(pid, Ordering::Relaxed);
        die_point!(85 "attach_pid");
        life.start.store(start, Ordering::Relaxed);
        die_point!(86 "attach_start");
        self.tell_core();
        life.state.store(ALIVE, Ordering::Release);
        die_point!(87 "attach_state");
        self.send_life();
    }

    /// Tells all ranks that this rank gave up in call `seq`, or [`JOINING`].
    pub fn fail(&self, seq: u64) {
        let life = self.control.life(self.rank);
        if let Some(cause) = self.cause() {
            self.publish_cause(cause);
        }
        die_point!(40 "fail_cause");
        life.failed_seq.store(seq, Ordering::Relaxed);
        die_point!(41 "fail_call");
        if matches!(life.state.load(Ordering::Relaxed), ABSENT | ALIVE) {
            life.state.store(FAILED, Ordering::Release);
        }
        die_point!(42 "fail_state");
        self.control.header().gave_up.fetch_add(1, Ordering::Release);
        die_point!(43 "fail_counted");
        // ORDER: whatever our caller writes to its buffers now comes after; partner: `check_borrowed`.
        fence(Ordering::Release);
        self.send_life();
        self.ring_all();
        self.send_last_words();
    }
}

const _: () = assert!(INLINE >= 16, "the two heap offsets share the inline payload's words");
