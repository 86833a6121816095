//! Calls that are polled: left wherever they would have to wait, and taken up again by a thread that has time.
//!
//! ```text
//!     poll  -->  share of comm a: [signals] [transfers] [collective 2 of 3, waits for rank 1] ...
//!           -->  share of comm b: over
//!           -->  share of comm c: is held by other calls, comes again
//! ```
//!
//! A share goes through the same stages as a group's calls that wait in place (`batch.rs`), and holds its communicator from
//! the first to the last. Shares of several communicators advance side by side, on one thread.

use super::batch::{Joint, Share};
use super::one_pass;
use crate::comm::calls::collective::Call;
use crate::comm::calls::exchange::Exchange;
use crate::comm::calls::{permute, point_to_point, scaled, vector};
use crate::comm::communicator::CommCore;
use crate::comm::onesided::signals::PendingSignals;
use crate::comm::progress::drive_once;
use crate::comm::registry::{self, CommHandle, Entry};
use crate::error::{Error, Result};
use crate::sync::wait::NAP;
use crate::transport::Transport;
use std::sync::Arc;
use std::time::Duration;

/// A batch of calls that have begun or are about to.
pub(in crate::comm) struct PolledBatch {
    pub(super) shares: Vec<PolledShare>,
    pub(super) entry: Entry,
}

/// One communicator's calls.
pub(super) struct PolledShare {
    share: Share,
    /// They are one group.
    grouped: bool,
    stage: Stage,
    /// The first failure so far.
    ended: Result<()>,
}

