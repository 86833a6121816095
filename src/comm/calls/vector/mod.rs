//! Collectives whose blocks have sizes of their own: MPI's Alltoallv, Allgatherv, Gatherv, Scatterv and Reduce_scatter.
//!
//! ```text
//!     all to all v, gather v, scatter v    transfers, one for each pair of ranks, side by side
//!     all gather v                         a broadcast from each rank that has something
//!     reduce scatter v                     a reduction to each rank that gets something
//! ```
//!
//! Both halves of a transfer say how much it is, so ranks that differ there are told. Of the other two every rank passes the
//! whole list of counts: the ranks tell each other a digest of it before anything moves.

pub use arguments::{Vector, VectorBlock, VectorKind};

mod arguments;
mod counts;
mod moves;
pub(in crate::comm) mod run;
