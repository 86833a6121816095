//! What calls that are made where they are queued have in common: whether one can be, how large it may be, how long its peers are polled
//! for, and its end.
//!
//! The stream has to be idle. Where it is not, what is queued there is gone on with first: a call whose peers came late would else be
//! followed by queued calls only, however soon the peers come, until the program waits. Large calls are made where no worker would go on
//! with them meanwhile (docs/decisions/0036, 0083, 0089).

use super::helping::MOST_FOR_A_WAITER;
use super::queue::{Driven, HeldTasks, StreamQueue};
use super::task::{self, Calls, StreamTask};
use super::turn::aborted;
use crate::comm::calls::collective::Call;
use crate::comm::communicator::CommCore;
use crate::comm::registry::{self, CommHandle};
use crate::comm::shared::CommShared;
use crate::error::Result;
use crate::sync::wait::Neighbours;
use crate::sys::fork;
use std::sync::Arc;

/// The largest vector in bytes: a larger one takes longer than queuing it.
const MOST: u64 = 16 << 10;
/// Polls of a call before it is queued. Each looks for as long as a hand-off between two cores takes.
pub(super) const POLLS: usize = 8;
/// One poll more for each of these bytes, and the most of them: peers copy and fold meanwhile.
const BYTES_A_POLL: usize = 256;
const MOST_POLLS: usize = 512;

/// Tells whether no worker would go on with the stream beside the calling thread: it rests, or there is no core for it.
pub(super) fn is_alone(c: &CommCore, stream: &StreamQueue) -> bool {
    stream.help.worker_rests() || c.transport.fill_cores(1)
}

/// Returns the bytes of the largest call that is made at once on a stream.
pub(super) fn largest(is_alone: bool) -> u64 {
    if is_alone { MOST_FOR_A_WAITER } else { MOST }
}

/// Tells whether a collective moves nothing, and nothing is to be said about it: it is over as soon as it has its turn.
#[inline]
pub(super) fn moves_nothing(c: &CommCore, call: &Call<'_>) -> bool {
    let is_right = || matches!(call.check(c.rank(), c.nranks()), Ok(None));
    call.count == 0 && c.usable().is_ok() && c.broken().is_ok() && is_right()
}

/// Keeps other threads from queuing on a stream, if what is queued there is over or can be made now.
pub(super) fn hold(comm: CommHandle, stream: &StreamQueue) -> Option<HeldTasks<'_>> {
    stream.hold_idle().or_else(|| {
        catch_up(comm, stream)?;
        stream.hold_idle()
    })
}

/// Returns how often a call of these bytes is polled for longer than a small one: about as long as its copies take.
pub(super) fn polls_of(bytes: usize, stream: &StreamQueue) -> usize {
    let is_in_vain = bytes as u64 > MOST && !stream.help.is_worth_polls();
    if is_in_vain { 0 } else { (bytes / BYTES_A_POLL).min(MOST_POLLS) }
}

/// Notes whether the peers of a large call were in time.
pub(super) fn note(bytes: usize, stream: &StreamQueue, in_time: bool) {
    if bytes as u64 > MOST {
        stream.help.note_peers(in_time);
    }
}

/// Returns how often what is queued on streams is gone on with before a call that may be made at once. `None`: there are large calls that
/// are left to them.
pub(super) fn polls_before<'s>(
    mut streams: impl Iterator<Item = &'s StreamQueue>,
    polls: usize,
    fill_cores: impl Fn() -> bool,
) -> Option<usize> {
    streams.try_fold(polls, |polls, stream| match stream.help.is_heavy() {
        false => Some(polls),
        true => stream.help.may_catch_up(fill_cores()).then_some(MOST_POLLS),
    })
}

/// Goes on with the calls that are queued before one. `None`: not all of it is over.
fn catch_up(comm: CommHandle, stream: &StreamQueue) -> Option<()> {
    // A forked child leaves its parent's calls alone.
    if stream.generation != fork::generation() {
        return None;
    }
    // BOUND: `POLLS`, or `MOST_POLLS`.
    let fill_cores = || registry::shared(comm).is_ok_and(|comm| comm.transport.fill_cores(1));
    for polls in 0..polls_before(std::iter::once(stream), POLLS, fill_cores)? {
        match stream.catch_up(POLLS as u64) {
            Driven::Idle => return Some(()),
            Driven::Pending if polls > 0 || !registry::shared(comm).ok()?.transport.are_on_this_core() => {}
            _ => return None,
        }
    }
    came_late(stream)
}

