//! A message as events of links need it.

/// A message under way, or a place for one. Half a line of the cache.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub struct LinkMessage {
    /// The time at which it is at its next port or arrives; [`WAITS`] for a credit, or [`VACANT`].
    pub at_ps: u64,
    /// Before this time its last byte cannot have left the port that it is at. Of one that waits or is vacant: the
    /// next of its kind.
    pub tail_ps: u64,
    pub link: u32,
    pub round: u32,
    pub slice: u32,
    pub chunk: u16,
    pub passed: u16,
}

/// In [`LinkMessage::at_ps`].
pub const WAITS: u64 = u64::MAX;
pub const VACANT: u64 = u64::MAX - 1;
/// A vacant place.
pub const EMPTY: LinkMessage =
    LinkMessage { at_ps: VACANT, tail_ps: 0, link: 0, round: 0, slice: 0, chunk: 0, passed: 0 };
