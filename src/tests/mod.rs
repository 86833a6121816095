//! Tests across modules.

mod algorithms;
mod collectives;
mod disagreements;
