//! Tests across modules.

mod algorithms;
mod architecture;
mod boundary;
mod children;
mod collectives;
mod disagreements;
mod fabric;
mod machines;
mod permute;
mod readme;
mod windows;
