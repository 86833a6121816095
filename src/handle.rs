//! Handles: what programs hold in place of the library's objects, and the one table behind them.
//!
//! ```text
//!     bits   63..56   55..16       15..0        0: no handle
//!            kind     generation   index        a program's own pointer: kind 0, so it is no handle either
//! ```
//!
//! A handle names its kind, so a stream passed as a communicator is recognised and refused by name; and its generation, so
//! one that was destroyed is recognised even where its place is used again. A place of a table is never freed, only used
//! again under the next generation: a look at any index is safe, and ten thousand objects one after another cost the memory
//! of one.
//!
//! [`Table`] is the table. [`Objects`] is one whose objects many threads look up often: each thread remembers the objects that
//! it used last, so a look is one load of a word that hardly ever changes. An object that is taken out lives on until the
//! threads that remember it use another one, or end.

use crate::error::Error;
use crate::sync::lock::Mutex;
use crate::sync::prim::{AtomicU64, Ordering};
use std::cell::RefCell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::thread::LocalKey;

const INDEX_BITS: u32 = 16;
const KIND_SHIFT: u32 = 56;
const LOW: u64 = (1 << KIND_SHIFT) - 1;

/// A kind of object that handles name, as a type.
pub trait Kind: 'static {
    /// Its number, never 0.
    const NUMBER: u8;
}

macro_rules! kinds {
    ($($number:literal $name:ident $words:literal $article:literal;)*) => {
        $(
            #[doc = concat!("The kind of ", $article, " ", $words, ".")]
            #[derive(Clone, Copy, Debug)]
            pub enum $name {}
            impl Kind for $name {
                const NUMBER: u8 = $number;
            }
        )*
        /// Returns the name of a kind, with its article.
        const fn called(number: u8) -> Option<&'static str> {
            match number {
                $($number => Some(concat!($article, " ", $words)),)*
                _ => None,
            }
        }
    };
}

kinds! {
    1 CommKind "communicator" "a";
    2 StreamKind "stream" "a";
    3 EventKind "event" "an";
    4 WindowKind "window" "a";
    5 MailboxKind "mailbox" "a";
    6 SemaphoreKind "semaphore" "a";
    7 KeyKind "key of a mailbox" "a";
    8 RegistrationKind "registration of a buffer" "a";
    9 RecordingKind "recording" "a";
}

/// Names one object of a kind in this process.
pub struct Handle<K> {
    bits: u64,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Handle<K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K> Copy for Handle<K> {}
impl<K> PartialEq for Handle<K> {
    fn eq(&self, other: &Self) -> bool {
        self.bits == other.bits
    }
}
impl<K> Eq for Handle<K> {}
impl<K> Hash for Handle<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bits.hash(state);
    }
}
impl<K> fmt::Debug for Handle<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({:#x})", self.bits)
    }
}

impl<K> Handle<K> {
    /// Returns the handle that a program passes; it need not name anything.
    #[inline]
    pub const fn from_bits(bits: u64) -> Handle<K> {
        Handle { bits, kind: PhantomData }
    }

    /// Returns the number that the program holds.
    #[inline]
    pub const fn bits(self) -> u64 {
        self.bits
    }

    /// Its place in its table.
    #[inline]
    pub const fn index(self) -> usize {
        (self.bits & ((1 << INDEX_BITS) - 1)) as usize
    }

    const fn kind(self) -> u8 {
        (self.bits >> KIND_SHIFT) as u8
    }
}

impl<K: Kind> Handle<K> {
    /// Returns the first handle of a place.
    pub const fn first(index: usize) -> Handle<K> {
        assert!(index < 1 << INDEX_BITS, "an index has 16 bits");
        Handle::from_bits((K::NUMBER as u64) << KIND_SHIFT | 1 << INDEX_BITS | index as u64)
    }

    /// Returns the next handle of the same place.
    pub const fn next(self) -> Handle<K> {
        Handle::from_bits(self.bits + (1 << INDEX_BITS))
    }

    /// Returns a handle of this kind that no [`Table`] gives: the low 56 bits are the caller's.
    pub const fn named(low: u64) -> Handle<K> {
        Handle::from_bits((K::NUMBER as u64) << KIND_SHIFT | low & LOW)
    }

    /// Returns the low 56 bits of a handle of this kind; `None`: it is of no or another kind.
    pub const fn low(self) -> Option<u64> {
        if self.kind() == K::NUMBER { Some(self.bits & LOW) } else { None }
    }

