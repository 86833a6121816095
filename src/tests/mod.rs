//! Tests across modules.

mod algorithms;
mod boundary;
mod collectives;
mod disagreements;
