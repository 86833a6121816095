//! `libnccl.so.2` over Penny: NCCL's host interface, for programs that were compiled against NVIDIA's header or against
//! `include/nccl.h`.
//!
//! ```text
//!     a program of NCCL                       unchanged: linked with -lnccl, or dlopen("libnccl.so.2")
//!       libnccl.so.2                          this crate: names, numbers, structs and rules of NCCL
//!         boundary                            each function's two names; panics, results, the last error, NCCL_DEBUG
//!         comm  group  collectives  ...       one call of Penny for each call of NCCL
//!         cuda                                streams and devices of a CUDA runtime in the process, if there is one
//!         capture                             calls that a graph of that runtime makes
//!       libpenny.so.0                         penny.h: the work
//! ```
//!
//! The library holds no state of a communicator but what NCCL reports and Penny does not know (`records`). A handle of NCCL is
//! Penny's. What Penny has no counterpart for is refused with a sentence (`absent`); `README.md` lists the differences.
#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]

#[macro_use]
mod boundary;
mod absent;
mod algo;
mod capture;
mod collectives;
mod comm;
mod config;
mod cuda;
mod debug;
mod device;
mod group;
mod library;
mod members;
mod memory;
mod parameters;
mod records;
mod types;
mod version;
mod windows;
