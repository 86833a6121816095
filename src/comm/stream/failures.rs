//! What failed on a stream, until a call has reported it.

use crate::error::{Error, Result};
use crate::sync::lock::Mutex;
use crate::sync::prim::{AtomicBool, Ordering};

/// The first failures that were not reported yet.
#[derive(Default)]
pub(super) struct Failures {
    untold: Mutex<Untold>,
    /// No synchronisation has told of a failure. Changes under the lock.
    is_any_unsynchronized: AtomicBool,
}

#[derive(Default)]
struct Untold {
    /// Since the last synchronisation.
    unsynchronized: Option<Error>,
    /// Since the last event.
    unrecorded: Option<Error>,
}

impl Failures {
    /// Notes a failure.
    pub fn add(&self, error: &Error) {
        let mut untold = self.untold.lock();
        untold.unsynchronized.get_or_insert_with(|| error.clone());
        untold.unrecorded.get_or_insert_with(|| error.clone());
        self.is_any_unsynchronized.store(true, Ordering::Relaxed);
    }

    /// Returns the first failure that no synchronisation has reported. Calls that are over have noted theirs.
    pub fn untold(&self) -> Result<()> {
        if !self.is_any_unsynchronized.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut untold = self.untold.lock();
        self.is_any_unsynchronized.store(false, Ordering::Relaxed);
        untold.unsynchronized.take().map_or(Ok(()), Err)
    }

    /// Returns the first failure since the last event.
    pub fn unrecorded(&self) -> Option<Error> {
        self.untold.lock().unrecorded.take()
    }
}
