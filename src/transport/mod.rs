//! transport/mod.
