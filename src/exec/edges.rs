//! The edges of a program: by which route a result leaves, and what goes to far ranks.
//!
//! Near ranks see a step's result in shared memory as soon as the program counter is published. A far reader is sent the
//! slot together with the counter. A far rank whose slot the step has read is sent the counter alone: it waits for it before
//! it writes the slot anew.

use super::{Extent, Run, buffers, part};
use crate::error::Result;
use crate::memory::view::Payload;
use crate::plan::link::{self, Buffers, LinkedStep, OperandSource, Route};
use crate::types::Rank;

impl<'a> Run<'a, '_> {
    /// This rank's buffers as another rank sees them: no far rank reaches them.
    #[inline]
    pub(super) fn towards(&self, rank: Rank) -> Buffers {
        if self.t.is_far(rank) { Buffers::default() } else { self.mine }
    }

    /// The route to one reader; the same that the reader finds.
    #[inline]
    pub(super) fn route_to(&mut self, step: &LinkedStep, reader: &link::Reader) -> Result<Route> {
        let mut theirs = None;
        if self.job.collective.knows_readers() {
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

    /// Returns where a step's result lies for a slice, if far ranks alone read it and are sent it from there: in the input or the output.
    pub(super) fn lent(&self, step: &LinkedStep, extent: Extent) -> Option<Payload<'a>> {
        if !self.lends || !step.readers.iter().all(|reader| self.t.is_far(reader.place.rank)) {
            return None;
        }
        let (buffer, block) = match step.keep {
            Some(block) => (self.job.output, block),
            None if step.egress.from_input => (self.job.input, step.input?),
            None => return None,
        };
        let (at, bytes) = self.bytes_at(block, extent);
        Some(part(buffer, at, bytes))
    }

    /// Sends far ranks what a step has done for a slice.
    #[cold]
    pub(super) fn send_far(&self, step: &LinkedStep, slice: u64, counter: u64) {
        let readers = || step.readers.iter().map(|reader| reader.place.rank);
        let extent = self.extent(step, slice);
        let lent = self.lent(step, extent);
        for (i, rank) in readers().enumerate() {
            if self.t.is_far(rank) && !readers().take(i).any(|earlier| earlier == rank) {
                let at = self.own_slot_at(step.slot, slice);
                match lent {
                    Some(bytes) => self.t.send_lent(rank, at, bytes, counter),
                    None => self.t.send_slot(rank, at, extent.count * self.job.size, counter),
                }
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
