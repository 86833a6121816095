//! How far a program has come, and how it begins.

use super::cut::{Cut, Staging};
use super::{PeerProgress, PreparedCall, buffers};
use crate::error::Result;
use crate::kernels::hints;
use crate::plan::link::{Buffers, Linked, Swap};
use crate::transport::rotation::Places;
use crate::transport::{Scope, Transport, counter_base};
use crate::types::Collective;
use std::sync::Arc;

/// How far a rank's program has come in a call: what a call that is polled keeps from one poll to the next.
pub struct ProgramProgress {
    pub(super) linked: Arc<Linked>,
    pub(super) cut: Cut,
    pub(super) mine: Buffers,
    pub(super) base: u64,
    /// The places of its slots in each rank's staging memory.
    pub(super) places: Places,
    /// The slots that ranks write where they have read last.
    pub(super) swap: Swap,
    pub(super) stream: bool,
    pub(super) done: Done,
}

/// What is done of a program. A step waits for all that it needs before it writes anything, so one that had to be left is
/// made again from its beginning.
#[derive(Default)]
pub(super) struct Done {
    /// Waves, and steps of the present one.
    pub wave: u64,
    pub position: usize,
    pub all_checked: bool,
    pub staging_free: bool,
    /// True if data was read in place in a peer's heap.
    pub borrowed: bool,
}

/// Prepares the program. The rank has arrived already. A call that is polled prepares it again if it had to be left.
pub fn begin(
    t: &Transport,
    scope: &mut Scope,
    peers: &mut PeerProgress,
    job: &PreparedCall<'_>,
    linked: Arc<Linked>,
) -> Result<ProgramProgress> {
    scope.arrival_is_all = false;
    peers.begin(scope.seq, t.nranks());
    let mine = buffers(&job.offer);
    // All ranks must cut alike, so they may cut coarsely only where all know that nobody needs a slot.
    let mut staging = Staging::All;
    if job.collective.everybody() && mine.input_shared {
        let (mut inputs, mut outputs, mut in_place) = (true, mine.output_shared, mine.in_place);
        for r in (0..t.nranks()).filter(|&r| r != t.rank()) {
            let theirs = buffers(&peers.offer(r, t, scope)?);
            inputs &= theirs.input_shared;
            outputs &= theirs.output_shared;
            in_place |= theirs.in_place;
        }
        let by_outputs = if in_place { linked.slotless_in_place } else { linked.slotless };
        staging = match inputs {
            true if outputs && by_outputs || !in_place && linked.slotless_by_inputs => Staging::Nothing,
            true if !in_place || linked.inputs_stay_in_place => Staging::Results,
            _ => Staging::All,
        };
    }
    if job.collective == Collective::Scatter && linked.slotless_by_inputs && !t.has_far() {
        let roots = if t.rank() == job.root { job.offer } else { peers.offer(job.root, t, scope)? };
        if roots.input.is_some() && (!roots.in_place || linked.slotless_in_place) {
            staging = Staging::Nothing;
        }
    }
    // Where results alone are staged, nobody has read a slot of an input.
    let swaps = t.swaps() && job.collective.everybody() && staging == Staging::All;
    let swap = if swaps { linked.swap } else { Swap::Nothing };
    // Ranks that write where they have read last stay there.
    let rotates = t.rotates() && swap == Swap::Nothing;
    let cut = Cut::new(job, &linked, t.control().layout(), staging, rotates)?;
    let places = t.places(cut.staged, rotates);
    // What is combined in place is at hand; a broadcast's output is overwritten unread.
    let reads_output = job.offer.in_place && job.collective != Collective::Broadcast;
    let written = match job.collective {
        // Other ranks write to the root's output.
        Collective::Gather => t.nranks() as usize * job.count * job.size,
        _ => job.output.bytes(),
    };
    let stream = written >= hints::STREAMED_FROM && !reads_output;
    Ok(ProgramProgress {
        linked,
        cut,
        mine,
        base: counter_base(scope.seq),
        places,
        swap,
        stream,
        done: Done::default(),
    })
}
