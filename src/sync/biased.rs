//! A lock that costs nothing to the thread that takes it again and again.
//!
//! Taking and opening a lock by instructions that read and write at once takes as long as all else that a call of a few bytes does in its
//! own process: each waits until the stores before it have left the core (docs/decisions/0104). So a thread that has taken the lock many times in a row
//! becomes its favourite, and goes in by a store and a load. Every other thread takes the slow path, and first ends the favour:
//!
//! ```text
//!     favourite                            another thread
//!     inside = 1                           taken: 0 -> 1
//!     favourite == me ? go in              favourite = 0; all threads pass a barrier
//!     ...                                  inside == 0 ? go in
//!     inside = 0
//!     favourite == me ? done, else wake    else wait, or give up
//! ```
//!
//! Either the favourite sees that the favour has ended, or the other thread sees that the favourite is inside: the favourite has no barrier of its own,
//! but the other thread's is passed by all ([`crate::sys::barrier`]). Each favour has an `inside` of its own, so a thread that finds out late that it
//! is the favourite no more writes to no other's. A barrier takes microseconds, so each time that a favour ends the next one takes longer to
//! win, and after seven there is none.

use super::prim::model::{AtomicU32, AtomicU64, Ordering};
use crate::sys::{barrier, thread};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// How often in a row a thread takes the lock before it is the favourite, at first; each time that a favour ends it is `STRICTER` times as
/// often.
const FIRST: u64 = if cfg!(loom) { 1 } else { 64 };
const STRICTER: u64 = if cfg!(loom) { 1 } else { 4 };
/// The most favours of a lock.
const FAVOURS: u32 = 7;
/// The bits of a favourite that are the favour's number, from 1 on. Those of a thread's number are 0.
const FAVOUR: u64 = 7;
/// Looks at a lock before a thread sleeps, or gives up waiting for a former favourite to find out.
const LOOKS: u32 = if cfg!(loom) { 1 } else { 200 };

/// No thread, and no favour.
const NOBODY: u64 = 0;

/// States of `taken`.
const OPEN: u32 = 0;
const TAKEN: u32 = 1;
const WAITED_FOR: u32 = 2;

/// A lock that one thread holds at a time (see the head of this file).
#[derive(Default)]
pub struct BiasedMutex<T> {
    /// The thread that goes in by the fast path, and the number of its favour.
    favourite: AtomicU64,
    /// By favour. 1: the favourite is inside.
    inside: [AtomicU32; FAVOURS as usize + 1],
    /// Whether a thread has taken the slow path.
    taken: AtomicU32,
    habit: UnsafeCell<Habit>,
    value: UnsafeCell<T>,
}

/// The record of the threads that take the lock by the slow path: which became its holder last, and how often in a row.
struct Habit {
    /// The thread that has taken it last, and how often in a row.
    last: u64,
    times: u64,
    /// How often that has to be.
    needed: u64,
    /// Favours so far.
    favours: u32,
}

impl Default for Habit {
    fn default() -> Habit {
        Habit { last: NOBODY, times: 0, needed: FIRST, favours: 0 }
    }
}

// SAFETY: a guard gives one thread at a time access to the value, as a standard lock's does; so does `taken` to the habit.
unsafe impl<T: Send> Sync for BiasedMutex<T> {}