/// What a share does next.
enum Stage {
    /// Enter the communicator.
    Outside,
    /// Give its signals, and begin its transfers.
    Entered,
    /// The transfers of this index's list.
    Transfers(usize, point_to_point::PolledTransfers<'static>),
    /// Begin the collective call of this index, or wait for signals behind the last.
    Before(usize),
    Collective(usize, Exchange<'static>),
    Permute(usize, permute::PolledPermute),
    Vector(usize, vector::run::PolledVector),
    Scaled(usize, scaled::PolledScaled),
    Signals(PendingSignals),
    Over,
}

/// The sleep of a thread that polls several communicators, of which it hears only one's bell.
pub(super) const SHORT_NAP: Duration = Duration::from_micros(200);

impl PolledBatch {
    pub(super) fn new(shares: Vec<Share>, grouped: bool, entry: Entry) -> PolledBatch {
        let shares = shares.into_iter();
        let share = |share| PolledShare { share, grouped, stage: Stage::Outside, ended: Ok(()) };
        PolledBatch { shares: shares.map(share).collect(), entry }
    }

    /// A collective that has begun, and holds its communicator.
    pub fn under_way(comm: CommHandle, call: Call<'static>, exchange: Exchange<'static>) -> PolledBatch {
        PolledBatch::begun(Share::of(comm, Joint::Collective(call)), Stage::Collective(0, exchange))
    }

    /// Sends and receives that have begun, and hold their communicator.
    pub fn transfers_under_way(
        comm: CommHandle,
        transfers: point_to_point::PolledTransfers<'static>,
    ) -> PolledBatch {
        PolledBatch::begun(Share::new(comm), Stage::Transfers(0, transfers))
    }

    /// Calls of one communicator that have begun.
    fn begun(share: Share, stage: Stage) -> PolledBatch {
        let share = PolledShare { share, grouped: false, stage, ended: Ok(()) };
        PolledBatch { shares: vec![share], entry: Entry::Turn }
    }

    /// Makes the calls in one pass, where they are all ranks' and none has begun. Returns false if nothing was done.
    pub(super) fn make_in_one_pass(&mut self) -> bool {
        let calls = self.shares.iter().map(PolledShare::only_call);
        let is_made = one_pass::make(calls, self.entry, one_pass::MOST_BYTES);
        if is_made {
            self.shares.iter_mut().for_each(|share| share.stage = Stage::Over);
        }
        is_made
    }

    /// Goes on as far as it can without waiting. Returns whether all is over.
    pub fn poll(&mut self) -> bool {
        if self.shares.len() > 1 && self.make_in_one_pass() {
            return true;
        }
        let entry = self.entry;
        // Each must be polled, whatever the others say.
        self.shares.iter_mut().fold(true, |over, share| share.poll(entry) & over)
    }

    /// Returns the first failure. All is over.
    pub fn ended(&self) -> Result<()> {
        self.shares.iter().try_for_each(|share| share.ended.clone())
    }

    /// Makes the calls on this thread, waiting where none of them can go on.
    pub fn run(mut self) -> Result<()> {
        // BOUND: a share of a communicator that is gone ends when it is polled.
        while !self.poll() {
            let Some((transport, nap)) = self.bell() else { continue };
            let waited = transport.wait_polling(nap.unwrap_or(NAP), || self.poll());
            let awaits_turns = self.shares.iter().any(PolledShare::is_outside);
            let waited = match awaits_turns {
                true => registry::unless_interrupted(waited),
                false => waited.map_err(Error::from),
            };
            waited.inspect_err(|error| self.give_up(error))?;
        }
        self.ended()
    }

    /// Returns whose bell to wait for, and how long to sleep at most without it; `None`: what is not over can go on.
    pub fn bell(&self) -> Option<(Arc<Transport>, Option<Duration>)> {
        let mut live = self.shares.iter().filter_map(|share| match share.stage {
            Stage::Over => None,
            _ => Some((share, registry::shared(share.handle()).ok()?)),
        });
        let (first, comm) = live.next()?;
        let is_all = !matches!(first.stage, Stage::Outside) && live.next().is_none();
        Some((comm.transport.clone(), (!is_all).then_some(SHORT_NAP)))
    }

    /// Lets the communicators go and fails the calls: nobody polls them any more.
    pub(super) fn give_up(&mut self, error: &Error) {
        self.shares.iter_mut().for_each(|share| share.give_up(error));
    }
}

impl Drop for PolledBatch {
    fn drop(&mut self) {
        self.give_up(&Error::internal("nobody polls a call that was under way"));
    }
}

impl PolledShare {
    pub(super) fn handle(&self) -> CommHandle {
        self.share.handle
    }

    /// Returns its call, if it is a collective that is alone and has not begun.
    fn only_call(&self) -> Option<(CommHandle, &Call<'static>)> {
        match (&self.stage, self.share.only_call()?) {
            (Stage::Outside, Joint::Collective(call)) => Some((self.share.handle, call)),
            _ => None,
        }
    }

    /// Tells whether it has not entered its communicator yet.
    pub(super) fn is_outside(&self) -> bool {
        matches!(self.stage, Stage::Outside)
    }

    /// Goes on; returns whether the share is over.
    pub(super) fn poll(&mut self, entry: Entry) -> bool {
        if let Stage::Over = self.stage {
            return true;
        }
        if let Stage::Outside = self.stage {
            match registry::hold(self.handle(), entry) {
                Ok(()) => self.stage = Stage::Entered,
                Err(error) if error.is_pending() => {
                    if entry == Entry::Caller {
                        // What it comes after may be nobody else's.
                        drive_once();
                    }
                    return false;
                }
                Err(error) => return self.end(Err(error)),
            }
        }
        let handle = self.handle();
        let over = registry::resume(handle, |c| {
            let over = self.go_on(c);
            c.is_held = !over;
            Ok(over)
        });
        match over {
            Ok(false) => false,
            Ok(true) => self.end(Ok(())),
            Err(error) => self.end(Err(error)),
        }
    }

    fn end(&mut self, ended: Result<()>) -> bool {
        self.stage = Stage::Over;
        self.note(ended);
        true
    }

    /// Keeps the first failure.
    fn note(&mut self, ended: Result<()>) {
        if self.ended.is_ok() {
            self.ended = ended;
        }
    }

    /// Runs stage after stage; returns whether the last is over. A call that fails ends the signals of its share alone.
    fn go_on(&mut self, c: &mut CommCore) -> bool {
        // BOUND: the stages of the share.
        loop {
            let next = match &mut self.stage {
                Stage::Entered => self.enter(c),
                Stage::Before(at) => {
                    let at = *at;
                    self.begin(at, c)
                }
                Stage::Transfers(at, transfers) => {
                    let at = *at;
                    transfers.poll(c).and_then(|()| self.begin_transfers(at + 1, c))
                }
                Stage::Collective(at, exchange) => {
                    c.poll_collective(exchange).map(|()| Stage::Before(*at + 1))
                }
                Stage::Permute(at, permute) => permute.poll(c).map(|()| Stage::Before(*at + 1)),
                Stage::Vector(at, vector) => vector.poll(c).map(|()| Stage::Before(*at + 1)),
                Stage::Scaled(at, scaled) => scaled.poll(c).map(|()| Stage::Before(*at + 1)),
                Stage::Signals(signals) => c.go_on_awaiting(signals).map(|()| Stage::Over),
                Stage::Outside | Stage::Over => return true,
            };
            self.stage = match next {
                Err(error) if error.is_pending() => return false,
                Ok(next) => next,
                Err(error) => {
                    self.note(Err(error));
                    self.after_failure()
                }
            };
        }
    }

    /// Returns the stage that follows one that failed.
    fn after_failure(&self) -> Stage {
        match self.stage {
            Stage::Entered | Stage::Transfers(..) => Stage::Before(0),
            Stage::Before(at) if at < self.share.joint.len() => Stage::Before(at + 1),
            Stage::Collective(at, _)
            | Stage::Permute(at, _)
            | Stage::Vector(at, _)
            | Stage::Scaled(at, _) => Stage::Before(at + 1),
            _ => Stage::Over,
        }
    }

    fn enter(&mut self, c: &mut CommCore) -> Result<Stage> {
        // A later signal would say that those before it have come.
        let given = self.share.signals.iter().try_for_each(|signal| c.signal(signal));
        self.note(given);
        self.begin_transfers(0, c)
    }

    /// Begins the transfers of a list; behind the last, the collectives.
    fn begin_transfers(&mut self, at: usize, c: &mut CommCore) -> Result<Stage> {
        let Some(transfers) = self.share.transfers.get(at) else { return Ok(Stage::Before(0)) };
        let begun = point_to_point::PolledTransfers::begin(c, transfers.iter(), self.grouped)?;
        Ok(Stage::Transfers(at, begun))
    }

    /// Begins the collective call of an index; behind the last, the wait for signals.
    fn begin(&mut self, at: usize, c: &mut CommCore) -> Result<Stage> {
        match self.share.joint.get(at) {
            Some(Joint::Collective(call)) => {
                let begun = c.begin_collective(call)?;
                Ok(begun.map_or(Stage::Before(at + 1), |exchange| Stage::Collective(at, exchange)))
            }
            Some(Joint::Permute(permute)) => {
                let begun = permute::PolledPermute::begin(c, permute.clone())?;
                Ok(begun.map_or(Stage::Before(at + 1), |permute| Stage::Permute(at, permute)))
            }
            Some(Joint::Vector(vector)) => {
                vector::run::PolledVector::begin(c, vector.clone()).map(|vector| Stage::Vector(at, vector))
            }
            Some(Joint::Scaled(scaled)) => {
                let begun = scaled::PolledScaled::begin(c, scaled)?;
                Ok(begun.map_or(Stage::Before(at + 1), |scaled| Stage::Scaled(at, scaled)))
            }
            None if self.share.awaited.is_empty() => Ok(Stage::Over),
            None => c.begin_awaiting(&self.share.awaited, Some(0)).map(Stage::Signals),
        }
    }

    fn give_up(&mut self, error: &Error) {
        let before = std::mem::replace(&mut self.stage, Stage::Over);
        if !matches!(before, Stage::Outside | Stage::Over) {
            let _ = registry::resume(self.handle(), |c| {
                c.is_held = false;
                c.end_with(error);
                Ok(())
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::comm;
    use crate::comm::calls::collective::Call;
    use crate::comm::group::batch::{Batch, Queued};
    use crate::comm::registry::{self, Entry};
    use crate::memory::view::Address;
    use crate::sync::prim::Ordering;
    use crate::types::{Collective, DataType, RedOp};

    #[test]
    fn an_abort_of_calls_that_nobody_is_inside_of_takes_the_buffers_back() {
        let ranks = comm::init_all(2).unwrap();
        let call = Call {
            collective: Collective::Barrier,
            send: Address::NULL,
            recv: Address::NULL,
            count: 0,
            dtype: DataType::Uint8,
            op: RedOp::Sum,
            root: 0,
            padded: false,
        };
        let mut batch =
            Batch { calls: vec![Queued::Collective(ranks[0], call)], grouped: true }.polled(Entry::Caller);
        assert!(!batch.poll());
        let transport = registry::shared(ranks[1]).unwrap().transport.clone();
        let given_up = || transport.control().header().gave_up.load(Ordering::Relaxed);
        assert_eq!(given_up(), 0);
        comm::abort(ranks[0]).unwrap();
        assert_eq!(given_up(), 1);
        assert!(batch.poll());
        assert!(batch.ended().unwrap_err().message.contains("aborted"));
        comm::abort(ranks[1]).unwrap();
    }
}
