//! The communicator itself: its state between calls, and one call from check to return.

use super::calls::collective::{Call, Checked};
use super::calls::exchange::Exchange;
use super::calls::repeat::{EarlierCalls, Repeat};
use super::join::lifeline::Lifeline;
use super::onesided::registrations::Registrations;
use super::onesided::signal_counters::SignalCounters;
use super::onesided::symmetric_books::Symmetric;
use super::onesided::window_table::Windows;
use super::onesided::zero_copy::{self, ZeroCopy};
use super::progress;
use super::shared::{CommHandle, CommShared, Origin, remember_failure};
use crate::error::{Code, Error, Result};
use crate::exec::{PeerProgress, direct};
use crate::kernels::Fold;
use crate::memory::control::Membership;
use crate::memory::view::{Address, Payload};
use crate::onesided::Races;
use crate::planner::{Chosen, Planner};
use crate::sync::prim::Ordering;
use crate::timing::Timing;
use crate::transport::Transport;
use crate::transport::agreement::Agreement;
use crate::transport::arrival::Offer;
use crate::transport::pair::{self, Pairs};
use crate::transport::waiting::Polls;
use crate::types::{Collective, DataType, Rank, RedOp};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The attempts of a rank to shrink a communicator (`join::shrink`).
#[derive(Default)]
pub(super) struct Shrinks {
    pub attempts: u64,
    /// The place of the last one, and the rank that named it.
    pub last_place: (Rank, u64),
    /// The ranks of other hosts to which it has connected, and how many attempts each had ended when it did so last.
    pub last_far: Vec<(Rank, u64)>,
}

/// One rank's membership in a communicator.
pub struct CommCore {
    /// Dropped first: off the kernel's list when it has left.
    _membership: Membership,
    pub(super) shared: Arc<CommShared>,
    pub(super) transport: Arc<Transport>,
    pub(super) pairs: Pairs,
    pub(super) planner: Planner,
    pub(super) peers: PeerProgress,
    /// Collective calls made.
    pub(super) seq: u64,
    /// The check that all ranks make the same calls.
    pub(super) agreement: Agreement,
    /// The last reduction's kernels.
    fold: Option<((DataType, RedOp), Fold)>,
    /// The prepared form of the last collective, while nothing but the arguments has to be checked before the next one like it.
    pub(super) repeat: Option<Box<Repeat>>,
    /// The prepared forms of collectives before it, each of other arguments.
    pub(super) earlier: EarlierCalls,
    /// Calls that are polled have begun and are not over: no other call may.
    pub(super) is_held: bool,
    shared_from: usize,
    /// The buffers that its calls need not copy.
    pub(super) registered: Registrations,
    /// Disagreements in earlier calls that have come up and have not been told: the present call tells them, if it is one
    /// of the program's. A rank may not leave an exchange of the library's own that all others go on from.
    pub(super) late_mismatch: Option<Error>,
    /// Its own clock while it takes part in a group over several communicators.
    pub(super) group_clock: Option<u64>,
    /// Its symmetric heap, between init and finalize.
    pub(super) symmetric: Option<Symmetric>,
    /// Signals to and from each rank.
    pub(super) counters: SignalCounters,
    pub(super) windows: Windows,
    pub(super) shrinks: Shrinks,
    /// Room for the products of scaled sums.
    pub(super) products: Vec<u64>,
}

impl CommCore {
    pub(super) fn new(
        handle: CommHandle,
        timing: Timing,
        membership: Membership,
        planner: Planner,
        device: u32,
        origin: Origin,
        zero_copy_from: Option<usize>,
    ) -> CommCore {
        let transport = timing.transport().clone();
        let zero_copy = ZeroCopy::new(zero_copy_from, !transport.has_far() && !timing.is_declared());
        timing.participant().into_iter().for_each(progress::note_machine);
        let shared = Arc::new(CommShared::new(handle, transport.clone(), device, timing, origin));
        let nranks = transport.nranks();
        let pairs = Pairs::new(nranks);
        let registered = Registrations::of(transport.rank(), zero_copy);
        let shared_from = zero_copy::shared_from(&transport);
        CommCore {
            _membership: membership,
            shared,
            transport,
            pairs,
            planner,
            peers: PeerProgress::default(),
            seq: 0,
            agreement: Agreement::default(),
            fold: None,
            repeat: None,
            earlier: EarlierCalls::default(),
            is_held: false,
            shared_from,
            registered,
            late_mismatch: None,
            group_clock: None,
            symmetric: None,
            counters: SignalCounters::new(nranks),
            windows: Windows::default(),
            shrinks: Shrinks::default(),
            products: Vec::new(),
        }
    }

    pub(super) fn handle(&self) -> CommHandle {
        self.shared.handle
    }
    pub(super) fn rank(&self) -> Rank {
        self.transport.rank()
    }
    pub(super) fn nranks(&self) -> u32 {
        self.transport.nranks()
    }