    /// Returns the refusal of the argument `name`, which names no live object of this kind: that it is of another kind, or else `stale`.
    #[cold]
    pub fn refusal(self, name: &str, stale: fmt::Arguments<'_>) -> Error {
        let wanted = called(K::NUMBER).unwrap_or_default();
        match called(self.kind()) {
            Some(other) if self.kind() != K::NUMBER => {
                Error::argument(format!("{name} is not {wanted}: that is {other}; pass {wanted}"))
            }
            _ => Error::argument(stale.to_string()),
        }
    }
}

/// The handles of one table. No two that are taken have the same index, and none is ever given twice.
struct Numbers<K> {
    most: usize,
    unused: Mutex<Unused<K>>,
}

struct Unused<K> {
    /// Given back, under the generation that they had.
    again: Vec<Handle<K>>,
    /// Indices below this one have been used.
    fresh: usize,
}

impl<K: Kind> Numbers<K> {
    const fn up_to(most: usize) -> Numbers<K> {
        assert!(most <= 1 << INDEX_BITS, "an index has 16 bits");
        Numbers { most, unused: Mutex::new(Unused { again: Vec::new(), fresh: 0 }) }
    }

    /// Takes an unused handle. `None`: the table is full.
    fn take(&self) -> Option<Handle<K>> {
        let mut unused = self.unused.lock();
        if let Some(last) = unused.again.pop() {
            return Some(last.next());
        }
        let index = unused.fresh;
        (index < self.most).then(|| {
            unused.fresh += 1;
            Handle::first(index)
        })
    }

    fn give_back(&self, handle: Handle<K>) {
        self.unused.lock().again.push(handle);
    }
}

/// Places of a table that are made at a time.
const CHUNK: usize = 64;

/// A place and whether it is live. Cache lines of its own, in pairs as the processor fetches them: neighbours belong to other threads.
#[repr(align(128))]
struct Slot<S> {
    /// The live handle, 0 if none.
    live: AtomicU64,
    place: S,
}

/// The places of the handles of one kind, made as they are needed and never freed: `CHUNKS` times 64 at most.
pub struct Table<K, S: 'static, const CHUNKS: usize> {
    chunks: [OnceLock<Box<[Slot<S>; CHUNK]>>; CHUNKS],
    numbers: Numbers<K>,
}

impl<K: Kind, S: Default, const CHUNKS: usize> Table<K, S, CHUNKS> {
    /// The most handles that can be live at once.
    pub const MOST: usize = CHUNK * CHUNKS;

    /// Makes an empty table.
    pub const fn new() -> Table<K, S, CHUNKS> {
        Table { chunks: [const { OnceLock::new() }; CHUNKS], numbers: Numbers::up_to(CHUNK * CHUNKS) }
    }

    #[inline]
    fn slot(&self, handle: Handle<K>) -> Option<&Slot<S>> {
        let index = handle.index();
        self.chunks.get(index / CHUNK)?.get().map(|chunk| &chunk[index % CHUNK])
    }

    /// Takes a handle that names nothing until it is [opened](Table::open). `None`: the table is full.
    pub fn reserve(&self) -> Option<Handle<K>> {
        let handle = self.numbers.take()?;
        self.chunks[handle.index() / CHUNK].get_or_init(|| {
            // Made on the heap: a chunk of communicators is larger than many a thread's stack.
            let empty = || Slot { live: AtomicU64::new(0), place: S::default() };
            let chunk: Vec<_> = std::iter::repeat_with(empty).take(CHUNK).collect();
            chunk.try_into().unwrap_or_else(|_| unreachable!("a chunk has that many places"))
        });
        Some(handle)
    }

    /// Makes a reserved handle live, after its place was filled.
    pub fn open(&self, handle: Handle<K>) {
        let slot = self.slot(handle).expect("a reserved handle has a place");
        // ORDER: publishes what the place holds; partner: the load in `live`.
        slot.live.store(handle.bits, Ordering::Release);
    }

    /// Makes a handle stale. Its place stays the caller's until it is [released](Table::release).
    pub fn close(&self, handle: Handle<K>) {
        if let Some(slot) = self.slot(handle) {
            slot.live.store(0, Ordering::Release);
        }
    }

    /// Gives a reserved or closed handle back.
    pub fn release(&self, handle: Handle<K>) {
        self.numbers.give_back(handle);
    }

    /// Finds the place of a handle, whether it is live or not.
    pub fn place(&self, handle: Handle<K>) -> Option<&S> {
        self.slot(handle).map(|slot| &slot.place)
    }

