//! Helper threads of one communicator, which sleep when nothing is lent to them.

use crate::sync::event_count::EventCount;
use crate::sync::lent::Lent;
use crate::sync::lock::Mutex;
use crate::sync::prim::{AtomicBool, AtomicU64, Ordering};
use crate::sys::{background, cpu, fork};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Looks for the next loop before a helper sleeps, with a yield after each: a call has one slice after another.
const LOOKS: u32 = 256;

/// The threads, and the function that they are to help with.
pub struct Pool {
    shared: Arc<Posted>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The process that made them: a forked child has none of them.
    generation: u32,
}

/// The newest function.
#[derive(Default)]
struct Posted {
    /// How many have been posted.
    count: EventCount,
    newest: Mutex<Option<Arc<Lent>>>,
    is_over: AtomicBool,
}

impl Pool {
    /// Starts `threads` threads, or as many as the system allows. `name`: how their names begin.
    pub fn new(name: &str, threads: u32) -> Pool {
        static MADE: AtomicU64 = AtomicU64::new(0);
        fork::watch();
        let shared = Arc::<Posted>::default();
        let start = |_| {
            let (theirs, number) = (shared.clone(), MADE.fetch_add(1, Ordering::Relaxed) % 1000);
            background::spawn(&format!("{name}-{number}"), move || theirs.help()).ok()
        };
        let threads = Mutex::new((0..threads).map_while(start).collect());
        Pool { shared, threads, generation: fork::generation() }
    }

    /// Asks the threads to call `lent`. Does not wait for them.
    pub fn post(&self, lent: &Arc<Lent>) {
        if self.shared.is_over.load(Ordering::Relaxed) {
            return;
        }
        let mut newest = self.shared.newest.lock();
        *newest = Some(lent.clone());
        self.shared.count.raise(self.shared.count.get().saturating_add(1));
    }

    /// Ends the threads and waits for their end.
    pub fn end(&self) {
        let threads = std::mem::take(&mut *self.threads.lock());
        if self.generation != fork::generation() {
            // They are the parent's.
            return std::mem::forget(threads);
        }
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.shared.count.raise(u64::MAX);
        for thread in threads {
            // BOUND: the piece that it is at.
            let _ = thread.join();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.end();
    }
}

impl Posted {
    /// Helps with one loop after another until the end.
    fn help(&self) {
        let mut seen = 0;
        // BOUND: `end`.
        loop {
            // BOUND: `LOOKS` looks; then it sleeps.
            for _ in 0..LOOKS {
                if self.count.get() > seen {
                    break;
                }
                cpu::yield_now();
            }
            self.count.reach(seen + 1);
            seen = self.count.get();
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let newest = self.newest.lock().clone();
            if let Some(lent) = newest {
                lent.call(0);
            }
        }
    }
}
