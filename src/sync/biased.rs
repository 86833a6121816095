//! A lock that costs nothing to the thread that takes it again and again.
//!
//! Taking and opening a lock by instructions that read and write at once takes as long as all else that a call of a few bytes does in its
//! own process: each waits until the stores before it have left the core (docs/decisions/0104). So a thread that has taken the lock many times in a row
//! becomes its favourite, and goes in by a store and a load. Every other thread takes the long way, and first ends the favour:
//!
//! ```text
//!     favourite                            another thread
//!     inside = 1                           taken: 0 -> 1
//!     favourite == me ? go in              favourite = 0; all threads pass a barrier
//!     ...                                  inside == 0 ? go in
//!     inside = 0
//! ```
//!
//! Either the favourite sees that it is none any more, or the other thread sees that it is inside: the favourite has no barrier of its own, but the
//! other thread's is passed by all ([`crate::sys::barrier`]). Such a barrier takes microseconds, so each time a favour ends the next one takes longer
//! to win.

use super::prim::model::{AtomicU64, Ordering};
use super::prim::pause;
use crate::sys::{barrier, cpu, thread};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// How often in a row a thread takes the lock before it is the favourite, at first; each time that a favour ends it is [`STRICTER`] times as
/// often.
const FIRST: u64 = 64;
const STRICTER: u64 = 4;
/// Looks at a lock that is held before the core is given away, looks before the thread sleeps, and the length of each sleep.
const LOOKS: u32 = 200;
const YIELDED: u32 = 250;
const NAP: Duration = Duration::from_micros(50);

/// No thread.
const NOBODY: u64 = 0;

/// A lock that one thread holds at a time (see the head of this file).
#[derive(Default)]
pub struct BiasedMutex<T> {
    /// The thread that goes in by the short way.
    favourite: AtomicU64,
    /// 1: it is inside.
    inside: AtomicU64,
    /// 1: a thread has taken the long way.
    taken: AtomicU64,
    habit: UnsafeCell<Habit>,
    value: UnsafeCell<T>,
}

/// Who takes the lock by the long way.
struct Habit {
    /// The thread that has taken it last, and how often in a row.
    last: u64,
    times: u64,
    /// How often that has to be.
    needed: u64,
}

impl Default for Habit {
    fn default() -> Habit {
        Habit { last: NOBODY, times: 0, needed: FIRST }
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
        let mut looks = 0;
        // BOUND: the thread that is inside goes.
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            looks += 1;
            match looks {
                0..LOOKS => pause(),
                LOOKS..YIELDED => cpu::yield_now(),
                _ => {
                    looks = YIELDED;
                    std::thread::sleep(NAP);
                }
            }
        }
    }

    #[inline(always)]
    fn take_as(&self, me: u64) -> Option<BiasedGuard<'_, T>> {
        if self.favourite.load(Ordering::Relaxed) != me {
            return self.take_long(me);
        }
        if self.inside.load(Ordering::Relaxed) != 0 {
            return None;
        }
        self.inside.store(1, Ordering::Relaxed);
        light();
        if self.favourite.load(Ordering::Relaxed) == me {
            return Some(self.guard(true));
        }
        // ORDER: nothing was done inside; partner: the load in `take_long`.
        self.inside.store(0, Ordering::Release);
        self.take_long(me)
    }

    /// Takes the lock as a thread that is not its favourite.
    #[inline(never)]
    fn take_long(&self, me: u64) -> Option<BiasedGuard<'_, T>> {
        // ORDER: what was done inside is seen; partner: the store in `open`.
        self.taken.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).ok()?;
        // SAFETY: `taken` is this thread's.
        let habit = unsafe { &mut *self.habit.get() };
        if self.favourite.load(Ordering::Relaxed) != NOBODY {
            self.favourite.store(NOBODY, Ordering::Relaxed);
            heavy();
            (habit.times, habit.needed) = (0, habit.needed.saturating_mul(STRICTER));
        }
        // ORDER: what the favourite did inside is seen; partner: the store in `drop`.
        if self.inside.load(Ordering::Acquire) != 0 {
            self.taken.store(0, Ordering::Release);
            return None;
        }
        habit.times = if habit.last == me { habit.times + 1 } else { 1 };
        habit.last = me;
        Some(self.guard(false))
    }

    #[inline(always)]
    fn guard(&self, is_favourite: bool) -> BiasedGuard<'_, T> {
        BiasedGuard { lock: self, is_favourite, stays: PhantomData }
    }

    /// Opens the lock after the long way.
    #[inline(never)]
    fn open(&self) {
        // SAFETY: `taken` is this thread's.
        let habit = unsafe { &*self.habit.get() };
        // Only now: as the favourite it would come in once more.
        if habit.times >= habit.needed && barrier::is_ready() {
            self.favourite.store(habit.last, Ordering::Relaxed);
        }
        // ORDER: publishes what was done inside; partner: the exchange in `take_long`.
        self.taken.store(0, Ordering::Release);
    }
}

