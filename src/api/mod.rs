//! The safe Rust front: owning types over `comm`, with slices for buffers.
//!
//! ```text
//!     Communicator ---- all_reduce(&send, &mut recv, op) ----> request.rs ---> comm     made at once
//!     Group<'a> ------- queues requests, end() --------------> request.rs ---> comm     keeps the borrows until it ends
//!     streams(|s| ..) - queues on worker threads, joins them - request.rs ---> comm     keeps them for the whole scope
//!     SharedVec, SymmetricHeap, Mailbox ---------------------> comm                     memory that peers reach
//! ```
//!
//! What makes it sound is in three places: `element.rs` turns slices into memory that a call may use, and makes values of
//! what came; a [`Group`] runs its calls inside [`Group::end`] only, so that one that is forgotten runs none; and
//! [`streams`](stream::streams) returns only when its streams are idle.

mod builder;
mod communicator;
mod element;
mod group;
mod mailbox;
pub(crate) mod names;
mod request;
mod shared;
mod stream;
mod symmetric;
#[cfg(test)]
mod tests;
mod threads;

pub use builder::CommunicatorBuilder;
pub use communicator::Communicator;
pub use element::{Bf16, Element, F8E4M3, F8E5M2, F16, Plain, Word};
pub use group::Group;
pub use mailbox::{Destination, Mailbox, MailboxThread, Received};
pub use shared::SharedVec;
pub use stream::{Event, Stream, Streams, streams};
pub use symmetric::{Reduction, SymmetricHeap, SymmetricVec};
pub use threads::on_threads;
