//! The communicator, as a Rust program owns it.

use super::builder::CommunicatorBuilder;
use super::element::Element;
use super::names::{self, in_rust};
use super::request;
use crate::bootstrap::UniqueId;
use crate::comm::{self, CommHandle, Grouping};
use crate::error::{Code, Result};
use crate::sync::prim::AtomicU64;
use crate::types::{Rank, RedOp as Op};

/// One rank's membership in a communicator: the ranks that make calls together.
///
/// Buffers are slices of [`Element`]s. A block is what one rank contributes or receives; buffers of several blocks hold
/// them in rank order. A collective is called by all ranks, with the same operation, root and lengths; a rank that passes
/// something else is named in the error of every rank.
///
/// Calls wait until they are done, until another rank has died, or until the deadline. After an error of code
/// [`RemoteError`](Code::RemoteError), [`Timeout`](Code::Timeout), [`SystemError`](Code::SystemError) or
/// [`InternalError`](Code::InternalError) the communicator accepts no more calls. What a failed call has left in its
/// output is unspecified.
///
/// A communicator can be shared between threads, but one thread at a time can be inside a call: a second gets an error of
/// code [`InvalidUsage`](Code::InvalidUsage). Dropping it leaves the communicator; dropping it while panicking aborts it,
/// so that the other ranks do not wait for this one.
///
/// ```
/// use penny::Op;
///
/// penny::on_threads(2, |comm| {
///     let mine = [comm.rank() as f32, 1.0];
///     let mut sum = [0.0; 2];
///     comm.all_reduce(&mine, &mut sum, Op::Sum)?;
///     assert_eq!(sum, [1.0, 2.0]);
///     Ok(())
/// })?;
/// # Ok::<(), penny::Error>(())
/// ```
#[derive(Debug)]
pub struct Communicator {
    handle: CommHandle,
    rank: Rank,
    size: u32,
    /// Symmetric heaps that were finalized.
    heaps_before: AtomicU64,
}

/// # Making and leaving
impl Communicator {
    pub(super) fn own(handle: CommHandle) -> Result<Communicator> {
        let (rank, size) = (in_rust(comm::user_rank(handle))?, in_rust(comm::count(handle))?);
        Ok(Communicator { handle, rank, size, heaps_before: AtomicU64::new(0) })
    }
    pub(super) fn handle(&self) -> CommHandle {
        self.handle
    }
    pub(super) fn heaps_before(&self) -> &AtomicU64 {
        &self.heaps_before
    }

    /// Joins the communicator of all processes of this launch: under `penny run`, `mpirun`, `mpiexec`, `srun`, `torchrun`,
    /// or with `RANK`, `WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT` set. Blocks until all have come. Without a launcher
    /// it is an error.
    pub fn from_env() -> Result<Communicator> {
        Communicator::builder().from_env()
    }

    /// Makes a communicator whose `ranks` ranks are all in this process, by rank. Each is for a thread of its own;
    /// [`on_threads`](crate::on_threads) starts them.
    pub fn init_all(ranks: u32) -> Result<Vec<Communicator>> {
        let all = in_rust(comm::init_all(names::ranks("ranks", ranks)?))?;
        all.into_iter().map(Communicator::own).collect()
    }

    /// Begins a communicator with settings of its own.
    pub fn builder() -> CommunicatorBuilder {
        CommunicatorBuilder::default()
    }

    /// This rank, in `0..size`.
    #[inline]
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Returns the number of ranks.
    #[inline]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// This rank's place among the ranks of its machine, from 0.
    pub fn local_rank(&self) -> Result<u32> {
        in_rust(comm::device(self.handle))
    }

    /// Returns the members' ranks in the communicator that this one was made from by [`group`](Self::group) or
    /// [`split`](Self::split); `None` if it was not made from another.
    pub fn parent_ranks(&self) -> Result<Option<Vec<Rank>>> {
        in_rust(comm::parent_ranks(self.handle))
    }

    /// Makes the communicator of the ranks that pass the same `color`, ordered by `key`, then by rank. `None` for a rank
    /// that passes no color. All ranks call.
    ///
    /// ```
    /// penny::on_threads(3, |comm| {
    ///     let odd = comm.split(Some(comm.rank() as i32 % 2), 0)?.expect("a color was passed");
    ///     assert_eq!(odd.size(), if comm.rank() == 1 { 1 } else { 2 });
    ///     Ok(())
    /// })?;
    /// # Ok::<(), penny::Error>(())
    /// ```
    pub fn split(&self, color: Option<i32>, key: i32) -> Result<Option<Communicator>> {
        in_rust(comm::split_now(self.handle, color, key))?.map(Communicator::own).transpose()
    }

    /// Makes a communicator of the same ranks in the same order. Calls on one do not meet those on the other. All ranks call.
    pub fn dup(&self) -> Result<Communicator> {
        self.group(Grouping::All, 0)
    }

