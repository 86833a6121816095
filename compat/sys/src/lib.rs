//! The interface of `include/penny.h` in Rust: its functions, types and numbers, bound to `libpenny.so` by name.
//!
//! The libraries of `compat` are clients of that interface as any program is. They share one `libpenny.so` in a process, so they must not
//! contain a copy of it, which a dependency on the crate `penny` would be.
//!
//! `build.rs` reads the header, so nothing here is written twice. Each name is documented there.
#![allow(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    missing_docs,
    clippy::unnecessary_cast
)]

pub mod sentence;

include!(concat!(env!("OUT_DIR"), "/declarations.rs"));

impl pennyConfig_t {
    /// Returns `PENNY_CONFIG_INITIALIZER`: the environment's settings, then Penny's defaults.
    pub const fn new() -> pennyConfig_t {
        let (int, none) = (core::ffi::c_int::MIN, core::ptr::null());
        pennyConfig_t {
            size: size_of::<pennyConfig_t>(),
            magic: PENNY_CONFIG_MAGIC as core::ffi::c_uint,
            version: PENNY_VERSION_CODE,
            blocking: int,
            timeoutMs: int,
            commName: none,
            algo: none,
            fabric: none,
            fabricClock: none,
            threads: int,
            parallelFor: None,
            parallelForArg: core::ptr::null_mut(),
        }
    }
}

impl Default for pennyConfig_t {
    fn default() -> pennyConfig_t {
        pennyConfig_t::new()
    }
}
