//! A worker that helps a thread which waits for several streams.
//!
//! ```text
//!     thread of the program    waits for A, goes on with A and B:  A1 B1 A1 B1 A2 B2 ...      one core
//!
//!                              waits for A, goes on with A:        A1 A1 A2 A2 ...            two cores
//!     worker of B              is called, goes on with B:          B1 B1 B2 B2 ...
//! ```
//!
//! A worker steps back where other threads go on with its stream (`worker.rs`), because waking it costs more than a small call. One
//! thread that drives several ranks has then one core for all of them. So where such a thread finds large calls on a stream that nobody
//! else waits for, it calls that stream's worker, as long as the process has cores for more threads. The helper goes on with its own
//! stream, to which other threads come no more, and where that waits, with others. It leaves when nothing is over for some time.

use super::queue::{Driven, StreamQueue};
use super::task::StreamTask;
use super::turn;
use crate::comm::progress::{drive_others, is_on_machine};
use crate::sync::prim::{AtomicBool, AtomicU32, AtomicU64, Ordering, pause};
use crate::sys::fork::{KEPT, PerFork};
use crate::sys::{clock, cpu};
use std::thread::Thread;

/// The largest vector in bytes that a thread makes where it queues it while no worker would go on with it ([`readiness`](super::readiness)):
/// about 40 us.
pub(super) const MOST_FOR_A_WAITER: u64 = 1 << 20;
/// A helper leaves when nothing has been over for so long.
const PATIENCE_NS: u64 = 500_000;
/// Looks in vain between two times that a helper looks at other streams and the clock.
const LOOKS: u32 = 16;
/// Looks in vain before a helper yields at each further one.
const LOOKS_BEFORE_YIELD: u32 = 64;

/// Large calls in a row whose peers came late, after which the next are not polled for at once, but each of this many.
const LATE: u32 = 4;
const TRIED: u32 = 16;

/// Helpers at work in this process.
static HELPERS: PerFork<AtomicU32> = PerFork::new([const { AtomicU32::new(0) }; KEPT]);

/// A stream's need of help.
#[derive(Default)]
pub(super) struct StreamHelp {
    /// Large calls that are queued.
    heavy: AtomicU32,
    /// Those among them that no thread makes at once.
    vast: AtomicU32,
    /// Threads that may be at work on them.
    threads: AtomicU32,
    /// The thread that waited for the stream last; 0: none has.
    attendant: AtomicU64,
    /// Its worker has stepped back, and can be called.
    can_come: AtomicBool,
    /// Its worker was called.
    called: AtomicBool,
    /// Its worker goes on with it, and other threads need not.
    there: AtomicBool,
    /// Large calls in a row whose peers came late.
    late: AtomicU32,
}

impl StreamHelp {
    /// A task is queued.
    pub fn queued(&self, task: &StreamTask) {
        if let Some(threads) = heavy(task) {
            self.threads.store(threads, Ordering::Relaxed);
            self.heavy.fetch_add(1, Ordering::Relaxed);
            self.vast.fetch_add(is_vast(task) as u32, Ordering::Relaxed);
        }
    }

    /// A task is over.
    pub fn done(&self, task: &StreamTask) {
        if heavy(task).is_some() {
            self.heavy.fetch_sub(1, Ordering::Relaxed);
            self.vast.fetch_sub(is_vast(task) as u32, Ordering::Relaxed);
        }
    }

    /// A thread waits for the stream, or asks for its state.
    pub fn attend(&self, thread: u64) {
        if self.attendant.load(Ordering::Relaxed) != thread {
            self.attendant.store(thread, Ordering::Relaxed);
        }
    }

    /// Tells whether a thread that waits for another stream is to call this one's worker.
    pub fn is_wanted(&self, thread: u64) -> bool {
        self.heavy.load(Ordering::Relaxed) > 0
            && HELPERS.own().load(Ordering::Relaxed) + 1 < self.threads.load(Ordering::Relaxed)
            && self.can_come.load(Ordering::Relaxed)
            && !self.called.load(Ordering::Relaxed)
            && [0, thread].contains(&self.attendant.load(Ordering::Relaxed))
    }

    /// Calls its worker. Returns whether this thread was the first to call.
    pub fn call(&self, worker: &Thread) -> bool {
        let is_first = !self.called.swap(true, Ordering::AcqRel);
        if is_first {
            worker.unpark();
        }
        is_first
    }

    /// Its worker has stepped back, or is back.
    pub fn can_come(&self, can: bool) {
        self.can_come.store(can, Ordering::Relaxed);
    }

    /// Are large calls queued?
    pub fn is_heavy(&self) -> bool {
        self.heavy.load(Ordering::Relaxed) > 0
    }

