//! The streams that the program made, by handle.
//!
//! A thread remembers those that it used last, until any stream is taken out: the table's lock would move between the cores of threads
//! that look, at each of their calls.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::handles::{self, Handle, Table};
use crate::stream::Stream;

static STREAMS: Table<Stream> = Table::new();
/// Streams that were taken out.
static REMOVED: AtomicU64 = AtomicU64::new(0);
/// Streams that a thread remembers.
const REMEMBERED: usize = 4;
/// A handle, `REMOVED` when it was found, and its stream.
type Remembered = Option<(usize, u64, Arc<Stream>)>;

thread_local! {
    static LAST: RefCell<[Remembered; REMEMBERED]> = const { RefCell::new([const { None }; REMEMBERED]) };
}

/// Adds a stream under a number.
pub fn insert(number: usize, stream: Arc<Stream>) {
    STREAMS.insert(number, stream);
}

/// Takes a stream out.
pub fn remove(handle: Handle) -> Option<Arc<Stream>> {
    let taken = STREAMS.remove(handle);
    REMOVED.fetch_add(1, Ordering::Release);
    taken
}

/// Returns all streams with their numbers.
pub fn all() -> Vec<(usize, Arc<Stream>)> {
    STREAMS.all()
}

/// Returns the stream of a handle.
pub fn get(handle: Handle) -> Option<Arc<Stream>> {
    let removed = REMOVED.load(Ordering::Acquire);
    let found = LAST.try_with(|last| {
        let mut last = last.try_borrow_mut().ok()?;
        let place = &mut last[(handle.addr() / handles::STEP) % REMEMBERED];
        if let Some((of, at, stream)) = place
            && (*of, *at) == (handle.addr(), removed)
        {
            return Some(stream.clone());
        }
        let stream = STREAMS.get(handle)?;
        *place = Some((handle.addr(), removed, stream.clone()));
        Some(stream)
    });
    // A thread that runs its last destructors remembers nothing.
    found.ok().flatten().or_else(|| STREAMS.get(handle))
}
