//! The general engine: an event queue over ports.

use super::{Call, Outcome};
use crate::error::Result;
use crate::topology::Network;
