//! What a shape makes of its section of a machine's file, and how much of it there may be.

use super::{Port, Routes, Shape};
use std::sync::Arc;

/// The most places of a machine.
pub(super) const MOST_PLACES: u32 = 1 << 20;
/// The most parallel links of an edge.
pub(super) const MOST_LINKS: u32 = 64;

/// A machine without its name and its classes.
pub(super) struct Built {
    pub ports: Vec<Port>,
    pub shape: Shape,
    pub routes: Arc<dyn Routes>,
}