    /// Finds the place of a live handle. Under a lock in the place it must be asked for again: another thread may have closed
    /// the handle meanwhile.
    #[inline]
    pub fn live(&self, handle: Handle<K>) -> Option<&S> {
        let slot = self.slot(handle)?;
        (handle.bits != 0 && slot.live.load(Ordering::Acquire) == handle.bits).then_some(&slot.place)
    }

    /// Lists the live handles and their places.
    pub fn all(&self) -> impl Iterator<Item = (Handle<K>, &S)> {
        let slots = self.chunks.iter().filter_map(OnceLock::get).flat_map(|chunk| chunk.iter());
        slots.filter_map(|slot| {
            let bits = slot.live.load(Ordering::Acquire);
            (bits != 0).then_some((Handle::from_bits(bits), &slot.place))
        })
    }
}

/// Objects that a thread remembers. Neighbours in the table have places of their own: a thread that drives several ranks uses their
/// objects in turn.
const REMEMBERED: usize = 4;

/// The objects that a thread used last.
pub type Remembered<K, T> = RefCell<[Option<(Handle<K>, Arc<T>)>; REMEMBERED]>;

/// Remembers nothing yet.
pub const fn nothing_remembered<K, T>() -> Remembered<K, T> {
    RefCell::new([const { None }; REMEMBERED])
}

/// Shared objects of one kind, by handle.
pub struct Objects<K: 'static, T: 'static> {
    table: Table<K, Mutex<Option<Arc<T>>>, 256>,
    remembered: &'static LocalKey<Remembered<K, T>>,
}

impl<K: Kind, T> Objects<K, T> {
    /// Makes an empty table. `remembered` is a thread-local of this table alone.
    pub const fn new(remembered: &'static LocalKey<Remembered<K, T>>) -> Objects<K, T> {
        Objects { table: Table::new(), remembered }
    }

    /// Puts an object in. `None`: the table is full.
    pub fn insert(&self, object: Arc<T>) -> Option<Handle<K>> {
        let handle = self.reserve()?;
        self.fill(handle, object);
        Some(handle)
    }

    /// Takes a handle that is stale until it is [filled](Objects::fill). `None`: the table is full.
    pub fn reserve(&self) -> Option<Handle<K>> {
        self.table.reserve()
    }

    /// Puts an object behind a reserved handle.
    pub fn fill(&self, handle: Handle<K>, object: Arc<T>) {
        if let Some(place) = self.table.place(handle) {
            *place.lock() = Some(object);
            self.table.open(handle);
        }
    }

    /// Gives a reserved handle back.
    pub fn release(&self, handle: Handle<K>) {
        self.table.release(handle);
    }

    /// Takes an object out; from now on its handle is stale.
    pub fn remove(&self, handle: Handle<K>) -> Option<Arc<T>> {
        let mut place = self.table.live(handle)?.lock();
        self.table.live(handle)?;
        self.table.close(handle);
        let object = place.take();
        drop(place);
        self.table.release(handle);
        let _ = self.remembered.try_with(|remembered| {
            if let Ok(mut last) = remembered.try_borrow_mut() {
                last[handle.index() % REMEMBERED].take_if(|(of, _)| *of == handle);
            }
        });
        object
    }

    /// Uses an object. `None`: the handle names none of these.
    #[inline]
    pub fn with<R>(&self, handle: Handle<K>, body: impl FnOnce(&Arc<T>) -> R) -> Option<R> {
        self.table.live(handle)?;
        let mut body = Some(body);
        let used = self.remembered.try_with(|remembered| {
            let body = body.take()?;
            let at = handle.index() % REMEMBERED;
            if let Ok(last) = remembered.try_borrow()
                && let Some((of, object)) = &last[at]
                && *of == handle
            {
                return Some(body(object));
            }
            let object = self.get(handle)?;
            if let Ok(mut last) = remembered.try_borrow_mut() {
                last[at] = Some((handle, object.clone()));
            }
            Some(body(&object))
        });
        // A thread that runs its last destructors remembers nothing.
        used.unwrap_or_else(|_| Some(body.take()?(&self.get(handle)?)))
    }

    /// Finds the object itself, for longer than a call.
    pub fn get(&self, handle: Handle<K>) -> Option<Arc<T>> {
        let place = self.table.live(handle)?.lock();
        // Looked at again under the lock: another object may be here by now.
        self.table.live(handle).and_then(|_| place.clone())
    }

    /// Lists all objects, to find those of one communicator.
    pub fn all(&self) -> Vec<(Handle<K>, Arc<T>)> {
        self.table.all().filter_map(|(handle, _)| Some((handle, self.get(handle)?))).collect()
    }
}

#[cfg(test)]
#[path = "handle_tests.rs"]
mod tests;
