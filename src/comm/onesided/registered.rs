//! The buffers that a communicator's calls find registered.
//!
//! A registration belongs to one communicator and serves its calls only: nobody else's can be at work on the buffer
//! when it ends. Pages are shared by the process's registrations (see `memory::registered`), so they move once.

use super::deferred_free::DeferredFree;
use crate::comm::communicator::CommCore;
use crate::error::{Error, Result};
use crate::handle::{self, RegistrationKind};
use crate::kernels;
use crate::log;
use crate::memory::heap;
use crate::memory::registered::{self, Buffer, RegisterOutcome, Registered};
use crate::memory::view::{Address, Payload};
use crate::sync::prim::{AtomicU64, Ordering};
use crate::transport::Transport;
use crate::types::Rank;
use std::cell::Cell;
use std::sync::Arc;

/// Below this many bytes a call copies its data, registered or not: that costs less than the edges do.
const WORTH: usize = 16 << 10;

/// The size from which on a call asks the kernel whether the buffer still has its pages; for smaller calls the question
/// would cost a tenth of their time.
const ASK_FROM: usize = 1 << 20;

/// Names a registration of this process.
type Registration = handle::Handle<RegistrationKind>;

/// A communicator's registrations, until it ends.
pub(in crate::comm) struct Registrations {
    /// Handle and share; `None` where nothing had to be done, or could be.
    shares: Vec<(u64, Option<Registered>)>,
    /// The shares' buffers, by address.
    buffers: Vec<Buffer>,
    rank: Rank,
    /// Peers may still be at work on the buffers, until they have left this.
    forsaken: Option<Arc<Transport>>,
    /// A buffer that was freed has been complained of.
    told: Cell<bool>,
}

impl Registrations {
    pub(in crate::comm) fn of(rank: Rank) -> Registrations {
        let (shares, buffers) = (Vec::new(), Vec::new());
        Registrations { shares, buffers, rank, forsaken: None, told: Cell::new(false) }
    }

    /// Prepares for the end of a communicator with a failure that peers may not have seen yet.
    pub(in crate::comm) fn keep_mapped(&mut self, transport: Arc<Transport>) {
        self.forsaken = Some(transport);
    }

    /// [`reach`](Registrations::reach) for a call's input and output. Those of a call in place share memory, and go to the
    /// twin together or stay where they are together: the kernels tell by addresses what is the same memory.
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

    /// Returns both parts of a range, of which peers find all or nothing.
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

