//! Handles: numbers behind which objects lie in a table. All kinds count with one counter and no number is given twice, so a handle
//! of another kind, or of an object that is gone, is in no table.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// What C holds: a number that looks like a pointer.
pub type Handle = *mut c_void;

/// The first handle. No program has its memory there.
const FIRST: usize = 0x2_0000_0000;

/// From one handle to the next.
pub const STEP: usize = 16;

/// Returns a number that no other object has.
pub fn fresh() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(FIRST);
    NEXT.fetch_add(STEP, Ordering::Relaxed)
}

/// Returns the number as C's pointer.
pub fn to_c(number: usize) -> Handle {
    std::ptr::without_provenance_mut(number)
}

/// Locks a mutex. A panic under it is told by its own call; the data are whole.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The live objects of one kind.
pub struct Table<T>(RwLock<BTreeMap<usize, Arc<T>>>);

impl<T> Table<T> {
    /// Makes an empty table.
    pub const fn new() -> Table<T> {
        Table(RwLock::new(BTreeMap::new()))
    }

    /// Adds an object under a number.
    pub fn insert(&self, number: usize, object: Arc<T>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(number, object);
    }

    /// Returns the object of a handle.
    pub fn get(&self, handle: Handle) -> Option<Arc<T>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&handle.addr()).cloned()
    }

    /// Takes an object out.
    pub fn remove(&self, handle: Handle) -> Option<Arc<T>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&handle.addr())
    }

    /// Returns all objects with their numbers.
    pub fn all(&self) -> Vec<(usize, Arc<T>)> {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        table.iter().map(|(number, object)| (*number, object.clone())).collect()
    }
}