    /// Checks that this communicator can be used now.
    #[inline]
    pub(super) fn usable(&self) -> Result<()> {
        self.shared.refuse_forked()?;
        self.shared.refuse_finalized()?;
        self.shared.refuse_suspended()?;
        // A rank that knows of an abort may end, and is not the cause if others see it end.
        self.transport.check_abort().inspect_err(|_| self.transport.fail(self.seq))
    }

    /// Returns the failure that broke the communicator, if one did.
    #[inline]
    pub(super) fn broken(&self) -> Result<()> {
        match self.shared.broken.get() {
            None => Ok(()),
            Some(e) => {
                Err(Error::new(e.code, format!("the communicator is broken since an earlier call: {e}")))
            }
        }
    }

    /// Breaks the communicator: after this error, whatever its code, no call can succeed any more.
    pub(super) fn end_with(&mut self, error: &Error) {
        remember_failure();
        self.forget_last_call();
        let is_first = self.shared.broken.set(error.clone()).is_ok();
        self.shared.timing.fail();
        Lifeline::tell_endings(&self.transport);
        self.transport.fail(self.seq);
        if is_first {
            self.transport.write_post_mortem(error, self.seq);
        }
    }

    /// Breaks the communicator if no call can succeed after this error.
    pub(super) fn break_with(&mut self, error: &Error) {
        let is_final =
            matches!(error.code, Code::RemoteError | Code::Timeout | Code::InternalError | Code::SystemError);
        if is_final || self.transport.threads_have_failed() {
            self.end_with(error);
        }
    }

    /// Does something. A panic breaks the communicator and is an error, so that the lock opens and a stream's turn ends.
    #[inline]
    pub(super) fn guarded<T>(&mut self, act: impl FnOnce(&mut CommCore) -> T) -> Result<T> {
        catch_unwind(AssertUnwindSafe(|| act(self))).map_err(|panic| {
            let defect = Error::panicked(&*panic);
            self.break_with(&defect);
            defect
        })
    }

    /// From now on something has to be looked at that a call like the last one, or an earlier one, would pass by.
    pub(super) fn forget_last_call(&mut self) {
        self.repeat = None;
        self.earlier = EarlierCalls::default();
    }

    pub(super) fn finalize(&mut self) -> Result<()> {
        self.usable()?;
        self.broken()?;
        self.shared.finalized.store(true, Ordering::Relaxed);
        self.forget_last_call();
        let semaphores = self.semaphores_left();
        // A destroy may follow a mismatch of which the program was told in another way.
        if let Some(refused) = pair::late_refusal(&self.transport, &mut self.pairs) {
            self.keep_late_mismatch(refused);
        }
        let told = self.report_last_mismatch(semaphores);
        self.transport.finish_far();
        told
    }

    /// Runs a collective that is not like the last one.
    #[inline(never)]
    pub(super) fn another_collective(&mut self, call: &Call) -> Result<()> {
        let Some((checked, chosen)) = self.choose(call)? else { return Ok(()) };
        let ended = match self.timing().is_declared() {
            true => self.timed(call, &checked, chosen),
            false => self.carry_out(call, &checked, chosen),
        };
        self.tell_late_mismatch(ended)
    }

