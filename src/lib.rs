//! Penny: collective communication between processes, over shared memory within a host and TCP or libfabric between hosts.
//!
//! The crate provides all-reduce, broadcast, all-to-all and similar collectives, send and receive, groups, streams,
//! one-sided access and mailboxes between *ranks*: processes started by a launcher, or threads of one process. Every wait
//! ends: with the data, or with an error that names a rank, on another rank's death, on an abort, or at a deadline.
//!
//! # A first program
//!
//! ```no_run
//! use penny::{Communicator, Op};
//!
//! fn main() -> Result<(), penny::Error> {
//!     let comm = Communicator::from_env()?; // rank and size come from the launcher
//!     let mine = [comm.rank() as f32, 1.0];
//!     let mut sum = [0.0; 2];
//!     comm.all_reduce(&mine, &mut sum, Op::Sum)?;
//!     println!("rank {} of {}: {sum:?}", comm.rank(), comm.size());
//!     Ok(())
//! }
//! ```
//!
//! Start it with `penny run -n 2`, `mpirun -n 2`, `srun -n 2` or another launcher. Ranks can also be threads of this process,
//! without a launcher:
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
//! # Overview
//!
//! | task | items |
//! |---|---|
//! | make ranks and call collectives | [`Communicator`], [`CommunicatorBuilder`], [`UniqueId`], [`on_threads`] |
//! | say what buffers hold and how they are reduced | [`Element`] (the integers, `f32`, `f64`, `bool`, [`F16`], [`Bf16`], [`F8E4M3`], [`F8E5M2`]), [`Op`] |
//! | make several calls together | [`Group`] |
//! | continue while calls run | [`streams`], [`Stream`], [`Event`] |
//! | pass buffers that other ranks reach, so that large calls copy nothing | [`SharedVec`] |
//! | put and get without a call of the other rank | [`SymmetricHeap`], [`SymmetricVec`] |
//! | send short messages to threads | [`Mailbox`], [`MailboxThread`] |
//! | handle failures | [`Error`], [`Code`] |
//! | compute the time of collectives on simulated clusters (declared machines) | [`sim`] |
//! | call the C interface from Rust | [`ffi`] |
//!
//! A program without `unsafe` cannot misuse memory through this crate: buffers are slices, calls borrow them until they have
//! completed, and memory that other ranks may change at any time is only copied. No public function makes a buffer
//! from a number:
//!
//! ```compile_fail,E0603
//! let buffer = penny::memory::view::Address::NULL.at(0x1000).view(8);
//! ```
//!
//! The README lists the environment variables (`PENNY_ALGO`, `PENNY_TIMEOUT` and others).
//!
//! # How it is built
//!
//! **A collective is a plan; an executor runs the plan on real memory; a fabric prices the same plan in time.**
//!
//! A module imports only what stands below it (a test holds the table of imports against this picture):
//!
//! ```text
//!     api  ffi  sim                       | programs call these: the safe front, the C interface, prices of plans
//!     comm                                | a communicator: its ranks, calls, groups, streams, abort, errors
//!     planner  exec  onesided  mailbox    | choosing a plan; running it; puts and signals; messages
//!     algorithms  timing  recorder        | each rank's steps, as pure functions; the time that calls take; the record of a program's calls
//!     fabric  transport                   | plans and messages on declared links; peers, their progress and their states
//!     topology  bootstrap  handle         | declared machines; how ranks meet; what programs hold for objects
//!     plan  kernels                       | the steps as data: proved, printed, linked; folds and copies
//!     memory                              | segments, the heap, views of lent memory
//!     sync  die_points                    | waiting: doorbells, event counts; loops on threads; places where tests end a process
//!     sys                                 | system calls
//!     sync::prim  sync::lock              | atomics and locks
//!     error types env log hash json spelling | every module may use these
//! ```
//!
//! The design rests on three ideas. Algorithms are pure functions, and a plan is data. Every rank publishes one number, its
//! program counter, and every wait is a wait for a peer's counter to pass a value that the plans fix beforehand. Every wait
//! is bounded: it ends on data, on a peer's death, on abort or on the deadline.
//!
//! The border of the crate ensures that memory is valid: `api` lends slices, `ffi` lends the memory that its C caller
//! promises, and the modules between them handle range-checked views of lent memory. `unsafe` is in `sys`, `sync`, `memory`, `kernels`, `ffi` and `api`.
//!
//! # Glossary
//!
//! | word | meaning |
//! |---|---|
//! | rank | one member of a communicator: a process, or a thread of one |
//! | peer | another rank |
//! | buffer | the user's memory |
//! | payload | a view of bytes that ranks exchange: a range of lent memory (`Payload`) |
//! | block | `count` elements of a buffer; the unit that collectives address by rank |
//! | chunk | a part of a block: the planner's piece |
//! | slice | as much of a chunk as fits a slot: the executor's piece |
//! | algorithm | a pure function from a rank's view of a collective (`RankView`) to its plan |
//! | step | one operation of a plan: fold operands, keep the result, pass it on |
//! | plan | one rank's program of steps |
//! | lane | the channel of one NIC |
//! | segment | one shared mapping |
//! | near, far | a peer that shares the control segment with this rank; one that does not |
//! | mirror | a process's private copy of far ranks' lines |
//! | link, frame | what connects far ranks; a change of one rank's lines, on its way to another |
//! | twin | the range of the heap that stands for a registered buffer |
//! | piece | a part of a large copy or fold that one of a rank's threads makes |
//! | slot | a place in a segment where a rank stages data for other ranks |
//! | arrival | the line by which a rank announces the call that it has entered |
//! | fingerprint | a number over a call's arguments, which ranks compare |
//! | record | the arguments of a rank's latest calls, for other ranks to look up |
//! | trail | a number over a rank's latest calls, by which other ranks detect a different call |
//! | card | the identity of a process: PID, start time, PID namespace |
//! | host profile | the choices of `auto` that `penny calibrate host` has found to be faster here than the built-in table's |
//! | introduction | the information that a rank sends to all others when it joins, besides descriptors |
//! | rendezvous | the exchange of information and descriptors when ranks join |
//! | attendance | a rank's connection to the rendezvous, open until the rank has joined |
//! | cause | the rank or process that made the first rank give up |
//! | flag | a word that one rank posts and others wait on |
//! | event count, doorbell | the means by which waiting threads sleep and are woken |
//! | backoff | the polls, yields and sleeps of one wait |
//! | handle | the number that a program holds in place of an object: its kind, generation and index in a table |
//! | deferred free | memory that was given up but is freed only when no rank can reach it |
//! | simulated cluster, declared machine | a machine that a file or a preset describes, whose time calls take |
//! | network | a declared machine as the fabric sees it: ports, their classes, routes between places |
//! | place | the position of a rank on a declared machine |
//! | placement | the places of a communicator's ranks |
//! | port | one direction of one end of a wire; it serves one message at a time |
//! | clock segment | the segment by which the ranks of a job share the time of a declared machine |
//! | participant | one rank of a job on a declared machine, with its clock |
//! | presence | one thread of a participant, as the clock segment knows it |
//! | post, ticket | a call that a rank announces to the engine, and the entry in which it waits for the answer |
//! | timing | the time of one rank's calls: this machine's, or the declared machine's |
//! | proposal | a call that all ranks make together, as a rank announces it to the others |
//! | region | a range of memory that every rank has, each at an address of its own |
//! | symmetric memory | one rank's symmetric heap |
//! | semaphore | a counter in a rank's memory: any rank adds to it, only its own rank subtracts |
//! | mesh | the coordinates of ranks, as a program declares them |
//! | vector clocks | the record of writes and of the order between ranks, by which races are detected |
//! | signal | a word by which a put announces its arrival |
//! | mailbox | a rank's slots and the queues of its threads, to which all ranks send |
//! | thread state | the state of one thread of a mailbox; one operating system thread at a time uses it |
//! | census, verdict | the number of idle threads, and the answer that they get when all are idle |

