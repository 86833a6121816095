//! Tests across modules.

mod algorithms;
mod architecture;
mod collectives;
mod disagreements;
mod readme;
