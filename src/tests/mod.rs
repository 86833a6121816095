//! Tests across modules.

mod algorithms;