#![deny(unsafe_code)]
// What uses most of it is not built for models.
#![cfg_attr(loom, allow(dead_code, unused_imports, unused_macros))]

// Before all modules: they use its macro.
#[macro_use]
mod die_points;

// What a program uses. Models of protocols (`--cfg loom`) are built without it, and without what only it needs.
#[cfg(not(loom))]
#[allow(unsafe_code)]
mod api;
#[cfg(not(loom))]
#[allow(unsafe_code)]
pub mod ffi;
#[cfg(not(loom))]
pub mod sim;

#[cfg(not(loom))]
pub use api::{
    Bf16, Communicator, CommunicatorBuilder, Destination, Element, Event, F8E4M3, F8E5M2, F16, Group,
    Mailbox, MailboxThread, Plain, Received, Reduction, SharedVec, Stream, Streams, SymmetricHeap,
    SymmetricVec, Word, on_threads, streams,
};
#[cfg(not(loom))]
pub use bootstrap::UniqueId;
#[cfg(not(loom))]
pub use comm::Grouping;
pub use error::{Code, Error, Result};
pub use mailbox::Rest;
pub use onesided::Comparison;
pub use types::{Collective, DataType, Rank, RedOp as Op};

// Communicator.
#[cfg(not(loom))]
mod comm;
// Deciding.
#[cfg(not(loom))]
mod algorithms;
#[cfg(not(loom))]
mod planner;
mod topology;
// Moving.
#[cfg(not(loom))]
mod bootstrap;
#[cfg(not(loom))]
mod exec;
mod fabric;
mod mailbox;
mod onesided;
mod plan;
mod recorder;
mod timing;
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
mod hash;
mod json;
mod log;
mod spelling;
mod types;

/// The internals, for Penny's own benchmarks, command line and tests. They may change in every version.
#[cfg(all(feature = "internals", not(loom)))]
#[doc(hidden)]
pub mod internals {
    macro_rules! inside {
        ($($module:ident)*) => {$(pub mod $module { pub use crate::$module::*; })*};
    }
    inside! {
        algorithms bootstrap comm env error exec fabric kernels mailbox memory onesided plan planner spelling sync sys
        topology transport types
    }
}

// Under the model only protocols are run, and these need the kernel.
#[cfg(all(test, not(loom)))]
mod tests;
