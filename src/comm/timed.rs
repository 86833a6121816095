//! Calls of ranks that stand on a declared machine: posted before their bytes move, and done when the machine would be.

use super::calls::collective::{Call, Checked};
use super::calls::point_to_point::Transfer;
use super::communicator::CommCore;
use super::group::batch::Joint;
use super::registry::{self, CommHandle};
use crate::error::{Error, Result};
use crate::fabric::PortCounters;
use crate::fabric::live::{CallSpec, ClockStats, Participant, Post, What};
use crate::planner::Chosen;
use crate::timing::transfer_spec;
use crate::transport::pair;
use crate::types::{Collective, Rank};
use std::sync::Arc;

impl CommCore {
    /// A collective: post, move the bytes, take the time.
    #[cold]
    pub(super) fn timed(&mut self, call: &Call, checked: &Checked<'_>, chosen: Chosen) -> Result<()> {
        let kind = call.dtype as u64 | (call.op as u64) << 8 | (call.padded as u64) << 16;
        let spec = CallSpec { kind, ..self.priced_call(call, checked, chosen) };
        let number = self.seq + 1;
        let post = self.timing().collective(number, || spec);
        self.in_time(post.as_slice(), |c| c.carry_out(call, checked, chosen))
    }

    /// The library's own exchange: all must have come, and it takes no time.
    pub(super) fn untimed(&mut self, work: impl FnOnce(&mut CommCore) -> Result<()>) -> Result<()> {
        let spec = || CallSpec::plain(What::Meeting, 0, 0, 0);
        let post = self.timing().collective(self.seq + 1, spec);
        self.in_time(post.as_slice(), work)
    }

    /// Returns the call as the machine takes it. A barrier moves nothing here, and there what a reduction of nothing moves.
    fn priced_call(&mut self, call: &Call, checked: &Checked<'_>, mut chosen: Chosen) -> CallSpec {
        if call.collective == Collective::Barrier {
            // What PENNY_ALGO asks for may be of no use for a reduction.
            chosen = self.planner.choose(Collective::AllReduce, 0, 0, [0, 1]).unwrap_or(chosen);
        }
        let algorithm = chosen.algorithm as u8;
        CallSpec {
            what: What::Collective { collective: call.collective, root: checked.root, algorithm },
            count: checked.count as u64,
            size: call.dtype.size() as u64,
            kind: 0,
            tuning: chosen.tuning,
        }
    }

    /// The posts of transfers, in their order.
    pub(super) fn transfer_posts(&self, batch: &[pair::PairTransfer]) -> Vec<Post> {
        let timing = self.timing();
        batch.iter().map_while(|x| timing.transfer(x.send, x.peer, || x.amount())).collect()
    }

    /// Post, do the work, and return when the machine would.
    pub(super) fn in_time(
        &mut self,
        posts: &[Post],
        work: impl FnOnce(&mut CommCore) -> Result<()>,
    ) -> Result<()> {
        if posts.is_empty() {
            return work(self);
        }
        let shared = self.shared.clone();
        let timing = &shared.timing;
        let pending = timing.enter(posts, self.group_clock).inspect_err(|e| self.end_with(e))?;
        if let Err(error) = work(self) {
            let error = timing.give_up(pending, error, shared.broken.get().is_none());
            if timing.check().is_err() {
                self.end_with(&error);
            }
            return Err(error);
        }
        let exit_ps = timing.leave(pending).inspect_err(|e| self.end_with(e))?;
        if let (Some(clock), Some(exit_ps)) = (&mut self.group_clock, exit_ps) {
            *clock = exit_ps;
        }
        Ok(())
    }

    /// Breaks the communicator after the error of a wait if no call can succeed any more. Returns the error, which may name who is to blame
    /// on the declared machine. That is found out first: ranks that are told of this failure end their waits.
    pub(super) fn fail_wait(&mut self, error: Error) -> Error {
        let error = self.timing().blame(error);
        self.break_with(&error);
        error
    }
}

