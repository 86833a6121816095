//! Calls that run together: those of one group, or one call that a stream has kept.
//!
//! A communicator's puts and signals are made first, then all its transfers run side by side, then its collectives in their
//! order, then it waits for the signals that it was to wait for: the same order on every rank, whatever order the calls were
//! made in; and nobody waits for a signal before it has given its own. Transfers of inner groups
//! that use each other's data are made one group after the other (`stages.rs`). The communicators of a batch wait for one another
//! where their ranks are of one process, so their shares are polled in turn (`polled.rs`); on a declared machine, whose clock
//! waits for threads, each share has a thread of its own.

use super::polled::PolledBatch;
use super::stages::stages;
use crate::comm::calls::collective::Call;
use crate::comm::calls::permute::Permute;
use crate::comm::calls::point_to_point::{self, Transfer};
use crate::comm::calls::scaled::Scaled;
use crate::comm::calls::vector::Vector;
use crate::comm::onesided::signals::{AwaitedSignals, Signal};
use crate::comm::recorder::Description;
use crate::comm::registry::{self, CommHandle, Entry};
use crate::error::{Error, Result};
use crate::fabric::live::program_time;
use crate::sys::background;
use crate::timing::{Part, Timing};

/// A call on a communicator that is to be made later; its arguments are right by themselves.
#[derive(Clone)]
pub enum Queued {
    /// A collective.
    Collective(CommHandle, Call<'static>),
    /// A permutation.
    Permute(CommHandle, Permute<'static>),
    /// A collective whose blocks have sizes of their own.
    Vector(CommHandle, Vector<'static>),
    /// A sum of scaled inputs.
    Scaled(CommHandle, Scaled<'static>),
    /// One half of a transfer, and the number of the inner group that it is of.
    Transfer(CommHandle, Transfer<'static>, u32),
    /// A signal, with or without a put.
    Signal(CommHandle, Signal),
    /// A wait for signals.
    Awaited(CommHandle, Vec<AwaitedSignals>),
}

impl Queued {
    /// Its communicator.
    pub fn comm(&self) -> CommHandle {
        match self {
            Queued::Collective(h, _) | Queued::Permute(h, _) | Queued::Transfer(h, ..) => *h,
            Queued::Signal(h, _) | Queued::Awaited(h, _) | Queued::Vector(h, _) | Queued::Scaled(h, _) => *h,
        }
    }

    /// Returns its name for error sentences.
    pub fn name(&self) -> &'static str {
        match self {
            Queued::Collective(_, call) => call.collective.name(),
            Queued::Permute(..) => "permute",
            Queued::Vector(_, vector) => vector.kind.name(),
            Queued::Scaled(_, scaled) => scaled.call.collective.name(),
            Queued::Transfer(_, transfer, _) if transfer.send => "send",
            Queued::Transfer(..) => "recv",
            Queued::Signal(_, Signal { put: None, .. }) => "signal",
            Queued::Signal(..) => "put with signal",
            Queued::Awaited(..) => "wait for signals",
        }
    }

    /// Returns the bytes of its longest block.
    pub fn bytes(&self) -> usize {
        let (count, dtype) = match self {
            Queued::Collective(_, call) | Queued::Scaled(_, Scaled { call, .. }) => return call.bytes(),
            Queued::Permute(_, permute) => (permute.count, permute.dtype),
            Queued::Vector(_, vector) => (vector.longest(), vector.dtype),
            Queued::Transfer(_, transfer, _) => (transfer.count, transfer.dtype),
            Queued::Signal(_, Signal { put: Some(put), .. }) => (put.count, put.dtype),
            Queued::Signal(..) | Queued::Awaited(..) => return 0,
        };
        count.saturating_mul(dtype.size())
    }

    /// Describes it for the record; `stream` 0: none.
    pub(in crate::comm) fn describe(&self, description: &mut Description, stream: u64) {
        match self {
            Queued::Collective(comm, call) => description.collective(*comm, call, stream),
            Queued::Permute(comm, permute) => description.permute(*comm, permute, stream),
            Queued::Vector(comm, vector) => description.vector(*comm, vector, stream),
            Queued::Scaled(comm, scaled) => description.collective(*comm, &scaled.call, stream),
            Queued::Transfer(comm, transfer, _) => description.transfer(*comm, transfer, stream),
            Queued::Signal(comm, signal) => description.signal(*comm, signal, stream),
            Queued::Awaited(comm, awaited) => description.awaited(*comm, awaited, stream),
        }
    }

    /// Makes it alone.
    pub(super) fn run(&self, entry: Entry) -> Result<()> {
        registry::enter_as(self.comm(), entry, |c| match self {
            Queued::Collective(_, call) => c.collective(call),
            Queued::Permute(_, permute) => c.permute(permute),
            Queued::Vector(_, vector) => c.vector(vector),
            Queued::Scaled(_, scaled) => c.scaled(scaled),
            Queued::Transfer(_, transfer, _) => point_to_point::run(c, std::slice::from_ref(transfer), false),
            Queued::Signal(_, signal) => c.signal(signal),
            Queued::Awaited(_, awaited) => c.await_signals(awaited),
        })
    }
}

/// A call that all ranks make in the same order.
pub(in crate::comm) enum Joint {
    Collective(Call<'static>),
    Permute(Permute<'static>),
    Vector(Vector<'static>),
    Scaled(Scaled<'static>),
}

/// The name of a group in error sentences.
pub(in crate::comm) const GROUP: &str = "group of calls";

/// Make calls together, or one alone.
pub(in crate::comm) struct Batch {
    pub calls: Vec<Queued>,
    /// They belong to a group, even if there is only one.
    pub grouped: bool,
}

impl Batch {
    /// Returns its name for error sentences.
    pub fn name(&self) -> &'static str {
        match &self.calls[..] {
            [call] => call.name(),
            _ => GROUP,
        }
    }

    /// Refuses half a transfer of a rank to itself: the call that queues it is the one to be told.
    pub fn check_own(&self) -> Result<()> {
        let transfers = |of: CommHandle| {
            self.calls.iter().filter_map(move |call| match call {
                Queued::Transfer(comm, transfer, _) if *comm == of => Some(transfer),
                _ => None,
            })
        };
        let mut comms: Vec<CommHandle> = Vec::new();
        for call in &self.calls {
            let comm = call.comm();
            if matches!(call, Queued::Transfer(..)) && !comms.contains(&comm) {
                let rank = registry::shared(comm)?.transport.rank();
                point_to_point::check_own(rank, transfers(comm), self.grouped)?;
                comms.push(comm);
            }
        }
        Ok(())
    }

    /// Returns the bytes of the longest block of a call.
    pub fn bytes(&self) -> usize {
        self.calls.iter().map(Queued::bytes).max().unwrap_or(0)
    }

    /// Makes them.
    pub fn run(self, entry: Entry) -> Result<()> {
        self.run_alone(entry).unwrap_or_else(|| run(self, entry))
    }

    /// Makes a call that is alone, waiting in place. `None`: there are several.
    pub fn run_alone(&self, entry: Entry) -> Option<Result<()>> {
        match &self.calls[..] {
            [call] if !self.grouped => Some(call.run(entry)),
            _ => None,
        }
    }

    /// Tells whether one of the communicators has a declared machine, whose clock polled calls know nothing of.
    pub fn is_timed(&self) -> bool {
        self.calls
            .iter()
            .any(|call| registry::shared(call.comm()).is_ok_and(|comm| comm.timing.is_declared()))
    }

    /// Begins them as calls that are polled.
    pub fn polled(self, entry: Entry) -> PolledBatch {
        let grouped = self.grouped || self.calls.len() != 1;
        PolledBatch::new(divide(self.calls), grouped, entry)
    }
}

/// Computes the time of a group's calls on the declared machine. Shares run at the same time, so the result is the
/// longest share's.
pub(in crate::comm) fn estimate(queue: Vec<Queued>) -> Result<u64> {
    divide(queue).iter().try_fold(0, |longest: u64, share| Ok(longest.max(share.estimate()?)))
}

/// Runs a function for each item at the same time, because the items wait for one another; returns the first failure.
pub(in crate::comm) fn side_by_side<T: Send>(
    all: &mut [T],
    work: impl Fn(&mut T) -> Result<()> + Sync,
) -> Result<()> {
    let panicked = |_| Err(Error::internal("a call of the group panicked"));
    let ended = background::at_once("penny-group", all, work).map_err(|e| {
        Error::system(format!(
            "no thread for a part of the group: {e}; check `ulimit -u` or divide the group"
        ))
    })?;
    // The last is the caller's own, and its failure comes first.
    ended.into_iter().rev().try_for_each(|one| one.unwrap_or_else(panicked))
}

/// The share of one communicator in a group.
pub(super) struct Share {
    pub handle: CommHandle,
    pub signals: Vec<Signal>,
    /// Those of one list run side by side, one list after the other: see [`stages`].
    pub transfers: Vec<Vec<Transfer<'static>>>,
    pub joint: Vec<Joint>,
    pub awaited: Vec<AwaitedSignals>,
    /// Its rank's clock on a declared machine, where the rank has other shares in the group.
    clock_ps: Option<u64>,
    part: Part,
}

/// Divides a queue into one share for each communicator.
fn divide(queue: Vec<Queued>) -> Vec<Share> {
    let mut shares: Vec<Share> = Vec::new();
    let mut transfers: Vec<Vec<(Transfer<'static>, u32)>> = Vec::new();
    for queued in queue {
        let handle = queued.comm();
        let at = shares.iter().position(|s| s.handle == handle).unwrap_or_else(|| {
            shares.push(Share::new(handle));
            transfers.push(Vec::new());
            shares.len() - 1
        });
        match queued {
            Queued::Collective(_, call) => shares[at].joint.push(Joint::Collective(call)),
            Queued::Permute(_, permute) => shares[at].joint.push(Joint::Permute(permute)),
            Queued::Vector(_, vector) => shares[at].joint.push(Joint::Vector(vector)),
            Queued::Scaled(_, scaled) => shares[at].joint.push(Joint::Scaled(scaled)),
            Queued::Transfer(_, transfer, inner) => transfers[at].push((transfer, inner)),
            Queued::Signal(_, signal) => shares[at].signals.push(signal),
            Queued::Awaited(_, awaited) => shares[at].awaited.extend(awaited),
        }
    }
    for (share, transfers) in shares.iter_mut().zip(transfers) {
        share.transfers = stages(transfers);
    }
    shares
}

/// The bytes of a block from which on a call is worth a second thread.
pub(in crate::comm) const HEAVY: usize = 32 << 10;
/// Bytes of all shares from which on helpers pay: of fewer, one thread has most in its core's cache, and others would fetch them from there
/// first (docs/decisions/0036, 0088).
const FOR_SEVERAL_CORES: usize = 128 << 10;

/// Tells whether helpers pay: from the bytes of the longest block, and of all shares.
pub(super) fn is_heavy(longest: usize, all: usize) -> bool {
    longest >= HEAVY && all >= FOR_SEVERAL_CORES
}

fn run(batch: Batch, entry: Entry) -> Result<()> {
    let several = batch.calls.windows(2).any(|calls| calls[0].comm() != calls[1].comm());
    if several && !batch.is_timed() {
        let bytes = batch.bytes();
        let mut polled = batch.polled(entry);
        if polled.make_in_one_pass() {
            return Ok(());
        }
        let is_heavy = is_heavy(bytes, bytes.saturating_mul(polled.shares.len()));
        let first = registry::shared(polled.shares[0].handle()).ok().filter(|_| is_heavy);
        let helpers = first.as_ref().and_then(|comm| comm.transport.threads_for_group(polled.shares.len()));
        return match helpers {
            Some(helpers) => polled.run_with(helpers),
            None => polled.run(),
        };
    }
    let mut shares = divide(batch.calls);
    // One communicator alone is the caller's own activity; the common case.
    if several {
        if entry == Entry::Caller {
            // Their clocks are looked at when nothing is queued before.
            shares.iter().try_for_each(|share| registry::await_turns(&*registry::shared(share.handle)?))?;
        }
        divide_time(&mut shares)?;
        return run_apart(&mut shares, entry);
    }
    side_by_side(&mut shares, |share| share.run(entry))
}

/// Runs shares on a declared machine. Each begins when its rank can, and none before what the caller knows; and the caller knows
/// afterwards when the last was over.
fn run_apart(shares: &mut [Share], entry: Entry) -> Result<()> {
    let comms: Vec<_> = shares.iter().filter_map(|share| registry::shared(share.handle).ok()).collect();
    if entry == Entry::Caller {
        for comm in &comms {
            comm.timing.participant().into_iter().for_each(|rank| rank.note_caller());
            comm.timing.begin_after(program_time::known());
        }
    }
    let run = |share: &mut Share| {
        let part = std::mem::take(&mut share.part);
        program_time::apart(|| part.act(|| share.run(entry)))
    };
    let ended = side_by_side(shares, run);
    comms.iter().for_each(|comm| program_time::know(comm.timing.moment()));
    ended
}

/// A rank's communicators of one group enter it at one time, and its clock may move on when all of them wait.
fn divide_time(shares: &mut [Share]) -> Result<()> {
    let comms: Vec<_> = shares.iter().map(|share| registry::shared(share.handle).ok()).collect();
    let timings: Vec<_> = comms.iter().map(|comm| comm.as_ref().map(|comm| &comm.timing)).collect();
    for (share, part) in shares.iter_mut().zip(Timing::divide(&timings)?) {
        share.clock_ps = part.clock_ps();
        share.part = part;
    }
    Ok(())
}

impl Share {
    /// No call yet.
    pub fn new(handle: CommHandle) -> Share {
        Share {
            handle,
            signals: Vec::new(),
            transfers: Vec::new(),
            joint: Vec::new(),
            awaited: Vec::new(),
            clock_ps: None,
            part: Part::default(),
        }
    }

    /// One call.
    pub fn of(handle: CommHandle, call: Joint) -> Share {
        Share { joint: vec![call], ..Share::new(handle) }
    }

    /// Returns its call, if that is one that all ranks make and is alone.
    pub fn only_call(&self) -> Option<&Joint> {
        match &self.joint[..] {
            [call] if self.signals.is_empty() && self.transfers.is_empty() && self.awaited.is_empty() => {
                Some(call)
            }
            _ => None,
        }
    }

    /// Computes its time on the declared machine if all ranks enter it together. Awaited signals count as arrived by
    /// then, assuming that the other ranks send as many as this one.
    fn estimate(&self) -> Result<u64> {
        registry::enter(self.handle, |communicator| {
            let mut other_ps = communicator.estimate(&[], &self.joint)?;
            for transfers in &self.transfers {
                other_ps = other_ps.saturating_add(communicator.estimate(transfers, &[])?);
            }
            Ok(other_ps.saturating_add(communicator.estimate_signals(&self.signals)?))
        })
    }

    fn run(&self, entry: Entry) -> Result<()> {
        registry::enter_as(self.handle, entry, |communicator| {
            communicator.group_clock = self.clock_ps;
            let mut ended = Ok(());
            for signal in &self.signals {
                // A later one would say that those before it have come.
                ended = ended.and_then(|()| communicator.signal(signal));
            }
            for transfers in &self.transfers {
                ended = ended.and_then(|()| point_to_point::run(communicator, transfers, true));
            }
            for call in &self.joint {
                ended = ended.and(match call {
                    Joint::Collective(call) => communicator.collective(call),
                    Joint::Permute(permute) => communicator.permute(permute),
                    Joint::Vector(vector) => communicator.vector(vector),
                    Joint::Scaled(scaled) => communicator.scaled(scaled),
                });
            }
            if !self.awaited.is_empty() {
                ended = ended.and(communicator.await_signals(&self.awaited));
            }
            communicator.group_clock = None;
            ended
        })
    }
}
