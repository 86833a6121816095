//! Threads that wait for streams and events: they sleep until these are over, or ask again and again, in vain, whether they are.
//!
//! ```text
//!     is stream 0 over? no    stream 1? no    stream 0? no    stream 1? no    ...    [`ASKED_AGAIN`] times: it waits for both
//!     it is told that one of both is over, queues something, or calls on the machine: it acts, and begins anew
//! ```
//!
//! A thread that polls looks like one that acts. It would hold the clock of all ranks that it may call for until the grace period is
//! over. So it counts as waiting for what it has asked for in vain, and no longer, as soon as any of that is over.
//!
//! Whatever else a process's threads do, only the streams' own threads end such a wait. A wait for other processes, of which the library
//! before libc tells (`penny run --virtual-time`), is one that no thread of this process ends.

use super::clock_segment::{BLOCKED, PRESENT};
use super::participant::Participant;
use super::threads::{is_idle, is_watched, known};
use crate::sync::lock::Mutex;
use crate::sync::prim::Ordering;
use crate::sys::{clock, process};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

/// Questions for the same things in a row, all in vain, after which a thread waits for them.
const ASKED_AGAIN: u32 = 16;
/// A thread that has asked for nothing for so long does something else.
const RECENT_NS: u64 = 10_000_000;
/// The shortest time between two looks of threads that poll.
const PAUSE_NS: u64 = 50_000;
/// The longest time that a thread looks for others to be asleep before it waits for other processes.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Stands for an endless wait in place of the last question.
const ENDLESS: u64 = u64::MAX;

/// Tells whether something is over. It is asked while nothing is locked: what it is asked about may end meanwhile.
type IsOver = Arc<dyn Fn() -> bool + Send + Sync>;

/// What a thread has asked for in vain since it has acted last.
#[derive(Default)]
struct Questions {
    /// Each with its address.
    things: Vec<(usize, IsOver)>,
    /// Questions for things that had been asked for before.
    again: u32,
    last_ns: u64,
}

impl Questions {
    /// Adds something that is asked for.
    fn add<T: Send + Sync + 'static>(
        &mut self,
        thing: &Arc<T>,
        is_over: impl Fn(&T) -> bool + Send + Sync + 'static,
    ) {
        let weak = Arc::downgrade(thing);
        let is_over = move || weak.upgrade().is_none_or(|thing| is_over(&thing));
        self.things.push((Arc::as_ptr(thing).addr(), Arc::new(is_over)));
    }

    /// Returns what has to be unfinished if this is a wait; `None`: it is none.
    fn of_a_wait(&self) -> Option<Vec<IsOver>> {
        let is_recent = self.last_ns == ENDLESS || clock::now_ns().saturating_sub(self.last_ns) < RECENT_NS;
        let is_over = |(_, is_over): &(usize, IsOver)| is_over.clone();
        (is_recent && self.again >= ASKED_AGAIN).then(|| self.things.iter().map(is_over).collect())
    }
}

/// The threads that poll or sleep.
static POLLING: Mutex<BTreeMap<u32, Questions>> = Mutex::new(BTreeMap::new());
/// The ranks of this process on declared machines.
static RANKS: Mutex<Vec<Weak<Participant>>> = Mutex::new(Vec::new());

thread_local! {
    static IS_POLLING: Cell<bool> = const { Cell::new(false) };
}

/// A rank of this process has a communicator on a declared machine.
pub fn note_rank(rank: &Arc<Participant>) {
    let mut ranks = RANKS.lock();
    ranks.retain(|known| known.strong_count() > 0 && !std::ptr::eq(known.as_ptr(), Arc::as_ptr(rank)));
    ranks.push(Arc::downgrade(rank));
}

/// The calling thread has asked for something that is not over. If it waits, lets the clocks of its process's machines go on as far as
/// they can meanwhile.
pub fn asked_in_vain<T: Send + Sync + 'static>(thing: &Arc<T>, is_over: fn(&T) -> bool) {
    let (me, key) = (process::tid(), Arc::as_ptr(thing).addr());
    {
        let mut polling = POLLING.lock();
        if !IS_POLLING.replace(true) {
            polling.retain(|&tid, _| tid != me && !process::has_ended(tid));
        }
        let questions = polling.entry(me).or_default();
        questions.last_ns = clock::now_ns();
        if questions.things.iter().any(|(known, _)| *known == key) {
            questions.again = questions.again.saturating_add(1);
        } else {
            questions.add(thing, is_over);
        }
    }
    if waits(me) {
        each_job(Participant::wait_in_poll);
    }
}

/// The calling thread has been told that something is over.
pub fn told_over<T>(thing: &Arc<T>) {
    let key = Arc::as_ptr(thing).addr();
    if IS_POLLING.get() {
        let is_news = |questions: &Questions| questions.things.iter().any(|(known, _)| *known == key);
        if POLLING.lock().get(&process::tid()).is_some_and(is_news) {
            act();
        }
    }
}

/// The calling thread waits for other processes, in a library that this one does not know, or has done so.
pub fn wait_elsewhere(begins: bool) {
    if !begins {
        act();
        return each_job(Participant::count_woken);
    }
    note_sleep(Questions { again: ASKED_AGAIN, last_ns: ENDLESS, ..Questions::default() });
    let until_ns = clock::now_ns() + PATIENCE_NS;
    // BOUND: the patience. Threads that have just finished something are on their way to sleep.
    while clock::now_ns() < until_ns {
        let holds = Cell::new(false);
        each_job(|rank| {
            rank.wait_in_poll();
            holds.set(holds.get() || rank.is_held_here());
        });
        if !holds.get() {
            return;
        }
        clock::sleep_until(clock::now_ns() + PAUSE_NS);
    }
}

