//! Calls in communicators that are made from others.

use crate::{Part, now_ns};
use penny::internals::comm::{self, Call, CommHandle, Config};
use penny::internals::error::Result;
use penny::internals::memory::view::Address;
use penny::internals::types::{Collective, DataType, RedOp};

impl Part {
    /// Makes a communicator, makes a call in it, and frees it.
    pub fn child(&mut self, count: usize, make: impl FnOnce(CommHandle) -> Result<CommHandle>) -> Result<()> {
        self.entered = now_ns();
        let child = make(self.comm())?;
        let ended = self.within(child, |rank| rank.collective(Collective::AllReduce, count));
        comm::destroy(child)?;
        ended
    }

    /// Does something as a rank of another communicator.
    pub fn within(&mut self, comm: CommHandle, work: impl FnOnce(&mut Part) -> Result<()>) -> Result<()> {
        let before = (self.comm.replace(comm), self.rank, self.nranks);
        (self.rank, self.nranks) = (comm::user_rank(comm)?, comm::count(comm)?);
        let ended = work(self);
        (self.comm, self.rank, self.nranks) = before;
        ended
    }

    /// The same in a communicator of every second rank.
    pub fn split(&mut self, count: usize) -> Result<()> {
        let colour = Some(self.rank as i32 % 2);
        self.child(count, |comm| Ok(comm::split(comm, colour, 0, None)?.expect("a colour")))
    }

    /// Rank 0 makes an id; the others hear it through the communicator that there is.
    pub fn init(&mut self, count: usize) -> Result<()> {
        let (rank, nranks) = (self.rank as i32, self.nranks as i32);
        let mut id = if rank == 0 { comm::unique_id()?.0 } else { [0; 128] };
        // SAFETY: 128 bytes that outlive the call.
        let send = unsafe { Address::from_raw(id.as_mut_ptr()) };
        let (collective, dtype, op) = (Collective::Broadcast, DataType::Uint8, RedOp::Sum);
        let told = Call { collective, send, recv: send, count: 128, dtype, op, root: 0, padded: false };
        self.entered = now_ns();
        comm::collective(self.comm(), &told, None)?;
        let id = penny::internals::bootstrap::UniqueId(id);
        self.child(count, |_| comm::init_rank(nranks, &id, rank, &Config::default()))
    }
}
