//! Signals, and puts that end with one: a rank writes into another's window and counts up there; the other waits for
//! a number of counts.
//!
//! ```text
//!     rank 0   put_signal(data, window, 1): data -----> rank 1's window, then counter[0 -> 1, ctx, sigIdx] += 1
//!     rank 1   wait_signals(2 of rank 0):   until the counter is 2 above what rank 1 has taken, then 2 more are taken
//! ```
//!
//! A counter says of each signal that everything which its sender did before has come: the sender's own core stores the
//! data, then adds with Release; on another host the peer's process does both, in the sender's order. So the order that NCCL promises within a context holds across them, too; what contexts
//! keep apart is the counting.

use super::signal_counters::SignalPlace;
use super::window_table::{self as window, WindowHandle};
use crate::comm::calls::collective::MOST_BYTES;
use crate::comm::communicator::CommCore;
use crate::comm::shared::CommHandle;
use crate::error::{Error, Result};
pub use crate::memory::control::signals::{CONTEXTS, SIGNALS};
use crate::memory::view::{Address, Payload};
use crate::onesided::copy_across;
use crate::sync::prim::Ordering;
use crate::timing::{WORD, transfer_spec};
use crate::transport::Transport;
use crate::transport::waiting::{Polls, Waiting};
use crate::transport::watch::seconds;
use crate::types::{DataType, Rank};
use std::collections::BTreeMap;

/// Names a counter: of this rank's signals to a peer, or of the peer's to this rank.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    /// The other rank; one's own will do.
    pub peer: i32,
    /// The index of the signal in its context: `sigIdx`.
    pub index: i32,
    /// The context: `ctx`.
    pub context: i32,
}

/// A signal, perhaps with data that comes before it.
#[derive(Clone, Copy, Debug)]
pub struct Signal {
    /// The counter to increment.
    pub counter: Counter,
    /// Reserved: 0.
    pub flags: u32,
    /// The data.
    pub put: Option<Put>,
}

/// Elements for a peer's window.
#[derive(Clone, Copy, Debug)]
pub struct Put {
    /// Any memory of this rank.
    pub source: Address<'static>,
    /// Elements.
    pub count: usize,
    /// Element type.
    pub dtype: DataType,
    /// The window.
    pub window: WindowHandle,
    /// The offset in the peer's part of it, in bytes.
    pub offset: usize,
}

/// Signals to be waited for.
#[derive(Clone, Copy, Debug)]
pub struct AwaitedSignals {
    /// The number of signals.
    pub count: i32,
    /// Their counter.
    pub counter: Counter,
}

impl Counter {
    /// `within`: what stands before the arguments' names.
    fn check(&self, within: &str, nranks: u32) -> Result<SignalPlace> {
        let held = |what: &str, value: i32, limit: usize| match usize::try_from(value) {
            Ok(value) if value < limit => Ok(value),
            _ => {
                Err(Error::argument(format!("{within}{what} is {value}; it must be from 0 to {}", limit - 1)))
            }
        };
        Ok(SignalPlace {
            peer: held("peer", self.peer, nranks as usize)? as Rank,
            context: held("ctx", self.context, CONTEXTS)?,
            index: held("sigIdx", self.index, SIGNALS)?,
        })
    }
}

impl Signal {
    /// Check the arguments for a rank of a communicator; the counter, and the data where there is some.
    pub(in crate::comm) fn check(
        &self,
        comm: CommHandle,
        rank: Rank,
        nranks: u32,
    ) -> Result<(SignalPlace, Payload<'static>)> {
        let place = self.counter.check("", nranks)?;
        if self.flags != 0 {
            return Err(Error::argument(format!(
                "flags is {}; nothing is defined for it yet, pass 0",
                self.flags
            )));
        }
        let Some(put) = &self.put else { return Ok((place, Payload::EMPTY)) };
        let bytes = put.count.checked_mul(put.dtype.size()).filter(|&bytes| bytes <= MOST_BYTES);
        let Some(bytes) = bytes else {
            return Err(Error::argument(format!(
                "count {} of {} is more than memory can hold; is it a negative number?",
                put.count, put.dtype
            )));
        };
        if put.source.is_null() && bytes > 0 {
            return Err(Error::argument(format!(
                "localbuff is NULL on rank {rank}, which is to put {bytes} bytes from there"
            )));
        }
        window::with(comm, put.window, "peerWin", |window| window.holds(place.peer, put.offset, bytes))?;
        Ok((place, put.source.view(bytes)))
    }
}

