//! The buffers that a communicator's calls find registered.
//!
//! A registration belongs to one communicator and serves its calls only: no other communicator's can be at work on the buffer
//! when it ends. Pages are shared by the process's registrations (see `memory::registered`), so they move once.

use super::deferred_free::DeferredFree;
use super::zero_copy::ZeroCopy;
use crate::handle::{self, RegistrationKind};
use crate::kernels;
use crate::log;
use crate::memory::heap;
use crate::memory::registered::{Buffer, Registered};
use crate::memory::view::Payload;
use crate::sync::prim::{AtomicU64, Ordering};
use crate::transport::Transport;
use crate::types::{Collective, Rank};
use std::cell::Cell;
use std::sync::Arc;

/// Below this many bytes a call copies its data even from a registered buffer: the copy costs less than the handling of the
/// buffer's edges.
const WORTH: usize = 16 << 10;

/// From this many bytes on, a call asks the kernel whether the buffer still has its pages; below, the question would
/// cost a tenth of the call.
const ASK_FROM: usize = 1 << 20;

/// Names a registration of this process.
pub(super) type Registration = handle::Handle<RegistrationKind>;

/// A communicator's registrations, until it ends.
pub(in crate::comm) struct Registrations {
    /// Handle and share; `None` where nothing had to be done, or could be.
    shares: Vec<(u64, Option<Registered>)>,
    /// The shares' buffers, by address.
    buffers: Vec<Buffer>,
    rank: Rank,
    /// Which buffers are copied, though peers could reach them.
    zero_copy: ZeroCopy,
    /// Peers may still be at work on the buffers, until they have left this.
    forsaken: Option<Arc<Transport>>,
    /// A buffer that was freed has been complained of.
    told: Cell<bool>,
}

impl Registrations {
    pub(in crate::comm) fn of(rank: Rank, zero_copy: ZeroCopy) -> Registrations {
        let (shares, buffers) = (Vec::new(), Vec::new());
        Registrations { shares, buffers, rank, zero_copy, forsaken: None, told: Cell::new(false) }
    }

    /// The communicator ends with a failure that peers may not have seen yet.
    pub(in crate::comm) fn keep_mapped(&mut self, transport: Arc<Transport>) {
        self.forsaken = Some(transport);
    }

