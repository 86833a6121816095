//! The parts of the `penny` command that are of use beside it: readers of other programs' machine descriptions.

pub mod foreign;
