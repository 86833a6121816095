//! The C interface as programs use it. One test program, so that the minutes of the fuzzer are not waited for alone.

mod examples;
mod fuzz;
mod host_profile;
mod hosts;
mod kubernetes;
mod memory;
mod programs;
