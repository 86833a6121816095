//! CUDA's runtime on the host: memory, streams, events and graphs for programs that call NCCL from the host. Kernels that
//! penny-nvcc has compiled run on the stream's thread.
//!
//! ```text
//!     guard         each exported function: catches panics, records the error of the thread
//!     device        how many devices there are, which one a thread uses      properties   what they say about themselves
//!     memory        allocations and their table (allocations)                pools        stream-ordered allocation
//!     copy          copies and sets: operations (operation) on streams
//!     stream        streams of Penny behind handles                          order        what an operation waits for
//!     event         events                                                   capture (capturing)   recorded operations
//!     graph         graphs of such operations, and their launches            nodes, edges     what programs add and ask
//!     launch        launches of kernels, which are known (kernels)           hooks        what libraries beside this one ask
//!     grid          the run of a launch: blocks, their threads (fibers), their warps (warp), their shared memory (shared), what divisions
//!                   by zero are (division)
//! ```
//!
//! The library is a client of `penny.h`. A stream is a Penny stream, so an operation here and a collective there keep their
//! order. Handles are numbers that are looked up in a table and never dereferenced.
#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]

mod allocations;
mod capture;
mod capturing;
mod codes;
mod copy;
mod device;
mod division;
mod edges;
mod error;
mod event;
mod fibers;
mod fork;
mod graph;
mod grid;
mod guard;
mod handles;
mod hooks;
mod ipc;
mod kernels;
mod launch;
mod memory;
mod nodes;
mod operation;
mod order;
mod penny;
mod pools;
mod properties;
mod real;
mod shared;
mod stream;
mod stream_table;
mod symbols;
mod warp;
