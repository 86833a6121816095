//! sys/mod.
