//! Penny: collectives between processes over shared memory.
//!
//! **A collective is a plan; an executor runs the plan on real memory; a fabric prices the same plan in time.**
//!
//! ```text
//!     C / C++ / Rust / Python program
//!             |
//!           ffi            the C ABI: check, convert, call. No logic.
//!             |
//!           comm           a communicator: who is in it, groups, abort, errors
//!          /     \
//!     planner     exec     decide which plan        run a plan: slices, progress, deadlines
//!        |         |  \
//!     algorithms   |   fabric      what it would take on the declared links
//!        |         |     |
//!     plan <-------+-----+         the vocabulary between deciding, moving and pricing
//!                  |
//!       transport, mailbox, onesided, bootstrap
//!                  |
//!         memory -> sync -> sys    segments and heaps; flags and waiting; system calls
//! ```
//!
//! Three ideas carry the design. Algorithms are pure and a plan is data. Every rank publishes one number, its program
//! counter, and every wait is a wait for a peer's counter to pass a value that the plans fix beforehand. Every wait is
//! bounded: it ends on data, on a peer's death, on abort or on the deadline.
//!
//! # Glossary
//!
//! | word | meaning |
//! |---|---|
//! | rank | one member of a communicator; a process, or a thread of one |
//! | peer | another rank |
//! | buffer | the user's memory |
//! | block | `count` elements of a buffer; the unit that collectives address by rank |
//! | chunk | one part of one block: the planner's piece |
//! | slice | as much of a chunk as fits a slot: the executor's piece |
//! | step | one motion of a plan: fold operands, keep, pass on |
//! | plan | one rank's program of steps |
//! | lane | one NIC's channel |
//! | segment | one shared mapping |
//! | twin | the range of the heap that stands for a registered buffer |
//! | slot | a place in a segment where a rank stages what others will read |
//! | arrival | the line by which a rank tells the others which call it has entered |
//! | card | what a process tells the others of itself: PID, start time, PID namespace |
//! | attendance | a rank's connection to the meeting, open until the rank has joined |
//! | cause | the rank or process because of which the first rank to give up did so |
//! | flag | a word that one rank posts and others wait on |
//! | place | where a rank stands on a declared machine |
//! | port | one direction of one wire's end of such a machine; it serves one message at a time |
//! | board | the segment by which ranks on a declared machine share its time |
//! | post, ticket | what a rank on it is about to do, and that with which it waits for the answer |
//! | region | a range of memory that every rank has, at an address of its own |
//! | domain | one rank's symmetric heap |
//! | semaphore | a counter in a rank's memory that any rank adds to and only its own takes from |
//! | mesh | the ranks' coordinates, as a program declares them |
//! | ledger | who has written where and who knows of it, where races are looked for |
//! | signal | a word by which a put says that it has come |
//! | mailbox | a rank's slots and its threads' queues, to which all ranks send |
//! | seat | what one thread of a mailbox knows; one operating system thread at a time sits there |
//! | census, verdict | how many threads are idle; what they are told when all are |
//! | network | a declared machine as far as messages are concerned: ports, their classes, ways between places |

#![deny(unsafe_code)]

// Front.
#[allow(unsafe_code)]
pub mod ffi;
// Communicator.
pub mod comm;
// Deciding.
pub mod algorithms;
pub mod planner;
pub mod topology;
// Moving.
pub mod bootstrap;
pub mod exec;
pub mod fabric;
pub mod mailbox;
pub mod onesided;
pub mod plan;
pub mod transport;
// Memory and words.
#[allow(unsafe_code)]
pub mod kernels;
#[allow(unsafe_code)]
pub mod memory;
#[allow(unsafe_code)]
pub mod sync;
#[allow(unsafe_code)]
pub mod sys;
// For everyone.
pub mod env;
pub mod error;
pub mod log;
pub mod types;

#[cfg(test)]
mod tests;
