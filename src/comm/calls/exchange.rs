//! A collective between its check and its return: what all ranks do together.
//!
//! ```text
//!     Entering   the arrival line is free; the payload, if it is small, and the arrival are written
//!     Direct     all data come with the arrivals
//!     Program    or a program is prepared, when all that it depends on have arrived
//!     Running    and run, step by step
//! ```
//!
//! A call that is polled is left wherever it would have to wait, and is taken up again at that place: all that has been done
//! is in here, in its communicator, or in the program's [`ProgramProgress`].

use super::collective::{Call, Checked};
use super::repeat::Recipe;
use crate::comm::communicator::CommCore;
use crate::error::{Error, Result};
use crate::exec::{self, PreparedCall, ProgramProgress, direct};
use crate::memory::control::DEPTH;
use crate::memory::view::Payload;
use crate::transport::Scope;
use crate::transport::waiting::Polls;

/// A collective that has begun (see the head of this file).
pub(in crate::comm) struct Exchange<'a> {
    job: PreparedCall<'a>,
    /// The output as the program named it.
    output: Payload<'a>,
    scope: Scope,
    small: bool,
    algorithm: usize,
    shared_algorithm: usize,
    stage: Stage,
}

enum Stage {
    Entering,
    Direct,
    Program(usize),
    Running(ProgramProgress),
}

impl<'a> Exchange<'a> {
    /// Begins the communicator's next call.
    #[inline]
    pub fn begin(
        c: &mut CommCore,
        call: &Call<'_>,
        checked: &Checked<'a>,
        recipe: &Recipe,
        polls: Polls,
    ) -> Exchange<'a> {
        c.seq += 1;
        let (offer, input, output) = c.offer(call.collective, checked, recipe.small);
        Exchange {
            job: PreparedCall {
                collective: call.collective,
                root: checked.root,
                input,
                output,
                count: checked.count,
                limit: checked.limit,
                size: call.dtype.size(),
                fold: recipe.fold,
                offer,
            },
            output: checked.output,
            scope: Scope::new(c.seq, recipe.mine, c.agreement.trail(), polls),
            small: recipe.small,
            algorithm: recipe.algorithm,
            shared_algorithm: recipe.shared_algorithm,
            stage: Stage::Entering,
        }
    }

    /// Runs it to its end; if it is polled, as far as it comes without waiting.
    #[inline]
    pub fn go_on(&mut self, c: &mut CommCore) -> Result<()> {
        let ended = self.advance(c);
        if ended.as_ref().is_err_and(Error::is_pending) {
            return ended;
        }
        c.agreement.add(&self.scope);
        if let Some(mismatch) = c.agreement.late_mismatch(&c.transport, &self.scope, &ended) {
            c.keep_late_mismatch(mismatch);
        }
        ended.inspect_err(|e| c.break_with(e))?;
        c.registered.give_back(self.output, self.job.output);
        Ok(())
    }

    #[inline]
    fn advance(&mut self, c: &mut CommCore) -> Result<()> {
        let (t, peers) = (&*c.transport, &mut c.peers);
        let Exchange { job, scope, stage, .. } = self;
        if let Stage::Entering = stage {
            t.control().reserve_arrivals(scope.seq)?;
            peers.await_done(scope.seq.saturating_sub(DEPTH as u64), t, scope)?;
            if self.small {
                direct::pack(t, scope.seq, job);
            }
            t.arrive(scope, &job.offer, job.input.bytes());
            *stage = if self.small { Stage::Direct } else { Stage::Program(self.algorithm) };
        }
        if let Stage::Direct = stage {
            match direct::run(t, scope, peers, job)? {
                direct::DirectOutcome::Done => return Ok(()),
                direct::DirectOutcome::NeedsProgram => *stage = Stage::Program(self.shared_algorithm),
            }
        }
        if let Stage::Program(algorithm) = *stage {
            t.control().reserve_staging(t.rank())?;
            let plan = c.planner.plan(algorithm, job.collective, job.root)?;
            *stage = Stage::Running(exec::begin(t, scope, peers, job, plan)?);
        }
        match stage {
            Stage::Running(progress) => exec::run(t, scope, peers, job, progress),
            _ => Err(Error::internal("a call has no program")),
        }
    }
}
