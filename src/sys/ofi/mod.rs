//! Communication between hosts by libfabric, which is opened at run time.
//!
//! [`Endpoint`] is the safe side: messages, writes to registered memory of other endpoints, and what has come. Whatever comes from the
//! network is data for the caller to judge; here only the library itself is relied on.

#[allow(missing_docs)]
mod abi;
mod completions;
mod discovery;
mod endpoint;
mod library;
mod memory;
mod second;
#[cfg(all(test, not(loom)))]
mod tests;
mod transfer;
mod wakeup;

pub use completions::Report;
pub use endpoint::{Endpoint, PeerId};
pub use memory::{MappedRegion, MemoryId, RemoteMemory, Use};
pub use transfer::{LentRange, Place, SourceRange};

/// Tells whether a libfabric can be loaded, with the sentence if not.
#[cfg(test)]
pub fn is_there() -> crate::error::Result<()> {
    library::load().map(drop)
}
