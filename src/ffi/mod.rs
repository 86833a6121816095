//! The C ABI: check, convert, call. No logic.
//!
//! ```text
//!     C caller --> guard.rs     defines every exported function: admits each parameter, stops panics,
//!                    |          keeps the last error
//!                    |-- types.rs, config.rs, handle.rs    what crosses, and how each type is admitted
//!                    '-- library, communicator, memory, collectives, vector, point_to_point, group, stream, window, fabric,
//!                        channel, shmem, semaphore, remote_copy, mailbox:
//!                        one file an API family; each body is one call into `comm`
//! ```
//!
//! The documentation of the functions is written for C programmers, because it becomes `include/penny.h`. What holds
//! for all of them (lifetimes, threads, errors, in-place rules, the type-operation matrix) is in `include/README.md`.
//! The names are C's. Rust programs may call them too; each is `unsafe` for the pointers that it is given.

#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]
// The contract of each pointer is in the functions' C documentation.
#![allow(clippy::missing_safety_doc)]

#[macro_use]
mod guard;
mod handle;
mod types;

mod channel;
mod collectives;
mod communicator;
mod config;
mod fabric;
mod group;
mod library;
mod mailbox;
mod memory;
mod point_to_point;
mod remote_copy;
mod semaphore;
mod shmem;
mod stream;
mod vector;
mod window;

pub use channel::*;
pub use collectives::*;
pub use communicator::*;
pub use config::*;
pub use fabric::*;
pub use group::*;
pub use handle::*;
pub use library::*;
pub use mailbox::*;
pub use memory::*;
pub use point_to_point::*;
pub use remote_copy::*;
pub use semaphore::*;
pub use shmem::*;
pub use stream::*;
pub use types::*;
pub use vector::*;
pub use window::*;
