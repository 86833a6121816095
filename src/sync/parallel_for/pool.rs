//! Helper threads of one communicator, which sleep when nothing is lent to them. Each has a [`Desk`] of its own.

use crate::sync::desk::Desk;
use crate::sync::lent::LentBody;
use crate::sync::lock::Mutex;
use crate::sync::prim::{AtomicU64, Ordering, pause};
use crate::sys::{background, cpu, fork};
use std::any::Any;
use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{JoinHandle, Thread};

/// Looks for the next loop before a helper sleeps, with a yield after each: a call has one slice after another.
const LOOKS: u32 = 256;

/// Looks for a helper's end before each further one yields.
const LOOKS_BEFORE_YIELD: u32 = 64;

/// The threads, and what they are to help with.
pub struct Pool {
    helpers: Vec<(Arc<Desk>, Thread)>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The process that made them: a forked child has none of them.
    generation: u32,
}

impl Pool {
    /// Starts `threads` threads, or as many as the system allows. `name`: how their names begin.
    pub fn new(name: &str, threads: u32) -> Pool {
        static MADE: AtomicU64 = AtomicU64::new(0);
        fork::watch();
        let start = |number| {
            let desk = Arc::<Desk>::default();
            let (theirs, made) = (desk.clone(), MADE.fetch_add(1, Ordering::Relaxed) % 1000);
            let thread = background::spawn(&format!("{name}-{made}"), move || help(&theirs, number)).ok()?;
            Some(((desk, thread.thread().clone()), thread))
        };
        let (helpers, threads) = (1..=threads).map_while(start).unzip();
        Pool { helpers, threads: Mutex::new(threads), generation: fork::generation() }
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        self.helpers.len()
    }

    /// Lends `body` to the threads, which call it with their numbers, 1 and so on, while this one does its own part. Threads that come
    /// later than that do not call it. A panic in a call goes on here.
    pub fn during<R>(&self, body: LentBody<'_>, own: impl FnOnce() -> R) -> R {
        let mut lent = Lending { pool: self, desks: [0; WORDS], panic: None };
        lent.lend(&body);
        let result = own();
        lent.take_back();
        match lent.panic.take() {
            Some(panic) => resume_unwind(panic),
            None => result,
        }
    }

    /// Ends the threads and waits for their end.
    pub fn end(&self) {
        let threads = std::mem::take(&mut *self.threads.lock());
        if self.generation != fork::generation() {
            // They are the parent's.
            return std::mem::forget(threads);
        }
        for (desk, thread) in &self.helpers {
            // BOUND: what is lent is taken back.
            while !desk.close() {
                cpu::yield_now();
            }
            thread.unpark();
        }
        for thread in threads {
            // BOUND: nothing is lent to it any more.
            let _ = thread.join();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.end();
    }
}

/// Words of the set of desks that a function lies on.
const WORDS: usize = 4;

/// A function that is lent; dropping it takes the function back.
struct Lending<'a> {
    pool: &'a Pool,
    /// A bit for each desk that it lies on.
    desks: [u64; WORDS],
    panic: Option<Box<dyn Any + Send>>,
}

impl Lending<'_> {
    fn lend(&mut self, body: &LentBody<'_>) {
        for (at, (desk, thread)) in self.pool.helpers.iter().enumerate().take(64 * WORDS) {
            // SAFETY: `take_back` is called before the body ends, also by a panic.
            if let Some(must_wake) = unsafe { desk.lend(body) } {
                self.desks[at / 64] |= 1 << (at % 64);
                if must_wake {
                    thread.unpark();
                }
            }
        }
    }

    fn take_back(&mut self) {
        let looks = Cell::new(0);
        // A helper that is at it needs a core.
        let wait = || {
            looks.set(looks.get() + 1);
            if looks.get() < LOOKS_BEFORE_YIELD { pause() } else { cpu::yield_now() }
        };
        for (at, (desk, _)) in self.pool.helpers.iter().enumerate().take(64 * WORDS) {
            let bit = 1 << (at % 64);
            if self.desks[at / 64] & bit != 0 {
                self.desks[at / 64] &= !bit;
                let panic = desk.take_back(&wait);
                self.panic = self.panic.take().or(panic);
            }
        }
    }
}

impl Drop for Lending<'_> {
    fn drop(&mut self) {
        self.take_back();
    }
}

/// Helps with one loop after another until the end.
fn help(desk: &Desk, number: u32) {
    // BOUND: `Pool::end`.
    while !desk.is_closed() {
        // BOUND: `LOOKS` looks; then it sleeps.
        if (0..LOOKS).any(|_| {
            let has_run = desk.run_lent(number);
            if !has_run {
                cpu::yield_now();
            }
            has_run
        }) {
            continue;
        }
        if desk.falls_asleep() {
            std::thread::park();
        }
        desk.wakes_up();
    }
}
