//! One-sided access of a communicator: making symmetric heaps, windows, signals, semaphores, registered buffers.

pub(super) mod deferred_free;
pub(super) mod range;
pub(super) mod registered;
pub(super) mod registrations;
pub(super) mod remote_copy;
pub(super) mod semaphore;
pub(super) mod shmem;
pub(super) mod signal_counters;
pub(super) mod signals;
pub(super) mod symmetric;
pub(super) mod symmetric_books;
pub(super) mod window;
pub(super) mod window_table;
pub(super) mod zero_copy;
