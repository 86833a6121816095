//! ffi/mod.
