//! How a call is cut: parts into slices that fit a slot, alike on all ranks.

use super::PreparedCall;
use crate::error::{Error, Result};
use crate::kernels;
use crate::memory::control::Layout;
use crate::plan::link::Linked;
use crate::types::Rank;

/// The largest slot: more would fall out of a core's cache between writer and reader.
const SLOT_LIMIT: usize = 128 << 10;
/// The smallest slot: it holds an element of any type. Slots below a line share theirs with others, which is slow.
const SMALLEST_SLOT: usize = 16;
/// The largest slot where only results are staged: all ranks take them from there, while their maker writes the next.
const RESULT_LIMIT: usize = 64 << 10;
/// A line.
pub(super) const LINE: usize = 64;

/// What ranks stage in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Staging {
    /// Nothing: peers take all from where it lies.
    Nothing,
    /// What they have combined: peers take inputs from where they lie.
    Results,
    /// Inputs, too.
    All,
}

/// The division of a call into chunks and slices.
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
    /// Bytes of all slots of a rank.
    pub staged: usize,
}

impl Cut {
    pub(super) fn new(
        job: &PreparedCall<'_>,
        linked: &Linked,
        layout: Layout,
        staging: Staging,
        rotates: bool,
    ) -> Result<Cut> {
        let line = (LINE / job.size).max(1);
        let mut part = job.count.div_ceil(linked.parts as usize);
        if part * job.size >= 4096 {
            part = part.next_multiple_of(line);
        }
        let (slots, most) = match staging {
            Staging::Nothing => (0, SLOT_LIMIT),
            Staging::Results => (linked.result_slots, RESULT_LIMIT),
            Staging::All => (linked.slots, SLOT_LIMIT),
        };
        let slots = slots.max(1) as usize * linked.depth as usize;
        let staged = staging != Staging::Nothing;
        let staging = layout.staging_bytes() / 2;
        let mut slot = slot_bytes(staging, slots).min(most);
        if rotates {
            // The staging memory is for several calls, unless there are very many slots.
            slot = match slot_bytes(layout.window() / 2, slots) {
                0..LINE => slot,
                fits => fits,
            };
        }
        if staged && slot == 0 {
            return Err(Error::usage(format!(
                "this algorithm needs {slots} slots on a rank, more than {staging} bytes hold; set PENNY_STAGING to {} or more on all ranks",
                2 * slots * LINE
            )));
        }
        let most = if staged { (slot / job.size).max(1) } else { usize::MAX };
        let slices = part.div_ceil(most).max(1);
        let slice = part.div_ceil(slices).next_multiple_of(line).min(most.max(1));
        if rotates && staged {
            slot = slot.min((slice * job.size).next_multiple_of(LINE));
        }
        Ok(Cut { part, slice, slices: part.div_ceil(slice).max(1) as u64, slot, staged: slots * slot })
    }
}

/// Returns the bytes of each of `slots` slots: whole cache lines if they fit. 0: not even the smallest slots fit.
fn slot_bytes(staging: usize, slots: usize) -> usize {
    let bytes = (staging / slots).min(SLOT_LIMIT);
    let whole = if bytes >= LINE { LINE } else { SMALLEST_SLOT };
    bytes - bytes % whole
}

/// Zeroes a padded call's output beyond the end of the input.
pub(super) fn zero_tail(rank: Rank, job: &PreparedCall<'_>) {
    let valid = job.elements_in(rank);
    kernels::zero(job.output.part(valid * job.size, (job.count - valid) * job.size));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_never_overlap_however_many_they_are() {
        for (staging, slots) in
            [(1 << 20, 1), (24 << 10, 100), (24 << 10, 1008), (24 << 10, 1600), (16 << 10, 3069)]
        {
            let bytes = slot_bytes(staging, slots);
            assert!(bytes * slots <= staging, "{slots} slots of {bytes} bytes");
            assert!(bytes == 0 || bytes >= SMALLEST_SLOT);
            assert_eq!(bytes == 0, staging / slots < SMALLEST_SLOT);
        }
    }
}
