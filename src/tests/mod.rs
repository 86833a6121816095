//! Tests across modules.

mod algorithms;
mod aliasing;
mod architecture;
mod boundary;
mod children;
mod collectives;
mod disagreements;
mod fabric;
mod machines;
mod mailbox;
mod messages;
mod padded;
mod permute;
mod readme;
mod repeated;
mod semaphores;
mod signal_masks;
mod streams;
mod symmetric;
mod windows;
mod words;
