//! A collective between its check and its return: what all ranks do together.
//!
//! ```text
//!     Entering   the arrival line is free; the payload, if it is small, and the arrival are written
//!     Direct     all data come with the arrivals, or lie where these say
//!     Lending    those that read this rank's input where it lies are waited for
//!     Program    or a program is prepared, when all that it depends on have arrived
//!     Running    and run, step by step
//! ```
//!
//! A call that is polled is left wherever it would have to wait, and is taken up again at that place: all that has been done
//! is in here, in its communicator, or in the program's [`ProgramProgress`].

use super::collective::{Call, Checked};
use super::repeat::Recipe;
use super::told;
use crate::comm::communicator::CommCore;
use crate::error::{Error, Result};
use crate::exec::{self, PreparedCall, ProgramProgress, borrowed, direct};
use crate::memory::view::Payload;
use crate::transport::Scope;
use crate::transport::arrival::Offer;
use crate::transport::waiting::Polls;
use crate::types::Collective;

/// Calls between two times that a rank tells its core, which it also does in long waits.
const CALLS_A_TELLING: u64 = 16;

/// A collective that has begun (see the head of this file).
pub(in crate::comm) struct Exchange<'a> {
    collective: Collective,
    /// Bytes of an element.
    size: usize,
    /// The call as the program made it.
    checked: Checked<'a>,
    recipe: Recipe,
    /// The offer to the peers, and the views of the buffers that the call uses.
    offer: Offer,
    input: Payload<'a>,
    output: Payload<'a>,
    scope: Scope,
    stage: Stage,
}

enum Stage {
    Entering,
    Direct,
    Lending,
    Program(usize),
    Running(ProgramProgress),
}

impl<'a> Exchange<'a> {
    /// Begins the communicator's next call.
    pub fn begin(
        c: &mut CommCore,
        call: &Call<'_>,
        checked: Checked<'a>,
        recipe: Recipe,
        polls: Polls,
    ) -> Exchange<'a> {
        c.seq += 1;
        let (offer, input, output) = c.offer(call.collective, &checked, recipe.small, recipe.lends);
        if let Some(news) = c.planner.news() {
            told::decided(c.rank(), &news, &offer);
        }
        let scope = Scope::new(c.seq, recipe.mine, c.agreement.trail(), polls);
        let (collective, size) = (call.collective, call.dtype.size());
        Exchange { collective, size, checked, recipe, offer, input, output, scope, stage: Stage::Entering }
    }

    /// Runs it to its end; if it is polled, as far as it comes without waiting.
    pub fn go_on(&mut self, c: &mut CommCore) -> Result<()> {
        let ended = self.advance(c);
        if ended.as_ref().is_err_and(Error::is_pending) {
            return ended;
        }
        c.end_exchange(&self.scope, ended)?;
        c.registered.give_back(self.checked.output, self.output);
        Ok(())
    }

    fn advance(&mut self, c: &mut CommCore) -> Result<()> {
        let (t, peers) = (&*c.transport, &mut c.peers);
        let Exchange { recipe, scope, stage, .. } = self;
        let job = &PreparedCall {
            collective: self.collective,
            root: self.checked.root,
            input: self.input,
            output: self.output,
            count: self.checked.count,
            limit: self.checked.limit,
            size: self.size,
            fold: recipe.fold.as_ref(),
            offer: self.offer,
        };
        if let Stage::Entering = stage {
            direct::enter(t, scope, peers, job, recipe.small)?;
            *stage = if recipe.small { Stage::Direct } else { Stage::Program(recipe.algorithm) };
        }
        if let Stage::Direct = stage {
            match direct::run(t, scope, peers, job)? {
                direct::DirectOutcome::Done if recipe.lends => *stage = Stage::Lending,
                direct::DirectOutcome::Done => return Ok(()),
                direct::DirectOutcome::NeedsProgram => *stage = Stage::Program(recipe.shared_algorithm),
            }
        }
        if let Stage::Lending = stage {
            return borrowed::await_readers(t, scope, job);
        }
        if let Stage::Program(algorithm) = *stage {
            t.control().reserve_staging(t.writes_to())?;
            let plan = c.planner.plan(algorithm, job.collective, job.root)?;
            *stage = Stage::Running(exec::begin(t, scope, peers, job, plan)?);
        }
        match stage {
            Stage::Running(progress) => exec::run(t, scope, peers, job, progress),
            _ => Err(Error::internal("a call has no program")),
        }
    }
}

/// What became of a collective whose data come with the arrivals.
pub(in crate::comm) enum Directly<'a> {
    Over(Result<()>),
    /// It would have to wait, where it is polled, or it needs a program: it goes on from here.
    Left(Box<Exchange<'a>>),
}

/// A collective whose data come with the arrivals: its own are there, and those of its peers are to be taken.
pub(in crate::comm) struct Entered<'a> {
    collective: Collective,
    input: Payload<'a>,
    output: Payload<'a>,
    in_place: bool,
    scope: Scope,
    ended: Result<()>,
}

