//! exec/mod.
