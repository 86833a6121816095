//! The penny command.
fn main() {}
