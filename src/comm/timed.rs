//! Calls of ranks that stand on a declared machine: posted before their bytes move, and done when the machine would be.

use super::call::{Call, Checked};
use super::communicator::Communicator;
use super::registry::{self, Handle};
use crate::error::{Error, Result};
use crate::fabric::live::{Account, Post, Seat, Spec, What};
use crate::fabric::Counters;
use crate::planner::select::Why;
use crate::transport::watch::seconds;
use crate::transport::pair;
use std::sync::Arc;

impl Communicator {
    /// A collective: post, move the bytes, take the time.
    #[cold]
    pub(super) fn timed(&mut self, call: &Call, checked: &Checked, chosen: (usize, Why)) -> Result<()> {
        let kind = call.dtype as u64 | (call.op as u64) << 8 | (call.padded as u64) << 16;
        let what =
            What::Collective { collective: call.collective, root: checked.root, method: chosen.0 as u8 };
        let spec = Spec { what, count: checked.count as u64, size: call.dtype.size() as u64, kind };
        let number = self.seq + 1;
        let post = self.party.as_ref().map(|party| party.collective(number, spec));
        self.in_time(post.as_slice(), |c| c.carry_out(call, checked, chosen))
    }

    /// The posts of transfers, in their order.
    pub(super) fn transfer_posts(&mut self, batch: &[pair::Transfer]) -> Vec<Post> {
        let Some(party) = &mut self.party else { return Vec::new() };
        let mut post = |x: &pair::Transfer| {
            let (count, size, kind) = x.kind();
            party.transfer(x.send, x.peer, count, size, kind)
        };
        batch.iter().map(&mut post).collect()
    }

    /// Post, do the work, and return when the machine would.
    pub(super) fn in_time(
        &mut self,
        posts: &[Post],
        work: impl FnOnce(&mut Communicator) -> Result<()>,
    ) -> Result<()> {
        let Some(seat) = self.shared.seat.clone().filter(|_| !posts.is_empty()) else { return work(self) };
        let waiting = seat.enter(posts, self.group_clock).inspect_err(|e| self.end_with(e))?;
        if let Err(error) = work(self) {
            seat.withdraw(waiting);
            if seat.check().is_err() {
                self.end_with(&error);
            }
            return Err(error);
        }
        let t = self.transport.clone();
        let expired = || {
            Error::timeout(format!(
                "the declared machine's clock did not move on within {}: a rank of the job that is in no call holds it; \
                 ranks must call or leave, or raise PENNY_TIMEOUT",
                seconds(t.timeout_ns())
            ))
        };
        let watch = || {
            t.check_abort()?;
            t.check_alarm()
        };
        let exit_ps = seat.leave(waiting, t.deadline(), watch, expired).inspect_err(|e| self.end_with(e))?;
        if let Some(clock) = &mut self.group_clock {
            *clock = exit_ps;
        }
        Ok(())
    }
}

/// The rank's seat; an error that tells how to get one where no machine is declared.
fn seat(comm: Handle) -> Result<Arc<Seat>> {
    registry::shared(comm)?.seat.clone().ok_or_else(|| {
        Error::usage("no machine is declared; set PENNY_FABRIC on all ranks, such as PENNY_FABRIC=dgx-h100:nodes=2")
    })
}

/// This rank's clock on the declared machine, in picoseconds.
pub fn fabric_now(comm: Handle) -> Result<u64> {
    Ok(seat(comm)?.look())
}

/// Declare that this rank computes: its clock moves on by so many picoseconds.
pub fn fabric_advance(comm: Handle, ps: u64) -> Result<u64> {
    let seat = seat(comm)?;
    let to_ps = seat.clock_ps().checked_add(ps);
    to_ps.map(|to_ps| seat.advance_to(to_ps)).ok_or_else(|| Error::argument("the clock would pass 2^64 picoseconds"))
}

/// Let this rank's clock move on to a time, if it is not past it.
pub fn fabric_advance_to(comm: Handle, at_ps: u64) -> Result<u64> {
    Ok(seat(comm)?.advance_to(at_ps))
}

/// The declared machine, and how its time stands.
pub fn fabric_account(comm: Handle) -> Result<(Arc<Seat>, Account)> {
    let seat = seat(comm)?;
    let account = seat.account();
    Ok((seat, account))
}

/// What passed each port of the declared machine.
pub fn fabric_counters(comm: Handle) -> Result<(Arc<Seat>, Vec<Counters>)> {
    let seat = seat(comm)?;
    let counters = seat.counters();
    Ok((seat, counters))
}
