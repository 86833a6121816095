//! tests/mod.