/// Check what is to be waited for; how many of each.
pub(in crate::comm) fn check_all(
    awaited: &[AwaitedSignals],
    nranks: u32,
) -> Result<BTreeMap<SignalPlace, u64>> {
    if awaited.is_empty() {
        return Err(Error::argument("nDesc is 0; pass at least one descriptor"));
    }
    let mut of_each = BTreeMap::new();
    for (i, AwaitedSignals { count, counter }) in awaited.iter().enumerate() {
        let within = format!("signalDescs[{i}].");
        let place = counter.check(&within, nranks)?;
        let count = u64::try_from(*count)
            .ok()
            .filter(|&count| count > 0)
            .ok_or_else(|| Error::argument(format!("{within}opCnt is {count}; it must be at least 1")))?;
        *of_each.entry(place).or_insert(0) += count;
    }
    Ok(of_each)
}

/// Signals that are waited for.
struct Pending {
    place: SignalPlace,
    /// Taken before.
    taken: u64,
    wanted: u64,
}

impl Pending {
    /// Returns the number of signals that have arrived.
    fn came(&self, t: &Transport) -> u64 {
        let SignalPlace { peer, context, index } = self.place;
        // ORDER: partner of the addition in `deliver`.
        let now = t.control().signal(peer, t.rank(), context, index).load(Ordering::Acquire);
        now.saturating_sub(self.taken)
    }
    fn is_there(&self, t: &Transport) -> bool {
        self.came(t) >= self.wanted
    }
    fn text(&self, t: &Transport) -> String {
        let SignalPlace { peer, context, index } = self.place;
        format!(
            "{} signals from rank {peer} with sigIdx {index} and ctx {context}, of which {} came",
            self.wanted,
            self.came(t)
        )
    }
}

/// A wait for signals, as far as it has come.
pub(in crate::comm) struct PendingSignals {
    pending: Vec<Pending>,
    /// The number of those from the first on that have come.
    there: usize,
    waiting: Waiting,
}

impl CommCore {
    /// Gives a signal, after its data.
    pub(in crate::comm) fn signal(&mut self, signal: &Signal) -> Result<()> {
        self.usable()?;
        let (place, data) = signal.check(self.handle(), self.rank(), self.nranks())?;
        self.broken()?;
        self.counters.reserve(&self.transport, place.peer, true)?;
        let delivered = match &signal.put {
            None if self.transport.is_far(place.peer) => self.deliver_far(place, 0, Payload::EMPTY),
            None => self.deliver(place, Payload::EMPTY, Payload::EMPTY),
            Some(put) if self.transport.is_far(place.peer) => {
                window::with(self.handle(), put.window, "peerWin", |window| {
                    window.holds(place.peer, put.offset, data.bytes())?;
                    self.deliver_far(place, window.at(place.peer, put.offset), data)
                })
            }
            Some(put) => window::with(self.handle(), put.window, "peerWin", |window| {
                let target = window.place(&self.transport, place.peer, put.offset, data.bytes())?;
                self.deliver(place, target, data)
            }),
        };
        let at_ps = delivered.inspect_err(|e| self.one_sided_failure(e))?;
        if let Some(clock) = &mut self.group_clock {
            *clock = at_ps.unwrap_or(*clock);
        }
        Ok(())
    }

    /// Stores the data, then the signal, when the declared machine would; tells when that is.
    fn deliver(&self, place: SignalPlace, target: Payload<'_>, data: Payload<'_>) -> Result<Option<u64>> {
        let (t, me, SignalPlace { peer, context, index }) = (&*self.transport, self.rank(), place);
        t.check_ranks(std::iter::once(peer).filter(|&peer| peer != me))?;
        self.timing().serve_exactly();
        let carried = self.timing().put(me, peer, data.bytes() + WORD, self.group_clock)?;
        copy_across(target, data)?;
        die_point!(120 "signal_data");
        // ORDER: publishes the data, and all that this rank did before; partner: the load in `Pending::came`.
        t.control().signal(me, peer, context, index).fetch_add(1, Ordering::Release);
        die_point!(121 "signal_given");
        t.after_post_to(peer);
        die_point!(122 "signal_rung");
        self.timing().stored(peer);
        Ok(carried.at_ps())
    }

    /// Has a rank of another host store the data at `at` of its heap, then count the signal.
    fn deliver_far(&self, place: SignalPlace, at: u64, data: Payload<'_>) -> Result<Option<u64>> {
        let (t, SignalPlace { peer, context, index }) = (&*self.transport, place);
        t.check_ranks(std::iter::once(peer))?;
        self.timing().serve_exactly();
        let carried = self.timing().put(self.rank(), peer, data.bytes() + WORD, self.group_clock)?;
        t.put_far(peer, at, data, true)?;
        t.signal_far(peer, context, index)?;
        self.timing().complete_far()?;
        self.timing().stored(peer);
        Ok(carried.at_ps())
    }

