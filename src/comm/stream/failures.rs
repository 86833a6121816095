//! What failed on a stream, until somebody has been told.

use crate::error::{Error, Result};
use crate::sync::lock::Mutex;

/// The first failures that were not reported yet.
#[derive(Default)]
pub(super) struct Failures(Mutex<Untold>);

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
        let mut untold = self.0.lock();
        untold.unsynchronized.get_or_insert_with(|| error.clone());
        untold.unrecorded.get_or_insert_with(|| error.clone());
    }

    /// Returns the first failure that no synchronisation has reported.
    pub fn untold(&self) -> Result<()> {
        self.0.lock().unsynchronized.take().map_or(Ok(()), Err)
    }

    /// Returns the first failure since the last event.
    pub fn unrecorded(&self) -> Option<Error> {
        self.0.lock().unrecorded.take()
    }
}
