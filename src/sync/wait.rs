//! The one way to wait for another rank. Within a process, threads wait for each other's counts (`count.rs`).
//!
//! A wait ends on data, on what the watch reports (a peer's death, an abort, a disagreement), on the deadline, or because the
//! program wants its thread back (`sys/interrupt.rs`).
//! It spins while a hand-off between cores is likely (0.1 us), then yields, because the rank that it waits for may need this very
//! core, and only late sleeps on its bell, because a futex wake across cores costs tens of microseconds. A ring
//! without the awaited data makes it yield again before it sleeps (docs/decisions/0092). Where no other rank has been seen on this core it spins for longer before it yields: it would give
//! the core to strangers.

use super::doorbell::{Announced, Doorbell, SETTLED, Sleepers};
use super::prim::{AtomicU32, Ordering, pause};
use super::wait_time::WaitTime;
use crate::sys::interrupt::{self, Interrupted};
use crate::sys::progress_hook::{self, WaitHook};
use crate::sys::waiting::NotedWait;
use crate::sys::{clock, cpu, futex};
use std::cell::Cell;
use std::time::Duration;

/// The number of polls before a waiter yields. It adapts: it grows where spinning succeeded, and shrinks where a single
/// yield did, because the peer needed this core.
#[derive(Debug)]
pub struct Backoff {
    /// Polls before the first yield.
    spins: AtomicU32,
    /// The upper limit of `spins`.
    most: u32,
    /// Yields before the first sleep, and after a ring in vain where each rank can have a core.
    yields: u32,
    /// Each rank can have a core.
    fits: bool,
    /// Polls before the first yield where no other rank is on this core, in looks at where the others are.
    looks: u32,
    /// Polls between two of these.
    polls_a_look: u32,
    /// The processor pauses between two polls.
    pauses: bool,
}

/// The processors of the ranks that a thread may wait for.
pub trait Neighbours {
    /// Writes down the calling thread's core, and tells whether another rank was last seen on it.
    fn are_on_this_core(&self) -> bool;
    /// The calling thread has announced that it sleeps, and looks once more.
    fn falls_asleep(&self) {}
}

impl Backoff {
    /// Makes the backoff for `ranks` ranks on this host's cores; `spins`: the user's limit of polls, if there is one.
    pub fn for_ranks(ranks: usize, spins: Option<u32>) -> Backoff {
        Backoff::new(ranks <= cpu::usable_cores(), spins)
    }

    fn new(fits: bool, spins: Option<u32>) -> Backoff {
        let most = spins.unwrap_or(if fits { 1000 } else { 100 });
        Backoff {
            spins: AtomicU32::new(most),
            most,
            yields: if fits { 4000 } else { 2000 },
            fits,
            looks: if fits && spins.is_none() { PATIENCE / POLLS_A_LOOK } else { 0 },
            polls_a_look: POLLS_A_LOOK,
            pauses: true,
        }
    }

    /// Makes the backoff for threads of one rank that are more than the cores: each sleeps soon, since those that yield make the
    /// one that can go on wait for its turn.
    pub fn for_crowds() -> Backoff {
        Backoff { yields: YIELDS_IN_A_CROWD, ..Backoff::new(false, Some(0)) }
    }

    /// The same where each poll is a system call: as long polling is fewer polls, and nothing is spared by pauses between them.
    pub fn with_costly_polls(self) -> Backoff {
        let most = self.most.min(self.most / COST + 1);
        let polls_a_look = self.polls_a_look / COST;
        Backoff { spins: AtomicU32::new(most), most, polls_a_look, pauses: false, ..self }
    }

    /// Makes the backoff for some of the ranks that this one is for.
    pub fn for_child(&self, spins: Option<u32>) -> Backoff {
        Backoff::new(self.fits, spins)
    }

    #[inline]
    fn pause(&self) {
        if self.pauses {
            pause();
        }
    }

    /// Polls as long as a waiter does before it yields for the first time. Tells whether it is ready.
    #[inline]
    pub fn spin(&self, mut ready: impl FnMut() -> bool) -> bool {
        let spins = if BESIDE.get() { 0 } else { self.spins.load(Ordering::Relaxed) };
        // BOUND: `spins` polls.
        for _ in 0..spins {
            if ready() {
                self.spinning_paid(spins);
                return true;
            }
            self.pause();
        }
        false
    }