impl<T> BiasedMutex<T> {
    /// Takes the lock if no thread holds it.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<BiasedGuard<'_, T>> {
        self.take_as(thread::number())
    }

    /// Waits for the lock and takes it.
    pub fn lock(&self) -> BiasedGuard<'_, T> {
        self.lock_as(thread::number())
    }

    fn lock_as(&self, me: u64) -> BiasedGuard<'_, T> {
        if let Some(guard) = self.take_as(me) {
            return guard;
        }
        if !(0..LOOKS).any(|_| self.take() || self.pause()) {
            // ORDER: as in `take`.
            while self.taken.swap(WAITED_FOR, Ordering::Acquire) != OPEN {
                sleep(&self.taken, WAITED_FOR);
            }
        }
        let inside = self.end_favour();
        // ORDER: what the favourite did inside is seen; partner: the stores in `leave`.
        while inside.load(Ordering::Acquire) != 0 {
            sleep(inside, 1);
        }
        self.go_in(me)
    }

    #[inline(always)]
    fn take_as(&self, me: u64) -> Option<BiasedGuard<'_, T>> {
        let favourite = self.favourite.load(Ordering::Relaxed);
        if favourite & !FAVOUR != me {
            return self.take_long(me);
        }
        let favour = favourite & FAVOUR;
        let inside = &self.inside[favour as usize];
        if inside.load(Ordering::Relaxed) != 0 {
            return None;
        }
        inside.store(1, Ordering::Relaxed);
        light();
        if self.favourite.load(Ordering::Relaxed) == favourite {
            return Some(self.guard(favour));
        }
        self.leave(favour);
        self.take_long(me)
    }

    /// Takes the lock as a thread that is not its favourite.
    #[inline(never)]
    fn take_long(&self, me: u64) -> Option<BiasedGuard<'_, T>> {
        if !self.take() {
            return None;
        }
        let favourite = self.favourite.load(Ordering::Relaxed);
        // A favourite that is inside keeps its favour.
        let is_inside =
            favourite != NOBODY && self.inside[(favourite & FAVOUR) as usize].load(Ordering::Relaxed) != 0;
        if is_inside {
            self.open();
            return None;
        }
        let inside = self.end_favour();
        // It may just be finding out that it is the favourite no more. ORDER: as in `lock_as`.
        if !(0..LOOKS).any(|_| inside.load(Ordering::Acquire) == 0 || self.pause()) {
            self.open();
            return None;
        }
        Some(self.go_in(me))
    }

    /// Takes the slow path, if no thread is on it.
    fn take(&self) -> bool {
        // ORDER: what was done inside is seen; partner: the exchange in `open`.
        self.taken.compare_exchange(OPEN, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Lets some time pass. Always false.
    fn pause(&self) -> bool {
        super::prim::pause();
        false
    }

    /// Ends the favour, if there is one, as the thread that has taken the slow path. Returns the word of the latest favour.
    fn end_favour(&self) -> &AtomicU32 {
        // SAFETY: `taken` is this thread's.
        let habit = unsafe { &mut *self.habit.get() };
        if self.favourite.load(Ordering::Relaxed) != NOBODY {
            self.favourite.store(NOBODY, Ordering::Relaxed);
            heavy();
            (habit.times, habit.needed) = (0, habit.needed.saturating_mul(STRICTER));
        }
        &self.inside[habit.favours as usize]
    }

    /// Goes in, as the thread that has taken the slow path and found nobody inside.
    fn go_in(&self, me: u64) -> BiasedGuard<'_, T> {
        // SAFETY: `taken` is this thread's.
        let habit = unsafe { &mut *self.habit.get() };
        habit.times = if habit.last == me { habit.times + 1 } else { 1 };
        habit.last = me;
        self.guard(NOBODY)
    }

    #[inline(always)]
    fn guard(&self, favour: u64) -> BiasedGuard<'_, T> {
        BiasedGuard { lock: self, favour, stays: PhantomData }
    }

    /// Leaves as the favourite of this favour.
    #[inline(always)]
    fn leave(&self, favour: u64) {
        let inside = &self.inside[(favour & FAVOUR) as usize];
        // ORDER: publishes what was done inside; partner: the loads in `lock_as` and `take_long`.
        inside.store(0, Ordering::Release);
        light();
        if self.favourite.load(Ordering::Relaxed) & FAVOUR != favour {
            wake(inside);
        }
    }

    /// Leaves after the slow path. The calling thread, which is the last that has taken it, becomes the favourite if it has won that.
    #[inline(never)]
    fn leave_long(&self) {
        // SAFETY: `taken` is this thread's.
        let habit = unsafe { &mut *self.habit.get() };
        // Only now: as the favourite it would come in once more.
        if habit.times >= habit.needed && habit.favours < FAVOURS && may_favour() {
            habit.favours += 1;
            self.favourite.store(habit.last | u64::from(habit.favours), Ordering::Relaxed);
        }
        self.open();
    }

    fn open(&self) {
        // ORDER: publishes what was done inside; partner: the exchange in `take`.
        if self.taken.swap(OPEN, Ordering::Release) == WAITED_FOR {
            wake(&self.taken);
        }
    }
}