    /// Checks a collective and chooses its algorithm. `None`: there is nothing to do.
    pub(super) fn choose<'a>(&mut self, call: &Call<'a>) -> Result<Option<(Checked<'a>, Chosen)>> {
        self.usable()?;
        let checked = call.check(self.rank(), self.nranks())?;
        self.broken()?;
        let Some(checked) = checked else { return Ok(None) };
        let block = [checked.count as u64, call.dtype.size() as u64];
        let chosen = self.planner.choose(call.collective, checked.root, checked.bytes, block)?;
        Ok(Some((checked, chosen)))
    }

    /// Begins a collective that is polled, where no machine is declared. `None`: there is nothing to do.
    pub(super) fn begin_collective<'a>(&mut self, call: &Call<'a>) -> Result<Option<Exchange<'a>>> {
        if let Some(([input, output], in_place)) = self.like_an_earlier(call)
            && let Some(known) = &self.repeat
        {
            let (checked, recipe) = (known.checked(input, output, in_place), known.recipe);
            let offers = self.offers(call.collective, &checked);
            return Ok(Some(Exchange::begin(self, call, checked, recipe, offers, Some(0))));
        }
        let Some((checked, chosen)) = self.choose(call)? else { return Ok(None) };
        self.enter(call, checked, chosen, Some(0)).map(Some)
    }

    /// Goes on with a collective of [`begin_collective`](Self::begin_collective).
    pub(super) fn poll_collective(&mut self, exchange: &mut Exchange<'_>) -> Result<()> {
        let ended = exchange.go_on(self);
        if ended.as_ref().is_err_and(Error::is_pending) {
            return ended;
        }
        let ended = ended.and_then(|()| self.ordering(Races::leave));
        self.report_late_mismatch(ended)
    }

    /// Meet all ranks: the collective as a program calls it.
    pub(super) fn barrier(&mut self) -> Result<()> {
        self.collective(&Call {
            collective: Collective::Barrier,
            send: Address::NULL,
            recv: Address::NULL,
            count: 0,
            dtype: DataType::Uint8,
            op: RedOp::Sum,
            root: 0,
            padded: false,
        })
    }

    /// Runs a collective whose arguments are right by an algorithm.
    #[inline]
    pub(super) fn carry_out(&mut self, call: &Call, checked: &Checked<'_>, chosen: Chosen) -> Result<()> {
        self.enter(call, *checked, chosen, None)?.go_on(self)?;
        self.ordering(Races::leave)
    }

    /// Begins a collective whose arguments are right. `polls`: as in [`Scope`](crate::transport::Scope).
    #[inline]
    pub(super) fn enter<'a>(
        &mut self,
        call: &Call<'_>,
        checked: Checked<'a>,
        chosen: Chosen,
        polls: Polls,
    ) -> Result<Exchange<'a>> {
        let recipe = self.recipe(call, &checked, chosen)?;
        self.count_from_now(call.collective, checked.bytes);
        let offers = self.offers(call.collective, &checked);
        let exchange = Exchange::begin(self, call, checked, recipe, offers, polls);
        self.ordering(Races::enter).inspect_err(|e| self.end_with(e))?;
        Ok(exchange)
    }

    /// Tells whether a transfer between ranks that are both here may be a copy: nothing is to be told, timed or checked besides.
    pub(super) fn may_transfer_in_place(&self) -> bool {
        self.may_be_remembered()
            && !self.transport.has_far()
            && self.usable().is_ok()
            && self.broken().is_ok()
    }

    /// Returns how long its calls take.
    #[inline]
    pub(super) fn timing(&self) -> &Timing {
        &self.shared.timing
    }

    /// Records the events of the current call for `PENNY_CHECK=race`.
    #[inline]
    pub(super) fn ordering(&self, does: impl FnOnce(&Races, u64) -> Result<()>) -> Result<()> {
        let races = self.symmetric.as_ref().and_then(|symmetric| symmetric.symmetric().races());
        races.map_or(Ok(()), |races| does(races, self.seq))
    }

    #[inline]
    pub(super) fn fold(&mut self, dtype: DataType, op: RedOp) -> Result<Fold> {
        if let Some((key, fold)) = self.fold
            && key == (dtype, op)
        {
            return Ok(fold);
        }
        let fold = Fold::new(dtype, op, self.nranks())
            .ok_or_else(|| Error::argument(format!("op {op} does not exist for datatype {dtype}")))?;
        self.fold = Some(((dtype, op), fold));
        Ok(fold)
    }

    /// Tells whether ranks whose buffers peers can reach divide the work of a call whose data could come with the arrivals.
    pub(super) fn divides(&self, collective: Collective, bytes: u64) -> bool {
        collective == Collective::AllReduce && bytes as usize >= self.shared_from
    }

    /// Tells whether the peers read this rank's private input where it lies.
    fn offers_privately(&self, collective: Collective, checked: &Checked<'_>) -> bool {
        let blocks = match collective {
            Collective::AllGather | Collective::Gather => 1,
            _ => self.nranks() as usize,
        };
        // Threads of a rank share its copies into staging memory and its folds, and no copy by the kernel.
        let has_help = || collective.reduces() && self.transport.threads_for(checked.input.bytes()).is_some();
        let block = checked.input.bytes() / blocks;
        self.transport.single_copy().serves(collective, self.nranks(), block) && !has_help()
    }

    /// Returns this rank's offer: a copy of a small input, else the place of its buffers where peers can reach them.
    /// Also returns the views that the call is to use for these buffers.
    #[inline]
    pub(super) fn offer<'a>(
        &self,
        collective: Collective,
        checked: &Checked<'a>,
        small: bool,
        lends: bool,
        offers: bool,
    ) -> (Offer, Payload<'a>, Payload<'a>) {
        let packed = (Offer { in_place: checked.in_place, ..direct::PACKED }, checked.input, checked.output);
        // An all-to-all in place writes to what its peers read.
        let lends = lends && !(checked.in_place && collective == Collective::AlltoAll);
        if small && !lends && !self.divides(collective, checked.bytes) {
            return packed;
        }
        let [(input, own_input), (output, own_output)] = match offers {
            true => self.registered.reach_both(checked.input, checked.output, checked.in_place),
            false => [(None, checked.input), (None, checked.output)],
        };
        if small && (input.is_none() || output.is_none() && !lends) {
            return packed;
        }
        let private = input.is_none() && !small && self.offers_privately(collective, checked);
        let input = if private { Some(checked.input.addr() as u64) } else { input };
        (Offer { payload: false, input, output, in_place: checked.in_place, private }, own_input, own_output)
    }
}
