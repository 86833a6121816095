//! Mailboxes: one message to any set of threads of any rank.
//!
//! Each rank has one mailbox in its shareable heap, for up to 64 of its threads. A message is copied once, into a slot of the
//! *destination's* mailbox, and each addressed thread's queue gets the slot's number.
//!
//! ```text
//!     rank 0                                   rank 1's mailbox
//!     thread 3                                     slots    | | |m| | |           one copy, to be freed by three
//!      '- send slot --- mask 1011, copy ----------------------'
//!                                                  queues   thread 0  .. m
//!                                                           thread 1  .. .. m
//!                                                           thread 2  ..
//!                                                           thread 3  m
//! ```
//!
//! - `slots.rs`: the life of a slot; free slots; the commit by which a message comes to all its receivers or to none yet.
//! - `queues.rs`: the order in which threads receive messages.
//! - `idle.rs`: the detection of the end of all work.
//! - `thread_state.rs`: the state of one thread: its position and the messages that it holds. One operating system thread
//!   at a time uses it.
//! - `set.rs`: all mailboxes of a communicator as one rank sees them; `send.rs`, `receive.rs` and `idle_wait.rs` are the
//!   calls of its threads: send, receive and free, be idle. `key.rs`: messages to threads of several ranks by a programmed
//!   key.
//! - `far.rs`: mailboxes of ranks on other hosts, whose processes insert what is sent to them; `idle_count.rs`: the count of idle threads, on this
//!   host or another.
//! - `timed.rs`: the time of these calls on a declared machine.
//!
//! No call takes a lock of this process: all threads of a rank call at once. Senders to one mailbox insert in turns, for as long
//! as it takes to write the queues' entries; a message's copy is not part of that. A full mailbox blocks only its
//! senders: a sender's own slot is free again when the call returns.
//!
//! A mailbox's memory is fixed when it is made. Every wait ends: with its message, a rank's death, an abort, the
//! mailbox's end, or the deadline.

mod far;
mod idle;
mod idle_count;
mod idle_wait;
mod key;
#[cfg(all(loom, test))]
#[allow(unsafe_code)]
mod models;
mod planted;
mod queues;
mod receive;
mod recorded;
mod send;
mod set;
mod slots;
mod thread_state;
mod timed;

pub use far::MailboxService;
pub use idle_wait::{Rest, Want};
pub use key::{KeyEntry, KeyId};
pub use receive::Message;
pub use set::{Mailboxes, prepare};

#[cfg(test)]
pub use crate::memory::mailbox::FLIT;
pub use crate::memory::mailbox::MailboxShape;

/// A count that one thread at a time changes and others read.
type Counter = crate::sync::prim::model::AtomicU64;