/// A thread inside the lock, until this is dropped, by that thread.
pub struct BiasedGuard<'a, T> {
    lock: &'a BiasedMutex<T>,
    /// The favour by which it went in; `NOBODY`: it took the slow path.
    favour: u64,
    stays: PhantomData<*const ()>,
}

impl<T> Deref for BiasedGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: one guard exists at a time.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for BiasedGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for BiasedGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.favour == NOBODY { self.lock.leave_long() } else { self.lock.leave(self.favour) }
    }
}

/// Tells whether a favour can be ended again.
fn may_favour() -> bool {
    cfg!(loom) || barrier::is_ready()
}

/// The favourite's barrier: the compiler's alone, since the other side's is passed by all threads.
#[inline(always)]
fn light() {
    #[cfg(not(loom))]
    super::prim::compiler_fence(Ordering::SeqCst);
    #[cfg(loom)]
    super::prim::model::fence(Ordering::SeqCst);
}

/// The barrier of the thread that ends a favour.
#[cold]
fn heavy() {
    #[cfg(not(loom))]
    barrier::pass_everywhere();
    #[cfg(loom)]
    super::prim::model::fence(Ordering::SeqCst);
}

/// Sleeps while a word has a value, without end: a thread that waits for a lock may do nothing else meanwhile.
#[cold]
fn sleep(word: &AtomicU32, value: u32) {
    #[cfg(not(loom))]
    crate::sys::futex::wait_without_end(word, value);
    #[cfg(loom)]
    {
        let _ = (word, value);
        loom::thread::yield_now();
    }
}

/// Wakes the threads that sleep on a word.
#[cold]
fn wake(word: &AtomicU32) {
    #[cfg(not(loom))]
    crate::sys::futex::wake_all(word);
    #[cfg(loom)]
    let _ = word;
}

#[cfg(all(test, not(loom)))]
#[path = "biased_tests.rs"]
mod tests;

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::cell;
    use loom::sync::Arc;
    use loom::thread;

    type Counted = BiasedMutex<cell::UnsafeCell<u64>>;
    const ONE: u64 = 8;
    const OTHER: u64 = 16;

    fn add(guard: Option<BiasedGuard<'_, cell::UnsafeCell<u64>>>) -> bool {
        // SAFETY: loom checks that no other thread is inside.
        guard.map(|inside| inside.with_mut(|value| unsafe { *value += 1 })).is_some()
    }

    fn of_two(others: impl Fn(&Counted) + Send + Sync + Copy + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let lock = Arc::new(Counted::default());
            add(lock.take_long(ONE));
            assert_eq!(lock.favourite.load(Ordering::Relaxed), ONE | 1);
            let theirs = lock.clone();
            let other = thread::spawn(move || others(&theirs));
            for _ in 0..2 {
                add(lock.take_as(ONE));
            }
            other.join().unwrap();
            assert!(add(lock.take_as(ONE)), "nobody is inside");
        });
    }

    #[test]
    fn model_of_a_favourite_and_another_thread() {
        of_two(|lock| drop(add(lock.take_long(OTHER))));
    }

    #[test]
    fn model_of_two_favourites_one_after_another() {
        of_two(|lock| {
            add(lock.take_long(OTHER));
            add(lock.take_as(OTHER));
        });
    }

    #[test]
    fn model_of_a_favourite_and_a_thread_that_waits() {
        of_two(|lock| assert!(add(Some(lock.lock_as(OTHER)))));
    }
}
