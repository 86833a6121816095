//! Which threads wait inside the library just now, so that others of their process can tell a thread that waits from one that
//! acts.
//!
//! A thread that waits there polls, yields and naps, which the kernel cannot tell from work. So it writes down that it waits,
//! how many waits it has begun, and how often it has looked in vain. It does not count as waiting while it runs a function of
//! the program, or whatever else ends the wait.

use crate::sync::prim::{AtomicU32, AtomicU64, Ordering};
use std::cell::OnceCell;
use std::sync::Arc;

/// What a thread writes down about its waits.
#[derive(Default)]
pub struct WaitNote {
    phase: AtomicU32,
    turn: AtomicU64,
    looks: AtomicU64,
}

/// A thread that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrentWait {
    /// The number of the wait.
    pub turn: u64,
    /// How often it has looked for everything that ends the wait, in vain; `None`: other threads of its process end it, and it
    /// does not look.
    pub looks: Option<u64>,
}

const ACTS: u32 = 0;
const POLLS: u32 = 1;
const FOR_THREADS: u32 = 2;
const FOR_WORK: u32 = 3;

impl WaitNote {
    /// Tells whether the thread waits for work that other threads of its process give it.
    pub fn is_idle(&self) -> bool {
        // ORDER: as in `waits`.
        self.phase.load(Ordering::Acquire) == FOR_WORK
    }

    /// Returns the wait that the thread is in; `None` also while it is idle.
    pub fn waits(&self) -> Option<CurrentWait> {
        // ORDER: partner of the stores in `NotedWait`: what the thread did before the wait is visible.
        let phase = self.phase.load(Ordering::Acquire);
        let looks = (phase == POLLS).then(|| self.looks.load(Ordering::Acquire));
        matches!(phase, POLLS | FOR_THREADS)
            .then(|| CurrentWait { turn: self.turn.load(Ordering::Acquire), looks })
    }

    /// Returns the same for the calling thread, during what it does in a wait that looks again and again.
    pub fn own_wait(&self) -> Option<CurrentWait> {
        let (turn, looks) = (self.turn.load(Ordering::Relaxed), Some(self.looks.load(Ordering::Relaxed)));
        Some(CurrentWait { turn, looks })
    }
}

thread_local! {
    static NOTE: OnceCell<Arc<WaitNote>> = const { OnceCell::new() };
}

/// Returns the calling thread's note; from now on its waits are written there.
pub fn own() -> Arc<WaitNote> {
    NOTE.try_with(|note| note.get_or_init(Arc::default).clone()).unwrap_or_default()
}

/// A wait of the calling thread, until it is dropped.
pub struct NotedWait(Option<(Arc<WaitNote>, u32)>);

impl NotedWait {
    /// Begins a wait that looks again and again.
    pub fn polling() -> NotedWait {
        NotedWait::begin(POLLS)
    }

    /// Begins a wait for threads that work for the calling one.
    pub fn for_threads() -> NotedWait {
        NotedWait::begin(FOR_THREADS)
    }

    /// Begins a wait for work that other threads give the calling one.
    pub fn idle() -> NotedWait {
        NotedWait::begin(FOR_WORK)
    }

    fn begin(phase: u32) -> NotedWait {
        let note = NOTE.try_with(|note| note.get().cloned()).ok().flatten();
        if let Some(note) = &note {
            note.turn.fetch_add(1, Ordering::Relaxed);
            // ORDER: publishes what the thread did before; partner: `WaitNote::waits`.
            note.phase.store(phase, Ordering::Release);
        }
        NotedWait(note.map(|note| (note, phase)))
    }

    /// Notes a look at everything that ends the wait, in vain.
    pub fn looked(&self) {
        if let Some((note, _)) = &self.0 {
            note.looks.fetch_add(1, Ordering::Release);
        }
    }

    /// Does something during which the thread does not count as waiting.
    #[inline]
    pub fn acting<T>(&self, work: impl FnOnce() -> T) -> T {
        let Some((note, phase)) = &self.0 else { return work() };
        note.phase.store(ACTS, Ordering::Relaxed);
        let done = work();
        // ORDER: as in `begin`.
        note.phase.store(*phase, Ordering::Release);
        done
    }
}

impl Drop for NotedWait {
    fn drop(&mut self) {
        if let Some((note, _)) = &self.0 {
            note.phase.store(ACTS, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_waits_from_the_beginning_of_its_wait_to_the_end_but_for_what_it_does_there() {
        drop(NotedWait::polling());
        let note = own();
        assert_eq!(note.waits(), None, "nothing is written before a caller asks");
        let waiting = NotedWait::polling();
        assert_eq!(note.waits(), Some(CurrentWait { turn: 1, looks: Some(0) }));
        assert_eq!(waiting.acting(|| note.waits()), None);
        waiting.looked();
        assert_eq!(note.waits(), Some(CurrentWait { turn: 1, looks: Some(1) }));
        drop(waiting);
        assert_eq!(note.waits(), None);
        let waiting = NotedWait::for_threads();
        assert_eq!(note.waits(), Some(CurrentWait { turn: 2, looks: None }));
        drop(waiting);
        let idle = NotedWait::idle();
        assert_eq!((note.waits(), note.is_idle()), (None, true));
        drop(idle);
        assert!(!note.is_idle());
    }
}