impl CommCore {
    /// What transfers side by side, then collectives one after the other, would take on the idle machine.
    pub(super) fn estimate(&mut self, transfers: &[Transfer], joint: &[Joint]) -> Result<u64> {
        self.usable()?;
        if !self.timing().is_declared() {
            return Err(undeclared());
        }
        let transfer =
            |spec: (u64, u64), from: Rank, to: Rank| (transfer_spec(spec.0, spec.1), vec![from, to]);
        let mut own = Vec::new();
        for x in transfers.iter().filter(|x| x.peer != self.rank() as i32) {
            x.check(self.rank(), self.nranks())?;
            let (me, peer) = (self.rank(), x.peer as Rank);
            let (from, to) = if x.send { (me, peer) } else { (peer, me) };
            own.push(transfer((x.count as u64, x.dtype.size() as u64), from, to));
        }
        let mut total_ps = self.timing().estimate(&own)?;
        for call in joint {
            let ps = match call {
                Joint::Permute(permute) => {
                    let amount = (permute.count as u64, permute.dtype.size() as u64);
                    let sends: Vec<_> =
                        permute.sends().map(|(from, to)| transfer(amount, from, to)).collect();
                    self.timing().estimate(&sends)?
                }
                Joint::Collective(call) => self.estimate_collective(call)?,
                Joint::Scaled(scaled) => self.estimate_collective(&scaled.call)?,
                Joint::Vector(vector) => {
                    let (transfers, calls) = vector.parts(self.rank(), self.nranks())?;
                    let moved = self.estimate(&transfers, &[])?;
                    calls.iter().try_fold(moved, |ps: u64, call| {
                        Ok::<u64, Error>(ps.saturating_add(self.estimate_collective(call)?))
                    })?
                }
            };
            total_ps = total_ps.saturating_add(ps);
        }
        Ok(total_ps)
    }

    /// Returns the time that a collective would take on the idle machine.
    fn estimate_collective(&mut self, call: &Call) -> Result<u64> {
        let Some(checked) = call.check(self.rank(), self.nranks())? else { return Ok(0) };
        let block = [checked.count as u64, call.dtype.size() as u64];
        let chosen = self.planner.choose(call.collective, checked.root, checked.bytes, block)?;
        let spec = self.priced_call(call, &checked, chosen);
        self.timing().estimate(&[(spec, (0..self.nranks()).collect())])
    }
}

pub(super) fn undeclared() -> Error {
    Error::usage(
        "no machine is declared; set PENNY_FABRIC on all ranks, such as PENNY_FABRIC=dgx-h100:nodes=2",
    )
}

/// Returns the rank's participant; an error that tells how to get one where no machine is declared.
fn participant(comm: CommHandle) -> Result<Arc<Participant>> {
    let shared = registry::shared(comm)?;
    shared.refuse_forked()?;
    shared.timing.participant().cloned().ok_or_else(undeclared)
}

/// This rank's clock on the declared machine, in picoseconds.
pub fn fabric_now(comm: CommHandle) -> Result<u64> {
    Ok(participant(comm)?.look())
}

/// Declares that this rank computes: advances its clock by `ps` picoseconds.
pub fn fabric_advance(comm: CommHandle, ps: u64) -> Result<u64> {
    let participant = participant(comm)?;
    participant.begin_after_known(None);
    let to_ps = participant.clock_ps().checked_add(ps);
    let to_ps = to_ps.ok_or_else(|| {
        Error::argument(format!("{ps} ps more would take the clock past 2^64 picoseconds; pass less"))
    })?;
    fabric_advance_to(comm, to_ps)
}

/// Let this rank's clock move on to a time, if it is not past it.
pub fn fabric_advance_to(comm: CommHandle, at_ps: u64) -> Result<u64> {
    let shared = registry::shared(comm)?;
    let participant = shared.timing.participant().ok_or_else(undeclared)?;
    let now_ps = participant.advance_to(at_ps, || shared.transport.check_abort())?;
    participant.know(now_ps);
    Ok(now_ps)
}

/// The declared machine, and how its time stands.
pub fn fabric_account(comm: CommHandle) -> Result<(Arc<Participant>, ClockStats)> {
    let participant = participant(comm)?;
    let clock_stats = participant.clock_stats();
    Ok((participant, clock_stats))
}

/// Returns the traffic of each port of the declared machine.
pub fn fabric_counters(comm: CommHandle) -> Result<(Arc<Participant>, Vec<PortCounters>)> {
    let participant = participant(comm)?;
    if !participant.has_engine() {
        return Err(Error::usage(
            "the host of rank 0 counts the traffic of the declared machine; ask a rank there",
        ));
    }
    let counters = participant.counters();
    Ok((participant, counters))
}