    /// [`reach`](Registrations::reach) for the input and output of a call. Those of a call in place share memory, and go to the twin together or stay where
    /// they are together: the kernels tell by addresses what is the same memory.
    #[inline]
    pub(in crate::comm) fn reach_both<'a>(
        &self,
        input: Payload<'a>,
        output: Payload<'a>,
        in_place: bool,
    ) -> [(Option<u64>, Payload<'a>); 2] {
        if in_place
            && !self.buffers.is_empty()
            && let Some(both) = input.hull(output)
        {
            return self.reach_parts(both, input, output);
        }
        [self.reach(input, true), self.reach(output, false)]
    }

    /// Returns for both parts of a range where peers find them. Peers find either all of the range or nothing.
    fn reach_parts<'a>(
        &self,
        both: Payload<'a>,
        input: Payload<'a>,
        output: Payload<'a>,
    ) -> [(Option<u64>, Payload<'a>); 2] {
        let (offset, moved) = self.reach(both, false);
        let of = |part: Payload<'a>| {
            let from = part.addr() as usize - both.addr() as usize;
            (offset.map(|offset| offset + from as u64), moved.part(from, part.bytes()))
        };
        let parts = [of(input), of(output)];
        if moved.addr() != both.addr()
            && let Some(buffer) = self.find(both)
        {
            fill(buffer.edges(input, parts[0].1));
        }
        parts
    }

    /// Tells whether peers may find a buffer: [`reach_both`](Registrations::reach_both) says whether they do.
    #[inline]
    pub(in crate::comm) fn may_reach(&self, view: Payload<'_>) -> bool {
        !view.is_empty() && (!self.buffers.is_empty() || place_in_heap(view).is_some())
    }

    /// Tells whether a call whose whole vector has `bytes` is to offer those of its buffers that peers can reach. Each call asks once, before
    /// it begins.
    #[inline]
    pub(in crate::comm) fn offers(
        &self,
        collective: Collective,
        [input, output]: [Payload<'_>; 2],
        in_place: bool,
        bytes: u64,
    ) -> bool {
        (self.may_reach(input) || self.may_reach(output))
            && self.zero_copy.serves_call(collective, in_place, bytes as usize)
    }

    /// Tells whether the messages of a group are to be read where they lie: [`ZeroCopy::serves_group`].
    pub(in crate::comm) fn lends(&self, bytes: usize, sends: usize) -> Option<bool> {
        self.zero_copy.serves_group(bytes, sends)
    }

    /// Returns where the receiver of a message finds it, if it is to read it there. `lends`: what its group has decided.
    pub(in crate::comm) fn reach_message(&self, message: Payload<'_>, lends: Option<bool>) -> Option<u64> {
        let lends = lends.unwrap_or_else(|| self.zero_copy.serves_message(message.bytes()));
        if lends { self.reach(message, true).0 } else { None }
    }

    /// Where peers find a buffer, if they can, and what this rank must take for it in the call. `full`: peers are to
    /// find the buffer's present bytes there.
    #[inline]
    fn reach<'a>(&self, view: Payload<'a>, full: bool) -> (Option<u64>, Payload<'a>) {
        if view.is_empty() {
            return (None, view);
        }
        let inside = place_in_heap(view);
        if inside.is_some() || self.buffers.is_empty() {
            return (inside.map(|offset| offset as u64), view);
        }
        self.reach_registered(view, full).map_or((None, view), |(offset, twin)| (Some(offset), twin))
    }

    fn reach_registered<'a>(&self, view: Payload<'a>, full: bool) -> Option<(u64, Payload<'a>)> {
        let buffer = self.find(view).filter(|_| view.bytes() >= WORTH)?;
        if view.bytes() >= ASK_FROM && !buffer.is_still(view) {
            if !self.told.replace(true) {
                let at = buffer.start();
                log::warn(
                    self.rank,
                    format_args!(
                        "the buffer at {at:#x} was freed without pennyCommDeregister; calls there copy"
                    ),
                );
            }
            return None;
        }
        let (offset, twin) = buffer.twin_of(view)?;
        if full {
            fill(buffer.edges(view, twin));
        }
        Some((offset as u64, twin))
    }

    fn find(&self, view: Payload<'_>) -> Option<&Buffer> {
        let after = self.buffers.partition_point(|b| b.start() <= view.addr() as usize);
        self.buffers[..after].last().filter(|b| b.holds(view))
    }

    /// A call has filled what [`reach`](Registrations::reach) gave for a buffer; have it in the buffer.
    pub(in crate::comm) fn give_back(&self, view: Payload<'_>, filled: Payload<'_>) {
        if view.addr() != filled.addr()
            && let Some(buffer) = self.find(view)
        {
            buffer.edges(view, filled).into_iter().for_each(|(own, twin)| kernels::copy(own, twin, false));
        }
    }

    pub(super) fn add(&mut self, share: Option<Registered>) -> u64 {
        static LAST: AtomicU64 = AtomicU64::new(0);
        // ORDER: only distinct numbers are wanted.
        let handle = Registration::named(LAST.fetch_add(1, Ordering::Relaxed) + 1).bits();
        self.shares.push((handle, share));
        self.index();
        handle
    }

    pub(super) fn remove(&mut self, handle: u64) -> Option<(u64, Option<Registered>)> {
        let at = self.shares.iter().position(|(h, _)| *h == handle)?;
        let removed = self.shares.swap_remove(at);
        self.index();
        Some(removed)
    }

    fn index(&mut self) {
        self.buffers = self.shares.iter().filter_map(|(_, share)| Some(share.as_ref()?.buffer())).collect();
        self.buffers.sort();
        self.buffers.dedup();
    }

    pub(super) fn release(&self, share: Registered) {
        let Some(released) = share.release() else { return };
        if let Some(warning) = released.warning {
            log::warn(self.rank, format_args!("{warning}"));
        }
        if let Some(transport) = &self.forsaken {
            DeferredFree::of_twin(released.twin, transport.clone()).keep();
        }
    }
}

/// Returns where a buffer lies in this process's heap, if it does.
#[inline]
fn place_in_heap(view: Payload<'_>) -> Option<usize> {
    heap::mine().ok()?.offset_of(view.addr() as usize, view.bytes())
}

/// Copies a buffer's edges to its twin.
fn fill(edges: [(Payload<'_>, Payload<'_>); 2]) {
    edges.into_iter().for_each(|(own, twin)| kernels::copy(twin, own, false));
    die_point!(162 "registered_filled");
}

impl Drop for Registrations {
    fn drop(&mut self) {
        for (_, share) in std::mem::take(&mut self.shares) {
            if let Some(share) = share {
                self.release(share);
            }
        }
    }
}
