//! Tests across modules.

mod algorithms;
mod collectives;
