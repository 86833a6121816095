//! TODO doc

pub(in crate::comm) mod collective;
pub(in crate::comm) mod immediate;
pub(in crate::comm) mod permute;
pub(in crate::comm) mod point_to_point;