    /// Makes a communicator of the ranks that are not `excluded`, in the same order. They alone call, with the same ranks to exclude;
    /// the excluded ranks may have died. Works where a death or a failure has broken this communicator.
    ///
    /// ```
    /// penny::on_threads(3, |comm| {
    ///     if comm.rank() == 1 {
    ///         return Ok(());
    ///     }
    ///     let rest = comm.shrink(&[1])?;
    ///     assert_eq!((rest.rank(), rest.size()), (comm.rank() / 2, 2));
    ///     rest.barrier()
    /// })?;
    /// # Ok::<(), penny::Error>(())
    /// ```
    pub fn shrink(&self, excluded: &[Rank]) -> Result<Communicator> {
        let number = |&rank| names::rank("excluded: rank", rank, self.size);
        let excluded = excluded.iter().map(number).collect::<Result<Vec<i32>>>()?;
        in_rust(comm::shrink_now(self.handle, &excluded)).and_then(Communicator::own)
    }

    /// Ends the calls of the communicator on all ranks, those under way and those to come, and keeps it for [`shrink`](Self::shrink).
    /// Any thread may revoke while another is inside a call.
    pub fn revoke(&self) -> Result<()> {
        in_rust(comm::revoke(self.handle))
    }

    /// Makes the communicator of this rank's group, where the ranks are divided into groups of `size`, which must divide
    /// their number. All ranks call.
    pub fn group(&self, kind: Grouping, size: u32) -> Result<Communicator> {
        in_rust(comm::group_now(self.handle, kind, size.into())).and_then(Communicator::own)
    }

    /// Returns the communicator's state: an error's code if one broke it, else `Success`. After this rank's own
    /// [`abort`](Self::abort) it is an error that says so, as for every other call.
    pub fn state(&self) -> Result<Code> {
        in_rust(comm::state(self.handle))
            .map(|state| state.err().map_or(Code::Success, |failure| failure.code))
    }

    /// Ends the communicator for all ranks: their calls under way and to come fail. Any thread may abort while another is
    /// inside a call, which then ends.
    pub fn abort(&self) -> Result<()> {
        comm::remember_failure();
        in_rust(comm::abort(self.handle))
    }

    /// Leaves the communicator as dropping it does, and tells what went wrong in that.
    pub fn destroy(self) -> Result<()> {
        let left = in_rust(comm::destroy(self.handle));
        // The handle is stale now, if it was not before: dropping would do nothing more.
        if left.is_ok() {
            std::mem::forget(self);
        }
        left
    }
}

/// # Collectives
impl Communicator {
    /// Reduces the ranks' `send` buffers element by element; every rank gets the result in `recv`.
    pub fn all_reduce<T: Element>(&self, send: &[T], recv: &mut [T], op: Op) -> Result<()> {
        request::all_reduce(self, send, recv, op)?.run(self)
    }

    /// Reduces as [`all_reduce`](Self::all_reduce) does, with `data` as input and output.
    pub fn all_reduce_in_place<T: Element>(&self, data: &mut [T], op: Op) -> Result<()> {
        request::all_reduce_in_place(self, data, op)?.run(self)
    }

    /// Reduces the ranks' `send` buffers; `root` gets the result in `recv`. The other ranks may pass an empty `recv`.
    ///
    /// ```
    /// use penny::Op;
    ///
    /// penny::on_threads(2, |comm| {
    ///     let mut most = vec![0; if comm.rank() == 0 { 1 } else { 0 }];
    ///     comm.reduce(&[7 * comm.rank()], &mut most, Op::Max, 0)?;
    ///     assert!(comm.rank() != 0 || most == [7]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), penny::Error>(())
    /// ```
    pub fn reduce<T: Element>(&self, send: &[T], recv: &mut [T], op: Op, root: Rank) -> Result<()> {
        request::reduce(self, send, recv, op, root)?.run(self)
    }

    /// Reduces the ranks' `data`; on `root` the result takes its place. On the other ranks it is left as it is.
    pub fn reduce_in_place<T: Element>(&self, data: &mut [T], op: Op, root: Rank) -> Result<()> {
        request::reduce_in_place(self, data, op, root)?.run(self)
    }

    /// Copies the `data` of `root` to every rank.
    pub fn broadcast<T: Element>(&self, data: &mut [T], root: Rank) -> Result<()> {
        request::broadcast(self, data, root)?.run(self)
    }

    /// Collects the ranks' `send` buffers on `root`, in rank order. The other ranks may pass an empty `recv`.
    pub fn gather<T: Element>(&self, send: &[T], recv: &mut [T], root: Rank) -> Result<()> {
        request::gather(self, send, recv, root)?.run(self)
    }

    /// Gives block r of the `send` buffer of `root` to rank r. The other ranks may pass an empty `send`.
    pub fn scatter<T: Element>(&self, send: &[T], recv: &mut [T], root: Rank) -> Result<()> {
        request::scatter(self, send, recv, root)?.run(self)
    }

