//! One-sided access: a rank reads and writes the memory of others, and these need not be in any call.
//!
//! ```text
//!     rank 0's heap   | .... | region: x y z | ...        a region lies anywhere in each rank's shareable heap, and x has
//!     rank 1's heap   | region: x y z | ..........        the same offset in it on all ranks: an address of one's own x
//!                       ^base      ^base + offset         names everybody's x
//! ```
//!
//! - A [`Region`] is such a range: a segment of the symmetric heap, or a window that ranks have registered.
//! - A [`SymmetricMemory`] is one rank's symmetric heap: puts and gets (`put.rs`), signals and waiting (`signal.rs`), atomic
//!   operations (`atomics.rs`). Its methods take no lock, so all threads of a rank may use them at once.
//!
//! On a declared machine the same takes the time that it takes there ([`crate::timing`]).
//!
//! A put is a store by the caller's own core: it has happened when it returns, and it becomes visible in the order in which
//! the caller made it. So a fence only has to hold the compiler and the store buffer, and **quiet* never has to wait. To a rank of another host
//! a put is a request, which that rank's process carries out (`far.rs`): a rank's requests to one other keep their order, and quiet waits until
//! they are done.
//! What a program may rely on is less, and is what the documentation of the C functions says.

mod atomics;
mod far;
mod mesh;
mod put;
mod race;
mod recorded;
mod region;
mod remote_copy;
pub mod semaphore;
mod signal;
mod symmetric_memory;
mod wait;

pub use crate::memory::word::{AtomicOp, Change};
pub use atomics::{Atomic, answer, operand};
pub use mesh::{Device, MESH_DIMS, Mesh};
pub use put::{Strided, copy_across};
pub use race::Races;
pub use region::Region;
pub use remote_copy::{ByteSemaphore, RemoteCopy};
pub use signal::SignalOp;
pub use symmetric_memory::SymmetricMemory;
pub use wait::{Comparison, Several};
