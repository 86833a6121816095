//! Calls as programs make them: their arguments, the checks that these must pass, and what one call does.

pub(in crate::comm) mod channels;
pub(in crate::comm) mod collective;
pub(in crate::comm) mod exchange;
pub(in crate::comm) mod immediate;
pub(in crate::comm) mod permute;
pub(in crate::comm) mod point_to_point;
mod prepare;
pub(in crate::comm) mod queued;
pub(in crate::comm) mod repeat;
pub(in crate::comm) mod scaled;
mod small;
mod told;
pub(in crate::comm) mod vector;