    fn spinning_paid(&self, spins: u32) {
        self.spins.store((spins + spins / 8 + 8).min(self.most), Ordering::Relaxed);
    }

    fn yielding_paid(&self, spins: u32) {
        self.spins.store(spins / 2, Ordering::Relaxed);
    }
}

/// Looks at memory that take as long as a poll by a system call.
const COST: u32 = 32;
/// Polls before the first yield where no other rank is on this core: about a quarter of a millisecond
/// (docs/decisions/0031-patience.md).
const PATIENCE: u32 = 16_000;
/// Polls between two looks at where the other ranks are.
const POLLS_A_LOOK: u32 = 1000;

/// Yields before the first sleep of a thread that has more threads of its rank beside it than there are cores.
const YIELDS_IN_A_CROWD: u32 = 2;
/// Yields before the first sleep of a thread that gives way.
const YIELDS_BESIDE: u32 = 32;

thread_local! {
    static BESIDE: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread works beside the program's own, which may need this core for something better than waiting: from now on
/// it sleeps soon.
pub fn give_way() {
    BESIDE.set(true);
}

/// A sleeper looks up by itself this often: a killed peer rings no bell.
pub const NAP: Duration = Duration::from_millis(4);
/// Polls without a pause at the start: the common hand-off is over within these, between cores that share no cache, too.
const EAGER: u32 = 128;
/// The number of yields within which a wait ends if the peer needed this core.
const PROMPT: u32 = 3;
/// Yields between two looks at the watch and the clock.
const YIELDS_A_LOOK: u32 = 16;

/// Polls for as long as a hand-off between two running cores takes.
#[inline]
pub fn eagerly(mut ready: impl FnMut() -> bool) -> bool {
    // BOUND: `EAGER` polls.
    (0..EAGER).any(|_| ready())
}

/// Polls for as long as a peer that is at work takes for the next piece of it.
#[inline(never)]
pub fn while_at_work(mut ready: impl FnMut() -> bool) -> bool {
    // BOUND: a microsecond or two.
    (0..3 * EAGER).any(|_| ready())
}

/// Waits for what other threads of this process do. `sleep`: sleeps until it may be done; false: there is nothing to sleep for any
/// more, and the wait ends although it is not ready.
pub fn for_threads(
    mut ready: impl FnMut() -> bool,
    mut sleep: impl FnMut() -> bool,
) -> Result<(), Interrupted> {
    let mut yields = 0;
    let mut hook = WaitHook::default();
    // BOUND: what is waited for is under way.
    while !ready() {
        interrupt::look_now()?;
        if hook.look() || yields < YIELDS_BESIDE {
            yields = yields.wrapping_add(1);
            cpu::yield_now();
        } else if !sleep() {
            break;
        }
    }
    Ok(())
}

/// The environment of a wait.
pub struct Waiter<'a> {
    /// The backoff: when to yield and when to sleep.
    pub backoff: &'a Backoff,
    /// The bell of the rank that waits.
    pub doorbell: &'a Doorbell,
    /// The communicator's count of sleeping ranks.
    pub sleepers: &'a Sleepers,
    /// The clock's value at which to give up; `u64::MAX`: never.
    pub deadline_ns: u64,
    /// The longest sleep: what it waits for may come without a ring.
    pub nap: Duration,
    /// The other ranks; `None` if it is not known where they are.
    pub neighbours: Option<&'a dyn Neighbours>,
    /// Where the wait is counted. Its first polls are not.
    pub time: Option<&'a WaitTime>,
}