    /// Waits for signals and takes them off: all or none.
    pub(in crate::comm) fn await_signals(&mut self, awaited: &[AwaitedSignals]) -> Result<()> {
        let mut pending = self.begin_awaiting(awaited, None)?;
        self.go_on_awaiting(&mut pending)
    }

    /// Begins a wait for signals. `polls`: as in [`Scope`](crate::transport::Scope).
    pub(in crate::comm) fn begin_awaiting(
        &mut self,
        awaited: &[AwaitedSignals],
        polls: Polls,
    ) -> Result<PendingSignals> {
        self.usable()?;
        let of_each = check_all(awaited, self.nranks())?;
        self.broken()?;
        let mut pending = Vec::with_capacity(of_each.len());
        for (place, wanted) in of_each {
            self.counters.reserve(&self.transport, place.peer, false)?;
            pending.push(Pending { place, taken: *self.counters.taken(&place), wanted });
        }
        let t = &*self.transport;
        let own = |p: &&Pending| p.place.peer == t.rank() && !p.is_there(t);
        if let Some(own) = pending.iter().find(own) {
            return Err(Error::usage(format!(
                "rank {} waits for its own signals and cannot give them meanwhile: {}; signal first, or in the same group",
                t.rank(),
                own.text(t)
            )));
        }
        Ok(PendingSignals { pending, there: 0, waiting: Waiting { polls, deadline_ns: 0 } })
    }

    /// Goes on with a wait for signals.
    pub(in crate::comm) fn go_on_awaiting(&mut self, signals: &mut PendingSignals) -> Result<()> {
        self.await_pending(signals).inspect_err(|e| self.one_sided_failure(e))?;
        die_point!(123 "signal_came");
        self.ordering(|races, _| signals.pending.iter().try_for_each(|p| races.hear(p.place.peer)))?;
        for Pending { place, wanted, .. } in &signals.pending {
            *self.counters.taken(place) += wanted;
        }
        Ok(())
    }

    fn await_pending(&self, signals: &mut PendingSignals) -> Result<()> {
        let t = &*self.transport;
        let PendingSignals { pending, there, waiting } = signals;
        // Counters only grow: what has come once need not be looked at again.
        let mut ready = || {
            *there += pending[*there..].iter().take_while(|p| p.is_there(t)).count();
            *there == pending.len()
        };
        // A rank may end after it has given its signals, so whether it lives is read first, and its signals after that.
        let watch = || {
            t.check_abort()?;
            t.check_alarm()?;
            pending.iter().try_for_each(|p| {
                let well = t.watch_ranks(std::iter::once(p.place.peer).filter(|&peer| peer != t.rank()));
                well.or_else(|gone| if p.is_there(t) { Ok(()) } else { Err(gone) })
            })
        };
        let what = || pending.iter().find(|p| !p.is_there(t)).map_or_else(String::new, |p| p.text(t));
        let expired = || {
            let short: Vec<&Pending> = pending.iter().filter(|p| !p.is_there(t)).collect();
            let mut late: Vec<Rank> = short.iter().map(|p| p.place.peer).collect();
            late.dedup();
            let more = match short.len() {
                0 | 1 => String::new(),
                several => format!(", and for those of {} further descriptors", several - 1),
            };
            Error::timeout(format!(
                "rank {} waited {} for {}{more}; {}; if they are only slow, raise PENNY_TIMEOUT or timeoutMs",
                t.rank(),
                seconds(t.timeout_ns()),
                what(),
                t.who(&late)
            ))
        };
        if self.timing().eagerly(&mut ready) {
            return Ok(());
        }
        if waiting.polls.is_some() {
            return t.wait_or_leave(waiting, ready, watch, expired);
        }
        self.timing().serve_exactly();
        self.timing().wait_until(ready, watch, expired, what)
    }

    /// Breaks the communicator after an error, or ends it if the declared machine has failed.
    fn one_sided_failure(&mut self, error: &Error) {
        match self.timing().check() {
            Err(_) => self.end_with(error),
            Ok(()) => self.break_with(error),
        }
    }

    /// Computes the time of consecutive puts and signals on the idle machine.
    pub(in crate::comm) fn estimate_signals(&self, signals: &[Signal]) -> Result<u64> {
        let mut total_ps = 0u64;
        for signal in signals {
            let (place, data) = signal.check(self.handle(), self.rank(), self.nranks())?;
            if place.peer != self.rank() {
                let spec = transfer_spec((data.bytes() + WORD) as u64, 1);
                let call = (spec, vec![self.rank(), place.peer]);
                total_ps = total_ps.saturating_add(self.timing().estimate(&[call])?);
            }
        }
        Ok(total_ps)
    }
}
