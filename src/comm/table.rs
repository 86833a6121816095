//! Handles of what hangs on a communicator (windows, semaphores, mailboxes): index and generation, as for communicators.
//!
//! Many threads of a rank look the same object up at once, and often: a look is one load of a word that hardly ever
//! changes, because each thread remembers what it used last. An object that is taken out lives on until the threads that
//! remember it use another one, or end; so it must do no harm by that.

use super::registry::{Handle, Numbers, ignore_poison};
use crate::sync::prim::{AtomicU64, Ordering};
use std::cell::RefCell;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::LocalKey;

const CHUNK: usize = 64;
const CHUNKS: usize = 256;

/// Objects of one kind, by handle.
pub(super) struct Table<T: 'static> {
    chunks: [OnceLock<Box<[Slot<T>; CHUNK]>>; CHUNKS],
    numbers: Numbers,
    remembered: &'static LocalKey<Remembered<T>>,
}

/// What a thread used last.
pub(super) type Remembered<T> = RefCell<Option<(Handle, Arc<T>)>>;

struct Slot<T> {
    /// The live handle, 0 if none.
    handle: AtomicU64,
    body: Mutex<Option<Arc<T>>>,
}

impl<T> Table<T> {
    /// Empty. `remembered` is a thread-local of this table alone.
    pub const fn new(remembered: &'static LocalKey<Remembered<T>>) -> Table<T> {
        let numbers = Numbers::up_to(CHUNK * CHUNKS);
        Table { chunks: [const { OnceLock::new() }; CHUNKS], numbers, remembered }
    }

    fn slot(&self, handle: Handle) -> Option<&Slot<T>> {
        let index = handle.index();
        self.chunks.get(index / CHUNK)?.get().map(|chunk| &chunk[index % CHUNK])
    }

    /// Is there an object behind the handle?
    #[inline]
    pub fn is_live(&self, handle: Handle) -> bool {
        handle.0 != 0 && self.slot(handle).is_some_and(|slot| slot.handle.load(Ordering::Acquire) == handle.0)
    }

    /// Put an object in. `None`: the table is full.
    pub fn insert(&self, object: Arc<T>) -> Option<Handle> {
        let handle = self.numbers.take()?;
        let index = handle.index();
        let empty = || Slot { handle: AtomicU64::new(0), body: Mutex::new(None) };
        let chunk = self.chunks[index / CHUNK].get_or_init(|| Box::new(std::array::from_fn(|_| empty())));
        *ignore_poison(&chunk[index % CHUNK].body) = Some(object);
        // ORDER: publishes the object; partner: the load in `is_live`.
        chunk[index % CHUNK].handle.store(handle.0, Ordering::Release);
        Some(handle)
    }

    /// Take an object out; from now on its handle is stale.
    pub fn remove(&self, handle: Handle) -> Option<Arc<T>> {
        let slot = self.slot(handle)?;
        let mut body = ignore_poison(&slot.body);
        if handle.0 == 0 || slot.handle.load(Ordering::Acquire) != handle.0 {
            return None;
        }
        slot.handle.store(0, Ordering::Release);
        let object = body.take();
        drop(body);
        self.numbers.give_back(handle);
        self.remembered.with(|remembered| {
            if let Ok(mut last) = remembered.try_borrow_mut() {
                last.take_if(|(of, _)| *of == handle);
            }
        });
        object
    }

    /// Use an object. `None`: the handle is stale, or was never one.
    #[inline]
    pub fn with<R>(&self, handle: Handle, body: impl FnOnce(&T) -> R) -> Option<R> {
        if !self.is_live(handle) {
            return None;
        }
        self.remembered.with(|remembered| {
            if let Ok(last) = remembered.try_borrow()
                && let Some((of, object)) = &*last
                && *of == handle
            {
                return Some(body(object));
            }
            let object = self.get(handle)?;
            if let Ok(mut last) = remembered.try_borrow_mut() {
                *last = Some((handle, object.clone()));
            }
            Some(body(&object))
        })
    }

    /// The object itself, for longer than a call.
    pub fn get(&self, handle: Handle) -> Option<Arc<T>> {
        let slot = self.slot(handle)?;
        let body = ignore_poison(&slot.body);
        // Looked at under the lock: another object may be here by now.
        (handle.0 != 0 && slot.handle.load(Ordering::Acquire) == handle.0).then(|| body.clone()).flatten()
    }

    /// All objects, to find those of one communicator.
    pub fn all(&self) -> Vec<(Handle, Arc<T>)> {
        let chunks = self.chunks.iter().filter_map(OnceLock::get);
        let live = |slot: &Slot<T>| {
            let body = ignore_poison(&slot.body);
            body.clone().map(|object| (Handle(slot.handle.load(Ordering::Acquire)), object))
        };
        chunks.flat_map(|chunk| chunk.iter()).filter_map(live).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static LAST: Remembered<u32> = const { RefCell::new(None) };
    }
    static TABLE: Table<u32> = Table::new(&LAST);

    #[test]
    fn a_stale_handle_is_refused_even_where_its_place_is_used_again() {
        let first = TABLE.insert(Arc::new(7)).unwrap();
        assert_eq!(TABLE.with(first, |x| *x), Some(7));
        assert_eq!(TABLE.remove(first).as_deref(), Some(&7));
        assert_eq!((TABLE.with(first, |x| *x), TABLE.remove(first)), (None, None));
        let second = TABLE.insert(Arc::new(8)).unwrap();
        assert_ne!(first, second);
        assert_eq!((TABLE.with(first, |x| *x), TABLE.with(second, |x| *x)), (None, Some(8)));
        assert_eq!(TABLE.with(Handle(0), |x| *x), None);
        assert_eq!(TABLE.with(Handle(u64::MAX), |x| *x), None);
        assert!(TABLE.all().iter().any(|(handle, _)| *handle == second));
    }
}