impl CommCore {
    /// Makes a collective like the last one, whose data come with the arrivals, without keeping anything of it: an [`Exchange`] from
    /// its first stage to its last. `polls`: as in [`Scope`].
    #[inline(always)]
    pub(in crate::comm) fn exchange_directly<'a>(
        &mut self,
        collective: Collective,
        [input, output]: [Payload<'a>; 2],
        in_place: bool,
        polls: Polls,
    ) -> Option<Directly<'a>> {
        let (mut scope, ended) = self.enter_like_the_last(collective, [input, output], in_place, polls)?;
        self.finish_directly(collective, [input, output], in_place, &mut scope, ended)
    }

    /// Enters a collective like the last one, whose data come with the arrivals. `None`: there was none.
    #[inline(always)]
    pub(in crate::comm) fn enter_directly<'a>(
        &mut self,
        collective: Collective,
        [input, output]: [Payload<'a>; 2],
        in_place: bool,
        polls: Polls,
    ) -> Option<Entered<'a>> {
        let (scope, ended) = self.enter_like_the_last(collective, [input, output], in_place, polls)?;
        Some(Entered { collective, input, output, in_place, scope, ended })
    }

    /// Enters it: its state is returned in place, since a struct of it would go through memory.
    #[inline(always)]
    fn enter_like_the_last(
        &mut self,
        collective: Collective,
        [input, output]: [Payload<'_>; 2],
        in_place: bool,
        polls: Polls,
    ) -> Option<(Scope, Result<()>)> {
        let CommCore { repeat, transport, peers, agreement, seq, .. } = self;
        let repeat = repeat.as_ref()?;
        *seq += 1;
        let mut scope = Scope::new(*seq, repeat.recipe.mine, agreement.trail(), polls);
        let job = repeat.job(collective, input, output, in_place);
        let ended = direct::enter(transport, &mut scope, peers, &job, true);
        Some((scope, ended))
    }

    /// Takes the peers' data of a collective that was entered, the newest of its communicator.
    #[inline(always)]
    pub(in crate::comm) fn end_directly<'a>(&mut self, entered: Entered<'a>) -> Option<Directly<'a>> {
        let Entered { collective, input, output, in_place, mut scope, ended } = entered;
        self.finish_directly(collective, [input, output], in_place, &mut scope, ended)
    }

    /// Takes the peers' data, where entering has gone well.
    #[inline(always)]
    fn finish_directly<'a>(
        &mut self,
        collective: Collective,
        [input, output]: [Payload<'a>; 2],
        in_place: bool,
        scope: &mut Scope,
        mut ended: Result<()>,
    ) -> Option<Directly<'a>> {
        let CommCore { repeat, transport, peers, .. } = self;
        let repeat = repeat.as_ref()?;
        let is_polled = scope.polls.is_some();
        let is_left = |ended: &Result<()>| is_polled && ended.as_ref().is_err_and(Error::is_pending);
        if is_left(&ended) {
            return self.leave(collective, [input, output], in_place, *scope, Stage::Entering);
        }
        if ended.is_ok() {
            let job = repeat.job(collective, input, output, in_place);
            ended = match direct::run(transport, scope, peers, &job) {
                Ok(direct::DirectOutcome::Done) if repeat.recipe.lends => {
                    borrowed::await_readers(transport, scope, &job)
                }
                Ok(direct::DirectOutcome::Done) => Ok(()),
                Ok(direct::DirectOutcome::NeedsProgram) => {
                    let stage = Stage::Program(repeat.recipe.shared_algorithm);
                    return self.leave(collective, [input, output], in_place, *scope, stage);
                }
                Err(error) => Err(error),
            };
            if is_left(&ended) {
                return self.leave(collective, [input, output], in_place, *scope, Stage::Direct);
            }
        }
        Some(Directly::Over(self.end_exchange(scope, ended)))
    }

    /// Keeps what that has come to.
    #[cold]
    fn leave<'a>(
        &mut self,
        collective: Collective,
        [input, output]: [Payload<'a>; 2],
        in_place: bool,
        scope: Scope,
        stage: Stage,
    ) -> Option<Directly<'a>> {
        let known = self.repeat.as_ref()?;
        Some(Directly::Left(Box::new(Exchange {
            collective,
            size: known.size,
            checked: known.checked(input, output, in_place),
            recipe: known.recipe,
            offer: Offer { in_place, ..direct::PACKED },
            input,
            output,
            scope,
            stage,
        })))
    }

    /// Ends a collective of all ranks: remembers it, and breaks the communicator if no other can follow.
    #[inline(always)]
    fn end_exchange(&mut self, scope: &Scope, ended: Result<()>) -> Result<()> {
        self.agreement.add(scope);
        if scope.seq.is_multiple_of(CALLS_A_TELLING) {
            self.transport.tell_core();
        }
        if let Some(mismatch) = self.agreement.late_mismatch(&self.transport, scope, &ended) {
            self.keep_late_mismatch(mismatch);
        }
        ended.map_err(|e| {
            let told = self.fail_wait(e);
            // Only now: the other ranks hear by the same link.
            self.transport.give_back_lent(scope, self.shared.broken.get().is_none());
            told
        })
    }
}
