//! The symmetric heap and one-sided access, under OpenSHMEM's names: arguments in its order, then the communicator; what
//! it returns comes first, as the place for it.

mod atomics;
mod heap;
mod put;
mod signal;
mod team;
mod wait;

pub use atomics::*;
pub use heap::*;
pub use put::*;
pub use signal::*;
pub use team::*;
pub use wait::*;
