//! Penny: collective communication between processes of one machine, over shared memory.
//!
//! All-reduce, broadcast, all-to-all and their kin, send and receive, groups, streams, one-sided access and mailboxes,
//! between *ranks*: processes that a launcher has started, or threads of one process. Every wait ends: with the data,
//! with another rank's death, with an abort, or at a deadline, and then with a sentence that names the rank.
//!
//! # A first program
//!
//! ```no_run
//! use penny::{Communicator, Op};
//!
//! fn main() -> Result<(), penny::Error> {
//!     let comm = Communicator::from_env()?; // the launcher says who we are and who belongs to us
//!     let mine = [comm.rank() as f32, 1.0];
//!     let mut sum = [0.0; 2];
//!     comm.all_reduce(&mine, &mut sum, Op::Sum)?;
//!     println!("rank {} of {}: {sum:?}", comm.rank(), comm.size());
//!     Ok(())
//! }
//! ```
//!
//! Start it with `penny run -n 2`, `mpirun -n 2`, `srun -n 2` or another launcher. The same without one, with ranks that are
//! threads of this process:
//!
//! ```
//! let sums = penny::on_threads(2, |comm| {
//!     let mut sum = [comm.rank() + 1];
//!     comm.all_reduce_in_place(&mut sum, penny::Op::Sum)?;
//!     Ok(sum[0])
//! })?;
//! assert_eq!(sums, [3, 3]);
//! # Ok::<(), penny::Error>(())
//! ```
//!
//! # What there is
//!
//! | to | use |
//! |---|---|
//! | make ranks and call collectives | [`Communicator`], [`CommunicatorBuilder`], [`UniqueId`], [`on_threads`] |
//! | say what buffers hold and how they are reduced | [`Element`] (the integers, `f32`, `f64`, `bool`, [`F16`], [`Bf16`], [`F8E4M3`], [`F8E5M2`]), [`Op`] |
//! | make several calls together | [`Group`] |
//! | go on while calls are made | [`streams`], [`Stream`], [`Event`] |
//! | pass buffers that other ranks reach, so that nothing is copied | [`SharedVec`] |
//! | put and get without the other rank's call | [`SymmetricHeap`], [`SymmetricVec`] |
//! | send short messages to threads | [`Mailbox`], [`MailboxThread`] |
//! | act on failures | [`Error`], [`Code`] |
//! | price collectives on machines that are only declared | [`sim`] |
//! | call the C interface from Rust | [`ffi`] |
//!
//! A program without `unsafe` cannot misuse memory through this crate: buffers are slices, calls borrow them for as long as
//! they are at work, and memory that other ranks may change at any time is only copied. No public function makes a buffer
//! from a number:
//!
//! ```compile_fail,E0603
//! let buffer = penny::memory::view::Address::NULL.at(0x1000).view(8);
//! ```
//!
//! Settings of the environment (`PENNY_ALGO`, `PENNY_TIMEOUT` and others) are listed in the README.
//!
//! # How it is built
//!
//! **A collective is a plan; an executor runs the plan on real memory; a fabric prices the same plan in time.**
//!
//! ```text
//!     Rust program     C, C++, Python program
//!          |                 |
//!         api               ffi      the safe front; the C ABI. Both check, convert and call. No logic.
//!             \           /
//!               comm           a communicator: who is in it, groups, abort, errors
//!             /      \
//!     planner        exec      decide which plan        run a plan: slices, progress, deadlines
//!        |            |
//!     algorithms      |     fabric      what it would take on the declared links
//!        |            |        |
//!       plan <--------+--------+        the vocabulary between deciding, moving and pricing
//!                     |
//!       transport, mailbox, onesided, bootstrap
//!                     |
//!           memory -> sync -> sys       segments and heaps; flags and waiting; system calls
//! ```
//!
//! Three ideas carry the design. Algorithms are pure and a plan is data. Every rank publishes one number, its program
//! counter, and every wait is a wait for a peer's counter to pass a value that the plans fix beforehand. Every wait is
//! bounded: it ends on data, on a peer's death, on abort or on the deadline.
//!
//! Memory is vouched for at the border: `api` lends slices, `ffi` lends what its C caller promises, and everything between
//! handles views of lent memory, whose ranges are checked. `unsafe` is in `sys`, `sync`, `memory`, `kernels`, `ffi` and `api`.
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
//! | near, far | a peer that shares the control segment with this rank; one that does not |
//! | mirror | a process's private copy of far ranks' lines |
//! | link, frame | what connects far ranks; a change of one rank's lines, on its way to another |
//! | twin | the range of the heap that stands for a registered buffer |
//! | slot | a place in a segment where a rank stages what others will read |
//! | arrival | the line by which a rank tells the others which call it has entered |
//! | record | what a rank passed to its latest calls, for others to look up |
//! | trail | a number over a rank's latest calls, by which others see that one was another |
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
//! | handle | what a program holds in place of an object: its kind, generation and place in a table |
//! | network | a declared machine as far as messages are concerned: ports, their classes, ways between places |

#![deny(unsafe_code)]

// What a program uses.
#[allow(unsafe_code)]
mod api;
#[allow(unsafe_code)]
pub mod ffi;
pub mod sim;

pub use api::{
    Bf16, Communicator, CommunicatorBuilder, Destination, Element, Event, F8E4M3, F8E5M2, F16, Group,
    Mailbox, MailboxThread, Plain, Received, Reduction, SharedVec, Stream, Streams, SymmetricHeap,
    SymmetricVec, Word, on_threads, streams,
};
pub use bootstrap::UniqueId;
pub use comm::Grouping;
pub use error::{Code, Error, Result};
pub use mailbox::Rest;
pub use onesided::Comparison;
pub use types::{Collective, DataType, Rank, RedOp as Op};

// Communicator.
mod comm;
// Deciding.
mod algorithms;
mod planner;
mod topology;
// Moving.
mod bootstrap;
mod exec;
mod fabric;
mod mailbox;
mod onesided;
mod plan;
mod transport;
// Memory and words.
#[allow(unsafe_code)]
mod kernels;
#[allow(unsafe_code)]
mod memory;
#[allow(unsafe_code)]
mod sync;
#[allow(unsafe_code)]
mod sys;
// For everyone.
mod env;
mod error;
mod handle;
mod log;
mod types;

/// The inside, for Penny's own benchmarks, command line and tests. No version of it is like another.
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals {
    macro_rules! inside {
        ($($module:ident)*) => {$(pub mod $module { pub use crate::$module::*; })*};
    }
    inside! {
        algorithms bootstrap comm env error exec fabric kernels mailbox memory onesided plan planner sync sys topology
        transport types
    }
}

#[cfg(test)]
mod tests;
