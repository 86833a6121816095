//! planner/mod.
