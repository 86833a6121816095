//! Groups of calls. Penny queues and runs them; this library adds what NCCL's groups do beyond that.
//!
//! ```text
//!     a call that is refused here, or a communicator that cannot be joined       the group runs nothing and returns that again
//!     a call on a captured stream                                               at the end, recorded with those of the same capture
//! ```

use crate::boundary::{Failure, Outcome, argument, done, kept, usage};
use crate::capture::{self, Captured};
use crate::cuda::CaptureNumber;
use crate::records;
use crate::types::*;
use penny_sys as penny;
use std::cell::RefCell;
use std::mem::{ManuallyDrop, take};
use std::ptr::null_mut;

/// The open group of a thread.
#[derive(Default)]
struct Group {
    depth: u32,
    /// Inner groups that have ended.
    inner: u32,
    /// The first failure of a call in it.
    failure: Option<Failure>,
    /// Communicators that become complete at its end.
    joining: Vec<usize>,
    /// Calls on captured streams, which become steps of graphs at its end.
    captured: Vec<Captured>,
    /// For each communicator of its calls, the capture that they belong to.
    captures: Vec<(usize, Option<CaptureNumber>)>,
}

thread_local! {
    /// Never dropped: destructors of the program's objects, which may run after those of this thread's own, open groups, too. A group that
    /// has ended keeps no memory.
    static GROUP: ManuallyDrop<RefCell<Group>> = ManuallyDrop::default();
}

fn with<T>(act: impl FnOnce(&mut Group) -> T) -> T {
    GROUP.with(|group| act(&mut group.borrow_mut()))
}

/// Is a group open on this thread?
pub fn is_open() -> bool {
    with(|group| group.depth > 0)
}

/// Makes a call that a group queues: if it fails, the group fails.
#[inline]
pub fn queued(call: impl FnOnce() -> Outcome) -> Outcome {
    call().map_err(|failure| match failure {
        Failure::Penny(penny::pennyInProgress) => failure,
        failure => keep(failure),
    })
}

/// Keeps a failure for the end of the open group, if there is one.
#[cold]
fn keep(failure: Failure) -> Failure {
    if !is_open() {
        return failure;
    }
    let failure = kept(failure);
    with(|group| {
        group.failure.get_or_insert_with(|| failure.clone());
    });
    failure
}

/// Notes a communicator that was made: it is complete now, or at the end of the open group.
pub fn joined(comm: ncclComm_t) {
    let waits = with(|group| {
        if group.depth > 0 {
            group.joining.push(comm.addr());
        }
        group.depth > 0
    });
    if !waits {
        records::announce(comm);
    }
}

/// Leaves a call on a captured stream to the end of the open group.
pub fn captured(call: impl FnOnce(u32) -> Captured) {
    with(|group| group.captured.push(call(group.inner)));
}

/// Refuses a call on a communicator that has calls in other captures in the open group: graphs are launched one by one, and calls of
/// two of them could wait for each other.
pub fn check_capture(comm: ncclComm_t, number: Option<CaptureNumber>) -> Outcome {
    let first = with(|group| match group.captures.iter().find(|(of, _)| *of == comm.addr()) {
        Some(&(_, first)) => first,
        None => {
            if group.depth > 0 {
                group.captures.push((comm.addr(), number));
            }
            number
        }
    });
    match first == number {
        true => Ok(()),
        false => Err(usage(
            "the streams of this communicator's calls in the group are not all captured by one graph, or all not captured; use one group \
             for each graph",
        )),
    }
}

/// Makes calls in a group of their own.
pub fn all(calls: impl FnOnce() -> Outcome) -> Outcome {
    open()?;
    // A call that failed has left its failure to the group's end.
    let _ = queued(calls);
    // SAFETY: the function has no arguments.
    close(|| unsafe { penny::pennyGroupEnd() })
}

fn open() -> Outcome {
    // SAFETY: the function has no arguments.
    done(unsafe { penny::pennyGroupStart() })?;
    with(|group| group.depth += 1);
    Ok(())
}

/// Closes the innermost group by one of Penny's functions.
fn close(end: impl FnOnce() -> penny::pennyResult_t) -> Outcome {
    let last = with(|group| {
        group.depth = group.depth.saturating_sub(1);
        group.inner += 1;
        (group.depth == 0).then(|| take(group))
    });
    let Some(mut group) = last else { return done(end()) };
    if group.failure.is_none() {
        group.failure = capture::record_group(take(&mut group.captured)).err();
    }
    if let Some(failure) = group.failure {
        // A queued call that Penny refuses lets it forget the others.
        // SAFETY: NULL is refused, and nothing else is looked at.
        unsafe { penny::pennyBarrier(null_mut(), null_mut()) };
        end();
        return Err(failure);
    }
    done(end())?;
    group.joining.into_iter().for_each(|comm| records::announce(std::ptr::without_provenance_mut(comm)));
    Ok(())
}

nccl_api! {
    /// Opens a group on this thread.
    fn ncclGroupStart, pncclGroupStart() {
        open()
    }

    /// Closes the innermost group; the outermost runs it.
    fn ncclGroupEnd, pncclGroupEnd() {
        // SAFETY: the function has no arguments.
        close(|| unsafe { penny::pennyGroupEnd() })
    }

    /// Closes a group without running it, and writes the time that it would take on a declared machine. Without a place for that it runs the
    /// group, as NCCL does. A struct that is refused ends the group, too: no call comes after this one that would.
    fn ncclGroupSimulateEnd, pncclGroupSimulateEnd(simInfo: *mut ncclSimInfo_t) {
        if simInfo.is_null() {
            // SAFETY: the function has no arguments.
            return close(|| unsafe { penny::pennyGroupEnd() });
        }
        // SAFETY: the caller's promise: a struct of any version begins with these.
        let head = unsafe { simInfo.cast::<Head>().read_unaligned() };
        if head.magic != NCCL_SIM_INFO_MAGIC || head.size < size_of::<ncclSimInfo_t>() {
            let refused =
                keep(argument("simInfo has another magic or size; begin it with NCCL_SIM_INFO_INITIALIZER"));
            // SAFETY: the function has no arguments.
            return if is_open() { close(|| unsafe { penny::pennyGroupEnd() }) } else { Err(refused) };
        }
        let mut info = penny::pennySimInfo_t {
            size: size_of::<penny::pennySimInfo_t>(),
            magic: penny::PENNY_SIM_INFO_MAGIC as u32,
            version: penny::PENNY_VERSION_CODE,
            estimatedTime: 0.0,
            estimatedPs: 0,
        };
        // SAFETY: the struct is a local one of Penny's version.
        close(|| unsafe { penny::pennyGroupSimulateEnd(&mut info) })?;
        // SAFETY: the field lies within the program's struct, whose size was checked.
        unsafe { (&raw mut (*simInfo).estimatedTime).write_unaligned(info.estimatedTime) };
        Ok(())
    }
}