/// The calling thread of the program has done something, so it is not away.
pub fn come_back() {
    each_job(Participant::come_back);
}

/// Does something with a rank of this process in each job that it has a rank in.
fn each_job(act: impl Fn(&Participant)) {
    let ranks: Vec<_> = RANKS.lock().iter().filter_map(Weak::upgrade).collect();
    let mut seen = BTreeSet::new();
    ranks
        .iter()
        .filter(|rank| !rank.has_left() && seen.insert(rank.process_ranks.number))
        .for_each(|rank| act(rank));
}

/// The calling thread does something else than to poll.
pub fn act() {
    if IS_POLLING.replace(false) {
        POLLING.lock().remove(&process::tid());
    }
}

/// A wait of the calling thread for something, until it is dropped.
pub struct Sleep(());

impl Sleep {
    /// Begins a wait that ends when this is over.
    pub fn begin<T: Send + Sync + 'static>(
        thing: &Arc<T>,
        is_over: impl Fn(&T) -> bool + Send + Sync + 'static,
    ) -> Sleep {
        let mut questions = Questions { again: ASKED_AGAIN, last_ns: ENDLESS, ..Questions::default() };
        questions.add(thing, is_over);
        note_sleep(questions);
        Sleep(())
    }
}

/// The calling thread sleeps until one of these is over.
fn note_sleep(questions: Questions) {
    IS_POLLING.set(true);
    POLLING.lock().insert(process::tid(), questions);
}

impl Drop for Sleep {
    fn drop(&mut self) {
        act();
    }
}

/// Tells whether a thread waits for streams or events, and nothing of what it waits for is over.
pub(super) fn waits(tid: u32) -> bool {
    let of_a_wait = POLLING.lock().get(&tid).and_then(Questions::of_a_wait);
    of_a_wait.is_some_and(|things| !things.iter().any(|is_over| is_over()))
}

impl Participant {
    pub(super) fn has_left(&self) -> bool {
        self.clock_segment().place(self.place()).left.load(Ordering::Acquire) != 0
    }

    /// Tells whether the calling thread or one of a stream holds the clock.
    fn is_held_here(&self) -> bool {
        let callers = self.process_ranks.all_callers();
        let lines = self.process_ranks.lines(self.clock_segment());
        let is_mine_or_a_streams = |tid: u32| tid == process::tid() || !callers.contains(&tid);
        lines.iter().any(|line| {
            line.now() == PRESENT
                && is_watched(line)
                && is_mine_or_a_streams(line.tid.load(Ordering::Acquire))
        })
    }

    /// Counts threads of streams again that the calling thread of the program may give something to do, and the thread itself.
    fn count_woken(&self) {
        let known = known();
        for line in self.process_ranks.lines(self.clock_segment()) {
            let tid = line.tid.load(Ordering::Acquire);
            if line.now() == BLOCKED && (tid == process::tid() || is_idle(&known, tid)) {
                self.count_unblocked(line);
            }
        }
        self.come_back();
    }

    /// Looks at the threads of this process for one that polls. If all others wait, the machine goes on.
    fn wait_in_poll(&self) {
        let (ranks, since_ns) = (&*self.process_ranks, clock::now_ns());
        let runs = self.clock_segment().header().running.load(Ordering::Acquire) > 0;
        if !runs || since_ns < ranks.next_look_in_poll_ns.load(Ordering::Relaxed) {
            return;
        }
        let Some(_notes) = ranks.notes.try_lock() else { return };
        self.look_at_threads();
        // Half of the time is for the program.
        let now_ns = clock::now_ns();
        let pause_ns = (now_ns - since_ns).max(PAUSE_NS);
        ranks.next_look_in_poll_ns.store(now_ns + pause_ns, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::prim::AtomicBool;

    fn is_set(flag: &AtomicBool) -> bool {
        flag.load(Ordering::Relaxed)
    }

    #[test]
    fn who_asks_for_the_same_again_and_again_waits_until_that_is_over() {
        let (me, flags) = (process::tid(), [(); 40].map(|()| Arc::new(AtomicBool::new(false))));
        let ask = |flag: &Arc<AtomicBool>| asked_in_vain(flag, is_set);
        // All of them once is no wait: one that has not been asked for may be over.
        flags.iter().for_each(ask);
        assert!(!waits(me));
        flags[..ASKED_AGAIN as usize].iter().for_each(ask);
        assert!(waits(me));
        flags[39].store(true, Ordering::Relaxed);
        assert!(!waits(me), "it goes on when it is told so");
        told_over(&Arc::new(AtomicBool::new(true)));
        flags[39].store(false, Ordering::Relaxed);
        assert!(waits(me), "what it did not ask for in vain is no news");
        told_over(&flags[39]);
        assert!(!waits(me));
        (0..ASKED_AGAIN).for_each(|_| ask(&flags[0]));
        assert!(!waits(me), "it has begun anew");
        ask(&flags[0]);
        assert!(waits(me));
        act();
        assert!(!waits(me));
    }
}