/// Notes that the peers of a large call that is queued come late.
pub(super) fn came_late(stream: &StreamQueue) -> Option<()> {
    if stream.help.is_heavy() {
        stream.help.note_peers(false);
    }
    None
}

/// A call that has begun, and its turn.
pub(super) struct BegunCall<T> {
    pub begun: T,
    pub turn: u64,
}

/// Begins a call that has the first turn of its communicator, and holds that. `None`: calls of others come first, or it has not begun. The
/// call that is queued instead is told why.
#[inline]
pub(super) fn begin<T>(
    c: &mut CommCore,
    begin: impl FnOnce(&mut CommCore) -> Option<T>,
) -> Option<BegunCall<T>> {
    let turn = c.shared.turns.take_first()?;
    match c.guarded(begin) {
        Ok(Some(begun)) => {
            c.is_held = true;
            Some(BegunCall { begun, turn })
        }
        Ok(None) | Err(_) => {
            c.shared.turns.end(turn);
            None
        }
    }
}

/// Polls a call that has begun for as long as its peers may need. Returns what is not over.
#[inline]
pub(super) fn poll_for_peers<T>(
    c: &mut CommCore,
    bytes: usize,
    stream: &StreamQueue,
    under_way: BegunCall<T>,
    poll: impl Fn(&mut CommCore, BegunCall<T>) -> Option<BegunCall<T>>,
) -> Option<BegunCall<T>> {
    let mut left = poll(c, under_way);
    // Peers that need this core come no sooner.
    let is_worth_it = left.is_some() && !c.transport.are_on_this_core();
    let polls = if is_worth_it { POLLS + polls_of(bytes, stream) } else { 0 };
    // BOUND: `POLLS` and `MOST_POLLS`.
    for _ in 0..polls {
        let Some(under_way) = left.take() else { break };
        left = poll(c, under_way);
    }
    if is_worth_it {
        note(bytes, stream, left.is_none());
    }
    left
}

/// Ends a call, and tells a failure to its stream and communicator.
#[inline]
pub(super) fn end(c: &mut CommCore, name: &str, ended: Result<()>, turn: u64, stream: &StreamQueue) {
    c.is_held = false;
    tell_failure(c, name, ended, stream);
    c.shared.turns.end(turn);
}

/// Tells the failure of a call, if it has failed, to its stream and communicator.
#[inline]
pub(super) fn tell_failure(c: &CommCore, name: &str, ended: Result<()>, stream: &StreamQueue) {
    if let Err(error) = ended {
        stream.failures.add(&task::tell(name, error, std::iter::once(&c.shared)));
    }
}

/// Leaves a call that has begun to the stream. `calls`: makes the stream's task of it, which has this turn.
pub(super) fn leave(
    stream: &Arc<StreamQueue>,
    tasks: HeldTasks<'_>,
    comm: CommHandle,
    turn: u64,
    calls: impl FnOnce(Vec<(u64, Arc<CommShared>)>) -> Calls,
) {
    match registry::shared(comm) {
        Ok(shared) => stream.push_behind(tasks, StreamTask::Calls(calls(vec![(turn, shared)]))),
        Err(_) => stream.failures.add(&aborted()),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::comm;
    use crate::comm::registry;
    use crate::sys::cpu;

    #[test]
    fn ranks_of_one_process_fill_its_cores_from_as_many_threads_on() {
        let cores = cpu::usable_cores();
        for ranks in [1, cores, 2 * cores, 2 * cores + 1] {
            let handles = comm::init_all(ranks as i32).unwrap();
            let transport = registry::shared(handles[0]).unwrap().transport.clone();
            let filled = [1, 2, 3].map(|each| transport.fill_cores(each));
            assert_eq!(filled, [1, 2, 3].map(|each| ranks / each >= cores), "{ranks} ranks on {cores} cores");
            drop(transport);
            handles.into_iter().for_each(|rank| comm::destroy(rank).unwrap());
        }
    }
}
