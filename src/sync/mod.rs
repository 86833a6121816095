//! Words that ranks share: the atomics, posting and waiting.

pub mod lock;
pub mod prim;
pub mod wait;

pub mod biased;
pub mod desk;
pub mod doorbell;
pub mod event_count;
pub mod lent;
pub mod listed;
#[cfg(all(loom, test))]
mod models;
pub mod parallel_for;
pub mod wait_time;
