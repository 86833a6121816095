//! How ranks meet.

/// What all ranks of one future communicator share: where to meet and the secret that admits them. Opaque to C.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UniqueId(pub [u8; 128]);