    /// Returns the place at which peers find a buffer, if they can reach it, and the view that this rank must use for
    /// it in the call. `full`: peers must find the buffer's current bytes there.
    #[inline]
    pub(in crate::comm) fn reach<'a>(&self, view: Payload<'a>, full: bool) -> (Option<u64>, Payload<'a>) {
        if view.is_empty() {
            return (None, view);
        }
        let inside = heap::mine().ok().and_then(|h| h.offset_of(view.addr() as usize, view.bytes()));
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

    /// Copies a call's output from the memory that [`reach`](Registrations::reach) returned into the buffer.
    pub(in crate::comm) fn give_back(&self, view: Payload<'_>, filled: Payload<'_>) {
        if view.addr() != filled.addr()
            && let Some(buffer) = self.find(view)
        {
            buffer.edges(view, filled).into_iter().for_each(|(own, twin)| kernels::copy(own, twin, false));
        }
    }

    fn add(&mut self, share: Option<Registered>) -> u64 {
        static LAST: AtomicU64 = AtomicU64::new(0);
        // ORDER: only distinct numbers are wanted.
        let handle = Registration::named(LAST.fetch_add(1, Ordering::Relaxed) + 1).bits();
        self.shares.push((handle, share));
        self.index();
        handle
    }

    fn remove(&mut self, handle: u64) -> Option<(u64, Option<Registered>)> {
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

    fn release(&self, share: Registered) {
        let Some(released) = share.release() else { return };
        if let Some(news) = released.news {
            log::warn(self.rank, format_args!("{news}"));
        }
        if let Some(transport) = &self.forsaken {
            DeferredFree::of_twin(released.twin, transport.clone()).keep();
        }
    }
}

/// Copies a buffer's edges to its twin.
fn fill(edges: [(Payload<'_>, Payload<'_>); 2]) {
    edges.into_iter().for_each(|(own, twin)| kernels::copy(twin, own, false));
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

impl CommCore {
    /// Lets peers reach a buffer where it lies. Its name for [`deregister`](CommCore::deregister); never 0.
    pub(in crate::comm) fn register(&mut self, buffer: Address<'static>, bytes: usize) -> Result<u64> {
        self.usable()?;
        let rank = self.rank();
        if bytes == 0 {
            return Ok(self.registered.add(None));
        }
        if buffer.is_null() {
            return Err(Error::argument(format!(
                "buff is NULL on rank {rank}; pass the start of {bytes} bytes of memory"
            )));
        }
        match registered::register(buffer, bytes)? {
            RegisterOutcome::Registered(share) => Ok(self.registered.add(Some(share))),
            RegisterOutcome::Reachable => Ok(self.registered.add(None)),
            RegisterOutcome::Declined(why) => {
                let at = buffer.get();
                log::info(
                    rank,
                    format_args!(
                        "the buffer at {at:#x} ({bytes} bytes) is not registered, calls copy: {why}"
                    ),
                );
                Ok(self.registered.add(None))
            }
        }
    }

    /// Ends a registration. 0: nothing.
    pub(in crate::comm) fn deregister(&mut self, handle: u64) -> Result<()> {
        self.shared.refuse_forked()?;
        if handle == 0 {
            return Ok(());
        }
        let (_, share) = self.registered.remove(handle).ok_or_else(|| {
            Registration::from_bits(handle).refusal(
                "handle",
                format_args!(
                    "handle {handle:#x} is not one that pennyCommRegister gave for comm on rank {}, or it was deregistered \
                     already",
                    self.rank()
                ),
            )
        })?;
        if let Some(share) = share {
            self.registered.release(share);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::comm::calls::collective::Call;
    use crate::comm::onesided::registered::*;
    use crate::comm::{self, CommHandle};
    use crate::transport::arrival::Offer;
    use crate::types::{Collective, DataType, RedOp};

    #[allow(unsafe_code)]
    fn address(of: &[f32]) -> Address<'static> {
        // SAFETY: the memory outlives what the tests do with its address.
        unsafe { Address::from_raw(of.as_ptr().cast()) }
    }

    fn all_reduce(input: &[f32], output: &[f32]) -> Call<'static> {
        Call {
            collective: Collective::AllReduce,
            send: address(input),
            recv: address(output),
            count: input.len(),
            dtype: DataType::Float32,
            op: RedOp::Sum,
            root: 0,
            padded: false,
        }
    }

    fn offer(comm: CommHandle, call: &Call) -> Offer {
        crate::comm::registry::enter(comm, |c| {
            let checked = call.check(0, 2)?.expect("something to do");
            Ok(c.offer(call.collective, &checked, false).0)
        })
        .unwrap()
    }

    #[test]
    fn registered_buffers_are_offered_where_they_lie_and_others_are_not() {
        let comms = comm::init_all(2).unwrap();
        let (input, output) = (vec![1f32; 50_000], vec![0f32; 50_000]);
        let call = all_reduce(&input, &output);
        assert_eq!(
            offer(comms[0], &call),
            Offer { payload: false, input: None, output: None, in_place: false }
        );
        let registered = comm::register(comms[0], address(&input), size_of_val(&input[..])).unwrap();
        let offered = offer(comms[0], &call);
        assert!(offered.input.is_some() && offered.output.is_none());
        // A registration serves the calls of its communicator only.
        assert_eq!(offer(comms[1], &call).input, None);
        comm::deregister(comms[0], registered).unwrap();
        assert_eq!(offer(comms[0], &call).input, None);
        comms.into_iter().for_each(|c| comm::destroy(c).unwrap());
    }

    #[test]
    fn threads_that_are_ranks_reduce_into_each_others_registered_buffers() {
        for bytes in [20_000, 300_000, 2_000_000] {
            let comms = comm::init_all(3).unwrap();
            std::thread::scope(|scope| {
                for (rank, &comm) in comms.iter().enumerate() {
                    scope.spawn(move || {
                        let input: Vec<f32> = (0..bytes / 4).map(|i| (rank + i % 10) as f32).collect();
                        let output = vec![0f32; bytes / 4];
                        comm::register(comm, address(&input), bytes).unwrap();
                        comm::register(comm, address(&output), bytes).unwrap();
                        comm::collective(comm, &all_reduce(&input, &output), None).unwrap();
                        comm::destroy(comm).unwrap();
                        let right = |(i, &x): (usize, &f32)| x == (3 + 3 * (i % 10)) as f32;
                        assert!(output.iter().enumerate().all(right));
                    });
                }
            });
        }
    }

    #[test]
    fn a_communicator_that_is_aborted_leaves_private_memory_behind() {
        let comms = comm::init_all(2).unwrap();
        let memory = vec![5f32; 30_000];
        comm::register(comms[0], address(&memory), size_of_val(&memory[..])).unwrap();
        comm::abort(comms[0]).unwrap();
        comm::abort(comms[1]).unwrap();
        assert!(memory.iter().all(|&x| x == 5.0));
        let other = comm::init_all(1).unwrap();
        let again = registered::register(address(&memory), size_of_val(&memory[..])).unwrap();
        let RegisterOutcome::Registered(share) = again else { panic!("it is not private memory") };
        assert_eq!(share.release().unwrap().news, None);
        comm::destroy(other[0]).unwrap();
    }
}
