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
use crate::exec::{self, PeerProgress, PreparedCall, ProgramProgress, borrowed, direct};
use crate::memory::view::Payload;
use crate::transport::arrival::Offer;
use crate::transport::waiting::Polls;
use crate::transport::{Scope, Transport};
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
    /// Begins the communicator's next call. `offers`: as [`CommCore::offers`] says.
    pub fn begin(
        c: &mut CommCore,
        call: &Call<'_>,
        checked: Checked<'a>,
        recipe: Recipe,
        offers: bool,
        polls: Polls,
    ) -> Exchange<'a> {
        c.seq += 1;
        let (offer, input, output) = c.offer(call.collective, &checked, recipe.small, recipe.lends, offers);
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

/// Takes the peers' data of a collective that was entered. Returns the algorithm by which it goes on where it needs a program.
#[inline(always)]
fn take_directly(
    t: &Transport,
    scope: &mut Scope,
    peers: &mut PeerProgress,
    job: &PreparedCall<'_>,
    recipe: &Recipe,
) -> Result<Option<usize>> {
    match direct::run(t, scope, peers, job)? {
        direct::DirectOutcome::Done if recipe.lends => borrowed::await_readers(t, scope, job).map(|()| None),
        direct::DirectOutcome::Done => Ok(None),
        direct::DirectOutcome::NeedsProgram => Ok(Some(recipe.shared_algorithm)),
    }
}

impl CommCore {
    /// Makes a collective like the last one, whose data come with the arrivals, without keeping anything of it: an [`Exchange`] from
    /// its first stage to its last. What it needs of the call is put together once, and stays where it is: each copy shows in calls of a few bytes.
    #[inline(always)]
    pub(in crate::comm) fn exchange_directly<'a>(
        &mut self,
        collective: Collective,
        [input, output]: [Payload<'a>; 2],
        in_place: bool,
    ) -> Option<Directly<'a>> {
        let CommCore { repeat, transport, peers, agreement, seq, .. } = self;
        let repeat = repeat.as_ref()?;
        *seq += 1;
        let mut scope = Scope::new(*seq, repeat.recipe.mine, agreement.trail(), None);
        let job = repeat.job(collective, input, output, in_place);
        let entered = direct::enter(transport, &mut scope, peers, &job, true);
        self.take_or_leave(collective, [input, output], in_place, scope, entered)
    }

    /// Takes the peers' data of a collective like the last one that is not polled. `entered`: how its entry has ended.
    #[inline(always)]
    pub(super) fn take_or_leave<'a>(
        &mut self,
        collective: Collective,
        [input, output]: [Payload<'a>; 2],
        in_place: bool,
        mut scope: Scope,
        entered: Result<()>,
    ) -> Option<Directly<'a>> {
        let CommCore { repeat, transport, peers, .. } = self;
        let repeat = repeat.as_ref()?;
        let job = repeat.job(collective, input, output, in_place);
        let ended = match entered {
            Ok(()) => take_directly(transport, &mut scope, peers, &job, &repeat.recipe),
            Err(error) => Err(error),
        };
        match ended {
            Ok(None) => Some(Directly::Over(self.end_exchange(&scope, Ok(())))),
            Ok(Some(algorithm)) => {
                self.leave(collective, [input, output], in_place, scope, Stage::Program(algorithm))
            }
            Err(error) => Some(Directly::Over(self.end_exchange(&scope, Err(error)))),
        }
    }

    /// Enters a collective like the last one, whose data come with the arrivals, as a call that is polled. `None`: there was none.
    #[inline(always)]
    pub(in crate::comm) fn enter_directly<'a>(
        &mut self,
        collective: Collective,
        [input, output]: [Payload<'a>; 2],
        in_place: bool,
        polls: Polls,
    ) -> Option<Entered<'a>> {
        let CommCore { repeat, transport, peers, agreement, seq, .. } = self;
        let repeat = repeat.as_ref()?;
        *seq += 1;
        let mut scope = Scope::new(*seq, repeat.recipe.mine, agreement.trail(), polls);
        let job = repeat.job(collective, input, output, in_place);
        let ended = direct::enter(transport, &mut scope, peers, &job, true);
        Some(Entered { collective, input, output, in_place, scope, ended })
    }

    /// Takes the peers' data of a collective that was entered, the newest of its communicator.
    #[inline(always)]
    pub(in crate::comm) fn end_directly<'a>(&mut self, entered: Entered<'a>) -> Option<Directly<'a>> {
        let Entered { collective, input, output, in_place, mut scope, ended } = entered;
        let CommCore { repeat, transport, peers, .. } = self;
        let repeat = repeat.as_ref()?;
        let (taken, stage) = match ended {
            Ok(()) => {
                let job = repeat.job(collective, input, output, in_place);
                (take_directly(transport, &mut scope, peers, &job, &repeat.recipe), Stage::Direct)
            }
            Err(error) => (Err(error), Stage::Entering),
        };
        let is_polled = scope.polls.is_some();
        let stage = match taken {
            Ok(None) => return Some(Directly::Over(self.end_exchange(&scope, Ok(())))),
            Ok(Some(algorithm)) => Stage::Program(algorithm),
            Err(error) if is_polled && error.is_pending() => stage,
            Err(error) => return Some(Directly::Over(self.end_exchange(&scope, Err(error)))),
        };
        self.leave(collective, [input, output], in_place, scope, stage)
    }

    /// Keeps a call like the last one whose rank has arrived.
    pub(super) fn leave_arrived<'a>(
        &mut self,
        collective: Collective,
        buffers: [Payload<'a>; 2],
        in_place: bool,
        scope: Scope,
    ) -> Option<Directly<'a>> {
        self.leave(collective, buffers, in_place, scope, Stage::Direct)
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
        self.end_call(scope.seq, scope.mine, scope.doubt, ended).map_err(|e| {
            let told = self.fail_wait(e);
            // Only now: the other ranks hear by the same link.
            self.transport.give_back_lent(scope, self.shared.broken.get().is_none());
            told
        })
    }

    /// Remembers a collective that is over.
    #[inline(always)]
    pub(super) fn end_call(
        &mut self,
        seq: u64,
        mine: [u64; 2],
        doubt: bool,
        ended: Result<()>,
    ) -> Result<()> {
        self.agreement.add(seq, mine);
        if seq.is_multiple_of(CALLS_A_TELLING) {
            self.transport.tell_core();
        }
        if let Some(mismatch) = self.agreement.late_mismatch(&self.transport, seq, doubt, &ended) {
            self.keep_late_mismatch(mismatch);
        }
        ended
    }
}
