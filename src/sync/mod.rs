//! sync/mod.
