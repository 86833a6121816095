//! A small collective that the thread which queues it can make at once.
//!
//! Queuing a call, and taking it up again, takes longer than the smallest calls themselves. So a small collective on a stream that is
//! idle begins when it is queued. If its peers' data are there within a hand-off between two cores, it is over by then and nothing is
//! queued; else it goes on as the stream's first task.

use super::parts::StreamPart;
use super::queue::StreamQueue;
use super::task::{self, Calls, StreamTask};
use super::turn::is_worker;
use super::{QUEUING, STREAMS, StreamHandle};
use crate::comm::calls::collective::Call;
use crate::comm::calls::exchange::{Directly, Exchange};
use crate::comm::communicator::CommCore;
use crate::comm::group::batch::Queued;
use crate::comm::group::polled::PolledBatch;
use crate::comm::progress::{Drivable, is_on_machine};
use crate::comm::registry::{self, CommHandle};
use crate::comm::shared::CommShared;
use crate::error::{Error, Result};
use crate::sync::prim::Ordering;
use crate::sync::wait::Neighbours;
use crate::sys::fork;
use std::sync::Arc;

/// The largest vector in bytes: a larger one takes longer than queuing it.
const MOST: u64 = 16 << 10;
/// Polls of a call before it is queued. Each looks for as long as a hand-off between two cores takes.
const POLLS: usize = 8;

/// The state of a call after its first polls.
enum Begun {
    Succeeded,
    Failed(Error, Arc<CommShared>),
    UnderWay(Box<Exchange<'static>>, Arc<CommShared>),
}

/// Makes or begins a collective that is queued on a stream. Returns false if it has to be queued.
pub(in crate::comm) fn make_at_once(comm: CommHandle, call: &Call<'static>, stream: StreamHandle) -> bool {
    if is_worker() || is_on_machine() {
        return false;
    }
    STREAMS.with(stream, |stream| try_make(comm, call, stream).is_some()).unwrap_or(false)
}

fn try_make(comm: CommHandle, call: &Call<'static>, stream: &Arc<StreamQueue>) -> Option<()> {
    // Until the call is over or queued: it has its place in the order of all that is queued.
    let _order = QUEUING.try_lock()?;
    if !may_begin(stream) {
        return None;
    }
    match registry::enter_if_free(comm, |c| begin(c, call))? {
        Begun::Succeeded => {}
        Begun::Failed(error, shared) => end(stream, call, Err(error), &shared),
        Begun::UnderWay(exchange, shared) => go_on_later(comm, call, stream, exchange, shared),
    }
    Some(())
}

/// Makes or begins the small collectives of a group, each of another communicator and on another stream: one thread has several ranks,
/// whose data come when all of them have begun. Returns the calls that have to be queued.
pub(super) fn make_group_at_once(calls: StreamPart) -> StreamPart {
    if is_worker() || is_on_machine() {
        return calls;
    }
    let Some(_order) = QUEUING.try_lock() else { return calls };
    let (mut queued, mut begun) = (Vec::new(), Vec::new());
    for (call, on) in calls {
        let Queued::Collective(comm, collective) = &call else {
            queued.push((call, on));
            continue;
        };
        let start = |c: &mut CommCore| {
            let made = c.make_or_begin(collective, MOST)?;
            c.is_held = matches!(made, Directly::Left(_));
            Some((made, c.shared.clone()))
        };
        let begin = |stream: &Arc<StreamQueue>| {
            let (made, shared) = may_begin(stream).then(|| registry::enter_if_free(*comm, start))??;
            match made {
                Directly::Over(ended) => end(stream, collective, ended, &shared),
                Directly::Left(exchange) => {
                    begun.push((*comm, *collective, stream.clone(), exchange, shared))
                }
            }
            Some(())
        };
        if STREAMS.with(on, begin).flatten().is_none() {
            queued.push((call, on));
        }
    }
    for (comm, call, stream, mut exchange, shared) in begun {
        let poll = |c: &mut CommCore| {
            let ended = c.poll_collective(&mut exchange);
            c.is_held = ended.as_ref().is_err_and(Error::is_pending);
            ended
        };
        match registry::resume(comm, poll) {
            Err(error) if error.is_pending() => go_on_later(comm, &call, &stream, exchange, shared),
            ended => end(&stream, &call, ended, &shared),
        }
    }
    queued
}

fn may_begin(stream: &StreamQueue) -> bool {
    stream.is_idle() && !stream.ended.load(Ordering::Relaxed) && stream.generation == fork::generation()
}

/// Tells what became of a call.
fn end(stream: &StreamQueue, call: &Call<'_>, ended: Result<()>, shared: &Arc<CommShared>) {
    if let Err(error) = ended {
        stream.failures.add(&task::tell(call.collective.name(), error, std::iter::once(shared)));
    }
}

/// Leaves a call that has begun to the stream.
fn go_on_later(
    comm: CommHandle,
    call: &Call<'static>,
    stream: &Arc<StreamQueue>,
    exchange: Box<Exchange<'static>>,
    shared: Arc<CommShared>,
) {
    let batch = PolledBatch::under_way(comm, *call, *exchange);
    let calls = Calls::under_way(batch, call.collective.name(), shared.turns.take(), shared);
    stream.push(StreamTask::Calls(calls));
}

/// Begins a call and polls it. `None`: it is not one that can be made at once.
fn begin(c: &mut CommCore, call: &Call<'static>) -> Option<Begun> {
    let failed = |c: &CommCore, error| Some(Begun::Failed(error, c.shared.clone()));
    let mut exchange = match c.make_or_begin(call, MOST)? {
        Directly::Over(Ok(())) => return Some(Begun::Succeeded),
        Directly::Over(Err(error)) => return failed(c, error),
        Directly::Left(exchange) => exchange,
    };
    // Peers that need this core come no sooner.
    let polls = if c.transport.are_on_this_core() { 0 } else { POLLS };
    // BOUND: `POLLS`.
    for _ in 0..polls {
        match c.poll_collective(&mut exchange) {
            Ok(()) => return Some(Begun::Succeeded),
            Err(error) if error.is_pending() => {}
            Err(error) => return failed(c, error),
        }
    }
    c.is_held = true;
    Some(Begun::UnderWay(exchange, c.shared.clone()))
}
