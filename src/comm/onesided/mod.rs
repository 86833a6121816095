//! One-sided access of a communicator: making symmetric heaps, windows, signals, semaphores, registered buffers.

pub(in crate::comm) mod deferred_free;
pub(in crate::comm) mod registered;
pub(in crate::comm) mod remote_copy;
pub(in crate::comm) mod semaphore;
pub(in crate::comm) mod shmem;
pub(in crate::comm) mod signals;
pub(in crate::comm) mod symmetric;
pub(in crate::comm) mod window;