    /// Collects the ranks' `send` buffers on every rank, in rank order.
    pub fn all_gather<T: Element>(&self, send: &[T], recv: &mut [T]) -> Result<()> {
        request::all_gather(self, send, recv)?.run(self)
    }

    /// Collects block r of the `data` of each rank r on every rank.
    pub fn all_gather_in_place<T: Element>(&self, data: &mut [T]) -> Result<()> {
        request::all_gather_in_place(self, data)?.run(self)
    }

    /// Reduces the ranks' `send` buffers; rank r gets block r of the result.
    pub fn reduce_scatter<T: Element>(&self, send: &[T], recv: &mut [T], op: Op) -> Result<()> {
        request::reduce_scatter(self, send, recv, op)?.run(self)
    }

    /// Reduces the ranks' `data`; on rank r, block r of the result takes the place of block r. The other blocks are left
    /// as they are.
    pub fn reduce_scatter_in_place<T: Element>(&self, data: &mut [T], op: Op) -> Result<()> {
        request::reduce_scatter_in_place(self, data, op)?.run(self)
    }

    /// Reduces buffers of any length; `recv` has the length divided by the ranks, rounded up. What lies behind the end of
    /// the result is zero.
    pub fn reduce_scatter_padded<T: Element>(&self, send: &[T], recv: &mut [T], op: Op) -> Result<()> {
        request::reduce_scatter_padded(self, send, recv, op)?.run(self)
    }

    /// Sends block r of `send` to each rank r; block r of `recv` comes from rank r.
    pub fn all_to_all<T: Element>(&self, send: &[T], recv: &mut [T]) -> Result<()> {
        request::all_to_all(self, send, recv)?.run(self)
    }

    /// Exchanges blocks as [`all_to_all`](Self::all_to_all) does, with `data` as input and output.
    pub fn all_to_all_in_place<T: Element>(&self, data: &mut [T]) -> Result<()> {
        request::all_to_all_in_place(self, data)?.run(self)
    }

    /// Waits until all ranks have called it.
    pub fn barrier(&self) -> Result<()> {
        request::barrier(self)?.run(self)
    }

    /// Sends one block to one rank: the block of rank r goes to rank `perm[r]`, `None` for nowhere. A rank to which no
    /// rank sends gets zeros. All ranks pass the same `perm`.
    pub fn permute<T: Element>(&self, send: &[T], recv: &mut [T], perm: &[Option<Rank>]) -> Result<()> {
        request::permute(self, send, recv, perm)?.run(self)
    }
}

/// # Between two ranks
impl Communicator {
    /// Sends `data` to a rank, which must receive as many elements of this type. Messages to one rank arrive in the order
    /// of the calls. May wait until the other rank receives: two ranks that send to each other use
    /// [`send_recv`](Self::send_recv) or a [`Group`](crate::Group).
    pub fn send<T: Element>(&self, data: &[T], to: Rank) -> Result<()> {
        request::send(self, data, to)?.run(self)
    }

    /// Receives `data` from a rank.
    pub fn recv<T: Element>(&self, data: &mut [T], from: Rank) -> Result<()> {
        request::recv(self, data, from)?.run(self)
    }

    /// Sends to one rank and receives from one, side by side. Both may be this rank.
    ///
    /// ```
    /// penny::on_threads(3, |comm| {
    ///     let (right, left) = ((comm.rank() + 1) % 3, (comm.rank() + 2) % 3);
    ///     let mut from_left = [0];
    ///     comm.send_recv(&[comm.rank()], right, &mut from_left, left)?;
    ///     assert_eq!(from_left, [left]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), penny::Error>(())
    /// ```
    pub fn send_recv<T: Element>(&self, send: &[T], to: Rank, recv: &mut [T], from: Rank) -> Result<()> {
        request::send_recv(self, send, to, recv, from)?.run(self)
    }
}

/// # Time on a declared machine
impl Communicator {
    /// This rank's clock on the declared machine in picoseconds. An error without one.
    pub fn fabric_now(&self) -> Result<u64> {
        in_rust(comm::fabric_now(self.handle))
    }

    /// Declares that this rank computes for `picoseconds`; returns the clock afterwards.
    pub fn fabric_advance(&self, picoseconds: u64) -> Result<u64> {
        in_rust(comm::fabric_advance(self.handle, picoseconds))
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        // `drop` cannot return an error; the other ranks see that this one has left.
        match std::thread::panicking() {
            true => drop(comm::abort(self.handle)),
            false => drop(comm::destroy(self.handle)),
        }
    }
}

impl UniqueId {
    /// Makes an id, which all ranks of one future communicator pass to
    /// [`join`](crate::CommunicatorBuilder::join). This process serves the meeting: it must live until all have joined.
    pub fn new() -> Result<UniqueId> {
        in_rust(comm::unique_id())
    }
}
