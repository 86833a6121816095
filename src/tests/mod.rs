//! Tests across modules.

mod algorithms;
mod architecture;
mod boundary;
mod collectives;
mod disagreements;
mod fabric;
mod machines;
mod readme;