impl Waiter<'_> {
    /// Waits until `ready`. `watch` reports what else ends the wait; `expired` words the deadline's error.
    ///
    /// Try [`eagerly`] first: most hand-offs are over by then, and neither the clock nor a `Waiter` is needed.
    #[cold]
    #[inline(never)]
    pub fn until<E: From<Interrupted>>(
        &self,
        mut ready: impl FnMut() -> bool,
        watch: impl FnMut() -> Result<(), E>,
        expired: impl FnOnce() -> E,
    ) -> Result<(), E> {
        if self.backoff.spin(&mut ready) { Ok(()) } else { self.until_after_spinning(ready, watch, expired) }
    }

    /// The same behind [`Backoff::spin`], which was in vain.
    #[cold]
    #[inline(never)]
    pub fn until_after_spinning<E: From<Interrupted>>(
        &self,
        mut ready: impl FnMut() -> bool,
        mut watch: impl FnMut() -> Result<(), E>,
        expired: impl FnOnce() -> E,
    ) -> Result<(), E> {
        let beside = BESIDE.get();
        let spins = if beside { 0 } else { self.backoff.spins.load(Ordering::Relaxed) };
        let most_yields = if beside { YIELDS_BESIDE } else { self.backoff.yields };
        let mut is_shared = true;
        let mut counted = None;
        if !beside && self.backoff.looks > 0 && !progress_hook::is_set() {
            // BOUND: `looks` times `polls_a_look` polls.
            for _ in 0..self.backoff.looks {
                is_shared = self.neighbours.is_none_or(Neighbours::are_on_this_core);
                if is_shared {
                    break;
                }
                for _ in 0..self.backoff.polls_a_look {
                    if ready() {
                        self.backoff.spinning_paid(spins);
                        return Ok(());
                    }
                    self.backoff.pause();
                }
                // Only now: two looks at the clock would show in a wait that is over within some microseconds.
                if counted.is_none() {
                    counted = self.time.and_then(|time| time.begin(clock::now_ns()));
                }
            }
        }
        let mut yields: u32 = 0;
        let mut hook = WaitHook::default();
        let waiting = NotedWait::polling();
        let mut has_watched = false;
        let mut first_ns = None;
        let mut announced = None;
        // BOUND: the watch or the deadline, both looked at every YIELDS_A_LOOK yields and after every nap.
        loop {
            if ready() {
                match yields {
                    _ if beside || !is_shared => {}
                    0 => self.backoff.spinning_paid(spins),
                    1..=PROMPT => self.backoff.yielding_paid(spins),
                    _ => {}
                }
                return Ok(());
            }
            if has_watched {
                waiting.looked();
            }
            has_watched = yields.is_multiple_of(YIELDS_A_LOOK);
            if has_watched {
                if let Err(why) = waiting.acting(&mut watch) {
                    // What was posted before the bad news still counts.
                    return if ready() { Ok(()) } else { Err(why) };
                }
                let now_ns = clock::now_ns();
                first_ns.get_or_insert(now_ns);
                if now_ns >= self.deadline_ns {
                    return if ready() { Ok(()) } else { Err(expired()) };
                }
                waiting.acting(|| interrupt::look(now_ns))?;
            }
            // A wait that ends within a few yields is not worth a second look at the clock.
            if yields >= PROMPT.min(most_yields) && counted.is_none() {
                counted = self.time.zip(first_ns).and_then(|(time, now_ns)| time.begin(now_ns));
            }
            if waiting.acting(|| hook.look()) || yields < most_yields {
                yields = yields.wrapping_add(1);
                cpu::yield_now();
            } else {
                yields = match self.nap(&mut announced, &mut ready) {
                    Nap::Ready => return Ok(()),
                    // Other ranks are at work: a waiter that sleeps again at once is woken for each of their slices.
                    Nap::Rung if self.backoff.fits => {
                        announced = None;
                        YIELDS_A_LOOK
                    }
                    Nap::Rung | Nap::Over => most_yields.next_multiple_of(YIELDS_A_LOOK),
                };
            }
        }
    }

    /// Sleeps until the bell rings or it is time to look up. `announced`: the announcement of sleep, which stays.
    fn nap<'a>(&'a self, announced: &mut Option<Announced<'a>>, ready: &mut impl FnMut() -> bool) -> Nap {
        let nap = if announced.is_some() { self.nap } else { self.nap.min(SETTLED) };
        announced.get_or_insert_with(|| self.doorbell.announce(self.sleepers));
        let ticket = self.doorbell.ticket();
        self.neighbours.inspect(|others| others.falls_asleep());
        if ready() {
            return Nap::Ready;
        }
        #[cfg(not(loom))]
        futex::wait(self.doorbell.word(), ticket, nap);
        #[cfg(loom)]
        let _ = (ticket, nap, futex::wake_all);
        if self.doorbell.has_rung_since(ticket) { Nap::Rung } else { Nap::Over }
    }
}

/// How a nap ended.
enum Nap {
    /// What is waited for came before it began. That may have changed something, as where an amount is taken, so it must not be asked again.
    Ready,
    /// The bell rang.
    Rung,
    /// It is time to look up.
    Over,
}

#[cfg(all(test, not(loom)))]
#[path = "wait_tests.rs"]
mod tests;
