//! Words that ranks share: the atomics, posting and waiting.

pub mod bell;
pub mod count;
pub mod prim;
pub mod wait;

#[cfg(all(loom, test))]
mod models;