    /// Are large calls queued where this process has one core, which the program's thread needs?
    pub fn lacks_core(&self) -> bool {
        self.is_heavy() && self.threads.load(Ordering::Relaxed) <= 1
    }

    /// Does its worker rest, because other threads were faster?
    pub fn worker_rests(&self) -> bool {
        self.can_come.load(Ordering::Relaxed)
    }

    /// Tells whether to poll for the peers of a large call that is queued: they came in time lately, or are tried again.
    pub fn is_worth_polls(&self) -> bool {
        let late = self.late.load(Ordering::Relaxed);
        late < LATE || late.is_multiple_of(TRIED)
    }

    /// Notes whether the peers of a large call were in time.
    pub fn note_peers(&self, in_time: bool) {
        let late = self.late.load(Ordering::Relaxed);
        let now = if in_time { 0 } else { late.wrapping_add(1) };
        if now != late {
            self.late.store(now, Ordering::Relaxed);
        }
    }

    /// Tells whether a thread that is about to queue another call goes on with the large ones first: nobody else does, they are not too
    /// large for it, and their peers came in time lately. If not, their peers count as late once more.
    pub fn may_catch_up(&self, fill_cores: bool) -> bool {
        let is_vast = self.vast.load(Ordering::Relaxed) > 0;
        let may = !is_vast && (fill_cores || self.worker_rests()) && self.is_worth_polls();
        if !may {
            self.note_peers(false);
        }
        may
    }

    /// Was its worker called?
    pub fn is_called(&self) -> bool {
        self.called.load(Ordering::Relaxed)
    }

    /// Does its worker go on with it?
    pub fn is_there(&self) -> bool {
        self.there.load(Ordering::Relaxed)
    }
}

fn heavy(task: &StreamTask) -> Option<u32> {
    match task {
        StreamTask::Calls(calls) => calls.threads_for_heavy(),
        _ => None,
    }
}

fn is_vast(task: &StreamTask) -> bool {
    matches!(task, StreamTask::Calls(calls) if calls.bytes() as u64 > MOST_FOR_A_WAITER)
}

/// Goes on with a stream whose worker was called, and with others where that waits. Returns how far it came.
pub(super) fn help(stream: &StreamQueue) -> Driven {
    HELPERS.own().fetch_add(1, Ordering::Relaxed);
    stream.help.there.store(true, Ordering::Relaxed);
    let (mut in_vain, mut before, mut since) = (0u32, stream.done.get(), clock::now_ns());
    let mut driven = Driven::Pending;
    // BOUND: `PATIENCE_NS` after the last task that was over.
    while !is_on_machine() {
        driven = stream.drive(0);
        let done = stream.done.get();
        if matches!(driven, Driven::Ended | Driven::WorkerOnly) {
            break;
        }
        if done != before {
            (in_vain, before) = (0, done);
            since = clock::now_ns();
            continue;
        }
        in_vain = in_vain.wrapping_add(1);
        if in_vain.is_multiple_of(LOOKS) {
            if turn::as_no_worker(|| drive_others(stream)) {
                since = clock::now_ns();
            } else if clock::now_ns() - since > PATIENCE_NS {
                break;
            }
        }
        if in_vain > LOOKS_BEFORE_YIELD {
            cpu::yield_now();
        } else {
            pause();
        }
    }
    stream.help.there.store(false, Ordering::Relaxed);
    stream.help.called.store(false, Ordering::Relaxed);
    HELPERS.own().fetch_sub(1, Ordering::Relaxed);
    driven
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn large_calls_whose_peers_come_late_are_left_to_the_stream_but_for_each_sixteenth() {
        let help = StreamHelp::default();
        assert!(!help.may_catch_up(false), "its worker is at it");
        assert!(help.may_catch_up(true), "there is no core for its worker");
        help.can_come(true);
        help.note_peers(true);
        for _ in 0..LATE {
            assert!(help.may_catch_up(false));
            help.note_peers(false);
        }
        let tried: Vec<_> = (LATE..3 * TRIED + 1)
            .filter(|_| {
                let is_tried = help.may_catch_up(false);
                if is_tried {
                    help.note_peers(false);
                }
                is_tried
            })
            .collect();
        assert_eq!(tried, [TRIED, 2 * TRIED, 3 * TRIED]);
        assert!(!help.is_worth_polls());
        help.vast.store(1, Ordering::Relaxed);
        help.note_peers(true);
        assert!(!help.may_catch_up(false), "it would take long");
        help.vast.store(0, Ordering::Relaxed);
        help.note_peers(true);
        assert!(help.may_catch_up(false));
    }
}