/// A thread inside the lock, until this is dropped, by that thread.
pub struct BiasedGuard<'a, T> {
    lock: &'a BiasedMutex<T>,
    is_favourite: bool,
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
        match self.is_favourite {
            // ORDER: publishes what was done inside; partner: the load in `take_long`.
            true => self.lock.inside.store(0, Ordering::Release),
            false => self.lock.open(),
        }
    }
}

/// The favourite's barrier: the compiler's alone, since the other side's is passed by all threads.
#[inline(always)]
fn light() {
    #[cfg(not(loom))]
    super::prim::compiler_fence(Ordering::SeqCst);
    #[cfg(loom)]
    super::prim::model::fence(Ordering::SeqCst);
}

/// The barrier of who ends a favour.
#[cold]
fn heavy() {
    #[cfg(not(loom))]
    barrier::pass_everywhere();
    #[cfg(loom)]
    super::prim::model::fence(Ordering::SeqCst);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn favour<T>(lock: &BiasedMutex<T>) {
        barrier::prepare();
        // BOUND: as often as it takes to become the favourite.
        for _ in 0..FIRST {
            drop(lock.try_lock());
        }
    }

    #[test]
    fn who_takes_it_many_times_in_a_row_is_its_favourite_until_another_comes() {
        let lock = BiasedMutex::<u32>::default();
        favour(&lock);
        assert_eq!(lock.favourite.load(Ordering::Relaxed) == thread::number(), barrier::is_ready());
        std::thread::scope(|scope| {
            scope.spawn(|| *lock.lock() += 1);
        });
        assert_eq!(lock.favourite.load(Ordering::Relaxed), NOBODY);
        favour(&lock);
        assert_eq!(lock.favourite.load(Ordering::Relaxed), NOBODY, "the second time it takes longer");
        assert_eq!(*lock.lock(), 1);
    }

    #[test]
    fn nobody_comes_in_while_a_thread_is_inside() {
        let lock = BiasedMutex::<u32>::default();
        for is_favourite in [false, true] {
            let inside = lock.try_lock().expect("nobody is inside");
            assert!(lock.try_lock().is_none(), "the thread itself, favourite: {is_favourite}");
            std::thread::scope(|scope| {
                scope.spawn(|| assert!(lock.try_lock().is_none(), "another one, favourite: {is_favourite}"));
            });
            drop(inside);
            favour(&lock);
        }
    }

    #[test]
    fn a_favourite_and_others_are_inside_one_at_a_time() {
        const TIMES: u64 = 20_000;
        let lock = BiasedMutex::<[u64; 2]>::default();
        let add = |pause: u64| {
            for i in 0..TIMES / pause {
                let mut inside = lock.lock();
                inside[0] += 1;
                assert_eq!(inside[0], inside[1] + 1);
                inside[1] += 1;
                drop(inside);
                if i % 64 == 0 && pause > 1 {
                    std::thread::yield_now();
                }
            }
        };
        favour(&lock);
        std::thread::scope(|scope| {
            scope.spawn(|| add(200));
            scope.spawn(|| add(100));
            add(1);
        });
        assert_eq!(lock.lock()[0], TIMES + TIMES / 100 + TIMES / 200);
    }

    #[test]
    fn a_lock_whose_holder_panicked_opens_as_before() {
        let lock = BiasedMutex::<u32>::default();
        for times in 1..=2 {
            let panics = || {
                *lock.lock() += 1;
                let _held = lock.try_lock();
                std::panic::resume_unwind(Box::new("planted"))
            };
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
            assert_eq!(lock.try_lock().map(|value| *value), Some(times));
            favour(&lock);
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::cell;
    use loom::sync::Arc;
    use loom::thread;

    /// A favourite and another thread, each of which goes in if it may.
    #[test]
    fn model_of_a_favourite_and_another_thread() {
        loom::model(|| {
            let lock = Arc::new(BiasedMutex::<cell::UnsafeCell<u64>>::default());
            lock.favourite.store(1, Ordering::Relaxed);
            let add = |guard: Option<BiasedGuard<'_, cell::UnsafeCell<u64>>>| match guard {
                // SAFETY: loom checks that no other thread is inside.
                Some(inside) => inside.with_mut(|value| unsafe { *value += 1 }),
                None => {}
            };
            let theirs = lock.clone();
            let other = thread::spawn(move || add(theirs.take_long(2)));
            for _ in 0..2 {
                add(lock.take_as(1));
            }
            other.join().unwrap();
            add(lock.take_long(2));
        });
    }
}
