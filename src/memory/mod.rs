//! Segments, the shareable heap, and raw views of payload.
//!
//! Nothing in shared memory is a pointer and nothing in it is trusted: what crosses is offsets, and every offset that
//! is read from a peer is range-checked where it becomes a [`view::Payload`].

mod alias;
pub mod arena;
pub mod control;
pub mod heap;
pub mod mailbox;
pub mod registered;
pub mod segment;
pub mod view;
pub mod word;
