//! The library's locks: the standard library's without poison.
//!
//! A panic under a lock is caught at the interface, where it becomes an error, and what the lock guards stays usable: no
//! holder leaves it half written. The words of a lock hold its whole state, so a forked child finds each lock as the
//! forking thread left it. What each small call takes has a lock of its own ([`super::biased`]). Protocols that loom checks use the locks in [`super::prim::model`].

use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

pub use std::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// A lock that one thread holds at a time.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Makes an open lock.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    /// Waits for the lock and takes it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock if no thread holds it.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A lock that many threads hold at a time to read, or one to write.
#[derive(Debug, Default)]
pub struct RwLock<T>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Waits until no thread writes, and takes the lock to read.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other thread holds the lock, and takes it to write.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place where threads sleep that have found the guarded value not to be what they wait for.
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    /// Makes a place in which no thread sleeps.
    pub const fn new() -> Condvar {
        Condvar(std::sync::Condvar::new())
    }

    /// Opens the lock, sleeps until notified or for `most`, and takes the lock again.
    pub fn wait_timeout<'a, T>(&self, guard: MutexGuard<'a, T>, most: Duration) -> MutexGuard<'a, T> {
        self.0.wait_timeout(guard, most).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes every sleeping thread.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panic_with<G>(take: impl FnOnce() -> G + Send) {
        let panics = || {
            let _held = take();
            std::panic::resume_unwind(Box::new("planted"))
        };
        assert!(std::thread::scope(|scope| scope.spawn(panics).join()).is_err());
    }

    #[test]
    fn a_lock_whose_holder_panicked_opens_as_before() {
        let (one, many) = (Mutex::new(1), RwLock::<u32>::default());
        panic_with(|| one.lock());
        panic_with(|| many.write());
        assert_eq!(one.try_lock().map(|value| *value), Some(1));
        assert_eq!(*one.lock(), 1);
        *many.write() += 2;
        assert_eq!(*many.read(), 2);
    }
}
