//! The edges of a program: by which route a result leaves, and what goes to far ranks.
//!
//! Near ranks see a step's result in shared memory as soon as the program counter is published. A far reader is sent the
//! slot together with the counter. A far rank whose slot the step has read is sent the counter alone: it waits for it before
//! it writes the slot anew.

use super::{Run, buffers};
use crate::error::Result;
use crate::plan::link::{self, Buffers, LinkedStep, OperandSource, Route};
use crate::types::Rank;

impl Run<'_, '_> {
    /// This rank's buffers as another rank sees them: no far rank reaches them.
    #[inline]
    pub(super) fn towards(&self, rank: Rank) -> Buffers {
        if self.t.is_far(rank) { Buffers::default() } else { self.mine }
    }

    /// The route to one reader; the same that the reader finds.
    #[inline]
    pub(super) fn route_to(&mut self, step: &LinkedStep, reader: &link::Reader) -> Result<Route> {
        let mut theirs = None;
        if self.job.collective.everybody() {
            theirs = Some(if reader.push.allowed {
                buffers(&self.peers.offer(reader.place.rank, self.t, self.scope)?)
            } else {
                Buffers::default()
            });
        }
        Ok(link::route(step.egress, reader.push, self.towards(reader.place.rank), theirs))
    }

    /// Stay until nobody reads this rank's buffers any more.
    pub(super) fn drain(&mut self) -> Result<()> {
        if !self.mine.input_shared && !self.mine.output_shared {
            return Ok(());
        }
        let linked = self.linked;
        for step in &linked.steps {
            for reader in &step.readers {
                if matches!(self.route_to(step, reader)?, Route::Input | Route::Output) {
                    let last = reader.place.done(self.cut.slices - 1);
                    self.t.await_counter(reader.place.rank, self.base + last, self.scope)?;
                }
            }
        }
        Ok(())
    }

    /// Sends far ranks what a step has done for a slice.
    #[cold]
    pub(super) fn send_far(&self, step: &LinkedStep, slice: u64, counter: u64) {
        let readers = || step.readers.iter().map(|reader| reader.place.rank);
        let bytes = self.extent(step, slice).count * self.job.size;
        for (i, rank) in readers().enumerate() {
            if self.t.is_far(rank) && !readers().take(i).any(|earlier| earlier == rank) {
                self.t.send_slot(rank, self.slot_at(step.slot, slice), bytes, counter);
            }
        }
        for operand in &step.operands {
            let OperandSource::From { place, .. } = operand else { continue };
            if self.t.is_far(place.rank) && !readers().any(|reader| reader == place.rank) {
                self.t.send_counter(place.rank, counter);
            }
        }
    }
}
