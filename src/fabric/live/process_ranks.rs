//! The ranks of one job that are of this process: who looks at their threads, and what has been seen.
//!
//! ```text
//!     thread M    line at rank 0, line at rank 1     makes both, queues on both ranks' streams, waits for the streams
//!     worker 0    line at rank 0                     in rank 0's call: looks at the lines of both ranks
//!     worker 1                  line at rank 1       in rank 1's call: looks at the lines of both ranks
//! ```
//!
//! A thread may call for several ranks, and wait for threads that call for others. So what holds for the threads of a rank holds for
//! those of all the ranks of a process: any of them that waits looks at all of them, one at a time, and a certificate is theirs together.

use super::clock_segment::{ClockSegment, ThreadLine};
use super::verdict::Notes;
use crate::error::{Error, Result};
use crate::sync::lock::Mutex;
use crate::sync::prim::{AtomicU64, Ordering};
use crate::sys::{fork, process};
use crate::types::Rank;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Weak};

/// The ranks of one job that are of this process.
pub(super) struct ProcessRanks {
    /// A number that no other job of this process has.
    pub number: u64,
    /// The clock segment's file, and the process.
    file: (u64, u64),
    generation: u32,
    places: Mutex<Arc<[Rank]>>,
    /// The program's threads that have queued calls for streams, or made groups, and the rank that each has done so for.
    callers: Mutex<Vec<(u32, Rank)>>,
    /// The time at which a waiting thread looks at the other threads again, and the interval.
    pub next_look_ns: AtomicU64,
    pub look_every_ns: AtomicU64,
    /// The time at which a thread that polls looks at them again.
    pub next_look_in_poll_ns: AtomicU64,
    /// What has been seen. Who looks holds it, so nobody takes another's look for the work of a thread.
    pub notes: Mutex<Notes>,
}

/// Returns a thread's number, or 0 if it has ended.
fn tid_if_lives(tid: u32) -> u32 {
    if tid == process::tid() || !process::has_ended(tid) { tid } else { 0 }
}

static ALL: Mutex<Vec<Weak<ProcessRanks>>> = Mutex::new(Vec::new());

impl ProcessRanks {
    /// Adds a rank to those of its job.
    pub fn with(clock_segment: &ClockSegment, place: Rank) -> Result<Arc<ProcessRanks>> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let file =
            clock_segment.file()?.metadata().map_err(|e| Error::system(format!("a clock segment: {e}")))?;
        let (file, generation) = ((file.dev(), file.ino()), fork::generation());
        let mut all = ALL.lock();
        all.retain(|ranks| ranks.strong_count() > 0);
        let known =
            all.iter().filter_map(Weak::upgrade).find(|r| (r.file, r.generation) == (file, generation));
        let ranks = known.unwrap_or_else(|| {
            let made = Arc::new(ProcessRanks {
                number: NUMBERS.fetch_add(1, Ordering::Relaxed),
                file,
                generation,
                places: Mutex::new(Arc::default()),
                callers: Mutex::default(),
                next_look_ns: AtomicU64::new(0),
                look_every_ns: AtomicU64::new(0),
                next_look_in_poll_ns: AtomicU64::new(0),
                notes: Mutex::default(),
            });
            all.push(Arc::downgrade(&made));
            made
        });
        let mut places = ranks.places.lock();
        *places = places.iter().copied().filter(|&other| other != place).chain([place]).collect();
        drop(places);
        Ok(ranks)
    }

    /// Takes a rank out that has left.
    pub fn leave(&self, place: Rank) {
        let mut places = self.places.lock();
        *places = places.iter().copied().filter(|&other| other != place).collect();
    }

    /// Returns the ranks.
    pub fn places(&self) -> Arc<[Rank]> {
        self.places.lock().clone()
    }

    /// The calling thread calls for a rank. A presence does not tell that: the thread of a stream makes a queued call.
    pub fn note_caller(&self, place: Rank) {
        let (caller, mut callers) = ((process::tid(), place), self.callers.lock());
        if callers.contains(&caller) {
            return;
        }
        let kept: BTreeSet<_> = callers.iter().map(|&(tid, of)| (tid_if_lives(tid), of)).collect();
        *callers = kept.into_iter().chain([caller]).collect();
    }

    /// Returns the threads that have called for a rank, 0 for those that have ended.
    pub fn callers(&self, place: Rank) -> Vec<u32> {
        let of_rank = |&(tid, of): &(u32, Rank)| (of == place).then_some(tid);
        let all: Vec<u32> = self.callers.lock().iter().filter_map(of_rank).collect();
        all.into_iter().map(tid_if_lives).collect()
    }

    /// Returns the program's threads that have called for any of the ranks.
    pub fn all_callers(&self) -> BTreeSet<u32> {
        self.callers.lock().iter().map(|&(tid, _)| tid).collect()
    }

    /// Returns the lines of all their threads.
    pub fn lines<'a>(&self, clock_segment: &'a ClockSegment) -> Vec<&'a ThreadLine> {
        self.places().iter().flat_map(|&place| clock_segment.threads(place)).collect()
    }
}
