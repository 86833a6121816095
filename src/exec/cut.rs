//! How a call is cut: parts into slices that fit a slot, alike on all ranks.

use super::Job;
use crate::plan::link::Linked;

/// The largest slot: more would fall out of a core's cache between writer and reader.
const SLOT_LIMIT: usize = 128 << 10;
/// How a call is cut.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    /// Elements of a part.
    pub part: usize,
    /// Elements of a slice.
    pub slice: usize,
    /// Slices of a part.
    pub slices: u64,
    /// Bytes of a slot.
    pub slot: usize,
}

impl Cut {
    pub(super) fn new(job: &Job<'_>, linked: &Linked, staging: usize, staged: bool) -> Cut {
        let line = (64 / job.size).max(1);
        let mut part = job.count.div_ceil(linked.parts as usize);
        if part * job.size >= 4096 {
            part = part.next_multiple_of(line);
        }
        let slot = (staging / (linked.slots.max(1) as usize * linked.depth as usize)).min(SLOT_LIMIT) & !63;
        let most = if staged { (slot / job.size).max(1) } else { usize::MAX };
        let slices = part.div_ceil(most).max(1);
        let slice = part.div_ceil(slices).next_multiple_of(line).min(most.max(1));
        Cut { part, slice, slices: part.div_ceil(slice).max(1) as u64, slot }
    }
}
